//! Reads JSON texts into JSON trees.

use serde_json::{Map, Value};

use super::{invalid_character, number::number_from_text};
use crate::yaml::MAX_DEPTH;

/// Go's limit on nesting.
const MAX_NESTING: usize = 10_000;

/// A syntax error in a JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The error in Go's words.
    pub text: String,
    /// How many bytes were read, including the offending one.
    pub offset: usize,
}

/// What [`scan`] found.
#[derive(Clone, Debug, PartialEq)]
pub enum Scanned {
    /// A value, and its length in bytes with the blanks before it.
    Value(Value, usize),
    /// Nothing but blanks.
    End,
    /// The text ends within a value.
    Unfinished,
    /// A syntax error.
    Invalid(SyntaxError),
    /// A value that Go or this crate cannot represent.
    Failed(String),
}

/// Reads the first value of a text, as a `json.Decoder` does. Integers that fit are `int64`.
#[must_use]
pub fn scan(input: &[u8]) -> Scanned {
    let mut scanner = Scanner {
        input,
        at: 0,
        depth: 0,
        too_deep: false,
        out_of_range: None,
    };
    scanner.blanks();
    if scanner.at == input.len() {
        return Scanned::End;
    }
    let scanned = scanner.value();
    match scanned {
        Ok(_) if scanner.too_deep => Scanned::Failed("json: nested too deeply".to_owned()),
        Ok(value) => match scanner.out_of_range {
            Some(number) => Scanned::Failed(format!(
                "json: cannot unmarshal number {number} into Go value of type float64"
            )),
            None => Scanned::Value(value, scanner.at),
        },
        Err(Stop::Unfinished) => Scanned::Unfinished,
        Err(Stop::Invalid(error)) => Scanned::Invalid(error),
    }
}

enum Stop {
    Unfinished,
    Invalid(SyntaxError),
}

struct Scanner<'a> {
    input: &'a [u8],
    at: usize,
    depth: usize,
    too_deep: bool,
    /// The first number out of the range of a float.
    out_of_range: Option<String>,
}

/// A collection that is being filled.
enum Frame {
    Array(Vec<Value>),
    Object { entries: Map<String, Value>, key: String },
}

/// A collection after a value was added.
enum Added {
    Open(Frame),
    Closed(Value),
}

impl Scanner<'_> {
    fn peek(&self) -> Result<u8, Stop> {
        self.input.get(self.at).copied().ok_or(Stop::Unfinished)
    }

    fn blanks(&mut self) {
        while matches!(self.input.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn refuse<T>(&self, context: &str) -> Result<T, Stop> {
        let text = invalid_character(self.peek()?, context);
        Err(Stop::Invalid(SyntaxError {
            text,
            offset: self.at + 1,
        }))
    }

    /// A value with everything in it. The open collections are on an explicit stack, because the text decides how deeply
    /// they nest.
    fn value(&mut self) -> Result<Value, Stop> {
        let mut open: Vec<Frame> = Vec::new();
        loop {
            let Some(mut done) = self.begin(&mut open)? else {
                continue;
            };
            // Add the value to the collection around it, and close the collections that end here.
            loop {
                let Some(frame) = open.pop() else { return Ok(done) };
                match self.add(frame, done)? {
                    Added::Open(frame) => {
                        open.push(frame);
                        break;
                    }
                    Added::Closed(value) => done = value,
                }
            }
        }
    }

    /// The start of a value: all of a scalar or an empty collection; `None` if a collection was opened.
    fn begin(&mut self, open: &mut Vec<Frame>) -> Result<Option<Value>, Stop> {
        self.blanks();
        Ok(Some(match self.peek()? {
            b'{' => {
                self.open()?;
                self.blanks();
                if self.peek()? != b'}' {
                    let key = self.key()?;
                    open.push(Frame::Object {
                        entries: Map::new(),
                        key,
                    });
                    return Ok(None);
                }
                self.close();
                Value::Object(Map::new())
            }
            b'[' => {
                self.open()?;
                self.blanks();
                if self.peek()? != b']' {
                    open.push(Frame::Array(Vec::new()));
                    return Ok(None);
                }
                self.close();
                Value::Array(Vec::new())
            }
            b'"' => Value::String(self.string()?),
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.literal("true", Value::Bool(true))?,
            b'f' => self.literal("false", Value::Bool(false))?,
            b'n' => self.literal("null", Value::Null)?,
            _ => return self.refuse("looking for beginning of value"),
        }))
    }

    /// Adds a value to the innermost collection, which continues or ends after it.
    fn add(&mut self, frame: Frame, value: Value) -> Result<Added, Stop> {
        // Below the depth limit values are only checked for syntax errors.
        let value = if self.too_deep { Value::Null } else { value };
        self.blanks();
        let next = self.peek()?;
        match frame {
            Frame::Array(mut items) => {
                items.push(value);
                match next {
                    b',' => {
                        self.at += 1;
                        Ok(Added::Open(Frame::Array(items)))
                    }
                    b']' => {
                        self.close();
                        Ok(Added::Closed(Value::Array(items)))
                    }
                    _ => self.refuse("after array element"),
                }
            }
            Frame::Object { mut entries, key } => {
                entries.insert(key, value);
                match next {
                    b',' => {
                        self.at += 1;
                        let key = self.key()?;
                        Ok(Added::Open(Frame::Object { entries, key }))
                    }
                    b'}' => {
                        self.close();
                        Ok(Added::Closed(Value::Object(entries)))
                    }
                    _ => self.refuse("after object key:value pair"),
                }
            }
        }
    }

    fn open(&mut self) -> Result<(), Stop> {
        self.depth += 1;
        self.too_deep |= self.depth > MAX_DEPTH;
        if self.depth > MAX_NESTING {
            let error = SyntaxError {
                text: "exceeded max depth".to_owned(),
                offset: self.at + 1,
            };
            return Err(Stop::Invalid(error));
        }
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    /// A key and its colon.
    fn key(&mut self) -> Result<String, Stop> {
        self.blanks();
        if self.peek()? != b'"' {
            return self.refuse("looking for beginning of object key string");
        }
        let key = self.string()?;
        self.blanks();
        if self.peek()? != b':' {
            return self.refuse("after object key");
        }
        self.at += 1;
        Ok(key)
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, Stop> {
        for expected in word.bytes() {
            if self.peek()? != expected {
                return self.refuse(&format!("in literal {word} (expecting '{}')", char::from(expected)));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn digits(&mut self) {
        while matches!(self.input.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    /// A number: an integer if it has neither point nor exponent and fits, otherwise a float.
    fn number(&mut self) -> Result<Value, Stop> {
        let start = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return self.refuse("in numeric literal"),
        }
        if self.input.get(self.at) == Some(&b'.') {
            self.at += 1;
            if !self.peek()?.is_ascii_digit() {
                return self.refuse("after decimal point in numeric literal");
            }
            self.digits();
        }
        if let Some(b'e' | b'E') = self.input.get(self.at) {
            self.at += 1;
            if let b'+' | b'-' = self.peek()? {
                self.at += 1;
            }
            if !self.peek()?.is_ascii_digit() {
                return self.refuse("in exponent of numeric literal");
            }
            self.digits();
        }
        let text = str::from_utf8(&self.input[start..self.at]).unwrap_or_default();
        let number = number_from_text(text);
        if number.is_f64() && text.parse().is_ok_and(f64::is_infinite) {
            self.out_of_range.get_or_insert_with(|| text.to_owned());
        }
        Ok(Value::Number(number))
    }

    fn string(&mut self) -> Result<String, Stop> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    break;
                }
                b'\\' => {
                    self.at += 1;
                    let char = self.escape()?;
                    bytes.extend(char.to_string().bytes());
                }
                0x00..0x20 => return self.refuse("in string literal"),
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        let mut string = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            string.push_str(chunk.valid());
            string.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        Ok(string)
    }

    fn escape(&mut self) -> Result<char, Stop> {
        let char = match self.peek()? {
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            byte @ (b'\\' | b'/' | b'"') => char::from(byte),
            b'u' => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return self.refuse("in string escape code"),
        };
        self.at += 1;
        Ok(char)
    }

    fn unicode_escape(&mut self) -> Result<char, Stop> {
        let first = self.code_unit()?;
        if !(0xd800..0xdc00).contains(&first) || !self.input[self.at..].starts_with(b"\\u") {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        // Unpaired surrogates are replaced one by one.
        let start = self.at;
        self.at += 2;
        let second = self.code_unit()?;
        if (0xdc00..0xe000).contains(&second) {
            let code = 0x1_0000 + ((first & 0x3ff) << 10) + (second & 0x3ff);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.at = start;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn code_unit(&mut self) -> Result<u32, Stop> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.peek()?).to_digit(16) else {
                return self.refuse("in \\u hexadecimal character escape");
            };
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }
}
