//! The Go types that a document is decoded into, and `encoding/json`'s rules for doing so.
//!
//! The operator's API types decide what a document may say: a field of the wrong type is an error in Go's words, an
//! unknown one is ignored, names match in any case, and what is decoded over something else merges with it.

use serde_json::{Map, Value};

use crate::{gojson, time, yaml};

/// A Go type, as far as decoding looks at it.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A string, with the name of its type.
    Text(&'static str),
    Bool,
    /// An integer, with the name of its type.
    Int(&'static str),
    Pointer(&'static Shape),
    List {
        go: &'static str,
        element: &'static Shape,
    },
    Map {
        go: &'static str,
        value: &'static Shape,
    },
    Struct(&'static Struct),
    /// Keeps whatever is there.
    Raw,
    /// `metav1.Duration`.
    Duration,
    /// `metav1.Time`.
    Time,
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) package: &'static str,
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

#[derive(Debug)]
pub(crate) struct Field {
    name: &'static str,
    shape: &'static Shape,
    /// The struct that is embedded and really has the field.
    embedded: Option<&'static str>,
}

impl Field {
    pub(crate) const fn new(name: &'static str, shape: &'static Shape) -> Self {
        Self {
            name,
            shape,
            embedded: None,
        }
    }

    pub(crate) const fn embedded(name: &'static str, shape: &'static Shape, within: &'static str) -> Self {
        Self {
            name,
            shape,
            embedded: Some(within),
        }
    }
}

impl Struct {
    /// The field of that very name, or else the first whose name differs only in case.
    fn field(&self, key: &str) -> Option<&'static Field> {
        let exact = self.fields.iter().find(|field| field.name == key);
        exact.or_else(|| self.fields.iter().find(|field| folds(field.name, key)))
    }
}

/// Equal but for case. The two letters beyond ASCII are those that Unicode folds into it.
fn folds(name: &str, key: &str) -> bool {
    let fold = |char: char| match char {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => char.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(key.chars().map(fold))
}

/// What sigs.k8s.io/yaml asks of a type, to make texts of numbers where a string is wanted.
impl Shape {
    /// The type itself, unless it decodes by rules of its own.
    pub(crate) fn target(&'static self) -> Option<&'static Self> {
        match self {
            Self::Pointer(inner) => inner.target(),
            Self::Raw | Self::Duration | Self::Time => None,
            _ => Some(self),
        }
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    pub(crate) fn element(&self) -> Option<&'static Self> {
        match self {
            Self::List { element, .. } => Some(element),
            _ => None,
        }
    }

    /// The type under a key. For an embedded field the library takes the struct around it for the field.
    pub(crate) fn member(&self, key: &str) -> Option<&'static Self> {
        match self {
            Self::Map { value, .. } => Some(value),
            Self::Struct(structure) => structure
                .field(key)
                .filter(|field| field.embedded.is_none())
                .map(|field| field.shape),
            _ => None,
        }
    }
}

/// Decodes a JSON value over another, as `json.Unmarshal` does. What comes out has the fields' own names.
pub(crate) fn decode(value: &Value, shape: &'static Shape, into: &mut Value) -> Result<(), String> {
    let mut decoder = Decoder::default();
    if !value.is_null() {
        decoder.value(value, shape, into)?;
    }
    decoder.problem.map_or(Ok(()), Err)
}

#[derive(Default)]
struct Decoder {
    /// The struct that is being filled, and the fields that led there.
    within: Option<&'static str>,
    path: Vec<&'static str>,
    /// The first value of a wrong type. Go goes on decoding after it.
    problem: Option<String>,
}

impl Decoder {
    fn value(&mut self, value: &Value, shape: &'static Shape, into: &mut Value) -> Result<(), String> {
        match (shape, value) {
            (Shape::Pointer(_) | Shape::List { .. } | Shape::Map { .. }, Value::Null) => *into = Value::Null,
            (Shape::Pointer(inner), _) => self.value(value, inner, into)?,
            (Shape::Duration, Value::Null) => duration("")?,
            (_, Value::Null) => {}
            (Shape::Duration, Value::String(text)) => duration(text)?,
            (Shape::Time, Value::String(text)) => timestamp(text)?,
            (Shape::Duration | Shape::Time, _) => return Err(self.wrong(kind(value), "string")),
            (Shape::Raw, _) | (Shape::Text(_), Value::String(_)) | (Shape::Bool, Value::Bool(_)) => {
                into.clone_from(value);
            }
            (Shape::Int(_), Value::Number(number)) if number.is_i64() => into.clone_from(value),
            (Shape::Int(_), Value::Number(_)) => {
                self.mismatch(&format!("number {}", gojson::encode(value)), shape);
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

impl Shape {
    /// The name of the Go type.
    fn go(&self) -> String {
        match self {
            Self::Text(go) | Self::Int(go) | Self::List { go, .. } | Self::Map { go, .. } => (*go).to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Pointer(inner) => inner.go(),
            Self::Struct(structure) => format!("{}.{}", structure.package, structure.name),
            Self::Raw => "v1.JSON".to_owned(),
            Self::Duration => "v1.Duration".to_owned(),
            Self::Time => "v1.Time".to_owned(),
        }
    }
}

fn object(value: &mut Value) -> Map<String, Value> {
    match value.take() {
        Value::Object(entries) => entries,
        _ => Map::new(),
    }
}

/// Go decodes the text that it wrote itself, in which keys are sorted.
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

fn duration(text: &str) -> Result<(), String> {
    time::parse_duration(text.as_bytes()).map(|_| ())
}

fn timestamp(text: &str) -> Result<(), String> {
    time::parse(b"2006-01-02T15:04:05Z07:00", text.as_bytes()).map(|_| ())
}

/// Reads a YAML text over a value, as sigs.k8s.io/yaml's `Unmarshal` does.
pub(crate) fn unmarshal(text: &[u8], shape: &'static Shape, into: &mut Value) -> Result<(), String> {
    let value = yaml::read_as(text, Some(shape)).map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    decode(&value, shape, into).map_err(|problem| format!("error unmarshaling JSON: while decoding JSON: {problem}"))
}
