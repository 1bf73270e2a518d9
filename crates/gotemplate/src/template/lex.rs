//! Splits the text of a template into tokens.
//!
//! The parser sees neither trim markers nor comments. An error becomes a token of kind [`Kind::Error`] with the message as its
//! text, so that the parser reports errors in the order of the text.

use std::borrow::Cow;

use super::options::Delimiters;
use crate::{strconv::quote, unicode};

const OPEN_COMMENT: &str = "/*";
const CLOSE_COMMENT: &str = "*/";
/// The length of a trim marker with the blank between it and the action.
const TRIM_LEN: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Error,
    Bool,
    /// Any other printable ASCII character, such as a comma.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    End,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Keyword(Keyword),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    Block,
    Break,
    Continue,
    Define,
    Dot,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

#[derive(Clone, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    /// The byte offset of its start.
    pub(super) pos: usize,
    /// The line of its start, counted from 1.
    pub(super) line: usize,
    pub(super) text: Cow<'t, str>,
}

impl Token<'_> {
    /// The token as errors show it.
    pub(super) fn describe(&self) -> String {
        match self.kind {
            Kind::End => "EOF".to_owned(),
            Kind::Error => self.text.to_string(),
            Kind::Keyword(_) => format!("<{}>", self.text),
            _ if self.text.len() > 10 => {
                let head: String = self.text.chars().take(10).collect();
                format!("{}...", quote(head.as_bytes()))
            }
            _ => quote(self.text.as_bytes()),
        }
    }
}

#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    delimiters: &'t Delimiters,
    /// The start of the current token.
    start: usize,
    /// The line of the start.
    line: usize,
    /// The end of the current token so far.
    pos: usize,
    in_action: bool,
    parens: usize,
}

impl<'t> Lexer<'t> {
    pub(super) const fn new(text: &'t str, delimiters: &'t Delimiters) -> Self {
        Self {
            text,
            delimiters,
            start: 0,
            line: 1,
            pos: 0,
            in_action: false,
            parens: 0,
        }
    }

    pub(super) fn next(&mut self) -> Token<'t> {
        if self.in_action { self.action() } else { self.outside() }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.pos..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.pos += c.len_utf8();
        Some(c)
    }

    fn accept(&mut self, one_of: &str) -> bool {
        let found = self.peek().is_some_and(|c| one_of.contains(c));
        if found {
            self.pos += 1;
        }
        found
    }

    fn accept_run(&mut self, one_of: &str) {
        while self.accept(one_of) {}
    }

    /// Ends the current token.
    fn emit(&mut self, kind: Kind) -> Token<'t> {
        let text = self.text.get(self.start..self.pos).unwrap_or_default();
        let token = Token {
            kind,
            pos: self.start,
            line: self.line,
            text: Cow::Borrowed(text),
        };
        self.skip();
        token
    }

    /// Skips the text of the current token.
    fn skip(&mut self) {
        let dropped = self.text.get(self.start..self.pos).unwrap_or_default();
        self.line += dropped.bytes().filter(|&byte| byte == b'\n').count();
        self.start = self.pos;
    }

    fn error(&self, message: impl Into<String>) -> Token<'t> {
        Token {
            kind: Kind::Error,
            pos: self.start,
            line: self.line,
            text: Cow::Owned(message.into()),
        }
    }

    /// The next token outside of actions: text, or a left delimiter.
    fn outside(&mut self) -> Token<'t> {
        let left = self.delimiters.left.as_str();
        loop {
            let rest = self.rest();
            let Some(length) = rest.find(left) else {
                self.pos = self.text.len();
                return self.emit(if rest.is_empty() { Kind::End } else { Kind::Text });
            };
            let (before, delim) = rest.split_at(length);
            let trim = trims_left(&delim[left.len()..]);
            let kept = if trim {
                before.trim_end_matches(is_space)
            } else {
                before
            };
            self.pos += kept.len();
            let text = self.emit(Kind::Text);
            self.pos += before.len() - kept.len();
            self.skip();
            if !text.text.is_empty() {
                return text;
            }
            let after = left.len() + if trim { TRIM_LEN } else { 0 };
            if delim[after..].starts_with(OPEN_COMMENT) {
                self.pos += after;
                self.skip();
                if let Err(token) = self.comment() {
                    return token;
                }
            } else {
                self.pos += left.len();
                let token = self.emit(Kind::LeftDelim);
                self.pos += after - left.len();
                self.skip();
                self.in_action = true;
                self.parens = 0;
                return token;
            }
        }
    }

    fn comment(&mut self) -> Result<(), Token<'t>> {
        let inside = &self.rest()[OPEN_COMMENT.len()..];
        let Some(length) = inside.find(CLOSE_COMMENT) else {
            return Err(self.error("unclosed comment"));
        };
        self.pos += OPEN_COMMENT.len() + length + CLOSE_COMMENT.len();
        let Some(trim) = self.right_delim_at(self.pos) else {
            return Err(self.error("comment ends before closing delimiter"));
        };
        self.skip();
        self.right_delim(trim);
        Ok(())
    }

    fn right_delim(&mut self, trim: bool) -> Token<'t> {
        if trim {
            self.pos += TRIM_LEN;
            self.skip();
        }
        self.pos += self.delimiters.right.len();
        let token = self.emit(Kind::RightDelim);
        if trim {
            let rest = self.rest();
            self.pos += rest.len() - rest.trim_start_matches(is_space).len();
            self.skip();
        }
        self.in_action = false;
        token
    }

    /// Whether a right delimiter starts at a position, and if so whether it trims the text after it.
    fn right_delim_at(&self, pos: usize) -> Option<bool> {
        let text = self.text.get(pos..).unwrap_or_default();
        let right = self.delimiters.right.as_str();
        let trimming = text.strip_prefix(is_space).and_then(|rest| rest.strip_prefix('-'));
        if trimming.is_some_and(|rest| rest.starts_with(right)) {
            Some(true)
        } else {
            text.starts_with(right).then_some(false)
        }
    }

    fn action(&mut self) -> Token<'t> {
        if let Some(trim) = self.right_delim_at(self.pos) {
            if self.parens > 0 {
                return self.error("unclosed left paren");
            }
            return self.right_delim(trim);
        }
        let Some(c) = self.bump() else {
            return self.error("unclosed action");
        };
        match c {
            _ if is_space(c) => self.space(),
            '=' => self.emit(Kind::Assign),
            ':' if self.accept("=") => self.emit(Kind::Declare),
            ':' => self.error("expected :="),
            '|' => self.emit(Kind::Pipe),
            '"' => self.quoted('"', Kind::String, "unterminated quoted string"),
            '\'' => self.quoted('\'', Kind::CharConstant, "unterminated character constant"),
            '`' => self.raw_string(),
            '$' => self.field_or_variable(Kind::Variable),
            '.' if self.peek().is_some_and(|next| !next.is_ascii_digit()) => self.field_or_variable(Kind::Field),
            '.' | '+' | '-' | '0'..='9' => self.number(),
            _ if is_alphanumeric(c) => self.identifier(),
            '(' => {
                self.parens += 1;
                self.emit(Kind::LeftParen)
            }
            ')' => match self.parens.checked_sub(1) {
                Some(parens) => {
                    self.parens = parens;
                    self.emit(Kind::RightParen)
                }
                None => self.error("unexpected right paren"),
            },
            ' '..='~' => self.emit(Kind::Char),
            _ => self.error(format!("unrecognized character in action: {}", code_point(c))),
        }
    }

    /// A run of blanks. The last one may belong to a trimming delimiter.
    fn space(&mut self) -> Token<'t> {
        while self.peek().is_some_and(is_space) {
            self.pos += 1;
        }
        let last = self.pos - 1;
        if self.right_delim_at(last) == Some(true) {
            self.pos = last;
            if self.pos == self.start {
                return self.right_delim(true);
            }
        }
        self.emit(Kind::Space)
    }

    fn quoted(&mut self, end: char, kind: Kind, message: &str) -> Token<'t> {
        loop {
            let c = match self.bump() {
                Some('\\') => self.bump().filter(|&c| c != '\n').map(|_| '\\'),
                c => c,
            };
            match c {
                None | Some('\n') => return self.error(message),
                Some(c) if c == end => return self.emit(kind),
                Some(_) => {}
            }
        }
    }

    fn raw_string(&mut self) -> Token<'t> {
        match self.rest().find('`') {
            Some(length) => {
                self.pos += length + 1;
                self.emit(Kind::RawString)
            }
            None => self.error("unterminated raw quoted string"),
        }
    }

    fn word(&mut self) {
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
    }

    /// Whether a name may end here. `$x+2` is an error, for example.
    fn at_terminator(&self) -> bool {
        match self.peek() {
            None => true,
            Some(c) => is_space(c) || ".,|:()".contains(c) || self.rest().starts_with(&self.delimiters.right),
        }
    }

    fn bad_character(&self) -> Token<'t> {
        let bad = self.peek().map(code_point).unwrap_or_default();
        self.error(format!("bad character {bad}"))
    }

    fn identifier(&mut self) -> Token<'t> {
        self.word();
        if !self.at_terminator() {
            return self.bad_character();
        }
        let kind = match &self.text[self.start..self.pos] {
            "block" => Kind::Keyword(Keyword::Block),
            "break" => Kind::Keyword(Keyword::Break),
            "continue" => Kind::Keyword(Keyword::Continue),
            "define" => Kind::Keyword(Keyword::Define),
            "else" => Kind::Keyword(Keyword::Else),
            "end" => Kind::Keyword(Keyword::End),
            "if" => Kind::Keyword(Keyword::If),
            "nil" => Kind::Keyword(Keyword::Nil),
            "range" => Kind::Keyword(Keyword::Range),
            "template" => Kind::Keyword(Keyword::Template),
            "with" => Kind::Keyword(Keyword::With),
            "true" | "false" => Kind::Bool,
            _ => Kind::Identifier,
        };
        self.emit(kind)
    }

    /// The rest of a field or variable. `.` alone is dot, `$` alone the variable `$`.
    fn field_or_variable(&mut self, kind: Kind) -> Token<'t> {
        if self.at_terminator() {
            return self.emit(if kind == Kind::Variable {
                kind
            } else {
                Kind::Keyword(Keyword::Dot)
            });
        }
        self.word();
        if self.at_terminator() {
            self.emit(kind)
        } else {
            self.bad_character()
        }
    }

    /// Something like a number; the parser checks it. Two of them form a complex constant.
    fn number(&mut self) -> Token<'t> {
        self.pos = self.start;
        let mut good = self.scan_number();
        let mut kind = Kind::Number;
        if good && self.peek().is_some_and(|c| c == '+' || c == '-') {
            kind = Kind::Complex;
            good = self.scan_number() && self.text[..self.pos].ends_with('i');
        }
        if good {
            self.emit(kind)
        } else {
            let text = &self.text[self.start..self.pos];
            self.error(format!("bad number syntax: {}", quote(text.as_bytes())))
        }
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &str = "0123456789_";
        const HEX: &str = "0123456789abcdefABCDEF_";
        self.accept("+-");
        let mut digits = DECIMAL;
        let mut exponent = "eE";
        if self.accept("0") {
            if self.accept("xX") {
                (digits, exponent) = (HEX, "pP");
            } else if self.accept("oO") {
                (digits, exponent) = ("01234567_", "");
            } else if self.accept("bB") {
                (digits, exponent) = ("01_", "");
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if self.accept(exponent) {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        self.accept("i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.bump();
            return false;
        }
        true
    }
}

const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || unicode::is_letter(c) || unicode::is_digit(c)
}

/// Whether the text after a left delimiter starts with a trim marker.
fn trims_left(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next() == Some('-') && chars.next().is_some_and(is_space)
}

/// Go's `%#U`.
fn code_point(c: char) -> String {
    let number = u32::from(c);
    if unicode::is_print(c) {
        format!("U+{number:04X} '{c}'")
    } else {
        format!("U+{number:04X}")
    }
}
