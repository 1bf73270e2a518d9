//! What a reader makes of the JSON that a value is written as.

use serde_json::{Map, Value as Json};

use crate::{
    float, gojson, text,
    value::{Elem, Value},
};

/// The JSON document of a value that [`super::encode`] can write.
pub(crate) fn document(value: &Value) -> Json {
    match value {
        Value::Nil | Value::Complex(..) => Json::Null,
        Value::Bool(yes) => Json::Bool(*yes),
        Value::Int(_, number) => Json::from(*number),
        // A whole number is written without a point, so an integer is read.
        Value::Float(number) => Json::Number(gojson::number_from_text(&float::json(*number))),
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

/// The text with U+FFFD for every byte that is no UTF-8.
fn string(bytes: &[u8]) -> String {
    text::runes(bytes).map(|(_, c)| c).collect()
}
