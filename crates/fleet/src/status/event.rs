//! An event of Flux, as its notification-controller sends it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Moment;
use super::observation::{Health, InputRef, MOST_KIND, MOST_NAME, MOST_NAMESPACE, Object, Observation, Source};

/// An event, as far as it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// None: it tells nothing about the health of its object.
    pub observation: Option<Observation>,
}

/// Why a body is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    #[error("{0}")]
    Syntax(String),
    #[error("{0}: {1}")]
    Field(&'static str, String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    involved_object: WireObject,
    severity: String,
    timestamp: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireObject {
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    resource_version: String,
}

impl Event {
    /// Reads an event that came at `now`.
    pub fn parse(body: &[u8], now: Moment) -> Result<Event, EventError> {
        let wire: Wire = serde_json::from_slice(body).map_err(|error| EventError::Syntax(error.to_string()))?;
        let object = &wire.involved_object;
        for (field, value, most) in [
            ("/involvedObject/kind", &object.kind, MOST_KIND),
            ("/involvedObject/name", &object.name, MOST_NAME),
        ] {
            if value.is_empty() || value.len() > most {
                let problem = format!("must have 1 to {most} characters");
                return Err(EventError::Field(field, problem));
            }
        }
        if object.namespace.len() > MOST_NAMESPACE {
            let problem = format!("must have at most {MOST_NAMESPACE} characters");
            return Err(EventError::Field("/involvedObject/namespace", problem));
        }
        if !matches!(&*wire.severity, "info" | "error" | "trace") {
            let problem = "must be info or error".to_owned();
            return Err(EventError::Field("/severity", problem));
        }
        let at = match &wire.timestamp {
            None => now,
            Some(text) => {
                let at = Moment::parse(text);
                let problem =
                    || EventError::Field("/timestamp", "must be a time such as 2026-11-16T04:31:00Z".to_owned());
                // A clock that is ahead must not hide what is seen later.
                at.ok_or_else(problem)?.min(now)
            }
        };
        let observation =
            health(&object.kind, &wire.severity, &wire.reason).map(|health| observation(wire, at, now, health));
        Ok(Event { observation })
    }
}

fn observation(wire: Wire, at: Moment, learnt: Moment, health: Health) -> Observation {
    let metadata = wire.metadata.unwrap_or_default();
    // Older controllers put the group of the kind before the key.
    let find = |key: &str| {
        let suffix = format!("/{key}");
        let found = metadata
            .iter()
            .find(|(known, _)| *known == key || known.ends_with(&suffix));
        found.map(|(_, value)| value.as_str())
    };
    Observation {
        input: find("input").and_then(InputRef::parse),
        mark: find("desired").and_then(|text| text.parse().ok()),
        inferred: false,
        health,
        version: find("revision").unwrap_or_default().into(),
        object: Object {
            kind: wire.involved_object.kind.into(),
            namespace: wire.involved_object.namespace.into(),
            name: wire.involved_object.name.into(),
        },
        reason: wire.reason.into(),
        message: wire.message.into(),
        at,
        since: at,
        learnt,
        resource_version: wire.involved_object.resource_version.parse().unwrap_or_default(),
        source: Source::Event,
    }
}

/// What an event says about its object, if anything.
fn health(kind: &str, severity: &str, reason: &str) -> Option<Health> {
    if severity == "error" {
        return Some(Health::Failing);
    }
    match (kind, reason) {
        // The upgrade failed, and what was there before is back.
        ("HelmRelease", "RollbackSucceeded") => Some(Health::Failing),
        ("HelmRelease", "InstallSucceeded" | "UpgradeSucceeded") | ("Kustomization", "ReconciliationSucceeded") => {
            Some(Health::Ready)
        }
        ("HelmRelease" | "Kustomization", _) => None,
        (_, "NewArtifact" | "ArtifactUpToDate") => Some(Health::Ready),
        (_, reason) => reason.ends_with("Succeeded").then_some(Health::Ready),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment(1_800_000_000_000);

    fn event(kind: &str, severity: &str, reason: &str) -> Option<Health> {
        let body = format!(
            r#"{{"involvedObject":{{"kind":"{kind}","namespace":"flux-system","name":"podinfo","uid":"u","apiVersion":"v2",
            "resourceVersion":"41"}},"severity":"{severity}","timestamp":"2026-11-16T04:31:00Z","message":"m","reason":"{reason}",
            "metadata":{{"desired":"0123456789abcdef","input":"platform-components/podinfo","revision":"6.7.1"}},
            "reportingController":"helm-controller","reportingInstance":"helm-controller-1"}}"#
        );
        let observation = Event::parse(body.as_bytes(), NOW).unwrap().observation?;
        assert_eq!(&*observation.input.as_ref().unwrap().id, "podinfo");
        assert_eq!(observation.mark.unwrap().to_string(), "0123456789abcdef");
        assert_eq!((&*observation.version, observation.resource_version), ("6.7.1", 41));
        Some(observation.health)
    }

    #[test]
    fn only_the_success_of_what_applies_an_input_is_success() {
        for (kind, severity, reason, expected) in [
            ("HelmRelease", "info", "InstallSucceeded", Some(Health::Ready)),
            ("HelmRelease", "info", "UpgradeSucceeded", Some(Health::Ready)),
            ("HelmRelease", "info", "RollbackSucceeded", Some(Health::Failing)),
            ("HelmRelease", "info", "TestSucceeded", None),
            ("HelmRelease", "info", "UninstallSucceeded", None),
            ("HelmRelease", "info", "DependencyNotReady", None),
            ("HelmRelease", "error", "UpgradeFailed", Some(Health::Failing)),
            ("Kustomization", "info", "ReconciliationSucceeded", Some(Health::Ready)),
            ("Kustomization", "info", "Progressing", None),
            ("Kustomization", "error", "BuildFailed", Some(Health::Failing)),
            ("HelmChart", "error", "InvalidChartReference", Some(Health::Failing)),
            ("HelmChart", "info", "ChartPullSucceeded", Some(Health::Ready)),
            ("OCIRepository", "info", "NewArtifact", Some(Health::Ready)),
            ("ResourceSet", "info", "ApplySucceeded", Some(Health::Ready)),
            ("ResourceSet", "info", "Progressing", None),
        ] {
            assert_eq!(event(kind, severity, reason), expected, "{kind} {severity} {reason}");
        }
    }

    #[test]
    fn what_is_no_event_is_refused_with_its_place() {
        for (body, problem) in [
            ("", "EOF"),
            ("[]", "invalid"),
            ("{}", "missing field `involvedObject`"),
            (
                r#"{"involvedObject":{"kind":"","name":"x"},"severity":"info"}"#,
                "/involvedObject/kind: must",
            ),
            (
                r#"{"involvedObject":{"kind":"K","name":"x"},"severity":"odd"}"#,
                "/severity: must",
            ),
            (
                r#"{"involvedObject":{"kind":"K","name":"x"},"severity":"info","timestamp":"noon"}"#,
                "/timestamp: must be a time",
            ),
        ] {
            let refused = Event::parse(body.as_bytes(), NOW).unwrap_err().to_string();
            assert!(refused.contains(problem), "{body}: {refused}");
        }
    }

    #[test]
    fn a_clock_that_is_ahead_is_cut_to_ours() {
        let body = r#"{"involvedObject":{"kind":"HelmRelease","name":"x"},"severity":"error","timestamp":"2090-01-01T00:00:00Z"}"#;
        let event = Event::parse(body.as_bytes(), NOW).unwrap();
        assert_eq!(event.observation.unwrap().at, NOW);
    }
}
