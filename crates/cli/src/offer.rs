//! Offers a rollout in place of a change to shared documents that guards refuse: its waves keep the limits that the change exceeds.

use fleet::kind::ROLLOUTS;
use serde_json::{Map, Value, json};

use crate::cli::NAME;
use crate::client::{Conditions, Operation};
use crate::commands::resource::rollout::{new_rollout, shell};
use crate::error::Failure;
use crate::plan::Plan;
use crate::plan::whole::Objects;
use crate::session::{Session, text};

/// The most waves that a rollout may have.
const MOST_WAVES: u64 = 50;
/// How many sizes of waves are tried: which clusters are in a wave depends on a hash, so a wave may be larger than its share.
const TRIES: u64 = 12;

/// Adds the command that starts such a rollout, if there is one. Without a good offer, the failure stays as it is.
pub(crate) fn rollout(session: &Session<'_>, plan: &Plan, mut failure: Failure) -> Failure {
    let offer = sets(session, plan).and_then(|sets| Some((waves(session, plan, &sets)?, sets)));
    if let Some(((waves, what), sets)) = offer {
        let sets: Vec<String> = sets.iter().map(Set::words).collect();
        let command = format!("{NAME} rollout start {} --waves {}", sets.join(" "), shell(&waves));
        failure.details.push((what.to_owned(), command));
    }
    failure
}

/// The change of one shared document: the fields to merge.
struct Set {
    kind: String,
    id: String,
    value: Map<String, Value>,
}

impl Set {
    fn words(&self) -> String {
        let word = |(field, value): (&String, &Value)| match value {
            Value::String(text) => shell(&format!("{field}={text}")),
            other => shell(&format!("{field}={other}")),
        };
        let fields: Vec<String> = self.value.iter().map(word).collect();
        format!("--set {}/{} {}", self.kind, self.id, fields.join(" "))
    }

    fn operation(&self) -> Value {
        json!({"op": "merge", "kind": self.kind, "id": self.id, "value": self.value})
    }
}

/// The plan as changes that a rollout can make. None: it changes something else, too, or removes a field.
fn sets(session: &Session<'_>, plan: &Plan) -> Option<Vec<Set>> {
    let kinds = session.kinds().ok()?;
    let changes = plan.document()["changes"].as_array()?;
    let set = |change: &Value| {
        let (kind, id) = (text(&change["kind"]), text(&change["id"]));
        let is_shared = kinds.named(kind).is_some_and(|kind| kind.references.is_some());
        let value = merge(&change["before"], &change["after"]).filter(|_| is_shared)?;
        Some(Set {
            kind: kind.to_owned(),
            id: id.to_owned(),
            value,
        })
    };
    let sets: Option<Vec<Set>> = changes.iter().map(set).collect();
    sets.filter(|sets| !sets.is_empty())
}

/// The merge that makes one document of the other. None: not one of these, or a field that goes away.
fn merge(before: &Value, after: &Value) -> Option<Map<String, Value>> {
    let (before, after) = (before.as_object()?, after.as_object()?);
    if before.keys().any(|name| !after.contains_key(name)) {
        return None;
    }
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| {
        let inner = before.get(name).and_then(|before| merge(before, value));
        match (inner, value) {
            (Some(inner), _) => Some((name.clone(), inner.into())),
            (None, Value::Null) => None,
            (None, Value::Object(_)) if before.get(name).is_some_and(Value::is_object) => None,
            (None, value) => Some((name.clone(), value.clone())),
        }
    });
    changed.collect()
}

/// The waves that keep every limit, and what the rollout does with them.
fn waves(session: &Session<'_>, plan: &Plan, sets: &[Set]) -> Option<(String, &'static str)> {
    let limits = plan.refusing();
    let number = |limit: &Value, name: &str| limit[name].as_u64().unwrap_or_default();
    let selector = text(&limits.first()?["selector"]);
    if limits
        .iter()
        .all(|limit| number(limit, "limit") == 0 && limit["selector"] == selector)
    {
        let waves = match others(selector) {
            Some(others) => format!("{others},rest"),
            None => "rest".to_owned(),
        };
        return Some((waves, "a rollout waits for the guard"));
    }
    let shares = limits
        .iter()
        .map(|limit| 100 * number(limit, "limit") / number(limit, "count").max(1));
    let most = shares.min().filter(|percent| *percent > 0)?;
    let limit = limits.iter().map(|limit| number(limit, "limit")).min()?;
    let sizes = (0..TRIES).map(|n| most - most * n / (TRIES + 1));
    let mut sizes = sizes.filter(|percent| *percent > 0 && 100 / percent < MOST_WAVES);
    let waves = sizes.find_map(|percent| {
        let waves = steps(percent);
        keeps(session, sets, &waves, limit).then_some(waves)
    });
    Some((waves?, "a rollout stays within the limit"))
}

/// Those that a selector with one requirement leaves out.
fn others(selector: &str) -> Option<String> {
    let (key, value) = selector.split_once('=')?;
    let is_plain = |text: &str| !text.is_empty() && !text.contains(['=', '!', ',', '(', ' ']);
    (is_plain(key) && is_plain(value)).then(|| format!("{key}!={value}"))
}

/// `40%,40%,rest`
fn steps(percent: u64) -> String {
    let full = 100_u64.div_ceil(percent) - 1;
    let steps = (0..full).map(|_| format!("{percent}%,"));
    format!("{}rest", steps.collect::<String>())
}

/// Whether no wave affects more clusters than the limit.
fn keeps(session: &Session<'_>, sets: &[Set], waves: &str, limit: u64) -> bool {
    let operations: Vec<Value> = sets.iter().map(Set::operation).collect();
    let Ok(document) = new_rollout(&operations, waves) else {
        return false;
    };
    let body = json!({"op": "create", "kind": ROLLOUTS, "id": document["id"], "value": document});
    let planned = session
        .client
        .batch(&[Operation::new("", body)], None, &Conditions::dry_run(Objects::None));
    let Ok(planned) = planned else { return false };
    let waves = planned["rollouts"][0]["waves"].as_array();
    waves.is_some_and(|waves| {
        waves
            .iter()
            .all(|wave| wave["affected"].as_u64().is_some_and(|count| count <= limit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_has_what_changes() {
        let before = json!({"a": 1, "labels": {"x": "1", "y": "2"}, "list": [1]});
        let after = json!({"a": 1, "labels": {"x": "1", "y": "3"}, "list": [2], "new": "n"});
        let expected = json!({"labels": {"y": "3"}, "list": [2], "new": "n"});
        assert_eq!(merge(&before, &after).map(Value::Object), Some(expected));
        assert_eq!(merge(&after, &before), None, "a field goes away");
        assert_eq!(
            merge(&json!({"l": {"x": "1"}}), &json!({"l": {}})),
            None,
            "a key goes away"
        );
    }

    #[test]
    fn waves_add_up() {
        assert_eq!(steps(40), "40%,40%,rest");
        assert_eq!(steps(50), "50%,rest");
        assert_eq!(steps(100), "rest");
        assert_eq!(others("environment=prod").as_deref(), Some("environment!=prod"));
        assert_eq!(others("*"), None);
        assert_eq!(others("a=b,c=d"), None);
        assert_eq!(others("a in (b)"), None);
    }
}
