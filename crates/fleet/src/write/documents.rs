//! From a document as it was sent to the document as it is stored.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Draft;
use crate::guard;
use crate::json::{MOST_DEPTH, is_too_deep};
use crate::kind::schema::fill_defaults;
use crate::kind::{CLUSTERS, GUARDS, Kind, PROFILES};
use crate::refusal::Violation;
use crate::selector::Selector;

/// Refuses a value that is nested too deeply to be stored.
pub(super) fn check_depth(value: &Value) -> Result<(), Violation> {
    match is_too_deep(value) {
        true => Err(Violation::new(
            "",
            format!("is nested more than {MOST_DEPTH} levels deep"),
        )),
        false => Ok(()),
    }
}

/// The id that a document gives itself.
pub(super) fn own_id(kind: &Kind, value: &Value) -> Option<String> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let name = || text("cluster_name").filter(|_| &*kind.name == CLUSTERS);
    text("id").or_else(|| text("_id")).or_else(name)
}

impl Draft<'_> {
    /// Completes a document in place: its id, its defaults, its arrays of references. Gives the id of a valid document. `id` is
    /// the one that the request names.
    pub(super) fn complete(
        &self,
        kind: &Kind,
        id: Option<&str>,
        value: &mut Value,
    ) -> Result<Arc<str>, Vec<Violation>> {
        check_depth(value).map_err(|error| vec![error])?;
        let Value::Object(fields) = &mut *value else {
            return Err(vec![Violation::new(
                "",
                format!("a {} must be an object", kind.singular),
            )]);
        };
        let id = settle_id(kind, id, fields).map_err(|error| vec![error])?;
        fill_defaults(&kind.schema, value);
        if &*kind.name == CLUSTERS {
            self.fill_references(&id, value);
        }
        let mut errors = kind.validate(value);
        // What its keys mean is checked on the end state.
        if let Some(selector) = value
            .get("selector")
            .and_then(Value::as_str)
            .filter(|_| [PROFILES, GUARDS].contains(&&*kind.name))
            && let Err(error) = Selector::parse(selector)
        {
            errors.push(Violation::new("/selector", error.to_string()));
        }
        if &*kind.name == GUARDS {
            errors.extend(guard::problems(value));
        }
        if errors.is_empty() { Ok(id) } else { Err(errors) }
    }

    /// A new cluster gets every array of references; an existing one keeps the arrays it has. A kind that is added later does not
    /// change a cluster until the cluster refers to it.
    fn fill_references(&self, id: &str, value: &mut Value) {
        let kinds = self.now().kinds();
        let arrays = kinds.definitions().filter_map(|kind| kind.references.as_deref());
        let missing: Vec<&str> = arrays.filter(|array| value.get(array).is_none()).collect();
        if missing.is_empty() {
            return;
        }
        let present = self.now().cluster(id).map(|cluster| cluster.document().body.parse());
        for array in missing {
            if present.as_ref().is_none_or(|present| present.get(array).is_some()) {
                value[array] = json!([]);
            }
        }
    }
}

/// Gives a document its id: its own (`id`, or Firestone's `_id`), the request's, or for a cluster its name. The id of the request
/// and the document's own must agree.
fn settle_id(kind: &Kind, id: Option<&str>, fields: &mut Map<String, Value>) -> Result<Arc<str>, Violation> {
    if let Some(given) = fields.remove("_id") {
        match fields.get("id") {
            None => {
                fields.insert("id".into(), given);
            }
            Some(other) if *other == given => {}
            Some(_) => return Err(Violation::new("/_id", "\"_id\" and \"id\" differ")),
        }
    }
    if !fields.contains_key("id") {
        let fallback = match id {
            Some(id) => Some(id.into()),
            None if &*kind.name == CLUSTERS => fields.get("cluster_name").cloned(),
            None => None,
        };
        if let Some(fallback) = fallback {
            fields.insert("id".into(), fallback);
        }
    }
    let own = fields.get("id").and_then(Value::as_str).unwrap_or_default();
    match id {
        Some(id) if id != own => {
            let detail = format!("the id is \"{id}\" and cannot be changed");
            Err(Violation::new("/id", detail))
        }
        _ => Ok(own.into()),
    }
}
