//! JSON to the values that a template sees.

use std::{collections::BTreeMap, rc::Rc};

use serde_json::Value as Json;

use crate::{gojson, value::Value};

/// Integers become `int64` if they fit, all other numbers `float64`. A whole number is an integer however it is written.
pub(crate) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match gojson::normalized(number).as_i64() {
            Some(integer) => Value::int64(integer),
            None => Value::Float(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::str(text),
        Json::Array(items) => Value::appended(items.iter().map(value).collect()),
        Json::Object(entries) => map(entries),
    }
}

/// A `map[string]interface {}`.
pub(crate) fn map(entries: &serde_json::Map<String, Json>) -> Value {
    let entries: BTreeMap<_, _> = entries
        .iter()
        .map(|(key, json)| (Rc::from(key.as_bytes()), value(json)))
        .collect();
    Value::map(entries)
}
