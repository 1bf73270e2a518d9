//! What the reporter keeps of an object that it sees.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{DynamicObject, Selector, SelectorExt as _};
use serde_json::Value;

use crate::kind::Kind;
use crate::readiness::{Readiness, readiness};

/// Of which input an object came: `PATH/ID`.
const INPUT: &str = "event.toolkit.fluxcd.io/input";
/// The digest of that input.
const DESIRED: &str = "event.toolkit.fluxcd.io/desired";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) readiness: Readiness,
    pub(crate) version: Option<String>,
    pub(crate) input: Option<String>,
    pub(crate) desired: Option<String>,
    /// Since when it is as it is, as far as the object tells.
    pub(crate) at: Option<String>,
    pub(crate) role: Role,
}

/// What connects an object to others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Role {
    /// A release, with the chart that it says it uses: `NAMESPACE/NAME`.
    Release {
        chart: Option<String>,
    },
    /// A provider of inputs; with a URL if it polls one.
    Provider {
        url: Option<String>,
        labels: BTreeMap<String, String>,
    },
    /// A ResourceSet, with the providers that it reads.
    Set {
        reads: Vec<Reads>,
    },
    Other,
}

/// Providers that a ResourceSet reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reads {
    Named(String),
    Selected(Selector),
}

impl Reads {
    pub(crate) fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Reads::Named(named) => named == name,
            Reads::Selected(selector) => selector.matches(labels),
        }
    }
}

impl Seen {
    pub(crate) fn of(kind: Kind, object: &DynamicObject) -> Seen {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let metadata = &object.metadata;
        let annotation = |name: &str| metadata.annotations.as_ref().and_then(|all| all.get(name)).cloned();
        let mut readiness = readiness(metadata.generation, status);
        if readiness.ready.is_none() && spec["suspend"] == true {
            readiness.reason = "Suspended".to_owned();
            readiness.message = "spec.suspend is true, so the controller does not handle changes".to_owned();
        }
        let created = || metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
        Seen {
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            version: version(kind, status),
            input: annotation(INPUT).filter(|input| is_input(input)),
            desired: annotation(DESIRED).filter(|mark| is_mark(mark)),
            at: readiness.since.clone().or_else(created),
            readiness,
            role: role(kind, object),
        }
    }
}

/// The longest input that the API accepts, in bytes.
const MOST_INPUT: usize = 512;

/// `PATH/ID`. Anyone can annotate an object, and the API refuses a whole report for one that it cannot read.
fn is_input(text: &str) -> bool {
    let is_named = matches!(text.split_once('/'), Some((path, id)) if !path.is_empty() && !id.is_empty());
    is_named && text.len() <= MOST_INPUT
}

/// 16 digits.
fn is_mark(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// The version that an object is at.
fn version(kind: Kind, status: &Value) -> Option<String> {
    let found = match kind {
        Kind::HelmRelease => match &status["history"][0]["chartVersion"] {
            Value::String(version) => version.as_str().into(),
            _ => status["lastAttemptedRevision"].as_str(),
        },
        Kind::Kustomization => status["lastAppliedRevision"].as_str(),
        Kind::ResourceSet | Kind::InputProvider => None,
        _ => status["artifact"]["revision"].as_str(),
    };
    found.filter(|version| !version.is_empty()).map(str::to_owned)
}

fn role(kind: Kind, object: &DynamicObject) -> Role {
    let (spec, status) = (&object.data["spec"], &object.data["status"]);
    match kind {
        Kind::HelmRelease => Role::Release {
            chart: status["helmChart"].as_str().map(str::to_owned),
        },
        Kind::InputProvider => Role::Provider {
            url: (spec["type"] == "ExternalService")
                .then(|| spec["url"].as_str().map(str::to_owned))
                .flatten(),
            labels: object.metadata.labels.clone().unwrap_or_default(),
        },
        Kind::ResourceSet => Role::Set {
            reads: spec["inputsFrom"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(reads)
                .collect(),
        },
        _ => Role::Other,
    }
}

/// An item of `inputsFrom`. Flux Operator accepts a name or a selector.
fn reads(item: &Value) -> Option<Reads> {
    if let Some(name) = item["name"].as_str().filter(|name| !name.is_empty()) {
        return Some(Reads::Named(name.to_owned()));
    }
    let selector = item.get("selector")?;
    let selector: LabelSelector = serde_json::from_value(selector.clone()).ok()?;
    Selector::try_from(selector).ok().map(Reads::Selected)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(kind: Kind, object: Value) -> Seen {
        Seen::of(kind, &serde_json::from_value(object).unwrap())
    }

    #[test]
    fn the_version_is_what_runs() {
        for (kind, status, expected) in [
            (
                Kind::HelmRelease,
                json!({"history": [{"chartVersion": "2"}, {"chartVersion": "1"}], "lastAttemptedRevision": "3"}),
                Some("2"),
            ),
            (
                Kind::HelmRelease,
                json!({"history": [], "lastAttemptedRevision": "3"}),
                Some("3"),
            ),
            (Kind::HelmRelease, json!({"lastAttemptedRevision": ""}), None),
            (
                Kind::Kustomization,
                json!({"lastAppliedRevision": "v1@sha256:0"}),
                Some("v1@sha256:0"),
            ),
            (
                Kind::OciRepository,
                json!({"artifact": {"revision": "v1@sha256:0"}}),
                Some("v1@sha256:0"),
            ),
            (
                Kind::HelmChart,
                json!({"artifact": {"revision": "6.7.1"}}),
                Some("6.7.1"),
            ),
            (Kind::Bucket, json!({}), None),
            (Kind::ResourceSet, json!({"lastAppliedRevision": "sha256:0"}), None),
        ] {
            let found = seen(kind, json!({"metadata": {"name": "a"}, "status": status}));
            assert_eq!(found.version.as_deref(), expected, "{kind:?} {status}");
        }
    }

    #[test]
    fn marks_times_and_suspension() {
        let mut object = json!({
            "metadata": {
                "name": "a", "uid": "u", "resourceVersion": "7", "generation": 2,
                "creationTimestamp": "2026-11-16T09:00:00Z",
                "annotations": {INPUT: "platform-components/a", DESIRED: "00000000000000ff"},
            },
            "spec": {"suspend": true},
            "status": {"observedGeneration": 2, "conditions": [{
                "type": "Ready", "status": "True", "reason": "InstallSucceeded", "observedGeneration": 2,
                "lastTransitionTime": "2026-11-16T10:00:00Z",
            }]},
        });
        let found = seen(Kind::HelmRelease, object.clone());
        assert_eq!(found.input.as_deref(), Some("platform-components/a"));
        assert_eq!(found.desired.as_deref(), Some("00000000000000ff"));
        assert_eq!((found.uid.as_str(), found.resource_version.as_str()), ("u", "7"));
        assert_eq!(found.at.as_deref(), Some("2026-11-16T10:00:00Z"));
        // Suspended, but what was asked for was done before.
        assert_eq!(
            (found.readiness.ready, found.readiness.reason.as_str()),
            (Some(true), "InstallSucceeded")
        );
        object["metadata"]["generation"] = 3.into();
        let found = seen(Kind::HelmRelease, object.clone());
        assert_eq!(
            (found.readiness.ready, found.readiness.reason.as_str()),
            (None, "Suspended")
        );
        object["status"] = json!({});
        assert_eq!(
            seen(Kind::HelmRelease, object).at.as_deref(),
            Some("2026-11-16T09:00:00Z")
        );
    }

    #[test]
    fn annotations_that_are_none_of_ours_are_left_out() {
        let long = format!("p/{}", "x".repeat(MOST_INPUT));
        for (input, desired, expected) in [
            ("p/a", "00000000000000ff", (true, true)),
            ("p/a/b", "00000000000000FF", (true, false)),
            ("p/a", "00000000000000f", (true, false)),
            ("p", "00000000000000fg", (false, false)),
            ("/a", "", (false, false)),
            ("p/", "00000000000000ff", (false, true)),
            (&long, "00000000000000ff", (false, true)),
        ] {
            let annotations = json!({INPUT: input, DESIRED: desired});
            let found = seen(
                Kind::Bucket,
                json!({"metadata": {"name": "a", "annotations": annotations}}),
            );
            let found = (found.input.is_some(), found.desired.is_some());
            assert_eq!(found, expected, "{input} {desired}");
        }
    }

    #[test]
    fn a_set_reads_providers_by_name_or_by_labels() {
        let set = json!({"metadata": {"name": "a"}, "spec": {"inputsFrom": [
            {"kind": "ResourceSetInputProvider", "name": "namespaces"},
            {"selector": {"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}},
            {"selector": {"matchExpressions": [{"key": "x", "operator": "Sometimes"}]}},
        ]}});
        let Role::Set { reads } = seen(Kind::ResourceSet, set).role else {
            panic!("no set")
        };
        let labels = |pairs: &[&str]| pairs.iter().map(|key| ((*key).to_owned(), "a".to_owned())).collect();
        let matches = |name: &str, keys: &[&str]| reads.iter().any(|reads| reads.matches(name, &labels(keys)));
        assert!(matches("namespaces", &[]));
        assert!(matches("other", &["team"]));
        assert!(!matches("other", &["team", "old"]));
        assert!(!matches("other", &[]));
    }
}
