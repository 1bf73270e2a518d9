//! Characters to tokens.
//!
//! The grammar is that of libyaml, from which go-yaml was translated, with the changes of go-yaml: tabs are blanks, a plain
//! scalar in a flow collection may contain a colon, and nesting is limited.

use std::collections::{HashMap, VecDeque};

use super::{error::Problem, reader::Reader};

/// go-yaml's limit on nested flow collections, and on nested block collections.
const MAX_NESTING: usize = 10_000;

/// The longest key without `?`, in characters up to its colon.
const MAX_SIMPLE_KEY: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    StreamStart,
    StreamEnd,
    VersionDirective { major: u8, minor: u8 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar { value: String, plain: bool },
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// The line of its start, counted from 0.
    pub(super) line: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    index: usize,
    line: usize,
    column: usize,
}

/// A token that becomes a key if a colon follows.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    /// Whether only a key is allowed here.
    required: bool,
    token: usize,
    mark: Mark,
}

#[derive(Debug)]
pub(super) struct Scanner<'a> {
    reader: Reader<'a>,
    mark: Mark,
    tokens: VecDeque<Token>,
    /// How many tokens were returned: the number of the first token of the queue.
    taken: usize,
    started: bool,
    /// The column of the innermost block collection; -1 outside of all collections.
    indent: isize,
    indents: Vec<isize>,
    flow_level: usize,
    /// One per flow level, and one for the block level.
    simple_keys: Vec<SimpleKey>,
    /// The simple key that starts with each token. go-yaml removes entries in places where the key is still possible, so it may
    /// return a token before it knows that it is a key: `[]: x` is an error. This scanner does the same.
    keys_by_token: HashMap<usize, usize>,
    simple_key_allowed: bool,
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}

fn is_break(char: char) -> bool {
    matches!(char, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_break_or_end(char: char) -> bool {
    is_break(char) || char == '\0'
}

fn is_blank_or_end(char: char) -> bool {
    is_blank(char) || is_break_or_end(char)
}

/// Whether a character is allowed in anchors, aliases and tag handles.
fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
}

fn is_uri(char: char) -> bool {
    is_word(char)
        || matches!(
            char,
            ';' | '/' | '?' | ':' | '@' | '&' | '=' | '+' | '$' | ',' | '.' | '!' | '~' | '*'
        )
        || matches!(char, '\'' | '(' | ')' | '[' | ']' | '%')
}

impl<'a> Scanner<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(input),
            mark: Mark::default(),
            tokens: VecDeque::new(),
            taken: 0,
            started: false,
            indent: -1,
            indents: Vec::new(),
            flow_level: 0,
            simple_keys: vec![SimpleKey::default()],
            keys_by_token: HashMap::new(),
            simple_key_allowed: true,
        }
    }

    /// The next token, without consuming it.
    pub(super) fn peek(&mut self) -> Result<&Token, Problem> {
        while self.needs_more()? {
            let fetched = self.fetch();
            if let Some(problem) = self.reader.problem() {
                return Err(problem.clone());
            }
            fetched?;
        }
        Ok(&self.tokens[0])
    }

    pub(super) fn next(&mut self) -> Result<Token, Problem> {
        self.peek()?;
        self.taken += 1;
        self.tokens
            .pop_front()
            .ok_or_else(|| Problem::nowhere("unexpected end of stream"))
    }

    /// Whether the first token of the queue can still become a key.
    fn needs_more(&mut self) -> Result<bool, Problem> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        match self.keys_by_token.get(&self.taken) {
            Some(&key) => self.still_possible(key),
            None => Ok(false),
        }
    }

    // Characters.

    fn at(&mut self, ahead: usize) -> char {
        self.reader.peek(ahead)
    }

    /// Reads as far ahead as go-yaml does at this point, which decides when an invalid character is reported.
    fn look_ahead(&mut self, count: usize) {
        self.reader.peek(count - 1);
    }

    fn skip(&mut self) {
        self.reader.advance();
        self.mark.index += 1;
        self.mark.column += 1;
    }

    fn take(&mut self, into: &mut String) {
        into.push(self.at(0));
        self.skip();
    }

    /// Consumes a line break, if there is one, and returns its meaning.
    fn line_break(&mut self) -> Option<char> {
        let char = self.at(0);
        if !is_break(char) {
            return None;
        }
        self.look_ahead(2);
        if char == '\r' && self.at(1) == '\n' {
            self.skip();
        }
        self.skip();
        self.mark.column = 0;
        self.mark.line += 1;
        Some(if matches!(char, '\u{2028}' | '\u{2029}') {
            char
        } else {
            '\n'
        })
    }

    fn skip_while(&mut self, matches: impl Fn(char) -> bool) {
        while matches(self.at(0)) {
            self.skip();
        }
    }

    fn skip_comment(&mut self) {
        if self.at(0) == '#' {
            self.skip_while(|char| !is_break_or_end(char));
        }
    }

    fn problem(&self, text: &str) -> Problem {
        Problem::scanning(self.mark.line, text)
    }

    fn column(&self) -> isize {
        isize::try_from(self.mark.column).unwrap_or(isize::MAX)
    }

    /// `---` or `...` at the start of a line.
    fn at_document_indicator(&mut self) -> bool {
        self.mark.column == 0
            && matches!((self.at(0), self.at(1), self.at(2)), ('-', '-', '-') | ('.', '.', '.'))
            && is_blank_or_end(self.at(3))
    }

    // The queue.

    fn push(&mut self, kind: Kind, line: usize) {
        self.tokens.push_back(Token { kind, line });
    }

    /// Inserts a token before the one with the given number; at the end if that one was already returned.
    fn insert(&mut self, number: usize, kind: Kind, line: usize) {
        let at = number
            .checked_sub(self.taken)
            .unwrap_or(self.tokens.len())
            .min(self.tokens.len());
        self.tokens.insert(at, Token { kind, line });
    }

    /// A token of the next `length` characters.
    fn push_indicator(&mut self, kind: Kind, length: usize) {
        let line = self.mark.line;
        for _ in 0..length {
            self.skip();
        }
        self.push(kind, line);
    }

    // Simple keys.

    fn still_possible(&mut self, key: usize) -> Result<bool, Problem> {
        let Some(simple_key) = self.simple_keys.get_mut(key).filter(|simple_key| simple_key.possible) else {
            return Ok(false);
        };
        if simple_key.mark.line < self.mark.line || simple_key.mark.index + MAX_SIMPLE_KEY < self.mark.index {
            if simple_key.required {
                return Err(self.problem("could not find expected ':'"));
            }
            simple_key.possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_simple_key(&mut self) -> Result<(), Problem> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        self.remove_simple_key()?;
        let token = self.taken + self.tokens.len();
        let last = self.simple_keys.len() - 1;
        self.simple_keys[last] = SimpleKey {
            possible: true,
            required: self.flow_level == 0 && self.indent == self.column(),
            token,
            mark: self.mark,
        };
        self.keys_by_token.insert(token, last);
        Ok(())
    }

    fn remove_simple_key(&mut self) -> Result<(), Problem> {
        let last = self.simple_keys.len() - 1;
        let simple_key = self.simple_keys[last];
        if simple_key.possible {
            if simple_key.required {
                return Err(self.problem("could not find expected ':'"));
            }
            self.simple_keys[last].possible = false;
            self.keys_by_token.remove(&simple_key.token);
        }
        Ok(())
    }

    // Nesting.

    fn enter_flow(&mut self) -> Result<(), Problem> {
        let token = self.taken + self.tokens.len();
        self.simple_keys.push(SimpleKey {
            token,
            mark: self.mark,
            ..SimpleKey::default()
        });
        self.flow_level += 1;
        if self.flow_level > MAX_NESTING {
            return Err(self.problem(&format!("exceeded max depth of {MAX_NESTING}")));
        }
        Ok(())
    }

    fn leave_flow(&mut self) {
        if self.flow_level > 0 {
            self.flow_level -= 1;
            if let Some(simple_key) = self.simple_keys.pop() {
                self.keys_by_token.remove(&simple_key.token);
            }
        }
    }

    /// Opens a block collection before the token with the given number, if the column is further to the right.
    fn roll_indent(&mut self, mark: Mark, number: Option<usize>, kind: Kind) -> Result<(), Problem> {
        let column = isize::try_from(mark.column).unwrap_or(isize::MAX);
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_NESTING {
            return Err(self.problem(&format!("exceeded max depth of {MAX_NESTING}")));
        }
        match number {
            Some(number) => self.insert(number, kind, mark.line),
            None => self.push(kind, mark.line),
        }
        Ok(())
    }

    /// Closes the block collections that are further to the right.
    fn unroll_indent(&mut self, column: isize) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(Kind::BlockEnd, self.mark.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    // Tokens.

    fn fetch(&mut self) -> Result<(), Problem> {
        if !self.started {
            self.started = true;
            self.at(0);
            self.push(Kind::StreamStart, 0);
            return Ok(());
        }
        self.skip_to_token();
        self.unroll_indent(self.column());
        self.look_ahead(4);

        let char = self.at(0);
        let next = self.at(1);
        let in_flow = self.flow_level > 0;
        if char == '\0' {
            return self.fetch_stream_end();
        }
        if self.mark.column == 0 && char == '%' {
            return self.fetch_directive();
        }
        if self.at_document_indicator() {
            return self.fetch_document_indicator(if char == '-' {
                Kind::DocumentStart
            } else {
                Kind::DocumentEnd
            });
        }
        match char {
            '[' => self.fetch_flow_start(Kind::FlowSequenceStart),
            '{' => self.fetch_flow_start(Kind::FlowMappingStart),
            ']' => self.fetch_flow_end(Kind::FlowSequenceEnd),
            '}' => self.fetch_flow_end(Kind::FlowMappingEnd),
            ',' => self.fetch_flow_entry(),
            '-' if is_blank_or_end(next) => self.fetch_block_entry(),
            '?' if in_flow || is_blank_or_end(next) => self.fetch_key(),
            ':' if in_flow || is_blank_or_end(next) => self.fetch_value(),
            '*' => self.fetch_anchor(true),
            '&' => self.fetch_anchor(false),
            '!' => self.fetch_tag(),
            '|' if !in_flow => self.fetch_block_scalar(true),
            '>' if !in_flow => self.fetch_block_scalar(false),
            '\'' => self.fetch_quoted(true),
            '"' => self.fetch_quoted(false),
            ' ' | '\t' | '#' | '|' | '>' | '%' | '@' | '`' => {
                Err(self.problem("found character that cannot start any token"))
            }
            _ => self.fetch_plain(),
        }
    }

    fn skip_to_token(&mut self) {
        loop {
            self.at(0);
            if self.mark.column == 0 && self.reader.window_opens_with_mark() {
                self.skip();
            }
            let tabs = self.flow_level > 0 || !self.simple_key_allowed;
            self.skip_while(|char| char == ' ' || (tabs && char == '\t'));
            self.skip_comment();
            if self.line_break().is_none() {
                return;
            }
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    fn fetch_stream_end(&mut self) -> Result<(), Problem> {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(Kind::StreamEnd, self.mark.line);
        Ok(())
    }

    fn fetch_document_indicator(&mut self, kind: Kind) -> Result<(), Problem> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push_indicator(kind, 3);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: Kind) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.enter_flow()?;
        self.simple_key_allowed = true;
        self.push_indicator(kind, 1);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: Kind) -> Result<(), Problem> {
        self.remove_simple_key()?;
        self.leave_flow();
        self.simple_key_allowed = false;
        self.push_indicator(kind, 1);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Result<(), Problem> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_indicator(Kind::FlowEntry, 1);
        Ok(())
    }

    /// At the block level, opens a collection where a key is allowed.
    fn open_block(&mut self, kind: Kind, refusal: &str) -> Result<(), Problem> {
        if self.flow_level > 0 {
            return Ok(());
        }
        if !self.simple_key_allowed {
            return Err(self.problem(refusal));
        }
        self.roll_indent(self.mark, None, kind)
    }

    fn fetch_block_entry(&mut self) -> Result<(), Problem> {
        self.open_block(
            Kind::BlockSequenceStart,
            "block sequence entries are not allowed in this context",
        )?;
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_indicator(Kind::BlockEntry, 1);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Problem> {
        self.open_block(Kind::BlockMappingStart, "mapping keys are not allowed in this context")?;
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.push_indicator(Kind::Key, 1);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Problem> {
        let last = self.simple_keys.len() - 1;
        if self.still_possible(last)? {
            let simple_key = self.simple_keys[last];
            self.insert(simple_key.token, Kind::Key, simple_key.mark.line);
            self.roll_indent(simple_key.mark, Some(simple_key.token), Kind::BlockMappingStart)?;
            self.simple_keys[last].possible = false;
            self.keys_by_token.remove(&simple_key.token);
            self.simple_key_allowed = false;
        } else {
            self.open_block(
                Kind::BlockMappingStart,
                "mapping values are not allowed in this context",
            )?;
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.push_indicator(Kind::Value, 1);
        Ok(())
    }

    fn fetch_anchor(&mut self, alias: bool) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        self.skip();
        let mut name = String::new();
        while is_word(self.at(0)) {
            self.take(&mut name);
        }
        let ended = matches!(self.at(0), '?' | ':' | ',' | ']' | '}' | '%' | '@' | '`') || is_blank_or_end(self.at(0));
        if name.is_empty() || !ended {
            return Err(self.problem("did not find expected alphabetic or numeric character"));
        }
        self.push(if alias { Kind::Alias(name) } else { Kind::Anchor(name) }, line);
        Ok(())
    }

    // Directives and tags.

    fn fetch_directive(&mut self) -> Result<(), Problem> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        self.skip();
        let mut name = String::new();
        while is_word(self.at(0)) {
            self.take(&mut name);
        }
        if name.is_empty() {
            return Err(self.problem("could not find expected directive name"));
        }
        if !is_blank_or_end(self.at(0)) {
            return Err(self.problem("found unexpected non-alphabetical character"));
        }
        let kind = match name.as_str() {
            "YAML" => self.version_directive()?,
            "TAG" => self.tag_directive()?,
            _ => return Err(self.problem("found unknown directive name")),
        };
        self.rest_of_line()?;
        self.push(kind, line);
        Ok(())
    }

    /// Blanks, a comment and the line break.
    fn rest_of_line(&mut self) -> Result<(), Problem> {
        self.skip_while(is_blank);
        self.skip_comment();
        if !is_break_or_end(self.at(0)) {
            return Err(self.problem("did not find expected comment or line break"));
        }
        self.line_break();
        Ok(())
    }

    fn version_directive(&mut self) -> Result<Kind, Problem> {
        self.skip_while(is_blank);
        let major = self.version_number()?;
        if self.at(0) != '.' {
            return Err(self.problem("did not find expected digit or '.' character"));
        }
        self.skip();
        let minor = self.version_number()?;
        Ok(Kind::VersionDirective { major, minor })
    }

    fn version_number(&mut self) -> Result<u8, Problem> {
        let mut digits = String::new();
        while self.at(0).is_ascii_digit() {
            if digits.len() == 2 {
                return Err(self.problem("found extremely long version number"));
            }
            self.take(&mut digits);
        }
        digits
            .parse()
            .map_err(|_| self.problem("did not find expected version number"))
    }

    fn tag_directive(&mut self) -> Result<Kind, Problem> {
        self.skip_while(is_blank);
        let handle = self.tag_handle(true)?;
        if !is_blank(self.at(0)) {
            return Err(self.problem("did not find expected whitespace"));
        }
        self.skip_while(is_blank);
        let prefix = self.tag_uri("")?;
        if !is_blank_or_end(self.at(0)) {
            return Err(self.problem("did not find expected whitespace or line break"));
        }
        Ok(Kind::TagDirective { handle, prefix })
    }

    fn fetch_tag(&mut self) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        let mut handle = String::new();
        let mut suffix;
        if self.at(1) == '<' {
            self.skip();
            self.skip();
            suffix = self.tag_uri("")?;
            if self.at(0) != '>' {
                return Err(self.problem("did not find the expected '>'"));
            }
            self.skip();
        } else {
            let head = self.tag_handle(false)?;
            if head.len() > 1 && head.ends_with('!') {
                handle = head;
                suffix = self.tag_uri("")?;
            } else {
                handle = "!".to_owned();
                suffix = self.tag_uri(&head)?;
                if suffix.is_empty() {
                    // A lone `!` is a suffix without a handle.
                    std::mem::swap(&mut handle, &mut suffix);
                }
            }
        }
        if !is_blank_or_end(self.at(0)) {
            return Err(self.problem("did not find expected whitespace or line break"));
        }
        self.push(Kind::Tag { handle, suffix }, line);
        Ok(())
    }

    fn tag_handle(&mut self, directive: bool) -> Result<String, Problem> {
        if self.at(0) != '!' {
            return Err(self.problem("did not find expected '!'"));
        }
        let mut handle = String::new();
        self.take(&mut handle);
        while is_word(self.at(0)) {
            self.take(&mut handle);
        }
        if self.at(0) == '!' {
            self.take(&mut handle);
        } else if directive && handle != "!" {
            return Err(self.problem("did not find expected '!'"));
        }
        Ok(handle)
    }

    /// A URI that starts with the text that was read as a handle.
    fn tag_uri(&mut self, head: &str) -> Result<String, Problem> {
        let mut uri = head.get(1..).unwrap_or_default().as_bytes().to_vec();
        let mut found = !head.is_empty();
        while is_uri(self.at(0)) {
            if self.at(0) == '%' {
                self.uri_escape(&mut uri)?;
            } else {
                uri.extend(self.at(0).to_string().bytes());
                self.skip();
            }
            found = true;
        }
        if !found {
            return Err(self.problem("did not find expected tag URI"));
        }
        Ok(String::from_utf8_lossy(&uri).into_owned())
    }

    /// One character, written as one `%XX` per byte.
    fn uri_escape(&mut self, uri: &mut Vec<u8>) -> Result<(), Problem> {
        let mut missing = None;
        while missing != Some(0) {
            self.look_ahead(3);
            let digits = (self.at(1).to_digit(16), self.at(2).to_digit(16));
            let (true, (Some(high), Some(low))) = (self.at(0) == '%', digits) else {
                return Err(self.problem("did not find URI escaped octet"));
            };
            let octet = u8::try_from(high * 16 + low).unwrap_or_default();
            missing = Some(match (missing, octet) {
                (None, 0x00..0x80) => 0,
                (None, 0xc0..0xe0) => 1,
                (None, 0xe0..0xf0) => 2,
                (None, 0xf0..0xf8) => 3,
                (None, _) => return Err(self.problem("found an incorrect leading UTF-8 octet")),
                (Some(count), 0x80..0xc0) => count - 1,
                (Some(_), _) => return Err(self.problem("found an incorrect trailing UTF-8 octet")),
            });
            uri.push(octet);
            self.skip();
            self.skip();
            self.skip();
        }
        Ok(())
    }

    // Block scalars.

    fn fetch_block_scalar(&mut self, literal: bool) -> Result<(), Problem> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let line = self.mark.line;
        self.skip();
        let (chomping, increment) = self.block_header()?;
        self.rest_of_line()?;

        let mut indent = increment.map(|increment| usize::try_from(self.indent).unwrap_or(0) + increment);
        let mut value = String::new();
        let mut trailing = String::new();
        let mut leading = None;
        let mut leading_blank = false;
        self.block_breaks(&mut indent, &mut trailing)?;
        while Some(self.mark.column) == indent && self.at(0) != '\0' {
            let blank = is_blank(self.at(0));
            if !literal && !leading_blank && !blank && leading == Some('\n') {
                if trailing.is_empty() {
                    value.push(' ');
                }
            } else {
                value.extend(leading);
            }
            value.push_str(&trailing);
            trailing.clear();
            leading_blank = blank;
            while !is_break_or_end(self.at(0)) {
                self.take(&mut value);
            }
            leading = self.line_break();
            self.block_breaks(&mut indent, &mut trailing)?;
        }
        if chomping != Chomping::Strip {
            value.extend(leading);
        }
        if chomping == Chomping::Keep {
            value.push_str(&trailing);
        }
        self.push(Kind::Scalar { value, plain: false }, line);
        Ok(())
    }

    /// The indicators after `|` or `>`, in either order.
    fn block_header(&mut self) -> Result<(Chomping, Option<usize>), Problem> {
        let mut chomping = self.chomping();
        let mut increment = None;
        if let Some(digit) = self.at(0).to_digit(10) {
            if digit == 0 {
                return Err(self.problem("found an indentation indicator equal to 0"));
            }
            increment = usize::try_from(digit).ok();
            self.skip();
            if chomping.is_none() {
                chomping = self.chomping();
            }
        }
        Ok((chomping.unwrap_or(Chomping::Clip), increment))
    }

    fn chomping(&mut self) -> Option<Chomping> {
        let chomping = match self.at(0) {
            '+' => Chomping::Keep,
            '-' => Chomping::Strip,
            _ => return None,
        };
        self.skip();
        Some(chomping)
    }

    /// Skips indentation and empty lines. The first time, detects the indentation unless it was given.
    fn block_breaks(&mut self, indent: &mut Option<usize>, breaks: &mut String) -> Result<(), Problem> {
        let mut deepest = 0;
        loop {
            while indent.is_none_or(|indent| self.mark.column < indent) && self.at(0) == ' ' {
                self.skip();
            }
            deepest = deepest.max(self.mark.column);
            if indent.is_none_or(|indent| self.mark.column < indent) && self.at(0) == '\t' {
                return Err(self.problem("found a tab character where an indentation space is expected"));
            }
            match self.line_break() {
                Some(char) => breaks.push(char),
                None => break,
            }
        }
        if indent.is_none() {
            *indent = Some(deepest.max(usize::try_from(self.indent + 1).unwrap_or(0)).max(1));
        }
        Ok(())
    }

    // Quoted and plain scalars.

    fn fetch_quoted(&mut self, single: bool) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        let quote = if single { '\'' } else { '"' };
        self.skip();
        let mut value = String::new();
        loop {
            self.look_ahead(4);
            if self.at_document_indicator() {
                return Err(self.problem("found unexpected document indicator"));
            }
            if self.at(0) == '\0' {
                return Err(self.problem("found unexpected end of stream"));
            }
            let mut folding = Folding::default();
            while !is_blank_or_end(self.at(0)) {
                match self.at(0) {
                    '\'' if single && self.at(1) == '\'' => {
                        value.push('\'');
                        self.skip();
                        self.skip();
                    }
                    char if char == quote => break,
                    '\\' if !single && is_break(self.at(1)) => {
                        self.look_ahead(3);
                        self.skip();
                        self.line_break();
                        folding.broken = true;
                        break;
                    }
                    '\\' if !single => value.push(self.escape()?),
                    _ => self.take(&mut value),
                }
                self.look_ahead(2);
            }
            if self.at(0) == quote {
                break;
            }
            self.blanks(&mut folding, None)?;
            folding.apply(&mut value);
        }
        self.skip();
        self.push(Kind::Scalar { value, plain: false }, line);
        Ok(())
    }

    fn escape(&mut self) -> Result<char, Problem> {
        let char = match self.at(1) {
            '0' => '\0',
            'a' => '\x07',
            'b' => '\x08',
            't' | '\t' => '\t',
            'n' => '\n',
            'v' => '\x0b',
            'f' => '\x0c',
            'r' => '\r',
            'e' => '\x1b',
            char @ (' ' | '"' | '\'' | '\\') => char,
            'N' => '\u{85}',
            '_' => '\u{a0}',
            'L' => '\u{2028}',
            'P' => '\u{2029}',
            'x' => return self.numeric_escape(2),
            'u' => return self.numeric_escape(4),
            'U' => return self.numeric_escape(8),
            _ => return Err(self.problem("found unknown escape character")),
        };
        self.skip();
        self.skip();
        Ok(char)
    }

    fn numeric_escape(&mut self, length: usize) -> Result<char, Problem> {
        self.skip();
        self.skip();
        self.look_ahead(length);
        let mut code = 0_u64;
        for ahead in 0..length {
            let Some(digit) = self.at(ahead).to_digit(16) else {
                return Err(self.problem("did not find expected hexdecimal number"));
            };
            code = code << 4 | u64::from(digit);
        }
        let Some(char) = u32::try_from(code).ok().and_then(char::from_u32) else {
            return Err(self.problem("found invalid Unicode character escape code"));
        };
        for _ in 0..length {
            self.skip();
        }
        Ok(char)
    }

    fn fetch_plain(&mut self) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let line = self.mark.line;
        let indent = usize::try_from(self.indent + 1).unwrap_or(0);
        let mut value = String::new();
        let mut folding = Folding::default();
        loop {
            self.look_ahead(4);
            if self.at_document_indicator() || self.at(0) == '#' {
                break;
            }
            while !is_blank_or_end(self.at(0)) {
                let char = self.at(0);
                if char == ':' && is_blank_or_end(self.at(1)) {
                    break;
                }
                if self.flow_level > 0 && matches!(char, ',' | '?' | '[' | ']' | '{' | '}') {
                    break;
                }
                folding.apply(&mut value);
                self.take(&mut value);
                self.look_ahead(2);
            }
            if !is_blank(self.at(0)) && !is_break(self.at(0)) {
                break;
            }
            self.blanks(&mut folding, Some(indent))?;
            if self.flow_level == 0 && self.mark.column < indent {
                break;
            }
        }
        if folding.broken {
            self.simple_key_allowed = true;
        }
        self.push(Kind::Scalar { value, plain: true }, line);
        Ok(())
    }

    /// Blanks and line breaks in a scalar. A tab must not be part of the indentation of a plain scalar.
    fn blanks(&mut self, folding: &mut Folding, indent: Option<usize>) -> Result<(), Problem> {
        loop {
            let char = self.at(0);
            if is_blank(char) {
                if folding.broken {
                    if char == '\t' && indent.is_some_and(|indent| self.mark.column < indent) {
                        return Err(self.problem("found a tab character that violates indentation"));
                    }
                } else {
                    folding.blanks.push(char);
                }
                self.skip();
            } else if let Some(char) = self.line_break() {
                if folding.broken {
                    folding.trailing.push(char);
                } else {
                    folding.blanks.clear();
                    folding.leading = Some(char);
                    folding.broken = true;
                }
            } else {
                return Ok(());
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chomping {
    Clip,
    Strip,
    Keep,
}

/// Blanks and line breaks between two words of a scalar.
#[derive(Debug, Default)]
struct Folding {
    blanks: String,
    /// Whether there was a line break; the others are empty lines.
    broken: bool,
    leading: Option<char>,
    trailing: String,
}

impl Folding {
    /// Folds: one line break becomes a blank, of several the first is dropped. Blanks around them are dropped.
    fn apply(&mut self, value: &mut String) {
        if self.broken {
            if self.leading == Some('\n') {
                if self.trailing.is_empty() {
                    value.push(' ');
                }
            } else {
                value.extend(self.leading);
            }
            value.push_str(&self.trailing);
        } else {
            value.push_str(&self.blanks);
        }
        *self = Self::default();
    }
}
