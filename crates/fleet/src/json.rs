//! JSON as text in one canonical form: keys sorted, no blanks. Equal documents are equal bytes, on every replica, whatever features
//! of `serde_json` another crate enables.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use memchr::memchr;
use memchr::memmem::Finder;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
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

    /// The document with only some of its fields: the others are skipped, which is much faster than parsing them.
    pub(crate) fn pick(&self, is_wanted: impl Fn(&str) -> bool) -> Value {
        let parsed = |text: &RawValue| serde_json::from_str(text.get()).unwrap_or_default();
        let picked = self.texts(is_wanted).into_iter();
        Value::Object(picked.map(|(name, text)| (name.into_owned(), parsed(text))).collect())
    }

    /// One field as text, without reading the others.
    pub(crate) fn field_text(&self, name: &str) -> Option<&str> {
        self.texts(|field| field == name).pop().map(|(_, text)| text.get())
    }

    /// Some fields as text.
    fn texts(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<(Cow<'_, str>, &RawValue)> {
        let read = Wanted(is_wanted).deserialize(&mut serde_json::Deserializer::from_str(&self.0));
        read.unwrap_or_default()
    }

    /// One field, parsed.
    pub fn field(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.field_text(name)?).ok()
    }
}

/// Reads the fields of an object whose names are wanted.
struct Wanted<F>(F);

impl<'de, F: Fn(&str) -> bool> DeserializeSeed<'de> for Wanted<F> {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for Wanted<F> {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(Name(name)) = fields.next_key()? {
            match (self.0)(&name) {
                true => found.push((name, fields.next_value()?)),
                false => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// The name of a field, prepared for finding the field in many documents.
pub(crate) struct FieldFinder<'a> {
    name: &'a str,
    /// The name as it stands in a text.
    key: Finder<'static>,
}

impl<'a> FieldFinder<'a> {
    pub(crate) fn new(name: &'a str) -> Self {
        let mut key = String::new();
        write_str(name, &mut key);
        key.push(':');
        FieldFinder {
            name,
            key: Finder::new(&key).into_owned(),
        }
    }

    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// The array in a field that the document is known to have, as text. To look for the name takes a tenth of the time of skipping what is
    /// before it. Where the name stands only once, and nothing has an escape, that is the field.
    pub(crate) fn array<'d>(&self, document: &'d Json) -> Option<&'d str> {
        let text = document.as_str();
        let mut found = self.key.find_iter(text.as_bytes());
        let (first, second) = (found.next(), found.next());
        let is_certain = second.is_none() && memchr(b'\\', text.as_bytes()).is_none();
        let array = first.filter(|_| is_certain).and_then(|at| {
            let value = &text[at + self.key.needle().len()..];
            value.starts_with('[').then(|| &value[..end_of_value(value.as_bytes())])
        });
        array.or_else(|| document.field_text(self.name))
    }
}

/// The elements of an array, each as text, without parsing them. Of anything else there are none.
pub(crate) fn elements(array: &str) -> impl Iterator<Item = &str> {
    let mut rest = array.strip_prefix('[').unwrap_or_default();
    std::iter::from_fn(move || {
        let (element, after) = rest.split_at(end_of_value(rest.as_bytes()));
        rest = after.strip_prefix(',').unwrap_or_default();
        let element = element.trim();
        (!element.is_empty()).then_some(element)
    })
}

/// The length of the value that a text begins with: up to a comma or the end of what it is in, or of the text.
fn end_of_value(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at += length_of_string(&text[at..]) - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at.min(text.len())
}

/// The length of the string that a text begins with, with its quotes.
fn length_of_string(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len().max(1)
}

/// The value of a JSON string, borrowed unless it has an escape. None: the text is another value.
pub(crate) fn unquoted(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    match inner.contains('\\') {
        false => Some(Cow::Borrowed(inner)),
        true => serde_json::from_str(text).ok().map(Cow::Owned),
    }
}

/// The fields of an object by name, as canonical text: equal values have equal texts.
#[derive(Default)]
pub(crate) struct Fields<'a>(BTreeMap<Name<'a>, &'a RawValue>);

/// The name of a field, borrowed unless it has an escape.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

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
    use serde_json::json;

    #[test]
    fn an_array_is_found_by_its_name_and_has_the_elements_of_the_document() {
        let arrays = [
            json!([]),
            json!([{"id": "a,b]}", "n": [1, {"x": "\\\"{"}]}, "c,\"", 1, null, [[]], {}, {"wanted": [1]}]),
            json!([{"id": "é"}, {"id": "\\"}]),
        ];
        for array in arrays {
            for document in [
                json!({"wanted": array}),
                json!({"a": "\"wanted\":[", "wanted": array, "z": 1}),
                json!({"a": {"wanted": [0]}, "wanted": array, "zz": "wanted"}),
                json!({"a\"wanted": [7], "wanted": array}),
                json!({"unwanted": [7], "wanted": array}),
            ] {
                let pretty = serde_json::to_string_pretty(&document).unwrap();
                for text in [Json::new(&document), Json::from_elsewhere(&pretty).unwrap()] {
                    let found = FieldFinder::new("wanted").array(&text).unwrap();
                    assert_eq!(serde_json::from_str::<Value>(found).unwrap(), array, "{text:?}");
                    let parsed: Vec<Value> = elements(found).map(|one| serde_json::from_str(one).unwrap()).collect();
                    assert_eq!(Value::from(parsed), array, "{text:?}");
                }
            }
        }
        assert_eq!(FieldFinder::new("wanted").array(&Json::new(&json!({"a": 1}))), None);
        for odd in ["", "{}", "7", "\"[1]\"", "null"] {
            assert_eq!(elements(odd).count(), 0, "{odd}");
        }
    }

    proptest! {
        /// What is cut off, or no JSON at all, ends somewhere.
        #[test]
        fn elements_of_any_text_are_parts_of_it(text in "[\\[\\]{}\",\\\\a é]{0,30}") {
            let array = format!("[{text}");
            let length: usize = elements(&array).map(str::len).sum();
            prop_assert!(length <= array.len());
        }
    }

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
    fn a_quoted_text_is_what_the_parser_reads() {
        for text in ["", "a", "odd \"name\"", "back\\slash", "é \u{1F600}", "tab\t", "\u{1}"] {
            let quoted = Json::new(&text.into());
            assert_eq!(unquoted(quoted.as_str()).as_deref(), Some(text));
        }
        for other in ["null", "1", "true", "[]", "{}", "\"", ""] {
            assert_eq!(unquoted(other), None, "{other}");
        }
    }

    #[test]
    fn some_fields_are_what_the_document_has_there() {
        let document = serde_json::json!({"a": {"b": [1, null]}, "c": "d", "odd \"name\"": 2, "n": null});
        let picked = Json::new(&document).pick(|name| name != "c");
        assert_eq!(
            picked,
            serde_json::json!({"a": {"b": [1, null]}, "odd \"name\"": 2, "n": null})
        );
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
