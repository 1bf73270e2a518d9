//! JSON trees to YAML text, byte for byte as go-yaml writes it.

use serde_json::{Number, Value};

use super::{
    keys,
    scalar::{Scalar, Style, is_break, is_printable},
};
use crate::{json as gojson, strconv::format_general};

const INDENT: usize = 2;
/// Text is folded at the first blank beyond this column.
const WIDTH: usize = 80;
/// Keys with more bytes are written with `?`, on a separate line.
const MAX_SIMPLE_KEY: usize = 128;

/// Writes a document.
pub(super) fn emit(value: &Value) -> String {
    let mut emitter = Emitter::default();
    emitter.node(value, None, false);
    emitter.indent_to(0);
    emitter.text
}

struct Emitter {
    text: String,
    /// The column, in characters.
    column: usize,
    /// Whether nothing or a blank was written last.
    whitespace: bool,
    /// Whether the line has only blanks and dashes so far.
    indention: bool,
}

impl Default for Emitter {
    fn default() -> Self {
        Self {
            text: String::new(),
            column: 0,
            whitespace: true,
            indention: true,
        }
    }
}

/// How far the further lines of a scalar are indented.
fn deeper(indent: Option<usize>) -> usize {
    indent.map_or(INDENT, |indent| indent + INDENT)
}

impl Emitter {
    /// A value in a block that is indented by `indent`; `None` at the top level.
    fn node(&mut self, value: &Value, indent: Option<usize>, in_mapping: bool) {
        match value {
            Value::Array(items) if items.is_empty() => self.empty_collection('[', ']'),
            Value::Object(entries) if entries.is_empty() => self.empty_collection('{', '}'),
            Value::Array(items) => {
                // A list below a key has the column of the key.
                let inner = match indent {
                    None => 0,
                    Some(indent) if in_mapping && !self.indention => indent,
                    Some(indent) => indent + INDENT,
                };
                for item in items {
                    self.indent_to(inner);
                    self.indicator("-", true, true);
                    self.node(item, Some(inner), false);
                }
            }
            Value::Object(entries) => {
                let inner = indent.map_or(0, |indent| indent + INDENT);
                let mut entries: Vec<_> = entries.iter().map(|(key, value)| (key.as_str(), value)).collect();
                keys::sort(&mut entries);
                for (key, value) in entries {
                    self.entry(key, value, inner);
                }
            }
            Value::Null => self.scalar(&Scalar::word("null"), indent, false),
            Value::Bool(value) => self.scalar(&Scalar::word(if *value { "true" } else { "false" }), indent, false),
            Value::Number(number) => self.scalar(&Scalar::word(&number_text(number)), indent, false),
            Value::String(text) => self.scalar(&Scalar::text(text), indent, false),
        }
    }

    fn entry(&mut self, key: &str, value: &Value, indent: usize) {
        self.indent_to(indent);
        let scalar = Scalar::text(key);
        if key.len() <= MAX_SIMPLE_KEY && !scalar.is_multiline() {
            self.scalar(&scalar, Some(indent), true);
            self.indicator(":", false, false);
        } else {
            self.indicator("?", true, true);
            self.scalar(&scalar, Some(indent), false);
            self.indent_to(indent);
            self.indicator(":", true, true);
        }
        self.node(value, Some(indent), true);
    }

    fn empty_collection(&mut self, open: char, close: char) {
        self.blank();
        self.put(open);
        self.put(close);
        self.whitespace = false;
        self.indention = false;
    }

    fn scalar(&mut self, scalar: &Scalar<'_>, indent: Option<usize>, as_key: bool) {
        let indent = deeper(indent);
        match scalar.style(as_key) {
            Style::Plain => self.flow_text(scalar.value(), indent, !as_key, None),
            Style::SingleQuoted => self.flow_text(scalar.value(), indent, !as_key, Some('\'')),
            Style::DoubleQuoted => self.double_quoted(scalar.value(), indent, !as_key),
            Style::Literal => self.literal(scalar, indent),
        }
    }

    // Characters.

    fn put(&mut self, char: char) {
        self.text.push(char);
        self.column += 1;
    }

    fn line_break(&mut self) {
        self.text.push('\n');
        self.column = 0;
    }

    /// Writes a blank, unless the last character is one.
    fn blank(&mut self) {
        if !self.whitespace {
            self.put(' ');
        }
    }

    /// Starts a new line if this one is not empty, and moves to the column.
    fn indent_to(&mut self, indent: usize) {
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.line_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn indicator(&mut self, indicator: &str, needs_blank: bool, keeps_indention: bool) {
        if needs_blank {
            self.blank();
        }
        indicator.chars().for_each(|char| self.put(char));
        self.whitespace = false;
        self.indention &= keeps_indention;
    }

    // Scalars.

    /// Plain or single-quoted text. Neither has line breaks, except U+2028 and similar ones.
    fn flow_text(&mut self, value: &str, indent: usize, may_fold: bool, quote: Option<char>) {
        self.blank();
        if let Some(quote) = quote {
            self.put(quote);
            self.whitespace = false;
            self.indention = false;
        }
        let (mut after_space, mut after_break) = (false, false);
        let mut rest = value.char_indices().peekable();
        while let Some((at, char)) = rest.next() {
            if char == ' ' {
                let inside = quote.is_none() || (at > 0 && at + 1 < value.len());
                let single = !after_space && rest.peek().is_none_or(|(_, next)| *next != ' ');
                if may_fold && single && inside && self.column > WIDTH {
                    self.indent_to(indent);
                } else {
                    self.put(' ');
                }
                after_space = true;
            } else if is_break(char) {
                self.text.push(char);
                self.column = 0;
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.indent_to(indent);
                }
                if Some(char) == quote {
                    self.put(char);
                }
                self.put(char);
                self.indention = false;
                (after_space, after_break) = (false, false);
            }
        }
        if let Some(quote) = quote {
            self.put(quote);
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn double_quoted(&mut self, value: &str, indent: usize, may_fold: bool) {
        self.indicator("\"", true, false);
        // go-yaml checks for a byte order mark at the first character each time, so one there escapes all characters.
        let escape_all = value.starts_with('\u{feff}');
        let mut after_space = false;
        let mut rest = value.char_indices().peekable();
        while let Some((at, char)) = rest.next() {
            let plain = is_printable(char) && !is_break(char);
            if escape_all || !plain || matches!(char, '"' | '\\') {
                escape(char).chars().for_each(|char| self.put(char));
                after_space = false;
            } else if char == ' ' {
                if may_fold && !after_space && self.column > WIDTH && at > 0 && at + 1 < value.len() {
                    self.indent_to(indent);
                    if rest.peek().is_some_and(|(_, next)| *next == ' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(' ');
                }
                after_space = true;
            } else {
                self.put(char);
                after_space = false;
            }
        }
        self.indicator("\"", false, false);
    }

    fn literal(&mut self, scalar: &Scalar<'_>, indent: usize) {
        self.indicator("|", true, false);
        self.text.push_str(&scalar.literal_hints(INDENT));
        self.line_break();
        self.indention = true;
        self.whitespace = true;
        let mut after_break = true;
        for char in scalar.value().chars() {
            if is_break(char) {
                self.text.push(char);
                self.column = 0;
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.indent_to(indent);
                }
                self.put(char);
                self.indention = false;
                after_break = false;
            }
        }
    }
}

/// A number. A float is read from its JSON text, in which a whole number is an integer.
fn number_text(number: &Number) -> String {
    let number = gojson::normalized(number);
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) => format_general(float),
        None => number.to_string(),
    }
}

fn escape(char: char) -> String {
    let short = match char {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0b' => 'v',
        '\x0c' => 'f',
        '\r' => 'r',
        '\x1b' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            return match u32::from(char) {
                code @ 0..=0xff => format!("\\x{code:02X}"),
                code @ 0x100..=0xffff => format!("\\u{code:04X}"),
                code => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}
