//! Kubernetes label selectors over clusters: labels, and the cluster's own scalar fields.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::json::Fields;
use crate::kind::Kind;
use crate::refusal::quote;
use crate::snapshot::{Cluster, Fleet};

/// The bounds of a selector. Each cluster is held against each requirement, so they bound the work per cluster.
pub const MOST_BYTES: usize = 4096;
pub const MOST_REQUIREMENTS: usize = 64;
/// Values of all requirements together.
pub const MOST_VALUES: usize = 256;

/// A parsed selector. All requirements must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("the selector is empty; use \"*\" to select the whole fleet")]
    Empty,
    #[error("the selector has {found} {what}, and at most {most} are allowed: use a label that these clusters share")]
    TooLarge {
        what: &'static str,
        found: usize,
        most: usize,
    },
    #[error("the selector does not parse at character {at}: {expected}")]
    Syntax { at: usize, expected: &'static str },
    #[error("\"{}\" is neither a field of clusters nor a label of any cluster", quote(.0))]
    UnknownKey(String),
    #[error("\"{}\" is not a value that {} can have", quote(.value), quote(.key))]
    UnknownValue { key: String, value: String },
}

impl Selector {
    /// Parses a selector; `*` selects everything.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        match text.trim() {
            "" => Err(SelectorError::Empty),
            "*" => Ok(Selector {
                requirements: Vec::new(),
            }),
            _ => {
                bounded("bytes", text.len(), MOST_BYTES)?;
                let selector = Parser { text, at: 0 }.selector()?;
                bounded("requirements", selector.requirements.len(), MOST_REQUIREMENTS)?;
                bounded("values", selector.values(), MOST_VALUES)?;
                Ok(selector)
            }
        }
    }

    /// How many values it compares with.
    fn values(&self) -> usize {
        let count = |requirement: &Requirement| match &requirement.test {
            Test::In(values) | Test::NotIn(values) => values.len(),
            Test::Exists | Test::Missing => 0,
        };
        self.requirements.iter().map(count).sum()
    }

    /// Whether the document of a cluster must be read to decide, not only what the snapshot has at hand.
    pub fn reads_documents(&self) -> bool {
        let at_hand = ["id", "environment", "cluster_name", "cluster_dns"];
        self.requirements
            .iter()
            .any(|requirement| !at_hand.contains(&requirement.key.as_str()))
    }

    /// Parses a selector and makes sure that each key means something: a typo must not select nothing, or, negated, all.
    pub fn for_fleet(text: &str, fleet: &Fleet) -> Result<Selector, SelectorError> {
        let selector = Selector::parse(text)?;
        let kind = fleet.kinds().clusters();
        for requirement in &selector.requirements {
            let key = &requirement.key;
            if !kind.is_some_and(|kind| kind.is_scalar_field(key)) && !fleet.has_label(key) {
                return Err(SelectorError::UnknownKey(key.clone()));
            }
            let options = kind.and_then(|kind| kind.schema["properties"][key]["enum"].as_array());
            if let (Some(options), Test::In(values) | Test::NotIn(values)) = (options, &requirement.test)
                && let Some(value) = values
                    .iter()
                    .find(|value| !options.iter().any(|option| is_text(option, value)))
            {
                let (key, value) = (key.clone(), value.clone());
                return Err(SelectorError::UnknownValue { key, value });
            }
        }
        Ok(selector)
    }

    /// The selector made ready for clusters of a kind: keys are resolved once, not for each cluster.
    pub fn on<'a>(&'a self, kind: &Kind) -> Matcher<'a> {
        let source = |key: &'a str| match key {
            "id" => Source::Id,
            "environment" => Source::Environment,
            "cluster_name" => Source::Name,
            "cluster_dns" => Source::Dns,
            key if kind.is_scalar_field(key) => Source::Field(key),
            key => Source::Label(key),
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
        // What needs no look at the document comes first.
        tests.sort_by_key(|(source, _)| matches!(source, Source::Field(_) | Source::Label(_)));
        Matcher { tests }
    }

    /// The clusters of the fleet that match, sorted by id.
    pub fn select<'a>(&'a self, fleet: &'a Fleet) -> impl Iterator<Item = &'a std::sync::Arc<Cluster>> {
        let matcher = fleet.kinds().clusters().map(|kind| self.on(kind));
        fleet
            .clusters()
            .values()
            .filter(move |cluster| matcher.as_ref().is_some_and(|matcher| matcher.matches(cluster)))
    }
}

fn bounded(what: &'static str, found: usize, most: usize) -> Result<(), SelectorError> {
    match found > most {
        true => Err(SelectorError::TooLarge { what, found, most }),
        false => Ok(()),
    }
}

/// A selector with its keys resolved.
#[derive(Debug)]
pub struct Matcher<'a> {
    tests: Vec<(Source<'a>, Compiled<'a>)>,
}

/// Where the value of a key is found.
#[derive(Debug)]
enum Source<'a> {
    Id,
    Environment,
    Name,
    Dns,
    Field(&'a str),
    Label(&'a str),
}

/// A test whose values are sorted.
#[derive(Debug)]
enum Compiled<'a> {
    Exists,
    Missing,
    In(Vec<Cow<'a, str>>),
    NotIn(Vec<Cow<'a, str>>),
}

impl Matcher<'_> {
    /// Reads the document once at most, and its labels once at most.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        let head = cluster.head();
        let mut document = Document::Unread;
        self.tests.iter().all(|(source, test)| match source {
            Source::Id => test.holds(Some(&cluster.document().id)),
            Source::Environment => test.holds(Some(&head.environment)),
            Source::Name => test.holds(Some(&head.name)),
            Source::Dns => test.holds(Some(&head.dns_key)),
            Source::Field(key) => test.holds_for_json(document.read(cluster).field(key)),
            Source::Label(key) => test.holds_for_json(document.read(cluster).label(key)),
        })
    }
}

/// The texts of a cluster's fields, read when the first test needs them.
enum Document<'a> {
    Unread,
    Read {
        fields: Fields<'a>,
        labels: Option<Fields<'a>>,
    },
}

impl<'a> Document<'a> {
    fn read(&mut self, cluster: &'a Cluster) -> &mut Self {
        if let Document::Unread = self {
            let fields = cluster.document().body.fields().unwrap_or_default();
            *self = Document::Read { fields, labels: None };
        }
        self
    }

    fn field(&self, key: &str) -> Option<&'a str> {
        match self {
            Document::Unread => None,
            Document::Read { fields, .. } => fields.text(key),
        }
    }

    fn label(&mut self, key: &str) -> Option<&'a str> {
        let Document::Read { fields, labels } = self else {
            return None;
        };
        let labels = labels.get_or_insert_with(|| fields.text("labels").and_then(Fields::of).unwrap_or_default());
        labels.text(key)
    }
}

/// Whether a selector names this scalar: it has no quotes for strings.
fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        other => {
            let own = other.to_string();
            own == text
        }
    }
}

impl<'a> Compiled<'a> {
    /// DNS names compare without regard to case.
    fn of(test: &'a Test, lower: bool) -> Self {
        let sorted = |values: &'a [String]| {
            let mut values: Vec<Cow<'a, str>> = values
                .iter()
                .map(|value| match lower {
                    true => value.to_ascii_lowercase().into(),
                    false => value.as_str().into(),
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

    /// As in Kubernetes: `!=` and `notin` hold where the key is absent.
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |values: &[Cow<'_, str>], value: &str| values.binary_search_by(|own| (**own).cmp(value)).is_ok();
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
            Some(text) if text.starts_with('"') => match serde_json::from_str::<Unquoted<'_>>(text) {
                Ok(Unquoted(text)) => self.holds(Some(&text)),
                Err(_) => self.holds(None),
            },
            Some(text) => self.holds(Some(text)),
        }
    }
}

/// A string of JSON, borrowed unless it has an escape.
#[derive(serde::Deserialize)]
struct Unquoted<'a>(#[serde(borrow)] Cow<'a, str>);

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requirements.is_empty() {
            return f.write_str("*");
        }
        for (n, Requirement { key, test }) in self.requirements.iter().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::Exists => write!(f, "{key}")?,
                Test::Missing => write!(f, "!{key}")?,
                Test::In(options) => write!(f, "{key} in ({})", options.join(","))?,
                Test::NotIn(options) => write!(f, "{key} notin ({})", options.join(","))?,
            }
        }
        Ok(())
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn selector(mut self) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            requirements.push(self.requirement()?);
            match self.peek() {
                None => return Ok(Selector { requirements }),
                Some(',') => self.at += 1,
                Some(_) => return self.fail("a comma or the end"),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.eat("!") {
            let key = self.word("a key")?;
            return Ok(Requirement {
                key,
                test: Test::Missing,
            });
        }
        let key = self.word("a key")?;
        let test = match self.peek() {
            None | Some(',') => Test::Exists,
            Some('=') => {
                self.at += 1;
                self.eat("=");
                Test::In(vec![self.value()?])
            }
            Some('!') if self.eat("!=") => Test::NotIn(vec![self.value()?]),
            Some('i' | 'n') => match self.word("an operator")?.as_str() {
                "in" => Test::In(self.values()?),
                "notin" => Test::NotIn(self.values()?),
                _ => return self.fail("one of =, ==, !=, in, notin"),
            },
            Some(_) => return self.fail("one of =, ==, !=, in, notin"),
        };
        Ok(Requirement { key, test })
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        if !self.eat("(") {
            return self.fail("an opening parenthesis");
        }
        let mut values = vec![self.value()?];
        while self.eat(",") {
            values.push(self.value()?);
        }
        match self.eat(")") {
            true => Ok(values),
            false => self.fail("a comma or a closing parenthesis"),
        }
    }

    /// A value may be empty: `tier=` selects what has the label with an empty value.
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            None | Some(',' | ')') => Ok(String::new()),
            Some(_) => self.word("a value"),
        }
    }

    fn word(&mut self, expected: &'static str) -> Result<String, SelectorError> {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-_./:".contains(c)))
            .unwrap_or(rest.len());
        if end == 0 {
            return self.fail(expected);
        }
        self.at += end;
        Ok(rest[..end].to_owned())
    }

    fn eat(&mut self, token: &str) -> bool {
        self.peek();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// The next character that is not a blank.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, SelectorError> {
        let at = self.text[..self.at].chars().count() + 1;
        Err(SelectorError::Syntax { at, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match Selector::parse(text) {
            Ok(selector) => selector.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn the_grammar_is_kubernetes_own() {
        for (given, expected) in [
            ("environment=dev", "environment in (dev)"),
            ("environment == dev , team", "environment in (dev),team"),
            ("a!=b,!c", "a notin (b),!c"),
            (
                "environment in (dev, qa),x notin (y)",
                "environment in (dev,qa),x notin (y)",
            ),
            ("tier=", "tier in ()"),
            ("x in (,a)", "x in (,a)"),
            ("*", "*"),
            ("inner=1", "inner in (1)"),
        ] {
            assert_eq!(shown(given), expected, "{given}");
        }
    }

    #[test]
    fn what_does_not_parse_says_where() {
        for given in [
            "", "  ", "=a", "a=b,", "a in b", "a in (b", "a>3", "a b", "!", "a=b c", "*,a",
        ] {
            assert!(shown(given).starts_with("error: "), "{given} gave {}", shown(given));
        }
    }

    #[test]
    fn length_requirements_and_values_are_bounded() {
        let terms = |n: usize| vec!["a"; n].join(",");
        let values = |n: usize| format!("a in ({})", vec!["b"; n].join(","));
        assert!(Selector::parse(&terms(MOST_REQUIREMENTS)).is_ok());
        assert!(Selector::parse(&values(MOST_VALUES)).is_ok());
        assert!(Selector::parse(&"a".repeat(MOST_BYTES)).is_ok());
        for (given, expected) in [
            (terms(MOST_REQUIREMENTS + 1), "has 65 requirements, and at most 64"),
            (values(MOST_VALUES + 1), "has 257 values, and at most 256"),
            (vec![values(20); 20].join(","), "has 400 values, and at most 256"),
            ("a".repeat(27_000), "has 27000 bytes, and at most 4096"),
        ] {
            assert!(shown(&given).contains(expected), "{}", shown(&given));
        }
    }

    #[test]
    fn an_error_does_not_repeat_a_long_key() {
        let error = SelectorError::UnknownKey("k".repeat(4000)).to_string();
        assert!(error.len() < 300 && error.contains("… (4000 bytes)"), "{error}");
    }
}
