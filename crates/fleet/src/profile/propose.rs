//! The profile that some clusters share, and what is left on each of them without it.

use serde_json::{Map, Value, json};

use crate::inputs::reference_id;
use crate::kind::EXCLUDED;

/// An array of references that clusters have.
#[derive(Clone, Debug)]
pub struct Array {
    pub name: String,
    /// The fields that only a reference has. Absent, one would get its default again.
    pub carried: Vec<String>,
}

impl Array {
    fn references<'a>(&self, document: &'a Value) -> &'a [Value] {
        document
            .get(&self.name)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }
}

/// A profile, and the documents of its clusters without what the profile brings. Applied together they change no reply, but for the
/// order of inputs.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub profile: Value,
    pub clusters: Vec<Value>,
}

/// Proposes the profile that `clusters`, which a selector matches, share. None if they share nothing. `priority` must be above that of
/// every other profile that they match: what is on a cluster beats all of them.
pub fn propose(arrays: &[Array], id: &str, selector: &str, priority: i64, clusters: &[Value]) -> Option<Proposal> {
    let mut profile = json!({"id": id, "selector": selector, "priority": priority});
    let mut left = clusters.to_vec();
    for array in arrays {
        let shared = shared_references(array, clusters);
        if shared.is_empty() {
            continue;
        }
        for document in &mut left {
            take_out(array, &shared, document);
        }
        profile[&array.name] = shared.into_iter().map(Value::Object).collect();
    }
    let patches = shared_patches(clusters);
    if !patches.is_empty() {
        left.iter_mut()
            .for_each(|document| take_out_patches(&patches, document));
        profile["patches"] = patches.into();
    }
    let shares_nothing = left.as_slice() == clusters;
    (!shares_nothing && !clusters.is_empty()).then_some(Proposal {
        profile,
        clusters: left,
    })
}

/// The references that every cluster has, each with the fields that are the same everywhere. In the order of the first cluster.
fn shared_references(array: &Array, clusters: &[Value]) -> Vec<Map<String, Value>> {
    let Some((first, others)) = clusters.split_first() else {
        return Vec::new();
    };
    let shared = array.references(first).iter().filter_map(|reference| {
        let id = reference_id(reference);
        let mut fields = reference.as_object().filter(|_| !is_excluded(reference))?.clone();
        for other in others {
            let mut all = array.references(other).iter();
            let other = all.find(|other| reference_id(other) == id && !is_excluded(other))?;
            fields.retain(|name, value| other.get(name) == Some(value));
        }
        fields.retain(|name, value| !value.is_null() && name != EXCLUDED);
        Some(fields)
    });
    shared.collect()
}

fn is_excluded(reference: &Value) -> bool {
    reference.get(EXCLUDED) == Some(&Value::Bool(true))
}

/// Takes what the profile says out of the references of a cluster.
fn take_out(array: &Array, shared: &[Map<String, Value>], document: &mut Value) {
    let Some(own) = document.get_mut(&array.name).and_then(Value::as_array_mut) else {
        return;
    };
    own.retain_mut(|reference| {
        let id = reference_id(reference);
        let Some(shared) = shared
            .iter()
            .find(|shared| shared.get("id").and_then(Value::as_str) == Some(id))
        else {
            return true;
        };
        let Value::Object(fields) = reference else {
            return true;
        };
        for (name, value) in fields.iter_mut() {
            // Null means "as profiles say"; absent, a carried field would get its default again.
            if name != "id" && shared.contains_key(name) {
                *value = Value::Null;
            }
        }
        fields.retain(|name, value| name == "id" || !value.is_null() || array.carried.contains(name));
        fields.iter().any(|(name, value)| name != "id" && !value.is_null())
    });
}

/// The patches that are the same on every cluster.
fn shared_patches(clusters: &[Value]) -> Map<String, Value> {
    let patches = |document: &Value| {
        document
            .get("patches")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let Some((first, others)) = clusters.split_first() else {
        return Map::new();
    };
    let mut shared = patches(first);
    for other in others {
        let other = patches(other);
        for (id, values) in &mut shared {
            if let Value::Object(values) = values {
                values.retain(|key, value| other.get(id).and_then(|own| own.get(key)) == Some(value));
            }
        }
    }
    shared.retain(|_, values| values.as_object().is_some_and(|values| !values.is_empty()));
    shared
}

fn take_out_patches(shared: &Map<String, Value>, document: &mut Value) {
    let Some(own) = document.get_mut("patches").and_then(Value::as_object_mut) else {
        return;
    };
    for (id, values) in shared {
        let Some(own) = own.get_mut(id).and_then(Value::as_object_mut) else {
            continue;
        };
        own.retain(|key, _| values.get(key).is_none());
    }
    own.retain(|id, values| !shared.contains_key(id) || values.as_object().is_some_and(|values| !values.is_empty()));
}
