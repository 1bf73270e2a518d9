//! JSON trees as text.

use std::borrow::Cow;

use serde_json::Value;

use super::number::number_text;

/// `json.Marshal` of a JSON tree: keys sorted by bytes, `<`, `>` and `&` escaped.
///
/// ```
/// let tree = serde_json::json!({"b": 1.0, "a": "<"});
/// assert_eq!(gotemplate::json::marshal(&tree), r#"{"a":"\u003c","b":1}"#);
/// ```
#[must_use]
pub fn marshal(value: &Value) -> String {
    let mut text = String::new();
    encode_into(value, &mut text);
    text
}

fn encode_into(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number_text(number)),
        Value::String(string) => encode_string(string, text),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                encode_into(item, text);
            }
            text.push(']');
        }
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                encode_string(key, text);
                text.push(':');
                encode_into(value, text);
            }
            text.push('}');
        }
    }
}

fn encode_string(string: &str, text: &mut String) {
    text.push('"');
    for char in string.chars() {
        match escaped(char) {
            Some(escape) => text.push_str(&escape),
            None => text.push(char),
        }
    }
    text.push('"');
}

/// The escape sequence of a character in a string, if it needs one.
pub(crate) fn escaped(char: char) -> Option<Cow<'static, str>> {
    Some(match char {
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '\n' => "\\n".into(),
        '\r' => "\\r".into(),
        '\t' => "\\t".into(),
        '\x08' => "\\b".into(),
        '\x0c' => "\\f".into(),
        '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(char)).into(),
        _ => return None,
    })
}
