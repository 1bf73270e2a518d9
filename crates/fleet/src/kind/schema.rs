//! From the schema in a kind's file to the JSON Schema that validates documents.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::refusal::{Violation, segment};
use crate::yaml;

/// Parts of schemas that kinds need not write.
static BASE: LazyLock<Value> = LazyLock::new(|| yaml::parse(include_str!("base.yaml")).expect("base.yaml parses"));

/// Keywords of Firestone and of this project that are not JSON Schema.
const NOT_JSON_SCHEMA: [&str; 5] = ["expose", "key", "query_params", "x-flux", "schema"];

pub(super) fn base_id() -> &'static Value {
    base("id")
}

/// The schema of a field that every kind, or every reference, has.
pub(super) fn base(field: &str) -> &'static Value {
    &BASE[field]
}

/// The JSON Schema of one item: without Firestone's wrappers, with closed objects, and with `$ref`s replaced by the result of
/// `resolve`.
pub(super) fn normalise(
    schema: &Value,
    pointer: &str,
    resolve: &dyn Fn(&str) -> Result<Value, String>,
    errors: &mut Vec<Violation>,
) -> Value {
    let Value::Object(given) = schema else {
        if !schema.is_boolean() {
            errors.push(Violation::new(pointer, "a schema must be an object"));
        }
        return schema.clone();
    };
    if let Some(target) = given.get("$ref") {
        return resolve(target.as_str().unwrap_or_default()).unwrap_or_else(|detail| {
            errors.push(Violation::new(format!("{pointer}/$ref"), format!("{target} {detail}")));
            json!({})
        });
    }
    let mut out = Map::new();
    if let Some(inner @ Value::Object(_)) = given.get("schema")
        && let Value::Object(inner) = normalise(inner, &format!("{pointer}/schema"), resolve, errors)
    {
        out = inner;
    }
    for (key, value) in given {
        if NOT_JSON_SCHEMA.contains(&key.as_str()) {
            continue;
        }
        let here = format!("{pointer}{}", segment(key));
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => properties
                .iter()
                .map(|(name, property)| {
                    let at = format!("{here}{}", segment(name));
                    (name.clone(), normalise(property, &at, resolve, errors))
                })
                .collect(),
            ("items" | "additionalProperties", Value::Object(_)) => normalise(value, &here, resolve, errors),
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    if out.contains_key("properties") && !out.contains_key("additionalProperties") {
        out.insert("additionalProperties".into(), Value::Bool(false));
    }
    Value::Object(out)
}

/// The same schema, also allowing null: a reference with null does not override.
pub(super) fn nullable(schema: &Value) -> Value {
    let Value::Object(mut schema) = schema.clone() else {
        return json!({});
    };
    schema.remove("default");
    if let Some(Value::Array(options)) = schema.get_mut("enum") {
        options.push(Value::Null);
    }
    match schema.get_mut("type") {
        Some(Value::Array(types)) => types.push("null".into()),
        Some(one) => *one = json!([one, "null"]),
        None => return json!({"anyOf": [schema, {"type": "null"}]}),
    }
    Value::Object(schema)
}

/// Whether `value` has at least one of a branch's `enum` fields, and all that it has match.
fn is_meant(branch: &Value, value: &Value) -> bool {
    let properties = branch
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let mut told =
        properties.filter_map(|(name, property)| Some((property.get("enum")?.as_array()?, value.get(name)?)));
    told.clone().next().is_some() && told.all(|(options, field)| options.contains(field))
}

/// Adds the defaults of the schema to `value`, at every depth. Of an `anyOf`, it uses the branch whose `enum` fields match.
pub fn fill_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                match fields.get_mut(name) {
                    Some(field) => fill_defaults(property, field),
                    None => {
                        if let Some(default) = property.get("default") {
                            let mut field = default.clone();
                            fill_defaults(property, &mut field);
                            fields.insert(name.clone(), field);
                        }
                    }
                }
            }
            if let Some(rest @ Value::Object(_)) = schema.get("additionalProperties") {
                for (name, field) in fields.iter_mut() {
                    if properties.is_none_or(|known| !known.contains_key(name)) {
                        fill_defaults(rest, field);
                    }
                }
            }
            let mut branches = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
            if let Some(branch) = branches.find(|branch| is_meant(branch, value)) {
                fill_defaults(branch, value);
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| fill_defaults(schema, item));
            }
        }
        _ => {}
    }
}
