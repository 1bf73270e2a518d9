//! YAML as Kubernetes' tools read and write it: sigs.k8s.io/yaml 1.6 on go.yaml.in/yaml/v2 2.4.
//!
//! The text passes through [`reader`] (characters), [`scanner`] (tokens), [`node`] (a tree with anchors), [`decode`] (values,
//! with aliases expanded and tags resolved) and [`json`] (JSON). [`emit`] writes.

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

pub use self::error::Error;
use crate::{
    function::Failure,
    json::{self as gojson, Shape, Style},
    value,
};

/// How deeply collections may be nested. Go's limit is 10,000; this one fits the stack of a thread.
pub(crate) const MAX_DEPTH: usize = 500;

/// How many bytes a document may hold after its aliases are expanded.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// Reads the first document of a text as JSON; `null` if there is none.
///
/// ```
/// use gotemplate::yaml;
///
/// // YAML 1.1, as go-yaml v2 reads it: `yes` is a boolean, `0o17` is fifteen.
/// let value = yaml::read(b"enabled: yes\nmode: 0o17\n")?;
/// assert_eq!(value, serde_json::json!({"enabled": true, "mode": 15}));
/// # Ok::<(), yaml::Error>(())
/// ```
pub fn read(input: &[u8]) -> Result<Value, Error> {
    read_as(input, None)
}

/// Writes JSON as YAML, byte for byte as `yaml.JSONToYAML` does.
///
/// ```
/// use gotemplate::yaml;
///
/// let value = serde_json::json!({"k10": "yes", "k9": ["a: b"]});
/// assert_eq!(yaml::write(&value)?, "k9:\n- 'a: b'\nk10: \"yes\"\n");
/// # Ok::<(), yaml::Error>(())
/// ```
pub fn write(value: &Value) -> Result<String, Error> {
    // The library reads the JSON text as if it were YAML. That changes the value in rare cases, and then it does here too.
    if survives(value, 0)? {
        return Ok(emit::emit(value));
    }
    read(gojson::marshal(value).as_bytes()).map(|value| emit::emit(&value))
}

/// `yaml.Marshal` of a template value.
///
/// ```
/// use gotemplate::{Value, yaml};
///
/// let value = Value::map([("name", Value::str("web")), ("ports", Value::list(vec![Value::int(80)]))]);
/// assert_eq!(yaml::encode(&value)?, "name: web\nports:\n- 80\n");
/// # Ok::<(), gotemplate::Failure>(())
/// ```
pub fn encode(value: &value::Value) -> Result<String, Failure> {
    // Encoding to JSON first reports errors and enforces limits.
    gojson::encode(value, Style::Compact).map_err(|failure| match failure {
        Failure::Error(problem) => Failure::Error(format!("error marshaling into JSON: {problem}")),
        failure => failure,
    })?;
    write(&gojson::document(value)).map_err(|problem| Failure::Error(problem.to_string()))
}

/// `yaml.Unmarshal`: reads a text into a value of a Go type, over what is there already. See [`json::unmarshal`](gojson::unmarshal).
pub fn unmarshal(text: &[u8], shape: &'static Shape, into: &mut Value) -> Result<(), String> {
    let value = read_as(text, Some(shape)).map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    gojson::unmarshal(&value, shape, into)
        .map_err(|problem| format!("error unmarshaling JSON: while decoding JSON: {problem}"))
}

/// Reads the first document for a Go type: numbers and booleans become strings where the type has a string.
fn read_as(input: &[u8], shape: Option<&'static Shape>) -> Result<Value, Error> {
    if input.len() > MAX_BYTES {
        return Err(Error::Limit("too large"));
    }
    match node::compose(input)? {
        Some(document) => json::convert(decode::decode(&document)?, shape),
        None => Ok(Value::Null),
    }
}

/// Whether the JSON text of a value means the same when it is read as YAML. Control characters and long keys change it.
fn survives(value: &Value, depth: usize) -> Result<bool, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::Limit("nested too deeply"));
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
