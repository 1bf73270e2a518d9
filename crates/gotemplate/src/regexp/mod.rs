//! Go's `regexp` on the engine of Rust's `regex`, which finds the same matches.
//!
//! The syntax differs in many details, so this module has its own parser. Its errors are those of Go.

mod class;
mod parse;

use std::borrow::Cow;

use regex_automata::{
    Input,
    meta::{BuildError, Config, Regex},
    util::captures::Captures,
};

use crate::{
    function::{Failure, MAX_BYTES, MAX_ITEMS},
    strings, unicode,
};

/// The largest automaton, in bytes.
const SIZE_LIMIT: usize = 10 << 20;

/// A compiled regular expression.
///
/// ```
/// use gotemplate::regexp::Regexp;
///
/// let regexp = Regexp::compile(br"(\w+)@(?P<host>\w+)")?;
/// assert_eq!(regexp.replace_all(b"ada@example", b"${host}:$1")?, b"example:ada");
///
/// let error = Regexp::compile(b"a**").unwrap_err();
/// assert_eq!(error.text(), "error parsing regexp: invalid nested repetition operator: `**`");
/// # Ok::<(), gotemplate::Failure>(())
/// ```
#[derive(Debug)]
pub struct Regexp {
    regex: Regex,
    /// The names of the groups, starting with the whole match. Empty for groups without a name.
    names: Vec<String>,
    /// Whether the expression is the empty string.
    empty: bool,
}

/// How much work all searches of one call may take: bytes of text times roughly the size of the expression. One search is
/// linear, but finding all matches can search the same text repeatedly.
const MAX_WORK: u64 = 1 << 34;

/// Where a group matched.
type Span = (usize, usize);

/// Where the groups of a match are, starting with the whole match.
type Groups = Vec<Option<Span>>;

/// The result of [`Regexp::split`].
#[derive(Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// The texts between the matches.
    pub parts: Vec<&'a [u8]>,
    /// The number of matches. In Go it decides the capacity of the result.
    pub matches: usize,
}

impl Regexp {
    /// `regexp.Compile`. Go's errors are [`Failure::Error`].
    pub fn compile(expression: &[u8]) -> Result<Self, Failure> {
        let parsed = parse::parse(expression)?;
        let config = Config::new()
            .nfa_size_limit(Some(SIZE_LIMIT))
            .onepass_size_limit(Some(SIZE_LIMIT));
        let regex = Regex::builder()
            .configure(config)
            .build_from_hir(&parsed.hir)
            .map_err(|error| too_large(&error))?;
        Ok(Self {
            regex,
            names: parsed.names,
            empty: expression.is_empty(),
        })
    }

    /// `MatchString`.
    pub fn is_match(&self, text: &[u8]) -> Result<bool, Failure> {
        Ok(self.find(text)?.is_some())
    }

    /// `FindString`: the first match.
    pub fn find<'a>(&self, text: &'a [u8]) -> Result<Option<&'a [u8]>, Failure> {
        let groups = self.search(&mut Haystack::new(text), 0)?;
        let whole = groups.and_then(|groups| groups.first().copied().flatten());
        Ok(whole.map(|(start, end)| &text[start..end]))
    }

    /// `FindAllString`: up to `limit` matches; all if it is negative.
    pub fn find_all<'a>(&self, text: &'a [u8], limit: i64) -> Result<Vec<&'a [u8]>, Failure> {
        Ok(self
            .spans(text, limit)?
            .into_iter()
            .map(|(start, end)| &text[start..end])
            .collect())
    }

    fn spans(&self, text: &[u8], limit: i64) -> Result<Vec<Span>, Failure> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut haystack = Haystack::new(text);
        let mut spans = Vec::new();
        let mut position = 0;
        let mut last_end = None;
        while spans.len() < limit && position <= text.len() {
            let Some(groups) = self.search(&mut haystack, position)? else {
                break;
            };
            let Some((start, end)) = groups.first().copied().flatten() else {
                break;
            };
            let mut accepted = true;
            if end == position {
                // An empty match right after another match does not count.
                accepted = last_end != Some(start);
                position += strings::decode(&text[position..]).map_or(1, |(_, width)| width);
            } else {
                position = end;
            }
            last_end = Some(end);
            if accepted {
                spans.push((start, end));
            }
            if spans.len() > MAX_ITEMS {
                return Err(Failure::size());
            }
        }
        Ok(spans)
    }

    /// `Split`. `None` is Go's nil.
    pub fn split<'a>(&self, text: &'a [u8], limit: i64) -> Result<Option<Split<'a>>, Failure> {
        if limit == 0 {
            return Ok(None);
        }
        if !self.empty && text.is_empty() {
            return Ok(Some(Split {
                parts: vec![text],
                matches: 0,
            }));
        }
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut parts = Vec::new();
        let (mut begin, mut end) = (0, 0);
        let spans = self.spans(text, limit)?;
        for &(match_start, match_end) in &spans {
            if parts.len() + 1 >= wanted {
                break;
            }
            end = match_start;
            if match_end != 0 {
                parts.push(&text[begin..end]);
            }
            begin = match_end;
        }
        if end != text.len() {
            parts.push(&text[begin..]);
        }
        Ok(Some(Split {
            parts,
            matches: spans.len(),
        }))
    }

    /// `ReplaceAllString`: `$1` and `${name}` in the replacement stand for groups.
    pub fn replace_all(&self, text: &[u8], replacement: &[u8]) -> Result<Vec<u8>, Failure> {
        self.replace(text, |out, groups| self.expand(out, replacement, text, groups))
    }

    /// `ReplaceAllLiteralString`.
    pub fn replace_all_literal(&self, text: &[u8], replacement: &[u8]) -> Result<Vec<u8>, Failure> {
        self.replace(text, |out, _| out.extend_from_slice(replacement))
    }

    fn replace(&self, text: &[u8], mut write: impl FnMut(&mut Vec<u8>, &[Option<Span>])) -> Result<Vec<u8>, Failure> {
        let mut haystack = Haystack::new(text);
        let mut out = Vec::new();
        let (mut last_end, mut position) = (0, 0);
        while position <= text.len() {
            let Some(groups) = self.search(&mut haystack, position)? else {
                break;
            };
            let Some((start, end)) = groups.first().copied().flatten() else {
                break;
            };
            out.extend_from_slice(&text[last_end..start]);
            // An empty match right after another match is not replaced.
            if end > last_end || start == 0 {
                write(&mut out, &groups);
            }
            if out.len() > MAX_BYTES {
                return Err(Failure::size());
            }
            last_end = end;
            let next = position + strings::decode(&text[position..]).map_or(1, |(_, width)| width);
            position = next.max(end);
        }
        out.extend_from_slice(&text[last_end..]);
        Ok(out)
    }

    /// `Expand`.
    fn expand(&self, out: &mut Vec<u8>, template: &[u8], text: &[u8], groups: &[Option<Span>]) {
        let mut rest = template;
        while let Some(dollar) = rest.iter().position(|&byte| byte == b'$') {
            out.extend_from_slice(&rest[..dollar]);
            rest = &rest[dollar + 1..];
            if let Some(after) = rest.strip_prefix(b"$") {
                out.push(b'$');
                rest = after;
                continue;
            }
            let Some((name, after)) = reference(rest) else {
                out.push(b'$');
                continue;
            };
            rest = after;
            let group = match group_number(name) {
                Some(number) => groups.get(number).copied().flatten(),
                None => {
                    let named = self
                        .names
                        .iter()
                        .zip(groups)
                        .filter(|(other, _)| other.as_bytes() == name);
                    named.filter_map(|(_, group)| *group).next()
                }
            };
            if let Some((start, end)) = group {
                out.extend_from_slice(&text[start..end]);
            }
        }
        out.extend_from_slice(rest);
    }

    /// The groups of the first match from a position on.
    fn search(&self, haystack: &mut Haystack<'_>, position: usize) -> Result<Option<Groups>, Failure> {
        let start = haystack.inward(position);
        let size = 1 + (self.regex.memory_usage() >> 14) as u64;
        let work = size.saturating_mul((haystack.bytes.len() - start) as u64);
        let left = haystack.budget.checked_sub(work);
        haystack.budget = left.ok_or_else(|| Failure::Limit("regular expression takes too long".to_owned()))?;
        let mut captures: Captures = self.regex.create_captures();
        let input = Input::new(haystack.bytes.as_ref()).range(start..);
        self.regex.search_captures(&input, &mut captures);
        let span = |span: regex_automata::Span| (haystack.outward(span.start), haystack.outward(span.end));
        Ok(captures
            .is_match()
            .then(|| captures.iter().map(|group| group.map(span)).collect()))
    }
}

fn too_large(error: &BuildError) -> Failure {
    Failure::Limit(format!("regular expression too large: {error}"))
}

/// The name after a `$`, with or without braces, and the text after it.
fn reference(template: &[u8]) -> Option<(&[u8], &[u8])> {
    let (braced, body) = match template.strip_prefix(b"{") {
        Some(body) => (true, body),
        None => (false, template),
    };
    let in_name = |c: char| unicode::is_letter(c) || unicode::is_digit(c) || c == '_';
    let end = strings::runes(body)
        .find(|&(_, c)| !in_name(c))
        .map_or(body.len(), |(at, _)| at);
    let (name, rest) = body.split_at(end);
    let rest = if braced { rest.strip_prefix(b"}")? } else { rest };
    (!name.is_empty()).then_some((name, rest))
}

/// The number of a group. With leading zeros it is a name, not a number.
fn group_number(name: &[u8]) -> Option<usize> {
    let plain = name.iter().all(u8::is_ascii_digit) && (name.len() == 1 || !name.starts_with(b"0"));
    // Go does not read more than nine digits, and no group has such a number.
    if plain {
        str::from_utf8(name)
            .ok()?
            .parse()
            .ok()
            .filter(|&number| number < 1_000_000_000)
    } else {
        None
    }
}

/// The text as the engine sees it. Every byte that is not UTF-8 is U+FFFD, as in Go.
struct Haystack<'a> {
    bytes: Cow<'a, [u8]>,
    /// The offset in the original text of every byte of the engine's text, if they differ.
    places: Option<Vec<usize>>,
    /// The work that further searches may take.
    budget: u64,
}

impl<'a> Haystack<'a> {
    fn new(text: &'a [u8]) -> Self {
        if str::from_utf8(text).is_ok() {
            return Self {
                bytes: Cow::Borrowed(text),
                places: None,
                budget: MAX_WORK,
            };
        }
        let mut bytes = Vec::with_capacity(text.len() + 16);
        let mut places = Vec::with_capacity(text.len() + 16);
        for (at, c) in strings::runes(text) {
            strings::push_char(&mut bytes, c);
            places.resize(bytes.len(), at);
        }
        places.push(text.len());
        Self {
            bytes: Cow::Owned(bytes),
            places: Some(places),
            budget: MAX_WORK,
        }
    }

    fn inward(&self, position: usize) -> usize {
        self.places
            .as_ref()
            .map_or(position, |places| places.partition_point(|&place| place < position))
    }

    fn outward(&self, position: usize) -> usize {
        self.places
            .as_ref()
            .map_or(position, |places| places.get(position).copied().unwrap_or(position))
    }
}

/// `regexp.QuoteMeta`.
pub fn quote_meta(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if br"\.+*?()|[]{}^$".contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regexp(expression: &str) -> Regexp {
        Regexp::compile(expression.as_bytes()).expect(expression)
    }

    fn replaced(expression: &str, text: &str, replacement: &str) -> String {
        let out = regexp(expression).replace_all(text.as_bytes(), replacement.as_bytes());
        String::from_utf8_lossy(&out.expect("short")).into_owned()
    }

    #[test]
    fn classes_of_perl_are_ascii() {
        assert!(!regexp(r"\w").is_match("é".as_bytes()).expect("quick"));
        assert!(regexp(r"\pL").is_match("é".as_bytes()).expect("quick"));
        assert!(regexp("(?i)k").is_match("\u{212a}".as_bytes()).expect("quick"));
        assert!(regexp(r"^[^a]$").is_match(b"\xff").expect("quick"));
    }

    #[test]
    fn all_matches_without_empty_ones_after_others() {
        assert_eq!(regexp("x*").find_all(b"axb", -1), Ok(vec![&b""[..], b"x", b""]));
        assert_eq!(regexp("[a-z]").find_all(b"a1b2", 1), Ok(vec![&b"a"[..]]));
        assert_eq!(regexp("").find_all(b"\xffa", -1).map(|found| found.len()), Ok(3));
    }

    #[test]
    fn replacements_refer_to_groups() {
        assert_eq!(replaced("a(x*)b", "-ab-axxb-", "${1}W"), "-W-xxW-");
        assert_eq!(replaced("a(x*)b", "-ab-axxb-", "$1W"), "---");
        assert_eq!(replaced("(?P<a>.)(?<b>.)", "xy", "$b$a$$$"), "yx$$");
        assert_eq!(replaced("x*", "abc", "-"), "-a-b-c-");
    }

    #[test]
    fn splitting() {
        let parts = |expression: &str, text: &'static [u8], limit| {
            regexp(expression)
                .split(text, limit)
                .expect("short")
                .map(|split| split.parts)
        };
        assert_eq!(parts("a", b"banana", -1), Some(vec![&b"b"[..], b"n", b"n", b""]));
        assert_eq!(parts("a", b"banana", 2), Some(vec![&b"b"[..], b"nana"]));
        assert_eq!(parts("a", b"", -1), Some(vec![&b""[..]]));
        assert_eq!(parts("a", b"banana", 0), None);
    }

    #[test]
    fn errors_are_those_of_go() {
        for (expression, problem) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(?:a{1,500}){3}", "invalid repeat count: `{3}`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            (r"\pX", r"invalid character class range: `\pX`"),
            ("(?<=a)", "invalid named capture: `(?<=a)`"),
            ("(?x)", "invalid or unsupported Perl syntax: `(?x`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            let failure = Regexp::compile(expression.as_bytes()).expect_err(expression);
            assert_eq!(failure, Failure::Error(format!("error parsing regexp: {problem}")));
        }
    }

    #[test]
    fn limits_are_enforced() {
        let deep = "(".repeat(500) + &")".repeat(500);
        assert!(matches!(Regexp::compile(deep.as_bytes()), Err(Failure::Limit(_))));
        assert!(matches!(
            Regexp::compile(r"(?:\pL{30}){30}".as_bytes()),
            Err(Failure::Limit(_))
        ));
        let mut haystack = Haystack::new(b"aaaa");
        haystack.budget = 1 << 20;
        assert!(regexp("b").search(&mut haystack, 0).is_ok());
        haystack.budget = 1;
        assert!(matches!(regexp("b").search(&mut haystack, 0), Err(Failure::Limit(_))));
    }
}
