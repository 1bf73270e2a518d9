//! YAML as Kubernetes' tools read and write it: sigs.k8s.io/yaml 1.6 on go.yaml.in/yaml/v2 2.4.

mod decode;
mod emit;
mod error;
mod json;
mod keys;
mod node;
mod reader;
mod resolve;
mod scalar;
mod scanner;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(crate) use self::error::Error;
use crate::{gojson, shape::Shape};

/// How deeply collections may be nested. Go stops at 10,000; ours is what a thread's stack holds with ease.
pub(crate) const MAX_DEPTH: usize = 500;

/// How much text a document may hold once its aliases are expanded.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// Reads the first document as JSON; `null` if there is none.
pub(crate) fn read(input: &[u8]) -> Result<Value, Error> {
    read_as(input, None)
}

/// Reads the first document for a Go type: numbers and booleans become texts where the type has a string.
pub(crate) fn read_as(input: &[u8], shape: Option<&'static Shape>) -> Result<Value, Error> {
    if input.len() > MAX_BYTES {
        return Err(Error::Bound("too large"));
    }
    match node::compose(input)? {
        Some(document) => json::convert(decode::decode(&document)?, shape),
        None => Ok(Value::Null),
    }
}

/// Writes JSON as YAML.
///
/// The library does so by reading the JSON text as if it were YAML, which nearly is the same. Where it may not be, so do we.
pub(crate) fn write(value: &Value) -> Result<String, Error> {
    if survives(value, 0)? {
        return Ok(emit::emit(value));
    }
    read(gojson::encode(value).as_bytes()).map(|value| emit::emit(&value))
}

/// Whether a value's JSON text means the same in YAML. Not with control characters, nor with keys too long for a line.
fn survives(value: &Value, depth: usize) -> Result<bool, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::Bound("nested too deeply"));
    }
    let printable = |text: &str| !text.contains(|char| matches!(char, '\x7f'..='\u{9f}' | '\u{fffe}' | '\u{ffff}'));
    Ok(match value {
        Value::String(text) => printable(text),
        Value::Array(items) => all(items.iter(), |item| survives(item, depth + 1))?,
        Value::Object(entries) => all(entries.iter(), |(key, value)| {
            Ok(key.len() <= 100 && printable(key) && survives(value, depth + 1)?)
        })?,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    })
}

fn all<T>(items: impl Iterator<Item = T>, test: impl Fn(T) -> Result<bool, Error>) -> Result<bool, Error> {
    for item in items {
        if !test(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}
