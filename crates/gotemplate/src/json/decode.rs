//! `json.Unmarshal` into an `interface {}`.

use std::collections::BTreeMap;

use super::invalid_character;
use crate::{
    function::{Failure, MAX_ITEMS},
    strconv::parse_float,
    strings,
    value::{Elem, Map, Str, Value},
};

/// Go's limit on nesting.
const MAX_NESTING: usize = 10_000;

/// `json.Unmarshal` into an `interface {}`: every number is a `float64`.
///
/// Go stores what it could read when a number is out of range; the error then carries that value.
///
/// ```
/// let value = gotemplate::json::decode(br#"{"a": [1, 2.5]}"#).map_err(|(_, failure)| failure)?;
/// assert_eq!(gotemplate::fmt::sprintf(b"%v", &[value])?, b"map[a:[1 2.5]]");
/// # Ok::<(), gotemplate::Failure>(())
/// ```
pub fn decode(text: &[u8]) -> Result<Value, (Value, Failure)> {
    let mut decoder = Decoder {
        text,
        at: 0,
        stack: Vec::new(),
        items: 0,
        out_of_range: None,
    };
    match decoder.document() {
        Err(failure) => Err((Value::Nil, failure)),
        Ok(value) => match decoder.out_of_range {
            None => Ok(value),
            Some(problem) => Err((value, Failure::Error(problem))),
        },
    }
}

struct Decoder<'a> {
    text: &'a [u8],
    at: usize,
    /// The open lists and maps. An explicit stack, because the text may nest deeper than the stack of the thread allows.
    stack: Vec<Open>,
    items: usize,
    /// The error about the first number out of range.
    out_of_range: Option<String>,
}

enum Open {
    List(Vec<Value>),
    /// The entries, and the key of the next value.
    Map(BTreeMap<Str, Value>, Str),
}

impl Decoder<'_> {
    fn document(&mut self) -> Result<Value, Failure> {
        let mut value = self.begin()?;
        loop {
            // Either a value is complete, or a list or map was opened.
            let Some(complete) = value.take() else {
                value = self.begin()?;
                continue;
            };
            match self.close_or_go_on(complete)? {
                Next::Done(value) => {
                    self.skip_blanks();
                    return match self.peek() {
                        None => Ok(value),
                        Some(byte) => Err(unexpected(byte, "after top-level value")),
                    };
                }
                Next::Value => value = self.begin()?,
                Next::Complete(outer) => value = Some(outer),
            }
        }
    }

    /// The start of a value: all of a scalar or an empty collection; `None` if a list or map was opened.
    fn begin(&mut self) -> Result<Option<Value>, Failure> {
        self.items += 1;
        if self.items > MAX_ITEMS {
            return Err(Failure::size());
        }
        self.skip_blanks();
        let byte = self.peek().ok_or_else(end_of_input)?;
        match byte {
            b'[' => {
                self.open(byte, Open::List(Vec::new()))?;
                self.skip_blanks();
                if self.peek() == Some(b']') {
                    self.at += 1;
                    self.stack.pop();
                    return Ok(Some(Value::list(Vec::new())));
                }
                Ok(None)
            }
            b'{' => {
                self.open(byte, Open::Map(BTreeMap::new(), Str::from([])))?;
                self.skip_blanks();
                if self.peek() == Some(b'}') {
                    self.at += 1;
                    self.stack.pop();
                    return Ok(Some(Value::Map(Map::new(Elem::Any, BTreeMap::new()))));
                }
                self.key()?;
                Ok(None)
            }
            b'"' => self.string().map(|text| Some(Value::str(text))),
            b'-' | b'0'..=b'9' => self.number().map(Some),
            b't' => self.word("true", Value::Bool(true)).map(Some),
            b'f' => self.word("false", Value::Bool(false)).map(Some),
            b'n' => self.word("null", Value::Nil).map(Some),
            _ => Err(unexpected(byte, "looking for beginning of value")),
        }
    }

    fn open(&mut self, byte: u8, open: Open) -> Result<(), Failure> {
        if self.stack.len() >= MAX_NESTING {
            return Err(unexpected(byte, "exceeded max depth"));
        }
        self.at += 1;
        self.stack.push(open);
        Ok(())
    }

    /// Adds a complete value to the collection around it.
    fn close_or_go_on(&mut self, value: Value) -> Result<Next, Failure> {
        let Some(mut open) = self.stack.pop() else {
            return Ok(Next::Done(value));
        };
        self.skip_blanks();
        let byte = self.peek().ok_or_else(end_of_input)?;
        match &mut open {
            Open::List(items) => items.push(value),
            Open::Map(entries, key) => drop(entries.insert(std::mem::replace(key, Str::from([])), value)),
        }
        self.at += 1;
        match (open, byte) {
            (Open::List(items), b']') => Ok(Next::Complete(Value::appended(items))),
            (Open::Map(entries, _), b'}') => Ok(Next::Complete(Value::Map(Map::new(Elem::Any, entries)))),
            (open @ Open::List(_), b',') => {
                self.stack.push(open);
                Ok(Next::Value)
            }
            (open @ Open::Map(..), b',') => {
                self.stack.push(open);
                self.key()?;
                Ok(Next::Value)
            }
            (Open::List(_), _) => Err(unexpected(byte, "after array element")),
            (Open::Map(..), _) => Err(unexpected(byte, "after object key:value pair")),
        }
    }

    /// A key and its colon.
    fn key(&mut self) -> Result<(), Failure> {
        self.skip_blanks();
        match self.peek() {
            None => return Err(end_of_input()),
            Some(b'"') => {}
            Some(byte) => return Err(unexpected(byte, "looking for beginning of object key string")),
        }
        let name = self.string()?;
        self.skip_blanks();
        match self.peek() {
            None => return Err(end_of_input()),
            Some(b':') => self.at += 1,
            Some(byte) => return Err(unexpected(byte, "after object key")),
        }
        if let Some(Open::Map(_, key)) = self.stack.last_mut() {
            *key = name.into();
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The next byte of a word or number, where Go takes the end of the text for a blank.
    fn inside(&self) -> u8 {
        self.peek().unwrap_or(b' ')
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Failure> {
        for expected in word.bytes() {
            if self.inside() != expected {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(unexpected(self.inside(), &context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Failure> {
        let start = self.at;
        if self.inside() == b'-' {
            self.at += 1;
        }
        if self.inside() == b'0' {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.inside() == b'.' {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.inside(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.inside(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = &self.text[start..self.at];
        let number = String::from_utf8_lossy(text);
        Ok(parse_float(&number).map_or_else(
            |_| {
                let problem = format!("json: cannot unmarshal number {number} into Go value of type float64");
                self.out_of_range.get_or_insert(problem);
                Value::Nil
            },
            Value::Float,
        ))
    }

    /// At least one digit.
    fn digits(&mut self, context: &str) -> Result<(), Failure> {
        if !self.inside().is_ascii_digit() {
            return Err(unexpected(self.inside(), context));
        }
        while self.inside().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    /// A string. Bytes that are not UTF-8 and unpaired surrogates become U+FFFD.
    fn string(&mut self) -> Result<Vec<u8>, Failure> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let (c, width) = strings::decode(rest).ok_or_else(end_of_input)?;
            self.at += width;
            match c {
                '"' => return Ok(out),
                '\0'..' ' => return Err(unexpected(rest[0], "in string literal")),
                '\\' => {
                    let c = self.escape()?;
                    strings::push_char(&mut out, c);
                }
                _ => strings::push_char(&mut out, c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Failure> {
        let byte = self.inside();
        let c = match byte {
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'\\' | b'/' | b'"' => char::from(byte),
            b'u' => {
                self.at += 1;
                return self.code_unit();
            }
            _ => return Err(unexpected(byte, "in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn code_unit(&mut self) -> Result<char, Failure> {
        let first = self.hexadecimal()?;
        if (0xd800..0xdc00).contains(&first) && self.text.get(self.at..).is_some_and(|rest| rest.starts_with(b"\\u")) {
            let before = self.at;
            self.at += 2;
            let second = self.hexadecimal()?;
            if (0xdc00..0xe000).contains(&second) {
                let c = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(c).unwrap_or(strings::REPLACEMENT));
            }
            // Not a pair: the second escape is read again.
            self.at = before;
        }
        Ok(char::from_u32(first).unwrap_or(strings::REPLACEMENT))
    }

    fn hexadecimal(&mut self) -> Result<u32, Failure> {
        let mut number = 0;
        for _ in 0..4 {
            let byte = self.inside();
            let digit = char::from(byte).to_digit(16);
            let digit = digit.ok_or_else(|| unexpected(byte, "in \\u hexadecimal character escape"))?;
            number = number * 16 + digit;
            self.at += 1;
        }
        Ok(number)
    }
}

enum Next {
    /// The whole document is read.
    Done(Value),
    /// Another value follows.
    Value,
    /// A list or map is complete.
    Complete(Value),
}

fn end_of_input() -> Failure {
    Failure::Error("unexpected end of JSON input".to_owned())
}

fn unexpected(byte: u8, context: &str) -> Failure {
    Failure::Error(invalid_character(byte, context))
}
