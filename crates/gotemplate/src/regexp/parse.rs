//! Go's syntax of regular expressions, which is that of RE2, with its errors.

use regex_syntax::hir::{Capture, Class, ClassUnicode, Hir, Look, Repetition};

use super::class;
use crate::{
    function::Failure,
    strings::{self, REPLACEMENT},
    unicode,
};

/// Go's limits on repetition counts and on the size of the program.
const MAX_REPEAT: i64 = 1000;
const MAX_SIZE: u64 = (128 << 20) / 40;
const MAX_HEIGHT: usize = 1000;
/// Limits of this crate on nesting, because the engine recurses, and on length.
const MAX_NESTING: usize = 200;
const MAX_LENGTH: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) hir: Hir,
    /// The names of the groups, starting with the whole. Empty for groups without a name.
    pub(super) names: Vec<String>,
}

pub(super) fn parse(expression: &[u8]) -> Result<Parsed, Failure> {
    if expression.len() > MAX_LENGTH {
        return Err(Failure::Limit("regular expression too long".to_owned()));
    }
    let mut parser = Parser {
        whole: expression,
        rest: expression,
        flags: Flags {
            fold: false,
            dot_newline: false,
            one_line: true,
            lazy: false,
        },
        groups: vec![Group::default()],
        names: vec![String::new()],
        last_repeat: None,
    };
    while !parser.rest.is_empty() {
        parser.token()?;
    }
    let node = parser.finish()?;
    Ok(Parsed {
        hir: node.hir,
        names: parser.names,
    })
}

#[derive(Clone, Copy)]
struct Flags {
    /// `i`
    fold: bool,
    /// `s`
    dot_newline: bool,
    /// not `m`
    one_line: bool,
    /// `U`
    lazy: bool,
}

/// An open group, or the whole expression.
#[derive(Default)]
struct Group {
    /// The alternatives before the current one.
    branches: Vec<Node>,
    items: Vec<Node>,
    /// The flags to restore after the group.
    outer: Option<Flags>,
    capture: Option<usize>,
}

/// A part of the expression, with the sizes that the limits depend on.
struct Node {
    hir: Hir,
    height: usize,
    /// The size of Go's program for it.
    size: u64,
    /// The nested repetition counts in it, outermost first, for every path.
    counts: Vec<Count>,
}

struct Count {
    count: i64,
    inner: Vec<Count>,
}

impl Node {
    const fn leaf(hir: Hir) -> Self {
        Self {
            hir,
            height: 1,
            size: 1,
            counts: Vec::new(),
        }
    }

    fn join(nodes: Vec<Self>, join: impl Fn(Vec<Hir>) -> Hir, extra: u64) -> Self {
        let height = 1 + nodes.iter().map(|node| node.height).max().unwrap_or_default();
        let size = nodes.iter().fold(extra, |sum, node| sum.saturating_add(node.size));
        let mut counts = Vec::new();
        let mut parts = Vec::with_capacity(nodes.len());
        for node in nodes {
            counts.extend(node.counts);
            parts.push(node.hir);
        }
        Self {
            hir: join(parts),
            height,
            size,
            counts,
        }
    }
}

/// Whether nested repetitions stay within a number of copies.
fn counts_fit(counts: &[Count], limit: i64) -> bool {
    counts
        .iter()
        .all(|count| count.count == 0 || count.count <= limit && counts_fit(&count.inner, limit / count.count))
}

struct Parser<'a> {
    whole: &'a [u8],
    rest: &'a [u8],
    flags: Flags,
    /// The open groups, starting with the whole expression.
    groups: Vec<Group>,
    names: Vec<String>,
    /// The rest of the text from the previous repetition on, if it was just read.
    last_repeat: Option<&'a [u8]>,
}

fn error(problem: &str, place: &[u8]) -> Failure {
    Failure::Error(format!(
        "error parsing regexp: {problem}: `{}`",
        String::from_utf8_lossy(place)
    ))
}

/// The text between two positions.
fn between<'a>(before: &'a [u8], after: &[u8]) -> &'a [u8] {
    &before[..before.len() - after.len()]
}

/// The next character. U+FFFD at the end, as in Go.
fn next(text: &[u8]) -> Result<(char, &[u8]), Failure> {
    match strings::decode(text) {
        Some((REPLACEMENT, 1)) => Err(error("invalid UTF-8", text)),
        Some((c, width)) => Ok((c, &text[width..])),
        None => Ok((REPLACEMENT, text)),
    }
}

fn check_utf8(mut text: &[u8]) -> Result<(), Failure> {
    while !text.is_empty() {
        text = next(text)?.1;
    }
    Ok(())
}

impl<'a> Parser<'a> {
    fn token(&mut self) -> Result<(), Failure> {
        let start = self.rest;
        let last_repeat = self.last_repeat.take();
        match start[0] {
            b'(' if start.get(1) == Some(&b'?') => self.perl_group()?,
            b'(' => {
                self.rest = &start[1..];
                self.open(Some(""))?;
            }
            b')' => self.close()?,
            b'|' => {
                self.rest = &start[1..];
                self.end_branch();
            }
            b'^' => self.look(
                if self.flags.one_line {
                    Look::Start
                } else {
                    Look::StartLF
                },
                1,
            ),
            b'$' => self.look(if self.flags.one_line { Look::End } else { Look::EndLF }, 1),
            b'.' => {
                self.rest = &start[1..];
                let ranges: &[_] = if self.flags.dot_newline {
                    &[('\0', char::MAX)]
                } else {
                    &[('\0', '\t'), ('\x0b', char::MAX)]
                };
                self.push(Node::leaf(Hir::class(Class::Unicode(class::of_ranges(ranges)))));
            }
            b'[' => self.bracket()?,
            b'*' => self.repeat(0, None, &start[1..], last_repeat)?,
            b'+' => self.repeat(1, None, &start[1..], last_repeat)?,
            b'?' => self.repeat(0, Some(1), &start[1..], last_repeat)?,
            b'{' => self.counted(last_repeat)?,
            b'\\' => self.backslash()?,
            _ => {
                let (c, rest) = next(start)?;
                self.rest = rest;
                self.literal(c);
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Node, Failure> {
        let node = self.end_group();
        if !self.groups.is_empty() {
            return Err(error("missing closing )", self.whole));
        }
        self.check(&node)?;
        Ok(node)
    }

    fn check(&self, node: &Node) -> Result<(), Failure> {
        if node.size > MAX_SIZE {
            return Err(error("expression too large", self.whole));
        }
        if node.height > MAX_HEIGHT {
            return Err(error("expression nests too deeply", self.whole));
        }
        if node.height > MAX_NESTING {
            return Err(too_deep());
        }
        Ok(())
    }

    fn group(&mut self) -> &mut Group {
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }

    fn push(&mut self, node: Node) {
        self.group().items.push(node);
    }

    fn look(&mut self, look: Look, width: usize) {
        self.rest = &self.rest[width..];
        self.push(Node::leaf(Hir::look(look)));
    }

    fn literal(&mut self, c: char) {
        let hir = if self.flags.fold {
            Hir::class(Class::Unicode(self.folded(class::of_ranges(&[(c, c)]))))
        } else {
            Hir::literal(c.encode_utf8(&mut [0; 4]).as_bytes())
        };
        self.push(Node::leaf(hir));
    }

    /// The class, with the other cases of its characters if the flags ask for it.
    fn folded(&self, mut class: ClassUnicode) -> ClassUnicode {
        if self.flags.fold {
            let assigned = unicode::assigned();
            let mut known = class.clone();
            known.intersect(&assigned);
            known.case_fold_simple();
            known.intersect(&assigned);
            class.union(&known);
        }
        class
    }

    /// Opens a group. A capturing group has a name, which may be empty.
    fn open(&mut self, name: Option<&str>) -> Result<(), Failure> {
        if self.groups.len() > MAX_HEIGHT {
            return Err(too_deep());
        }
        let capture = name.map(|name| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.groups.push(Group {
            outer: Some(self.flags),
            capture,
            ..Group::default()
        });
        Ok(())
    }

    fn end_branch(&mut self) {
        let group = self.group();
        let items = std::mem::take(&mut group.items);
        let branch = match <[Node; 1]>::try_from(items) {
            Ok([node]) => node,
            Err(items) if items.is_empty() => Node::leaf(Hir::empty()),
            Err(items) => Node::join(items, Hir::concat, 0),
        };
        group.branches.push(branch);
    }

    /// Closes the innermost group and returns it as one node.
    fn end_group(&mut self) -> Node {
        self.end_branch();
        let branches = self.groups.pop().map(|group| group.branches).unwrap_or_default();
        let extra = branches.len().saturating_sub(1) as u64;
        match <[Node; 1]>::try_from(branches) {
            Ok([node]) => node,
            Err(branches) => Node::join(branches, Hir::alternation, extra),
        }
    }

    fn close(&mut self) -> Result<(), Failure> {
        let (Some(flags), capture) = (self.group().outer, self.group().capture) else {
            return Err(error("unexpected )", self.whole));
        };
        let mut node = self.end_group();
        self.rest = &self.rest[1..];
        self.flags = flags;
        if let Some(index) = capture {
            // The engine gets no names, because in Go two groups can have the same one.
            let index = u32::try_from(index).map_err(|_| too_deep())?;
            node.hir = Hir::capture(Capture {
                index,
                name: None,
                sub: Box::new(node.hir),
            });
            node.height += 1;
            node.size = node.size.saturating_add(2);
        }
        self.check(&node)?;
        self.push(node);
        Ok(())
    }

    /// `(?…`: a named group, or flags with or without a group.
    fn perl_group(&mut self) -> Result<(), Failure> {
        let start = self.rest;
        let named = match start {
            [_, _, b'P', b'<', _, ..] => Some(4),
            [_, _, b'<', _, ..] => Some(3),
            _ => None,
        };
        if let Some(from) = named {
            return self.named_group(from);
        }
        let mut rest = &start[2..];
        let mut flags = self.flags;
        let mut on = true;
        let mut seen = false;
        while !rest.is_empty() {
            let (c, after) = next(rest)?;
            rest = after;
            match c {
                'i' => flags.fold = on,
                'm' => flags.one_line = !on,
                's' => flags.dot_newline = on,
                'U' => flags.lazy = on,
                '-' if on => {
                    on = false;
                    seen = false;
                    continue;
                }
                ':' | ')' if on || seen => {
                    self.rest = rest;
                    if c == ':' {
                        self.open(None)?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            seen = true;
        }
        Err(error("invalid or unsupported Perl syntax", between(start, rest)))
    }

    fn named_group(&mut self, from: usize) -> Result<(), Failure> {
        let start = self.rest;
        let Some(end) = start.iter().position(|&byte| byte == b'>') else {
            check_utf8(start)?;
            return Err(error("invalid named capture", start));
        };
        let name = start.get(from..end).unwrap_or_default();
        check_utf8(name)?;
        let name = str::from_utf8(name).unwrap_or_default();
        if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
            return Err(error("invalid named capture", &start[..=end]));
        }
        self.rest = &start[end + 1..];
        self.open(Some(name))
    }

    /// A repetition of the previous node.
    fn repeat(
        &mut self,
        min: u32,
        max: Option<u32>,
        after: &'a [u8],
        last_repeat: Option<&'a [u8]>,
    ) -> Result<(), Failure> {
        let start = self.rest;
        let mut greedy = !self.flags.lazy;
        let after = match after.strip_prefix(b"?") {
            Some(after) => {
                greedy = !greedy;
                after
            }
            None => after,
        };
        if let Some(last) = last_repeat {
            return Err(error("invalid nested repetition operator", between(last, after)));
        }
        let Some(node) = self.group().items.pop() else {
            return Err(error("missing argument to repetition operator", between(start, after)));
        };
        self.rest = after;
        self.last_repeat = Some(start);
        let counted = start[0] == b'{';
        let size = match max {
            None if min == 0 => node.size.saturating_add(2),
            None => u64::from(min).saturating_mul(node.size).saturating_add(1),
            Some(max) => u64::from(max)
                .saturating_mul(node.size)
                .saturating_add(u64::from(max - min))
                .max(1),
        };
        let counts = if counted {
            vec![Count {
                count: i64::from(max.unwrap_or(min)),
                inner: node.counts,
            }]
        } else {
            node.counts
        };
        let sub = Box::new(node.hir);
        let hir = Hir::repetition(Repetition { min, max, greedy, sub });
        let node = Node {
            hir,
            height: node.height + 1,
            size,
            counts,
        };
        self.check(&node)?;
        if counted && (min >= 2 || max.is_some_and(|max| max >= 2)) && !counts_fit(&node.counts, MAX_REPEAT) {
            return Err(error("invalid repeat count", between(start, after)));
        }
        self.push(node);
        Ok(())
    }

    /// `{2,5}`, or a literal brace.
    fn counted(&mut self, last_repeat: Option<&'a [u8]>) -> Result<(), Failure> {
        let start = self.rest;
        let Some((min, max, after)) = counts(start) else {
            self.rest = &start[1..];
            self.literal('{');
            return Ok(());
        };
        let bounds = || {
            let min = u32::try_from(min?).ok().filter(|_| min <= Some(MAX_REPEAT))?;
            let max = match max {
                Some(max) => Some(
                    u32::try_from(max?)
                        .ok()
                        .filter(|&max| i64::from(max) <= MAX_REPEAT && min <= max)?,
                ),
                None => None,
            };
            Some((min, max))
        };
        let Some((min, max)) = bounds() else {
            return Err(error("invalid repeat count", between(start, after)));
        };
        self.repeat(min, max, after, last_repeat)
    }

    fn backslash(&mut self) -> Result<(), Failure> {
        let start = self.rest;
        match start.get(1) {
            Some(b'A') => self.look(Look::Start, 2),
            Some(b'b') => self.look(Look::WordAscii, 2),
            Some(b'B') => self.look(Look::WordAsciiNegate, 2),
            Some(b'z') => self.look(Look::End, 2),
            Some(b'C') => return Err(error("invalid escape sequence", &start[..2])),
            Some(b'Q') => self.quoted()?,
            _ => {
                if let Some((class, rest)) = self.class_escape(start)? {
                    self.rest = rest;
                    self.push(Node::leaf(Hir::class(Class::Unicode(class))));
                } else {
                    let (c, rest) = escape(start)?;
                    self.rest = rest;
                    self.literal_code(c);
                }
            }
        }
        Ok(())
    }

    /// A character by its code point. A surrogate matches nothing.
    fn literal_code(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(c) => self.literal(c),
            None => self.push(Node::leaf(Hir::fail())),
        }
    }

    /// `\Q…\E`: literals.
    fn quoted(&mut self) -> Result<(), Failure> {
        let body = &self.rest[2..];
        let end = strings::find(body, br"\E");
        let mut literal = &body[..end.unwrap_or(body.len())];
        self.rest = end.map_or(b"", |end| &body[end + 2..]);
        while !literal.is_empty() {
            let (c, rest) = next(literal)?;
            self.literal(c);
            literal = rest;
        }
        Ok(())
    }

    /// `\p{…}`, `\d` and similar classes, if the text starts with one.
    fn class_escape<'t>(&self, start: &'t [u8]) -> Result<Option<(ClassUnicode, &'t [u8])>, Failure> {
        let [b'\\', letter, body @ ..] = start else {
            return Ok(None);
        };
        if let Some((class, positive)) = class::by_letter(*letter) {
            return Ok(Some((self.signed(class, positive), body)));
        }
        if !matches!(letter, b'p' | b'P') {
            return Ok(None);
        }
        let mut positive = *letter == b'p';
        let (c, after) = next(body)?;
        let (name, rest) = if c == '{' {
            let Some(end) = start.iter().position(|&byte| byte == b'}') else {
                check_utf8(start)?;
                return Err(error("invalid character class range", start));
            };
            check_utf8(&start[3..end])?;
            (&start[3..end], &start[end + 1..])
        } else {
            (between(body, after), after)
        };
        let bare = name.strip_prefix(b"^").unwrap_or(name);
        positive ^= bare.len() != name.len();
        let class = str::from_utf8(bare).ok().and_then(class::by_property);
        let class = class.ok_or_else(|| error("invalid character class range", between(start, rest)))?;
        Ok(Some((self.signed(class, positive), rest)))
    }

    /// The class under the current flags, or its complement.
    fn signed(&self, class: ClassUnicode, positive: bool) -> ClassUnicode {
        let mut class = self.folded(class);
        if !positive {
            class.negate();
        }
        class
    }

    /// `[…]`.
    fn bracket(&mut self) -> Result<(), Failure> {
        let start = self.rest;
        let mut rest = &start[1..];
        let negated = rest.starts_with(b"^");
        rest = &rest[usize::from(negated)..];
        let mut class = ClassUnicode::empty();
        let mut first = true;
        while first || !rest.starts_with(b"]") {
            first = false;
            if let Some((named, after)) = self.named_class(rest)? {
                class.union(&named);
                rest = after;
                continue;
            }
            if let Some((named, after)) = self.class_escape(rest)? {
                class.union(&named);
                rest = after;
                continue;
            }
            let range = rest;
            let (low, after) = class_char(rest, start)?;
            rest = after;
            let mut high = low;
            if let [b'-', end, ..] = rest
                && *end != b']'
            {
                (high, rest) = class_char(&rest[1..], start)?;
                if high < low {
                    return Err(error("invalid character class range", between(range, rest)));
                }
            }
            class.union(&self.folded(code_range(low, high)));
        }
        self.rest = &rest[1..];
        if negated {
            class.negate();
        }
        self.push(Node::leaf(Hir::class(Class::Unicode(class))));
        Ok(())
    }

    /// `[:alpha:]` within brackets.
    fn named_class<'t>(&self, text: &'t [u8]) -> Result<Option<(ClassUnicode, &'t [u8])>, Failure> {
        let Some(body) = text.strip_prefix(b"[:") else {
            return Ok(None);
        };
        let Some(end) = strings::find(body, b":]") else {
            return Ok(None);
        };
        let rest = &body[end + 2..];
        match class::by_posix_name(&body[..end]) {
            Some((class, positive)) => Ok(Some((self.signed(class, positive), rest))),
            None => Err(error("invalid character class range", between(text, rest))),
        }
    }
}

fn too_deep() -> Failure {
    Failure::Limit("regular expression nested too deeply".to_owned())
}

/// The characters between two code points, without surrogates.
fn code_range(low: u32, high: u32) -> ClassUnicode {
    let start = (low..=high).find_map(char::from_u32);
    let end = (low..=high).rev().find_map(char::from_u32);
    match (start, end) {
        (Some(start), Some(end)) => class::of_ranges(&[(start, end)]),
        _ => ClassUnicode::empty(),
    }
}

fn class_char<'t>(text: &'t [u8], whole: &[u8]) -> Result<(u32, &'t [u8]), Failure> {
    match text.first() {
        None => Err(error("missing closing ]", whole)),
        Some(b'\\') => escape(text),
        Some(_) => next(text).map(|(c, rest)| (c as u32, rest)),
    }
}

/// The code point of an escape sequence.
fn escape(start: &[u8]) -> Result<(u32, &[u8]), Failure> {
    let body = &start[1..];
    if body.is_empty() {
        return Err(error("trailing backslash at end of expression", b""));
    }
    let (c, mut rest) = next(body)?;
    let invalid = |rest: &[u8]| error("invalid escape sequence", between(start, rest));
    let octal = |rest: &[u8]| rest.first().is_some_and(|byte| (b'0'..=b'7').contains(byte));
    match c {
        // A single digit would be a back reference, which RE2 does not have.
        '1'..='7' if !octal(rest) => Err(invalid(rest)),
        '0'..='7' => {
            let mut code = c as u32 - '0' as u32;
            for _ in 1..3 {
                if !octal(rest) {
                    break;
                }
                code = code * 8 + u32::from(rest[0] - b'0');
                rest = &rest[1..];
            }
            Ok((code, rest))
        }
        'x' if rest.is_empty() => Err(invalid(rest)),
        'x' => hexadecimal(start, rest),
        'a' => Ok((7, rest)),
        'f' => Ok((12, rest)),
        'n' => Ok((10, rest)),
        'r' => Ok((13, rest)),
        't' => Ok((9, rest)),
        'v' => Ok((11, rest)),
        _ if c.is_ascii() && !c.is_ascii_alphanumeric() => Ok((c as u32, rest)),
        _ => Err(invalid(rest)),
    }
}

/// The digits after `\x`: two, or any number of them in braces.
fn hexadecimal<'t>(start: &[u8], rest: &'t [u8]) -> Result<(u32, &'t [u8]), Failure> {
    let invalid = |rest: &[u8]| error("invalid escape sequence", between(start, rest));
    let (first, mut rest) = next(rest)?;
    if first != '{' {
        let (second, rest) = next(rest)?;
        return match (first.to_digit(16), second.to_digit(16)) {
            (Some(high), Some(low)) => Ok((high * 16 + low, rest)),
            _ => Err(invalid(rest)),
        };
    }
    let mut code: Option<u32> = None;
    while !rest.is_empty() {
        let (c, after) = next(rest)?;
        rest = after;
        if c == '}' {
            return code.map(|code| (code, rest)).ok_or_else(|| invalid(rest));
        }
        let digit = c.to_digit(16).ok_or_else(|| invalid(rest))?;
        let next = code.unwrap_or_default() * 16 + digit;
        if next > char::MAX as u32 {
            return Err(invalid(rest));
        }
        code = Some(next);
    }
    Err(invalid(rest))
}

/// A repetition count; `None` if it is far too large.
type Number = Option<i64>;

/// The counts in braces and the text after them. The upper one may be missing.
fn counts(text: &[u8]) -> Option<(Number, Option<Number>, &[u8])> {
    let (min, rest) = count(text.strip_prefix(b"{")?)?;
    let (max, rest) = match rest {
        [b',', b'}', ..] => (None, &rest[1..]),
        [b',', after @ ..] => count(after).map(|(max, rest)| (Some(max), rest))?,
        _ => (Some(min), rest),
    };
    Some((min, max, rest.strip_prefix(b"}")?))
}

fn count(text: &[u8]) -> Option<(Number, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > 1 && text[0] == b'0' {
        return None;
    }
    let number = str::from_utf8(&text[..digits])
        .ok()
        .and_then(|digits| digits.parse().ok());
    Some((number.filter(|&number: &i64| number < 1_000_000_000), &text[digits..]))
}
