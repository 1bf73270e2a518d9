//! Splits a text into documents, as apimachinery's `YAMLOrJSONDecoder` does.
//!
//! A text that starts with `{` is a stream of JSON values. If one does not parse, the rest is read as YAML.

use gotemplate::{
    json::{self, Scanned},
    strings, unicode, yaml,
};
use serde_json::{Map, Number, Value};

/// How far the decoder looks for a `{`.
const LOOK_AHEAD: usize = 2048;

/// How many documents a text may contain. Go has no such limit.
const MAX_DOCUMENTS: usize = 100_000;

type Object = Map<String, Value>;

/// The documents of a text. Each is an object with a `kind`; a document without content is an empty object.
pub(crate) struct Documents<'a> {
    input: &'a [u8],
    /// How many bytes were read.
    consumed: usize,
    mode: Mode,
    count: usize,
    failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Json,
    Yaml,
    Failed,
}

impl<'a> Documents<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Self {
        let head = &input[..input.len().min(LOOK_AHEAD)];
        let blanks: usize = strings::runes(head)
            .take_while(|(_, char)| unicode::is_space(*char))
            .map(|(_, char)| char.len_utf8())
            .sum();
        let mode = if head.get(blanks) == Some(&b'{') {
            Mode::Json
        } else {
            Mode::Yaml
        };
        Self {
            input,
            consumed: 0,
            mode,
            count: 0,
            failed: false,
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.input[self.consumed..]
    }

    fn next_object(&mut self) -> Result<Option<Object>, String> {
        let mut json_problem = None;
        if self.mode == Mode::Json {
            match self.next_json() {
                Ok(object) => return Ok(object),
                // After two values it is certain that this is JSON.
                Err((problem, _)) if self.count > 1 => return Err(problem),
                Err((problem, offset)) => {
                    json_problem = Some(match offset {
                        Some(offset) => format!("json: offset {offset}: {problem}"),
                        None => problem,
                    });
                }
            }
            self.mode = if self.skip_blank_line() {
                Mode::Yaml
            } else {
                Mode::Failed
            };
        }
        if self.mode == Mode::Failed {
            return Err(json_problem.unwrap_or_else(|| "decoding failed as both JSON and YAML".to_owned()));
        }
        self.next_yaml().map_err(|problem| json_problem.unwrap_or(problem))
    }

    /// The next JSON value. An error has an offset if it is a syntax error.
    fn next_json(&mut self) -> Result<Option<Object>, (String, Option<usize>)> {
        match json::scan(self.rest()) {
            Scanned::End => Ok(None),
            Scanned::Unfinished => Err(("unexpected EOF".to_owned(), None)),
            Scanned::Failed(problem) => Err((problem, None)),
            Scanned::Invalid(error) => Err((error.text, Some(self.consumed + error.offset))),
            Scanned::Value(value, length) => {
                let raw = Some(self.rest()[..length].trim_ascii_start());
                let object = object(value, raw).map_err(|text| (text, None))?;
                self.consumed += length;
                self.count += 1;
                Ok(Some(object))
            }
        }
    }

    /// Skips blanks up to the end of the line. Returns false where the decoder fails: near the end, and at an invalid character.
    fn skip_blank_line(&mut self) -> bool {
        let mut length = 0;
        loop {
            let Some(window) = self.rest().get(length..length + 4) else {
                return false;
            };
            let Some((char, width)) = strings::decode(window).filter(|(char, _)| *char != strings::REPLACEMENT) else {
                return false;
            };
            if unicode::is_space(char) {
                length += width;
            }
            if char == '\n' || !unicode::is_space(char) {
                self.consumed += length;
                return true;
            }
        }
    }

    fn next_yaml(&mut self) -> Result<Option<Object>, String> {
        let Some(document) = self.split_document()? else {
            return Ok(None);
        };
        let converting = |error: yaml::Error| format!("error converting YAML to JSON: {error}");
        let value = yaml::read(&document).map_err(converting)?;
        self.count += 1;
        if value.is_null() {
            return Ok(Some(Object::new()));
        }
        object(value, None)
            .map(Some)
            .map_err(|problem| format!("error unmarshaling JSON: while decoding JSON: {problem}"))
    }

    /// The lines up to the next `---`. A `---` before any other line is part of the document.
    fn split_document(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut document = Vec::new();
        while let Some(line) = self.next_line() {
            if let Some(after) = line.strip_prefix(b"---") {
                let after = strings::trim_space(after);
                if !after.is_empty() && after[0] != b'#' {
                    let after = String::from_utf8_lossy(after);
                    return Err(format!("invalid Yaml document separator: {after}"));
                }
                if !document.is_empty() {
                    return Ok(Some(document));
                }
            }
            document.extend(line);
            document.push(b'\n');
        }
        Ok((!document.is_empty()).then_some(document))
    }

    /// A line without its line break (`\n` or `\r\n`).
    fn next_line(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let (line, length) = match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&rest[..end], end + 1),
            None => (rest, rest.len()),
        };
        self.consumed += length;
        let ended = length > line.len();
        Some(if ended {
            line.strip_suffix(b"\r").unwrap_or(line)
        } else {
            line
        })
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Object, String>;

    /// Ends after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = if self.count < MAX_DOCUMENTS {
            self.next_object()
        } else {
            Err(format!("more than {MAX_DOCUMENTS} documents"))
        };
        self.failed = next.is_err();
        next.transpose()
    }
}

/// Checks what an `Unstructured` accepts: an object with a kind. The error shows the text, or what Go would write for it.
fn object(value: Value, raw: Option<&[u8]>) -> Result<Object, String> {
    let kindless = |value: Value| {
        let text = raw.map_or_else(
            || json::marshal(&value),
            |raw| String::from_utf8_lossy(raw).into_owned(),
        );
        format!("Object 'Kind' is missing in '{text}'")
    };
    let found = match value {
        Value::Object(mut object) => {
            if kind(&object).is_empty() {
                return Err(kindless(Value::Object(object)));
            }
            object.values_mut().for_each(narrow);
            return Ok(object);
        }
        Value::Null => return Err(kindless(Value::Null)),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    Err(format!(
        "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    ))
}

/// The kind; empty if the apiVersion has too many parts.
fn kind(object: &Object) -> &str {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("apiVersion").matches('/').count() > 1 {
        ""
    } else {
        text("kind")
    }
}

/// Converts numbers that do not fit an `int64` to floats, as Kubernetes does.
pub(crate) fn narrow(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_i64() => {
            if let Some(float) = number.as_f64().and_then(Number::from_f64) {
                *number = float;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(narrow),
        Value::Object(entries) => entries.values_mut().for_each(narrow),
        _ => {}
    }
}
