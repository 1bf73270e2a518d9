//! JSON Schema to the subset that OpenAPI 3.0 and the generators of clients know.

use serde_json::{Map, Value, json};

/// Keywords that mean the same in OpenAPI 3.0.
const KEPT: [&str; 21] = [
    "default",
    "deprecated",
    "description",
    "enum",
    "example",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "required",
    "title",
    "type",
    "uniqueItems",
];

/// Converts a schema. Lists of types become `nullable` or `x-types`; what OpenAPI 3.0 does not know is left out. The server still
/// checks it, and answers 422.
pub fn to_openapi(schema: &Value) -> Value {
    let Value::Object(fields) = schema else {
        return schema.clone();
    };
    let mut out = Map::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("type", Value::Array(types)) => types_into(&mut out, types),
            ("const", value) => drop(out.insert("enum".into(), json!([value]))),
            ("properties", Value::Object(properties)) => {
                let properties = properties.iter().map(|(name, one)| (name.clone(), to_openapi(one)));
                out.insert("properties".into(), properties.collect::<Map<_, _>>().into());
            }
            ("items" | "additionalProperties" | "not", value) => drop(out.insert(key.clone(), to_openapi(value))),
            ("anyOf" | "oneOf" | "allOf", Value::Array(options)) if !refines(fields, options) => {
                out.insert(key.clone(), options.iter().map(to_openapi).collect());
            }
            (key, value) if KEPT.contains(&key) => drop(out.insert(key.to_owned(), value.clone())),
            _ => {}
        }
    }
    Value::Object(out)
}

fn types_into(out: &mut Map<String, Value>, types: &[Value]) {
    let named: Vec<_> = types.iter().filter(|kind| *kind != "null").collect();
    if named.len() < types.len() {
        out.insert("nullable".into(), true.into());
    }
    // Generators of clients make unusable types of alternatives that are plain values, so several types are any value to them.
    match named.as_slice() {
        [one] => out.insert("type".into(), (*one).clone()),
        many => out.insert("x-types".into(), json!(many)),
    };
}

/// Whether alternatives only refine the fields of the object that has them, without types of their own. Generators of clients
/// take each alternative for a type, and stop at a pattern of a field that has none.
fn refines(object: &Map<String, Value>, options: &[Value]) -> bool {
    let untyped = |option: &Value| option.get("type").is_none() && option.get("$ref").is_none();
    object.contains_key("properties") && options.iter().all(untyped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_openapi_does_not_know_is_translated_or_left_out() {
        for (schema, expected) in [
            (
                json!({"type": ["string", "null"]}),
                json!({"type": "string", "nullable": true}),
            ),
            (
                json!({"type": ["string", "integer"]}),
                json!({"x-types": ["string", "integer"]}),
            ),
            (json!({"const": 3}), json!({"enum": [3]})),
            (
                json!({"type": "object", "propertyNames": {"maxLength": 3}, "additionalProperties": {"const": 1}}),
                json!({"type": "object", "additionalProperties": {"enum": [1]}}),
            ),
            (
                json!({"properties": {"a": {"type": "string"}}, "anyOf": [{"properties": {"a": {"pattern": "x"}}}]}),
                json!({"properties": {"a": {"type": "string"}}}),
            ),
        ] {
            assert_eq!(to_openapi(&schema), expected, "{schema}");
        }
    }
}
