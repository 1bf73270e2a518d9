//! Decodes JSON trees into Go types.

use serde_json::{Map, Value};

use super::{
    marshal,
    shape::{Field, Shape, Struct},
};

/// `json.Unmarshal`: decodes a JSON tree into a value of a Go type, over what is there already.
///
/// A value of the wrong type is an error in Go's words; unknown fields are ignored; names match in any case; maps and structs
/// merge with what is there. The result has the names that the fields declare.
pub fn unmarshal(value: &Value, shape: &'static Shape, into: &mut Value) -> Result<(), String> {
    let mut decoder = Decoder::default();
    if !value.is_null() {
        decoder.value(value, shape, into)?;
    }
    decoder.problem.map_or(Ok(()), Err)
}

#[derive(Default)]
struct Decoder {
    /// The struct that is being filled.
    within: Option<&'static str>,
    /// The fields that lead to the value.
    path: Vec<&'static str>,
    /// The first value of a wrong type. Go continues to decode after it.
    problem: Option<String>,
}

impl Decoder {
    fn value(&mut self, value: &Value, shape: &'static Shape, into: &mut Value) -> Result<(), String> {
        match (shape, value) {
            (Shape::Pointer(_) | Shape::List { .. } | Shape::Map { .. }, Value::Null) => *into = Value::Null,
            (Shape::Pointer(inner), _) => self.value(value, inner, into)?,
            (Shape::Parsed { check, .. }, Value::Null) => check(None)?,
            (_, Value::Null) => {}
            (Shape::Parsed { check, .. }, Value::String(text)) => check(Some(text))?,
            (Shape::Parsed { .. }, _) => return Err(self.wrong(kind(value), "string")),
            (Shape::Raw, _) | (Shape::Text(_), Value::String(_)) | (Shape::Bool, Value::Bool(_)) => {
                into.clone_from(value);
            }
            (Shape::Int(_), Value::Number(number)) if number.is_i64() => into.clone_from(value),
            (Shape::Int(_), Value::Number(_)) => {
                self.mismatch(&format!("number {}", marshal(value)), shape);
            }
            (Shape::List { element, .. }, Value::Array(items)) => {
                let mut list = match into.take() {
                    Value::Array(list) => list,
                    _ => Vec::new(),
                };
                list.resize(items.len(), Value::Null);
                for (item, slot) in items.iter().zip(&mut list) {
                    self.value(item, element, slot)?;
                }
                *into = Value::Array(list);
            }
            (Shape::Map { value: member, .. }, Value::Object(entries)) => {
                let mut map = object(into);
                for (key, value) in sorted(entries) {
                    let mut slot = Value::Null;
                    self.value(value, member, &mut slot)?;
                    map.insert(key.clone(), slot);
                }
                *into = Value::Object(map);
            }
            (Shape::Struct(structure), Value::Object(entries)) => {
                let mut map = object(into);
                for (key, value) in sorted(entries) {
                    if let Some(field) = structure.field(key) {
                        let slot = map.entry(field.name).or_insert(Value::Null);
                        self.field(value, structure, field, slot)?;
                    }
                }
                *into = Value::Object(map);
            }
            _ => self.mismatch(kind(value), shape),
        }
        Ok(())
    }

    fn field(
        &mut self,
        value: &Value,
        structure: &'static Struct,
        field: &'static Field,
        slot: &mut Value,
    ) -> Result<(), String> {
        let (within, depth) = (self.within, self.path.len());
        self.within = Some(structure.name);
        self.path.extend(field.embedded);
        self.path.push(field.name);
        self.value(value, field.shape, slot)?;
        self.within = within;
        self.path.truncate(depth);
        Ok(())
    }

    fn mismatch(&mut self, found: &str, shape: &Shape) {
        let text = self.wrong(found, &shape.go());
        self.problem.get_or_insert(text);
    }

    fn wrong(&self, found: &str, go: &str) -> String {
        let place = match self.within {
            Some(within) => format!("Go struct field {within}.{}", self.path.join(".")),
            None => "Go value".to_owned(),
        };
        format!("json: cannot unmarshal {found} into {place} of type {go}")
    }
}

fn object(value: &mut Value) -> Map<String, Value> {
    match value.take() {
        Value::Object(entries) => entries,
        _ => Map::new(),
    }
}

/// The entries by key: Go decodes a text that it wrote itself, with sorted keys.
fn sorted(entries: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
