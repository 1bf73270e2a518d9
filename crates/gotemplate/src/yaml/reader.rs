//! Bytes to characters.
//!
//! go-yaml reads its input in chunks of 512 bytes, and rejects an invalid chunk before it scans the characters in it. This
//! reader takes the same steps, so that of several errors the same one is reported.

use super::error::Problem;

const CHUNK: usize = 512;
const BYTE_ORDER_MARK: char = '\u{feff}';

#[derive(Clone, Copy, Debug)]
enum Encoding {
    Utf8,
    Utf16 { little_endian: bool },
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    input: &'a [u8],
    /// The chunk: bytes that were read but not decoded.
    start: usize,
    end: usize,
    finished: bool,
    encoding: Option<Encoding>,
    /// Decoded characters. Those before `position` were consumed.
    window: Vec<char>,
    position: usize,
    problem: Option<Problem>,
}

/// One decoding step.
enum Step {
    Char(char, usize),
    /// The chunk ends within a character.
    Incomplete(&'static str),
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self {
            input,
            start: 0,
            end: 0,
            finished: false,
            encoding: None,
            window: Vec::new(),
            position: 0,
            problem: None,
        }
    }

    /// The character `ahead` of the current one; NUL at the end of the input and after an error.
    pub(super) fn peek(&mut self, ahead: usize) -> char {
        if self.position + ahead >= self.window.len() {
            self.refill(ahead + 1);
        }
        self.window.get(self.position + ahead).copied().unwrap_or('\0')
    }

    pub(super) fn advance(&mut self) {
        self.position += 1;
    }

    /// The error that ended the input. Check it before using characters.
    pub(super) fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// go-yaml looks for a byte order mark at the start of its buffer instead of the current position. With a mark there it
    /// drops a character on every line until the buffer moves.
    pub(super) fn window_opens_with_mark(&self) -> bool {
        self.window.first() == Some(&BYTE_ORDER_MARK)
    }

    fn refill(&mut self, count: usize) {
        let encoding = self.encoding();
        self.window.drain(..self.position.min(self.window.len()));
        self.position = 0;
        let mut first = true;
        while self.window.len() < count && self.problem.is_none() && !self.window.ends_with(&['\0']) {
            if !first || self.start == self.end {
                self.fetch();
            }
            first = false;
            if let Err(text) = self.decode(encoding) {
                self.problem = Some(Problem::nowhere(text));
            } else if self.finished {
                self.window.push('\0');
            }
        }
    }

    fn fetch(&mut self) {
        if self.end == self.input.len() {
            self.finished = true;
        } else {
            self.end = (self.start + CHUNK).min(self.input.len());
        }
    }

    fn encoding(&mut self) -> Encoding {
        if let Some(encoding) = self.encoding {
            return encoding;
        }
        self.fetch();
        let (encoding, mark) = match self.input {
            [0xff, 0xfe, ..] => (Encoding::Utf16 { little_endian: true }, 2),
            [0xfe, 0xff, ..] => (Encoding::Utf16 { little_endian: false }, 2),
            [0xef, 0xbb, 0xbf, ..] => (Encoding::Utf8, 3),
            _ => (Encoding::Utf8, 0),
        };
        self.start = mark;
        self.encoding = Some(encoding);
        encoding
    }

    fn decode(&mut self, encoding: Encoding) -> Result<(), &'static str> {
        while self.start < self.end {
            let bytes = &self.input[self.start..self.end];
            let step = match encoding {
                Encoding::Utf8 => utf8(bytes)?,
                Encoding::Utf16 { little_endian } => utf16(bytes, little_endian)?,
            };
            match step {
                Step::Char(char, width) => {
                    if !allowed(char) {
                        return Err("control characters are not allowed");
                    }
                    self.window.push(char);
                    self.start += width;
                }
                Step::Incomplete(text) if self.finished => return Err(text),
                Step::Incomplete(_) => break,
            }
        }
        Ok(())
    }
}

fn utf8(bytes: &[u8]) -> Result<Step, &'static str> {
    let lead = bytes[0];
    let (width, lead_bits, least) = match lead {
        0x00..0x80 => return Ok(Step::Char(char::from(lead), 1)),
        0xc0..0xe0 => (2, 0x1f, 0x80),
        0xe0..0xf0 => (3, 0x0f, 0x800),
        0xf0..0xf8 => (4, 0x07, 0x1_0000),
        _ => return Err("invalid leading UTF-8 octet"),
    };
    let Some(rest) = bytes.get(1..width) else {
        return Ok(Step::Incomplete("incomplete UTF-8 octet sequence"));
    };
    let mut value = u32::from(lead & lead_bits);
    for octet in rest {
        if octet & 0xc0 != 0x80 {
            return Err("invalid trailing UTF-8 octet");
        }
        value = value << 6 | u32::from(octet & 0x3f);
    }
    if value < least {
        return Err("invalid length of a UTF-8 sequence");
    }
    char::from_u32(value)
        .map(|char| Step::Char(char, width))
        .ok_or("invalid Unicode character")
}

fn utf16(bytes: &[u8], little_endian: bool) -> Result<Step, &'static str> {
    let unit = |at: usize| {
        let pair = [*bytes.get(at)?, *bytes.get(at + 1)?];
        Some(u32::from(if little_endian {
            u16::from_le_bytes(pair)
        } else {
            u16::from_be_bytes(pair)
        }))
    };
    let Some(first) = unit(0) else {
        return Ok(Step::Incomplete("incomplete UTF-16 character"));
    };
    match first {
        0xdc00..0xe000 => Err("unexpected low surrogate area"),
        0xd800..0xdc00 => {
            let Some(second) = unit(2) else {
                return Ok(Step::Incomplete("incomplete UTF-16 surrogate pair"));
            };
            if !(0xdc00..0xe000).contains(&second) {
                return Err("expected low surrogate area");
            }
            let value = 0x1_0000 + ((first & 0x3ff) << 10) + (second & 0x3ff);
            Ok(Step::Char(
                char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER),
                4,
            ))
        }
        _ => Ok(Step::Char(
            char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER),
            2,
        )),
    }
}

fn allowed(char: char) -> bool {
    matches!(char,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}
