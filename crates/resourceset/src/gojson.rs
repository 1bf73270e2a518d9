//! JSON texts as Go's `encoding/json` writes and scans them.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use crate::{float, yaml::MAX_DEPTH};

/// Go's own limit on nesting.
const MAX_NESTING: usize = 10_000;

/// `json.Marshal`: keys sorted by bytes, `<`, `>` and `&` escaped.
pub(crate) fn encode(value: &Value) -> String {
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

fn number_text(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) => float::json(float),
        None => number.to_string(),
    }
}

/// The number as it is after a trip through JSON: whole ones are integers, as far as 64 bits go.
pub(crate) fn normalized(number: &Number) -> Number {
    if number.is_f64() {
        number_from_text(&number_text(number))
    } else {
        number.clone()
    }
}

/// The number that a JSON text stands for. Beyond the range of a float, the nearest.
pub(crate) fn number_from_text(text: &str) -> Number {
    let integer = text
        .parse::<i64>()
        .map(Number::from)
        .or_else(|_| text.parse::<u64>().map(Number::from));
    integer.unwrap_or_else(|_| {
        let float = text.parse::<f64>().unwrap_or_default().clamp(f64::MIN, f64::MAX);
        Number::from_f64(float).unwrap_or_else(|| Number::from(0))
    })
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

/// How a character is written within a string, if not as it is.
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

/// Why a text is no JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) text: String,
    /// How many bytes were read, the offending one among them.
    pub(crate) offset: usize,
}

/// What a [`Scanner`] comes upon.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scanned {
    /// A value, and how many bytes it takes with the blanks before it.
    Value(Value, usize),
    /// Nothing but blanks.
    End,
    /// The text ends within a value.
    Unfinished,
    Invalid(SyntaxError),
    /// A value that we, or Go, cannot hold.
    Failed(String),
}

/// Reads the first value of a text, as a `json.Decoder` with `int64` for integers does.
pub(crate) fn scan(input: &[u8]) -> Scanned {
    let mut scanner = Scanner {
        input,
        at: 0,
        depth: 0,
        too_deep: false,
        beyond: None,
    };
    scanner.blanks();
    if scanner.at == input.len() {
        return Scanned::End;
    }
    let scanned = scanner.value();
    match scanned {
        Ok(_) if scanner.too_deep => Scanned::Failed("json: nested too deeply".to_owned()),
        Ok(value) => match scanner.beyond {
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
    /// The first number beyond the range of a float.
    beyond: Option<String>,
}

/// A collection that is being filled. Without recursion, since the nesting is up to the text.
enum Frame {
    Array(Vec<Value>),
    Object { entries: Map<String, Value>, key: String },
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
        let byte = self.peek()?;
        let char = match byte {
            b'\'' => "\\'".to_owned(),
            b'"' => "\"".to_owned(),
            b'\\' => "\\\\".to_owned(),
            0x07 => "\\a".to_owned(),
            0x08 => "\\b".to_owned(),
            0x0c => "\\f".to_owned(),
            b'\n' => "\\n".to_owned(),
            b'\r' => "\\r".to_owned(),
            b'\t' => "\\t".to_owned(),
            0x0b => "\\v".to_owned(),
            0x00..0x20 | 0x7f => format!("\\x{byte:02x}"),
            0x80..0xa0 | 0xad => format!("\\u{byte:04x}"),
            _ => char::from(byte).to_string(),
        };
        let text = format!("invalid character '{char}' {context}");
        Err(Stop::Invalid(SyntaxError {
            text,
            offset: self.at + 1,
        }))
    }

    fn value(&mut self) -> Result<Value, Stop> {
        let mut stack: Vec<Frame> = Vec::new();
        loop {
            self.blanks();
            let mut done = match self.peek()? {
                b'{' => {
                    self.open()?;
                    self.blanks();
                    if self.peek()? == b'}' {
                        self.close();
                        Value::Object(Map::new())
                    } else {
                        let key = self.key()?;
                        stack.push(Frame::Object {
                            entries: Map::new(),
                            key,
                        });
                        continue;
                    }
                }
                b'[' => {
                    self.open()?;
                    self.blanks();
                    if self.peek()? == b']' {
                        self.close();
                        Value::Array(Vec::new())
                    } else {
                        stack.push(Frame::Array(Vec::new()));
                        continue;
                    }
                }
                b'"' => Value::String(self.string()?),
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.literal("true", Value::Bool(true))?,
                b'f' => self.literal("false", Value::Bool(false))?,
                b'n' => self.literal("null", Value::Null)?,
                _ => return self.refuse("looking for beginning of value"),
            };
            // Hand the value to the collection around it; close those that end here.
            loop {
                let Some(frame) = stack.pop() else { return Ok(done) };
                self.blanks();
                let next = self.peek()?;
                match frame {
                    Frame::Array(mut items) => {
                        items.push(if self.too_deep { Value::Null } else { done });
                        match next {
                            b',' => {
                                self.at += 1;
                                stack.push(Frame::Array(items));
                                break;
                            }
                            b']' => {
                                self.close();
                                done = Value::Array(items);
                            }
                            _ => return self.refuse("after array element"),
                        }
                    }
                    Frame::Object { mut entries, key } => {
                        entries.insert(key, if self.too_deep { Value::Null } else { done });
                        match next {
                            b',' => {
                                self.at += 1;
                                let key = self.key()?;
                                stack.push(Frame::Object { entries, key });
                                break;
                            }
                            b'}' => {
                                self.close();
                                done = Value::Object(entries);
                            }
                            _ => return self.refuse("after object key:value pair"),
                        }
                    }
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

    /// An integer if it has neither point nor exponent and fits an `int64`, else a float.
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
            self.beyond.get_or_insert_with(|| text.to_owned());
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
        // Two that make no pair are replaced one by one.
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
