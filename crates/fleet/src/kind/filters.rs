//! List filters: the `query_params` of a kind.

use serde_json::{Value, json};

use super::text;
use crate::refusal::Violation;

/// A list filter: an equality on one field.
#[derive(Clone, Debug)]
pub struct Filter {
    pub name: String,
    pub description: String,
    pub schema: Value,
}

/// Reads the filters of a kind's schema. Those that cannot be read are left out, and reported in `errors`.
pub(super) fn read_filters(schema: &Value, errors: &mut Vec<Violation>) -> Vec<Filter> {
    let params = match schema.get("query_params") {
        None => return Vec::new(),
        Some(Value::Array(params)) => params,
        Some(_) => {
            errors.push(Violation::new("/schema/query_params", "must be an array"));
            return Vec::new();
        }
    };
    let mut filters = Vec::new();
    for (n, param) in params.iter().enumerate() {
        match param.get("name").and_then(Value::as_str) {
            Some("limit" | "offset" | "selector" | "dry_run" | "cascade") => {
                errors.push(Violation::new(
                    format!("/schema/query_params/{n}/name"),
                    "is already a parameter of the API",
                ));
            }
            Some(name) => filters.push(Filter {
                name: name.to_owned(),
                description: text(param, "/description"),
                schema: param
                    .get("schema")
                    .cloned()
                    .unwrap_or_else(|| json!({"type": "string"})),
            }),
            None => errors.push(Violation::new(format!("/schema/query_params/{n}/name"), "is required")),
        }
    }
    filters
}
