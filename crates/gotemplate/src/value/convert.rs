//! Rust and JSON values as values of a template.

use serde_json::Value as Json;

use super::Value;
use crate::json;

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// An `int64`.
impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::int64(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::str(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::str(text)
    }
}

/// Converts JSON by the rules of Kubernetes: a whole number that fits is an `int64`, however it is written; any other number
/// is a `float64`. (`encoding/json` makes every number a `float64`; see [`json::decode`].)
impl From<&Json> for Value {
    fn from(json: &Json) -> Self {
        match json {
            Json::Null => Self::Nil,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match json::normalized(number).as_i64() {
                Some(integer) => Self::int64(integer),
                None => Self::Float(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Self::str(text),
            Json::Array(items) => Self::appended(items.iter().map(Self::from).collect()),
            Json::Object(entries) => Self::map(entries.iter().map(|(key, value)| (key, Self::from(value)))),
        }
    }
}
