//! Template values as JSON trees.

use serde_json::{Map, Value as Json};

use super::number::{float_text, number_from_text};
use crate::{
    strings,
    value::{Elem, Value},
};

/// The tree of the JSON text that [`super::encode`] writes for a value. The value must be one that it can write.
pub(crate) fn document(value: &Value) -> Json {
    match value {
        Value::Nil | Value::Complex(..) => Json::Null,
        Value::Bool(yes) => Json::Bool(*yes),
        Value::Int(_, number) => Json::from(*number),
        // A whole number is written without a point, so it is read as an integer.
        Value::Float(number) => Json::Number(number_from_text(&float_text(*number))),
        Value::Str(text) => Json::String(string(text)),
        Value::List(list) if list.is_nil() => Json::Null,
        Value::List(list) if list.elem() == Elem::Byte => Json::String(data_encoding::BASE64.encode(&list.to_bytes())),
        Value::List(list) => Json::Array(list.to_vec().iter().map(document).collect()),
        Value::Map(map) if map.is_nil() => Json::Null,
        Value::Map(map) => Json::Object(
            map.to_vec()
                .iter()
                .map(|(key, value)| (string(key), document(value)))
                .collect(),
        ),
        Value::Time(time) => Json::String(string(&time.rfc3339().unwrap_or_default())),
        Value::Location(_) => Json::Object(Map::new()),
    }
}

/// The text with U+FFFD for every byte that is not UTF-8.
fn string(bytes: &[u8]) -> String {
    strings::runes(bytes).map(|(_, c)| c).collect()
}
