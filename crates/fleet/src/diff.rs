//! Two documents, compared field by field.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::refusal::segment;

/// One field that differs. `None` is an absent value; null is a value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    pub pointer: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

impl Difference {
    pub fn to_json(&self) -> Value {
        let mut out = Map::from_iter([("pointer".to_owned(), Value::from(self.pointer.as_str()))]);
        for (name, value) in [("before", &self.before), ("after", &self.after)] {
            if let Some(value) = value {
                out.insert(name.to_owned(), value.clone());
            }
        }
        out.into()
    }

    /// `"2" -> "3"`, or the only value.
    pub fn describe(&self) -> String {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => format!("{before} -> {after}"),
            (None, Some(after)) => after.to_string(),
            (Some(before), None) => format!("{before} -> (none)"),
            (None, None) => String::new(),
        }
    }
}

/// The differences between two documents, either of which may be absent. References are matched by id, not by position.
pub fn differences(before: Option<&Value>, after: Option<&Value>) -> Vec<Difference> {
    let mut found = Vec::new();
    let empty = json!({});
    walk(
        "",
        Some(before.unwrap_or(&empty)),
        Some(after.unwrap_or(&empty)),
        &mut found,
    );
    found
}

fn walk(at: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Difference>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let names = before
                .keys()
                .chain(after.keys().filter(|name| !before.contains_key(*name)));
            let mut names: Vec<_> = names.collect();
            names.sort_unstable();
            for name in names {
                walk(
                    &format!("{at}{}", segment(name)),
                    before.get(name),
                    after.get(name),
                    found,
                );
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => match (by_id(old), by_id(new)) {
            (Some(old_ids), Some(new_ids)) if moved(&old_ids, &new_ids) => found.push(Difference {
                pointer: at.to_owned(),
                before: before.cloned(),
                after: after.cloned(),
            }),
            (Some(old), Some(new)) => {
                let find = |all: &[(&str, &'_ Value)], id: &str| {
                    all.iter()
                        .find(|(known, _)| *known == id)
                        .map(|(_, value)| (*value).clone())
                };
                let added = new.iter().filter(|(id, _)| old.iter().all(|(known, _)| known != id));
                for (id, _) in old.iter().chain(added) {
                    walk(
                        &format!("{at}{}", segment(id)),
                        find(&old, id).as_ref(),
                        find(&new, id).as_ref(),
                        found,
                    );
                }
            }
            _ => found.push(Difference {
                pointer: at.to_owned(),
                before: before.cloned(),
                after: after.cloned(),
            }),
        },
        (before, after) => found.push(Difference {
            pointer: at.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

/// The value at the pointer of a [`Difference`].
pub fn value_at<'a>(document: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut segments = pointer.split('/').skip(1);
    segments.try_fold(document, |value, segment| {
        let name = segment.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Object(fields) => fields.get(&name),
            Value::Array(items) => items
                .iter()
                .find(|item| item.get("id").and_then(Value::as_str) == Some(&name)),
            _ => None,
        }
    })
}

/// The items of an array by id, if each has one and all differ.
fn by_id(items: &[Value]) -> Option<Vec<(&str, &Value)>> {
    let ids: Option<Vec<_>> = items
        .iter()
        .map(|item| Some((item.get("id")?.as_str()?, item)))
        .collect();
    let ids = ids?;
    let unique = ids
        .iter()
        .enumerate()
        .all(|(n, (id, _))| ids[..n].iter().all(|(other, _)| other != id));
    unique.then_some(ids)
}

/// Whether the items that both arrays have are in another order.
fn moved(old: &[(&str, &Value)], new: &[(&str, &Value)]) -> bool {
    let kept = |all: &[(&str, &Value)], other: &[(&str, &Value)]| -> Vec<String> {
        let shared = all.iter().filter(|(id, _)| other.iter().any(|(known, _)| known == id));
        shared.map(|(id, _)| (*id).to_owned()).collect()
    };
    kept(old, new) != kept(new, old)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &Value, after: &Value) -> Vec<String> {
        let all = differences(Some(before), Some(after));
        all.iter()
            .map(|one| format!("{}: {}", one.pointer, one.describe()))
            .collect()
    }

    #[test]
    fn fields_are_named_by_pointer_and_references_by_id() {
        let before = json!({"a": 1, "refs": [{"id": "x", "tag": "1"}, {"id": "y"}], "b": {"c/d": true}});
        let after = json!({"a": 2, "refs": [{"id": "y"}, {"id": "z"}], "b": {}});
        assert_eq!(
            shown(&before, &after),
            [
                "/a: 1 -> 2",
                "/b/c~1d: true -> (none)",
                "/refs/x: {\"id\":\"x\",\"tag\":\"1\"} -> (none)",
                "/refs/z: {\"id\":\"z\"}"
            ]
        );
    }

    #[test]
    fn the_value_at_a_pointer_is_the_one_that_differs() {
        let before = json!({"a": 1, "refs": [{"id": "x", "tag": "1"}, {"id": "y"}], "b": {"c/d~e": true}});
        let after = json!({"a": 2, "refs": [{"id": "x", "tag": "2"}, {"id": "z"}], "b": {}});
        for found in differences(Some(&before), Some(&after)) {
            assert_eq!(
                value_at(&before, &found.pointer),
                found.before.as_ref(),
                "{}",
                found.pointer
            );
            assert_eq!(
                value_at(&after, &found.pointer),
                found.after.as_ref(),
                "{}",
                found.pointer
            );
        }
    }

    #[test]
    fn an_order_that_changed_is_one_difference() {
        let list = |ids: &[&str]| json!({"refs": ids.iter().map(|id| json!({"id": id})).collect::<Vec<_>>()});
        assert_eq!(shown(&list(&["a", "b"]), &list(&["b", "a"])).len(), 1);
        assert_eq!(shown(&list(&["a", "b"]), &list(&["a", "b"])).len(), 0);
    }
}
