//! `rollout update`: the gate, what happens on failure, the description.

use fleet::kind::ROLLOUTS;
use serde_json::{Map, Value, json};

use crate::client::Operation;
use crate::error::Failure;
use crate::kinds::Kind;
use crate::session::{Session, missing};

/// The operations that change these fields of rollouts. The documents are written whole: in a merge, null would remove a field, and here
/// `deadline=null` means that there is none.
pub(in super::super) fn operations(
    session: &Session<'_>,
    kind: &Kind,
    ids: &[String],
    set: &Map<String, Value>,
    unset: &[(String, Option<String>)],
) -> Result<Vec<Operation>, Failure> {
    let operation = |id: &String| {
        let found = session.client.resource(ROLLOUTS, id);
        let found = found.map_err(|error| missing(error.into(), kind, id))?;
        let mut value = found.value;
        change(&mut value, set, unset);
        let body = json!({"op": "apply", "kind": ROLLOUTS, "id": id, "value": value, "if_match": found.etag});
        Ok(Operation::new(format!("rollout {id}"), body))
    };
    ids.iter().map(operation).collect()
}

fn change(document: &mut Value, set: &Map<String, Value>, unset: &[(String, Option<String>)]) {
    for (field, key) in unset {
        let holder = match key {
            Some(_) => document.get_mut(field),
            None => Some(&mut *document),
        };
        if let Some(holder) = holder.and_then(Value::as_object_mut) {
            holder.remove(key.as_ref().unwrap_or(field));
        }
    }
    for (field, value) in set {
        let added = value.as_object();
        match (document.get_mut(field).and_then(Value::as_object_mut), added) {
            (Some(present), Some(added)) => {
                // Of these two, a gate has one.
                for (name, other) in [("converged", "told"), ("told", "converged")] {
                    if added.contains_key(name) && !added.contains_key(other) {
                        present.remove(other);
                    }
                }
                present.extend(added.clone());
            }
            _ => document[field] = value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays() {
        let before =
            json!({"id": "r", "gate": {"converged": "95%", "soak": "1h", "deadline": "24h"}, "description": "d"});
        let changed = |set: Value, unset: &[(&str, Option<&str>)]| {
            let unset: Vec<_> = unset
                .iter()
                .map(|(field, key)| ((*field).to_owned(), key.map(str::to_owned)))
                .collect();
            let mut document = before.clone();
            change(&mut document, set.as_object().unwrap_or(&Map::new()), &unset);
            document
        };
        assert_eq!(
            changed(json!({"gate": {"deadline": null, "told": "50%"}}), &[])["gate"],
            json!({"told": "50%", "soak": "1h", "deadline": null})
        );
        let unset = changed(json!({}), &[("gate", Some("soak")), ("description", None)]);
        assert_eq!(
            unset,
            json!({"id": "r", "gate": {"converged": "95%", "deadline": "24h"}})
        );
    }
}
