//! JSON as text in one canonical form: keys sorted, no blanks. Equal documents are equal bytes, on every replica, whatever features
//! of `serde_json` another crate enables.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::refusal::shorten;

/// A JSON document as canonical text. A tenth of the memory of a parsed `Value`, and ready to be sent.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    pub fn new(value: &Value) -> Self {
        let mut text = String::with_capacity(256);
        write(value, &mut text);
        Json(text.into())
    }

    /// Wraps text that is already canonical, such as text from a store.
    pub fn from_canonical(text: impl Into<Arc<str>>) -> Self {
        Json(text.into())
    }

    /// Wraps text that came from a store and then left our control, such as a backup. None if it is not a document that a store
    /// can hold.
    pub fn from_elsewhere(text: &str) -> Option<Self> {
        let value = serde_json::from_str(text).ok()?;
        (!is_too_deep(&value)).then(|| Json(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parsed document. The text was written by [`Json::new`], so it parses.
    pub fn parse(&self) -> Value {
        serde_json::from_str(&self.0).expect("canonical JSON parses")
    }

    /// The fields of the document, each as text, which is much faster than parsing them. None if it is not an object.
    pub(crate) fn fields(&self) -> Option<Fields<'_>> {
        Fields::of(&self.0)
    }

    /// One field, parsed.
    pub fn field(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.fields()?.text(name)?).ok()
    }
}

/// The fields of an object by name, as canonical text: equal values have equal texts.
#[derive(Default)]
pub(crate) struct Fields<'a>(BTreeMap<Name<'a>, &'a RawValue>);

/// Borrowed, unless it has an escape.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Fields<'a> {
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Fields)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(&Name(name.into())).map(|text| text.get())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &*name.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// For text that left our control: see [`Json::from_elsewhere`].
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let unusable = || serde::de::Error::custom("not a document that a store can hold");
        Json::from_elsewhere(text.get()).ok_or_else(unusable)
    }
}

/// Parses a document of a request. A duplicate name is an error: one of its values would be lost.
pub fn parse(text: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice::<Sent>(text).map(|Sent(value)| value)
}

struct Sent(Value);

impl<'de> Deserialize<'de> for Sent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SentVisitor).map(Sent)
    }
}

struct SentVisitor;

impl<'de> Visitor<'de> for SentVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Sent(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if all.contains_key(&name) {
                let name = shorten(name, 100);
                return Err(serde::de::Error::custom(format!("{name:?} occurs twice")));
            }
            let Sent(value) = fields.next_value()?;
            all.insert(name, value);
        }
        Ok(all.into())
    }
}

/// How deeply a document may be nested. Far below the limits of the parser (128) and of the stack, so that every process can always
/// read what is stored.
pub const MOST_DEPTH: usize = 64;

/// Whether a value is deeper than [`MOST_DEPTH`]. Not recursive, because it runs before anything recursive.
pub fn is_too_deep(value: &Value) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        if depth > MOST_DEPTH {
            return true;
        }
        match value {
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth + 1))),
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    false
}

/// Appends `value` in canonical form.
pub fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (n, (key, item)) in entries.into_iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write_str(key, out);
                out.push(':');
                write(item, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::String(text) => write_str(text, out),
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number.to_string()),
    }
}

/// Appends `text` as a JSON string.
pub fn write_str(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    let mut rest = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[rest..at]);
        rest = at + 1;
        if escape.is_empty() {
            out.push_str("\\u00");
            out.push(HEX[usize::from(byte >> 4)] as char);
            out.push(HEX[usize::from(byte & 15)] as char);
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[rest..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_field_is_what_the_whole_document_has_there() {
        let document = serde_json::json!({"a": {"b": [1, null]}, "c": "d", "odd \"name\"": 2, "n": null});
        for value in [document.clone(), serde_json::json!({"a": {"b": [1, null]}, "n": null})] {
            for name in ["a", "c", "odd \"name\"", "n", "nope", "b"] {
                assert_eq!(Json::new(&value).field(name).as_ref(), value.get(name), "{name}");
            }
        }
    }

    #[test]
    fn a_name_that_is_there_twice_is_refused_at_any_depth_and_its_place_is_said() {
        let fine = br#"{"a": [{"b": 1}, {"b": -2.5e3}], "c": {"a": null, "b": true, "\u00e9": "x"}}"#;
        assert_eq!(parse(fine).unwrap(), serde_json::from_slice::<Value>(fine).unwrap());
        for twice in [
            &b"{\"a\": 1,\n \"a\": 1}"[..],
            b"[{\"x\":\n{\"a\": 1, \"\\u0061\": 2}}]",
        ] {
            let error = parse(twice).unwrap_err().to_string();
            assert!(error.starts_with("\"a\" occurs twice at line 2"), "{error}");
        }
        assert!(parse("[".repeat(1000).as_bytes()).is_err());
    }

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value: Value = serde_json::from_str(r#"{"b":{"d":1,"c":[{"z":null,"a":true}]},"a":"x"}"#).unwrap();
        assert_eq!(
            Json::new(&value).as_str(),
            r#"{"a":"x","b":{"c":[{"a":true,"z":null}],"d":1}}"#
        );
    }

    proptest! {
        #[test]
        fn every_string_comes_back(text in any::<String>()) {
            let mut out = String::new();
            write_str(&text, &mut out);
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }
}
