//! Offers a rollout in place of a change to shared documents that guards refuse: its waves keep the limits that the change exceeds.

use fleet::kind::{PROFILES, ROLLOUTS};
use serde_json::{Map, Value, json};

use crate::cli::NAME;
use crate::client::{Conditions, Operation};
use crate::commands::resource::rollout::{derived_id, new_rollout, shell, slug};
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
    let offer = Change::of(session, plan).and_then(|change| Some((waves(session, plan, &change)?, change)));
    if let Some(((waves, what), change)) = offer {
        let command = format!("{NAME} rollout start {} --waves {}", change.words(), shell(&waves));
        failure.details.push((what.to_owned(), command));
    }
    failure
}

/// A change that a rollout can make.
struct Change {
    /// None: one is made of the first document and its value.
    id: Option<String>,
    sets: Vec<Set>,
}

impl Change {
    /// The change of a plan. None: it changes something else than shared documents, or no merge makes it.
    fn of(session: &Session<'_>, plan: &Plan) -> Option<Change> {
        let changes = plan.document()["changes"].as_array()?;
        let sets: Option<Vec<Set>> = changes.iter().map(|change| Set::of(session, change)).collect();
        let sets = sets.filter(|sets| !sets.is_empty())?;
        let base = plan.document()["base"].as_u64().unwrap_or_default();
        let mut change = Change { id: None, sets };
        if derived_id(&change.operations()).is_none() {
            let document: String = slug(&change.sets[0].id).chars().take(40).collect();
            change.id = Some(format!("{document}-r{}", base + 1));
        }
        change.makes(session, changes).then_some(change)
    }

    fn operations(&self) -> Vec<Value> {
        self.sets.iter().map(Set::operation).collect()
    }

    /// Whether its merges make the documents of a plan. They do not where a null stays, or the order of references changes.
    fn makes(&self, session: &Session<'_>, changes: &[Value]) -> bool {
        let operations = self.operations().into_iter().map(|body| Operation::new("", body));
        let operations: Vec<Operation> = operations.collect();
        let conditions = Conditions::dry_run(Objects::None);
        let Ok(made) = session.client.batch(&operations, None, &conditions) else {
            return false;
        };
        let key = |change: &Value| ["kind", "id", "after"].map(|field| change[field].clone());
        let made: Vec<_> = made["changes"].as_array().into_iter().flatten().map(key).collect();
        made.len() == changes.len() && changes.iter().all(|change| made.contains(&key(change)))
    }

    fn words(&self) -> String {
        let id = self.id.iter().map(|id| shell(id));
        let words: Vec<String> = id.chain(self.sets.iter().map(Set::words)).collect();
        words.join(" ")
    }
}

/// The change of one shared document: the fields to merge.
struct Set {
    kind: String,
    id: String,
    value: Map<String, Value>,
}

impl Set {
    /// A change of a plan, if it is of a definition or a profile.
    fn of(session: &Session<'_>, change: &Value) -> Option<Set> {
        let kinds = session.kinds().ok()?;
        let kind = kinds.named(text(&change["kind"]))?;
        let references: Vec<&str> = match kind.name == PROFILES {
            true => kinds.iter().filter_map(|kind| kind.references.as_deref()).collect(),
            false => Vec::new(),
        };
        let is_shared = kind.references.is_some() || kind.name == PROFILES;
        let value = merge(&change["before"], &change["after"], &references).filter(|_| is_shared)?;
        Some(Set {
            kind: text(&change["kind"]).to_owned(),
            id: text(&change["id"]).to_owned(),
            value,
        })
    }

    fn words(&self) -> String {
        let word = |(field, value): (&String, &Value)| match value {
            Value::Null => shell(&format!("{field}-")),
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

/// The merge that makes one document of the other: null clears a field, and `references` are merged by id. None: they are no documents.
fn merge(before: &Value, after: &Value, references: &[&str]) -> Option<Map<String, Value>> {
    let (before, after) = (before.as_object()?, after.as_object()?);
    let cleared = before.keys().filter(|name| !after.contains_key(*name));
    let mut merged: Map<String, Value> = cleared.map(|name| (name.clone(), Value::Null)).collect();
    for (name, value) in after.iter().filter(|(name, value)| before.get(*name) != Some(value)) {
        let present = before.get(name).unwrap_or(&Value::Null);
        let value = match (present, value) {
            (Value::Array(present), Value::Array(items)) if references.contains(&name.as_str()) => {
                merge_references(present, items)
            }
            _ => merge(present, value, &[]).map_or_else(|| value.clone(), Value::Object),
        };
        merged.insert(name.clone(), value);
    }
    Some(merged)
}

/// What changes of references: those that change or are new, and those that go.
fn merge_references(before: &[Value], after: &[Value]) -> Value {
    let same = |all: &[Value], one: &Value| all.iter().find(|other| other["id"] == one["id"]).cloned();
    let changed = after.iter().filter(|one| !before.contains(one)).map(|one| {
        let fields = same(before, one).and_then(|present| merge(&present, one, &[]));
        fields.map_or_else(
            || one.clone(),
            |mut fields| {
                fields.insert("id".to_owned(), one["id"].clone());
                Value::Object(fields)
            },
        )
    });
    let gone = before.iter().filter(|one| same(after, one).is_none());
    let gone = gone.map(|one| json!({"id": one["id"], "$patch": "delete"}));
    changed.chain(gone).collect()
}

/// The waves that keep every limit, and what the rollout does with them.
fn waves(session: &Session<'_>, plan: &Plan, change: &Change) -> Option<(String, &'static str)> {
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
        // A rollout does not change everything: the selector of a profile, for one.
        let is_accepted = keeps(session, change, &waves, u64::MAX);
        return is_accepted.then_some((waves, "a rollout waits for the guard"));
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
        keeps(session, change, &waves, limit).then_some(waves)
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
fn keeps(session: &Session<'_>, change: &Change, waves: &str, limit: u64) -> bool {
    let Ok(document) = new_rollout(change.id.clone(), &change.operations(), waves) else {
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
        assert_eq!(merge(&before, &after, &[]).map(Value::Object), Some(expected));
        let back = json!({"labels": {"y": "2"}, "list": [1], "new": null});
        assert_eq!(merge(&after, &before, &[]).map(Value::Object), Some(back));
        let cleared = merge(&json!({"l": {"x": "1"}}), &json!({"l": {}}), &[]);
        assert_eq!(cleared.map(Value::Object), Some(json!({"l": {"x": null}})));
        assert_eq!(merge(&Value::Null, &after, &[]), None, "a new document");
    }

    #[test]
    fn references_of_a_profile_are_merged_by_id() {
        let before = json!({"refs": [{"id": "a", "tag": "1", "path": "p"}, {"id": "b"}, {"id": "c"}]});
        let after = json!({"refs": [{"id": "a", "tag": "2"}, {"id": "c"}, {"id": "d"}]});
        let expected = json!({"refs": [
            {"id": "a", "tag": "2", "path": null}, {"id": "d"}, {"id": "b", "$patch": "delete"},
        ]});
        assert_eq!(merge(&before, &after, &["refs"]).map(Value::Object), Some(expected));
    }

    #[test]
    fn a_cleared_field_has_a_word() {
        let value = json!({"labels": {"y": null}, "oci_tag": "1", "timeout": null});
        let set = Set {
            kind: "platform_components".to_owned(),
            id: "podinfo".to_owned(),
            value: value.as_object().cloned().unwrap_or_default(),
        };
        let expected = r#"--set platform_components/podinfo 'labels={"y":null}' oci_tag=1 timeout-"#;
        assert_eq!(set.words(), expected);
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
