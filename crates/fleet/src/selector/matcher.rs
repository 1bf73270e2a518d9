//! Matching clusters: keys are resolved once per selector, and a document is read only if a test needs it.

use std::borrow::Cow;

use super::{Selector, Test};
use crate::document::Document;
use crate::json::{Fields, Json, unquoted};
use crate::kind::Kind;
use crate::snapshot::{Cluster, ClusterOutline};

/// A selector with its keys resolved.
#[derive(Debug)]
pub struct Matcher {
    tests: Vec<(Source, Compiled)>,
}

/// Where the value of a key is.
#[derive(Debug)]
enum Source {
    Id,
    Environment,
    Name,
    Dns,
    Field(String),
    Label(String),
}

/// A test whose values are sorted.
#[derive(Debug)]
enum Compiled {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Matcher {
    /// Reads the document once at most, and its labels once at most.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        self.matches_subject(&mut Subject::new(cluster))
    }

    /// The same for a cluster that several matchers are tried on.
    pub(crate) fn matches_subject(&self, subject: &mut Subject<'_>) -> bool {
        self.tests.iter().all(|(source, test)| match source {
            Source::Id => test.holds(Some(subject.id)),
            Source::Environment => test.holds(Some(subject.environment)),
            Source::Name => test.holds(Some(subject.name)),
            Source::Dns => test.holds(Some(&subject.dns)),
            Source::Field(key) => test.holds_for_json(subject.field(key)),
            Source::Label(key) => match subject.outline {
                Some(outline) => test.holds(outline.label(key).map(|label| &*label.value)),
                None => test.holds_for_json(subject.label(key)),
            },
        })
    }
}

/// A cluster, and the texts of its fields, read when the first test needs them.
pub(crate) struct Subject<'a> {
    id: &'a str,
    environment: &'a str,
    name: &'a str,
    /// In lower case.
    dns: Cow<'a, str>,
    body: &'a Json,
    /// Has the labels, if the document was read already.
    outline: Option<&'a ClusterOutline<'a>>,
    fields: Option<Fields<'a>>,
    labels: Option<Fields<'a>>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        let head = cluster.head();
        Subject {
            id: &head.document.id,
            environment: &head.environment,
            name: &head.name,
            dns: Cow::Borrowed(&head.dns_key),
            body: &head.document.body,
            outline: None,
            fields: None,
            labels: None,
        }
    }

    /// A cluster that is not in a fleet yet.
    pub(crate) fn of_outline(document: &'a Document, outline: &'a ClusterOutline<'a>) -> Self {
        Subject {
            id: &document.id,
            environment: &outline.environment,
            name: &outline.name,
            dns: outline.dns.to_ascii_lowercase().into(),
            body: &document.body,
            outline: Some(outline),
            fields: None,
            labels: None,
        }
    }

    fn field(&mut self, key: &str) -> Option<&'a str> {
        let body = self.body;
        self.fields
            .get_or_insert_with(|| body.fields().unwrap_or_default())
            .text(key)
    }

    fn label(&mut self, key: &str) -> Option<&'a str> {
        if self.labels.is_none() {
            self.labels = Some(self.field("labels").and_then(Fields::of).unwrap_or_default());
        }
        self.labels.as_ref()?.text(key)
    }
}

impl Selector {
    /// Resolves the keys once, so that it is not done for each cluster.
    pub fn on(&self, kind: &Kind) -> Matcher {
        let source = |key: &str| match key {
            "id" => Source::Id,
            "environment" => Source::Environment,
            "cluster_name" => Source::Name,
            "cluster_dns" => Source::Dns,
            key if kind.is_scalar_field(key) => Source::Field(key.to_owned()),
            key => Source::Label(key.to_owned()),
        };
        let mut tests: Vec<_> = self
            .requirements
            .iter()
            .map(|requirement| {
                let source = source(&requirement.key);
                let test = Compiled::of(&requirement.test, matches!(source, Source::Dns));
                (source, test)
            })
            .collect();
        // Tests that do not read the document come first.
        tests.sort_by_key(|(source, _)| matches!(source, Source::Field(_) | Source::Label(_)));
        Matcher { tests }
    }
}

impl Compiled {
    /// DNS names are compared in lower case.
    fn of(test: &Test, lower: bool) -> Self {
        let sorted = |values: &[String]| {
            let mut values: Vec<String> = values
                .iter()
                .map(|value| match lower {
                    true => value.to_ascii_lowercase(),
                    false => value.clone(),
                })
                .collect();
            values.sort_unstable();
            values
        };
        match test {
            Test::Exists => Compiled::Exists,
            Test::Missing => Compiled::Missing,
            Test::In(values) => Compiled::In(sorted(values)),
            Test::NotIn(values) => Compiled::NotIn(sorted(values)),
        }
    }

    /// As in Kubernetes, `!=` and `notin` hold if the key is absent.
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |values: &[String], value: &str| values.binary_search_by(|own| own.as_str().cmp(value)).is_ok();
        match self {
            Compiled::Exists => value.is_some(),
            Compiled::Missing => value.is_none(),
            Compiled::In(values) => value.is_some_and(|value| among(values, value)),
            Compiled::NotIn(values) => value.is_none_or(|value| !among(values, value)),
        }
    }

    /// The same for the canonical text of a value. A null counts as absent.
    fn holds_for_json(&self, text: Option<&str>) -> bool {
        match text {
            None | Some("null") => self.holds(None),
            Some(text) if text.starts_with('"') => self.holds(unquoted(text).as_deref()),
            Some(text) => self.holds(Some(text)),
        }
    }
}
