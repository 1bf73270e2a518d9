//! Whether an object is ready: a pure function of its generation and its status.

use serde_json::Value;

/// More of a message is cut: Helm's can hold whole manifests.
const MESSAGE: usize = 1024;

/// What an object says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// None: under way, or the object does not tell.
    pub(crate) ready: Option<bool>,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// When the condition took its present status.
    pub(crate) since: Option<String>,
}

/// The readiness of an object.
///
/// A condition counts only if the controller has handled the current generation. Flux says so in two places: the condition's own
/// `observedGeneration`, and that of the status. While a HelmRelease fails, the latter stays at the last good generation, so a
/// failure needs only the former; success needs both. An object that has neither does not tell which generation it speaks of.
pub(crate) fn readiness(generation: Option<i64>, status: &Value) -> Readiness {
    let conditions = status["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let Some(condition) = ready else {
        return Readiness::default();
    };
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let of_condition = condition["observedGeneration"].as_i64();
    let of_status = status["observedGeneration"].as_i64();
    let is_current = |observed: Option<i64>| observed.is_none() || observed == generation;
    let ready = match (text("status"), text("reason")) {
        // No controller of Flux says so with another status than Unknown; nothing is decided in any case.
        (_, "Progressing") => None,
        _ if of_condition.or(of_status).is_none() => None,
        ("True", _) => (is_current(of_condition) && is_current(of_status)).then_some(true),
        ("False", _) => (of_condition.or(of_status) == generation).then_some(false),
        _ => None,
    };
    Readiness {
        ready,
        reason: text("reason").to_owned(),
        message: text("message").chars().take(MESSAGE).collect(),
        since: condition["lastTransitionTime"].as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An object of generation 3, whose status and condition speak of these generations.
    fn ready(of_status: Option<i64>, status: &str, of_condition: Option<i64>, reason: &str) -> Option<bool> {
        let mut condition = json!({"type": "Ready", "status": status, "reason": reason, "message": "m"});
        if let Some(generation) = of_condition {
            condition["observedGeneration"] = generation.into();
        }
        let mut object = json!({"conditions": [{"type": "Released", "status": "True"}, condition]});
        if let Some(generation) = of_status {
            object["observedGeneration"] = generation.into();
        }
        readiness(Some(3), &object).ready
    }

    #[test]
    fn ready_needs_the_current_generation_everywhere() {
        for (of_status, status, of_condition, reason, expected) in [
            (Some(3), "True", Some(3), "InstallSucceeded", Some(true)),
            // A ResourceSet tells it only in the condition; others only in the status.
            (None, "True", Some(3), "ReconciliationSucceeded", Some(true)),
            (Some(3), "True", None, "Succeeded", Some(true)),
            // The controller has not handled the current generation yet.
            (Some(2), "True", Some(2), "InstallSucceeded", None),
            (Some(2), "True", Some(3), "InstallSucceeded", None),
            (Some(3), "True", Some(2), "InstallSucceeded", None),
            (None, "True", Some(2), "InstallSucceeded", None),
            (Some(2), "True", None, "InstallSucceeded", None),
            (Some(-1), "True", None, "InstallSucceeded", None),
            // Of which generation is this?
            (None, "True", None, "Succeeded", None),
            (None, "False", None, "Failed", None),
            (Some(3), "False", Some(3), "BuildFailed", Some(false)),
            // A HelmRelease that fails keeps the last good generation in its status.
            (Some(2), "False", Some(3), "UpgradeFailed", Some(false)),
            (None, "False", Some(3), "UpgradeFailed", Some(false)),
            (Some(3), "False", None, "UpgradeFailed", Some(false)),
            // A failure of an earlier generation.
            (Some(2), "False", Some(2), "UpgradeFailed", None),
            (Some(3), "False", Some(2), "UpgradeFailed", None),
            (Some(2), "False", None, "UpgradeFailed", None),
            // Under way.
            (Some(3), "Unknown", Some(3), "Progressing", None),
            (Some(3), "Unknown", Some(3), "ReconciliationInProgress", None),
            (Some(3), "False", Some(3), "Progressing", None),
            (Some(3), "True", Some(3), "Progressing", None),
            (Some(3), "", Some(3), "", None),
        ] {
            let found = ready(of_status, status, of_condition, reason);
            let case = format!("{status} {reason}, status of {of_status:?}, condition of {of_condition:?}");
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn without_a_condition_nothing_is_known() {
        for status in [
            json!(null),
            json!({}),
            json!({"observedGeneration": 3}),
            json!({"observedGeneration": 3, "conditions": []}),
            json!({"observedGeneration": 3, "conditions": [{"type": "Released", "status": "True"}]}),
        ] {
            assert_eq!(readiness(Some(3), &status), Readiness::default(), "{status}");
        }
        // An object without a generation, which no custom resource is.
        let status = json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(readiness(None, &status).ready, None);
    }

    #[test]
    fn messages_are_cut_at_characters() {
        let status = json!({"conditions": [{
            "type": "Ready", "status": "False", "reason": "UpgradeFailed", "observedGeneration": 3,
            "lastTransitionTime": "2026-11-16T10:00:00Z", "message": "é".repeat(1025),
        }]});
        let said = readiness(Some(3), &status);
        assert_eq!((said.ready, said.reason.as_str()), (Some(false), "UpgradeFailed"));
        assert_eq!(said.message, "é".repeat(1024));
        assert_eq!(said.since.as_deref(), Some("2026-11-16T10:00:00Z"));
    }
}
