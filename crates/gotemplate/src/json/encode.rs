//! Template values as JSON text.

use super::{marshal::escaped, number::float_text};
use crate::{
    fmt::type_name,
    function::{Failure, MAX_BYTES, MAX_DEPTH},
    strconv::format_general,
    strings,
    time::Time,
    value::{Elem, List, Map, Value},
};

/// From this depth on Go looks for cycles.
const CYCLE_DEPTH: usize = 1000;

/// The layout of a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// On one line, with `<`, `>` and `&` escaped.
    Compact,
    /// Indented by two blanks, with `<`, `>` and `&` escaped.
    Pretty,
    /// On one line, without that escaping.
    Raw,
}

/// `json.Marshal` of a template value.
///
/// ```
/// use gotemplate::{Value, json};
///
/// let value = Value::map([("b", Value::str("<")), ("a", Value::Float(1e21))]);
/// assert_eq!(json::encode(&value, json::Style::Compact)?, br#"{"a":1e+21,"b":"\u003c"}"#);
/// # Ok::<(), gotemplate::Failure>(())
/// ```
pub fn encode(value: &Value, style: Style) -> Result<Vec<u8>, Failure> {
    let mut encoder = Encoder {
        out: Vec::new(),
        style,
        path: Vec::new(),
    };
    encoder.value(value)?;
    Ok(encoder.out)
}

struct Encoder {
    out: Vec<u8>,
    style: Style,
    /// The identity and type of the lists and maps around the current value.
    path: Vec<([usize; 3], &'static str)>,
}

impl Encoder {
    fn value(&mut self, value: &Value) -> Result<(), Failure> {
        match value {
            Value::Nil => self.write(b"null"),
            Value::Bool(true) => self.write(b"true"),
            Value::Bool(false) => self.write(b"false"),
            Value::Int(_, number) => self.write(number.to_string().as_bytes()),
            Value::Float(number) => self.write(number_text(*number)?.as_bytes()),
            Value::Complex(..) => Err(Failure::Error("json: unsupported type: complex128".to_owned())),
            Value::Str(text) => self.string(text),
            Value::List(list) => self.list(list, value),
            Value::Map(map) => self.map(map, value),
            Value::Time(time) => self.time(time),
            // A struct without exported fields.
            Value::Location(_) => self.write(b"{}"),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.out.len() + bytes.len() > MAX_BYTES {
            return Err(Failure::size());
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn list(&mut self, list: &List, value: &Value) -> Result<(), Failure> {
        if list.is_nil() {
            return self.write(b"null");
        }
        if list.elem() == Elem::Byte {
            return self.string(data_encoding::BASE64.encode(&list.to_bytes()).as_bytes());
        }
        let (buffer, start) = list.address();
        self.enter([buffer, start, list.len()], value)?;
        self.write(b"[")?;
        for (index, item) in list.to_vec().iter().enumerate() {
            self.separate(index)?;
            self.value(item)?;
        }
        self.leave(list.len(), b"]")
    }

    fn map(&mut self, map: &Map, value: &Value) -> Result<(), Failure> {
        if map.is_nil() {
            return self.write(b"null");
        }
        self.enter([map.address(), 0, 0], value)?;
        self.write(b"{")?;
        for (index, (key, item)) in map.to_vec().iter().enumerate() {
            self.separate(index)?;
            self.string(key)?;
            self.write(if self.style == Style::Pretty { b": " } else { b":" })?;
            self.value(item)?;
        }
        self.leave(map.len(), b"}")
    }

    fn enter(&mut self, place: [usize; 3], value: &Value) -> Result<(), Failure> {
        self.path.push((place, type_name(value)));
        if self.path.len() <= MAX_DEPTH {
            return Ok(());
        }
        let around = &self.path[..self.path.len() - 1];
        let Some(first) = around.iter().rposition(|(other, _)| *other == place) else {
            return Err(Failure::depth());
        };
        // Go follows the cycle up to its depth limit, and names the type that it finds there.
        let period = around.len() - first;
        let named = self.path[first + (CYCLE_DEPTH - first) % period].1;
        Err(Failure::Error(format!(
            "json: unsupported value: encountered a cycle via {named}"
        )))
    }

    fn leave(&mut self, length: usize, close: &[u8]) -> Result<(), Failure> {
        self.path.pop();
        if length > 0 {
            self.new_line()?;
        }
        self.write(close)
    }

    fn separate(&mut self, index: usize) -> Result<(), Failure> {
        if index > 0 {
            self.write(b",")?;
        }
        self.new_line()
    }

    fn new_line(&mut self) -> Result<(), Failure> {
        if self.style == Style::Pretty {
            self.write(b"\n")?;
            self.write("  ".repeat(self.path.len()).as_bytes())?;
        }
        Ok(())
    }

    fn time(&mut self, time: &Time) -> Result<(), Failure> {
        let text = time.rfc3339().map_err(|problem| {
            let method = "json: error calling MarshalJSON for type time.Time: Time.MarshalJSON";
            Failure::Error(format!("{method}: {problem}"))
        })?;
        self.string(&text)
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = Vec::with_capacity(bytes.len() + 2);
        out.push(b'"');
        let mut rest = bytes;
        while let Some((c, width)) = strings::decode(rest) {
            match c {
                '<' | '>' | '&' if self.style == Style::Raw => strings::push_char(&mut out, c),
                strings::REPLACEMENT if width == 1 => out.extend_from_slice(b"\\ufffd"),
                _ => match escaped(c) {
                    Some(escape) => out.extend_from_slice(escape.as_bytes()),
                    None => out.extend_from_slice(&rest[..width]),
                },
            }
            rest = &rest[width..];
        }
        out.push(b'"');
        self.write(&out)
    }
}

/// JSON has no infinities and no NaN.
fn number_text(number: f64) -> Result<String, Failure> {
    if number.is_finite() {
        return Ok(float_text(number));
    }
    Err(Failure::Error(format!(
        "json: unsupported value: {}",
        format_general(number)
    )))
}
