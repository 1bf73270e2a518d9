//! Decoded values to JSON, as sigs.k8s.io/yaml converts them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    decode::{Item, Key},
    error::Error,
};
use crate::{
    json::{self as gojson, Shape},
    strconv::{format_general, format_general32},
};

/// Converts a value. Numbers and booleans become strings where the type has a string.
pub(super) fn convert(item: Item, shape: Option<&'static Shape>) -> Result<Value, Error> {
    let mut converter = Converter { unsupported: None };
    let value = converter.value(item, shape)?;
    converter
        .unsupported
        .map_or(Ok(value), |text| Err(Error::NotJson(text)))
}

struct Converter {
    /// The error about the first number that JSON cannot represent. Go reports it after the conversion, when it writes the JSON.
    unsupported: Option<String>,
}

impl Converter {
    fn value(&mut self, item: Item, shape: Option<&'static Shape>) -> Result<Value, Error> {
        let shape = shape.and_then(Shape::target);
        let as_text = shape.is_some_and(Shape::is_text);
        Ok(match item {
            Item::Map(entries) => {
                let mut texts = BTreeMap::new();
                for (key, value) in entries {
                    texts.insert(key_text(key, &value)?, value);
                }
                let mut object = Map::new();
                for (key, value) in texts {
                    let value = self.value(value, shape.and_then(|shape| shape.member(&key)))?;
                    object.insert(key, value);
                }
                Value::Object(object)
            }
            Item::List(items) => {
                let shape = shape.and_then(Shape::element);
                Value::Array(
                    items
                        .into_iter()
                        .map(|item| self.value(item, shape))
                        .collect::<Result<_, _>>()?,
                )
            }
            Item::Null => Value::Null,
            Item::Text(text) => Value::String(valid(&text)),
            Item::Bool(value) if as_text => Value::String(value.to_string()),
            Item::Int(number) if as_text => Value::String(number.to_string()),
            Item::Uint(number) if as_text => Value::String(number.to_string()),
            Item::Float(number) if as_text => Value::String(format_general32(number)),
            Item::Bool(value) => Value::Bool(value),
            Item::Int(number) => number.into(),
            Item::Uint(number) => number.into(),
            Item::Float(number) => self.number(number),
        })
    }

    /// A float is converted to its JSON text and back, which makes a whole number an integer.
    fn number(&mut self, number: f64) -> Value {
        if !number.is_finite() {
            let text = format!("json: unsupported value: {}", format_general(number));
            self.unsupported.get_or_insert(text);
            return Value::Null;
        }
        Value::Number(gojson::number_from_text(&gojson::float_text(number)))
    }
}

fn key_text(key: Key, value: &Item) -> Result<String, Error> {
    Ok(match key {
        Key::Text(text) => valid(&text),
        Key::Int(number) => number.to_string(),
        Key::Bool(value) => value.to_string(),
        Key::Float(bits) => match format_general32(f64::from_bits(bits)).as_str() {
            "+Inf" => ".inf".to_owned(),
            "-Inf" => "-.inf".to_owned(),
            "NaN" => ".nan".to_owned(),
            text => text.to_owned(),
        },
        Key::Null => return Err(unsupported("%!s(<nil>)", "<nil>", value)),
        Key::Uint(number) => return Err(unsupported("uint64", &format!("{number:#x}"), value)),
    })
}

fn unsupported(kind: &str, key: &str, value: &Item) -> Error {
    let value = if let Item::Null = value {
        "<nil>".to_owned()
    } else {
        value.to_string()
    };
    Error::NotJson(format!(
        "unsupported map key of type: {kind}, key: {key}, value: {value}"
    ))
}

/// The text with U+FFFD for every byte that is not UTF-8.
fn valid(text: &[u8]) -> String {
    let mut valid = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        valid.push_str(chunk.valid());
        valid.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    valid
}
