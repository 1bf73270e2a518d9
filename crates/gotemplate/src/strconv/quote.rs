//! Quoted strings in the syntax of Go.

use crate::{strings, unicode};

/// `strconv.Quote`.
///
/// ```
/// assert_eq!(gotemplate::strconv::quote("é\n\u{200b}".as_bytes()), r#""é\n\u200b""#);
/// assert_eq!(gotemplate::strconv::quote(b"\xff"), r#""\xff""#);
/// ```
#[must_use]
pub fn quote(bytes: &[u8]) -> String {
    quote_with(bytes, false)
}

/// `strconv.QuoteToASCII`.
pub(crate) fn quote_to_ascii(bytes: &[u8]) -> String {
    quote_with(bytes, true)
}

fn quote_with(bytes: &[u8], ascii: bool) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    let mut rest = bytes;
    while let Some((c, width)) = strings::decode(rest) {
        if c == strings::REPLACEMENT && width == 1 {
            out.push_str(&format!("\\x{:02x}", rest[0]));
        } else {
            escape(&mut out, c, '"', ascii);
        }
        rest = &rest[width..];
    }
    out.push('"');
    out
}

/// `strconv.QuoteRune`, or `QuoteRuneToASCII`.
pub(crate) fn quote_rune(c: char, ascii: bool) -> String {
    let mut out = String::from('\'');
    escape(&mut out, c, '\'', ascii);
    out.push('\'');
    out
}

fn escape(out: &mut String, c: char, quote: char, ascii: bool) {
    let plain = unicode::is_print(c) && (!ascii || c.is_ascii());
    match c {
        _ if c == quote || c == '\\' => out.extend(['\\', c]),
        _ if plain => out.push(c),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        '\0'..' ' | '\x7f' => out.push_str(&format!("\\x{:02x}", c as u32)),
        '\u{80}'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", c as u32)),
        _ => out.push_str(&format!("\\U{:08x}", c as u32)),
    }
}

/// `strconv.CanBackquote`.
pub(crate) fn can_backquote(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_ok_and(|text| {
        text.chars()
            .all(|c| !matches!(c, '\0'..='\x08' | '\n'..='\x1f' | '`' | '\x7f' | '\u{feff}'))
    })
}

/// `strconv.Unquote` of a string in double quotes or back quotes. `None` is Go's "invalid syntax".
pub(crate) fn unquote(quoted: &str) -> Option<Vec<u8>> {
    if let Some(raw) = quoted.strip_prefix('`') {
        let raw = raw.strip_suffix('`')?;
        return (!raw.contains('`')).then(|| raw.bytes().filter(|&byte| byte != b'\r').collect());
    }
    let mut rest = quoted.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let (unit, tail) = unquote_char(rest, '"')?;
        match unit {
            Unit::Char(c) => text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Unit::Byte(byte) => text.push(byte),
        }
        rest = tail;
    }
    Some(text)
}

/// The meaning of one character or escape sequence of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Char(char),
    /// From `\x` or an octal escape: a byte, not a code point.
    Byte(u8),
}

/// `strconv.UnquoteChar`: the first character or escape sequence, and the text after it.
pub(crate) fn unquote_char(text: &str, quote: char) -> Option<(Unit, &str)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first == quote || first == '\n' && quote == '"' {
        return None;
    }
    if first != '\\' {
        return Some((Unit::Char(first), chars.as_str()));
    }
    let (unit, length) = match chars.next()? {
        'a' => (Unit::Char('\x07'), 2),
        'b' => (Unit::Char('\x08'), 2),
        'f' => (Unit::Char('\x0c'), 2),
        'n' => (Unit::Char('\n'), 2),
        'r' => (Unit::Char('\r'), 2),
        't' => (Unit::Char('\t'), 2),
        'v' => (Unit::Char('\x0b'), 2),
        '\\' => (Unit::Char('\\'), 2),
        c @ ('"' | '\'') if c == quote => (Unit::Char(c), 2),
        'x' => (Unit::Byte(u8::try_from(number(text.get(2..4)?, 16)?).ok()?), 4),
        'u' => (Unit::Char(char::from_u32(number(text.get(2..6)?, 16)?)?), 6),
        'U' => (Unit::Char(char::from_u32(number(text.get(2..10)?, 16)?)?), 10),
        '0'..='7' => (Unit::Byte(u8::try_from(number(text.get(1..4)?, 8)?).ok()?), 4),
        _ => return None,
    };
    Some((unit, text.get(length..)?))
}

/// A number of digits only. (`from_str_radix` accepts a sign too.)
fn number(digits: &str, radix: u32) -> Option<u32> {
    digits
        .chars()
        .try_fold(0u32, |sum, c| sum.checked_mul(radix)?.checked_add(c.to_digit(radix)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_escapes_what_does_not_print() {
        assert_eq!(quote("é\u{200b}\n\"\x7f".as_bytes()), "\"é\\u200b\\n\\\"\\x7f\"");
        assert_eq!(quote_to_ascii("é😀".as_bytes()), "\"\\u00e9\\U0001f600\"");
        assert_eq!(quote(b"\xff"), "\"\\xff\"");
        assert_eq!(quote_rune('\'', false), "'\\''");
    }

    #[test]
    fn quotes_are_removed() {
        for (quoted, text) in [
            (r#""""#, Some(&b""[..])),
            (r#""a\tb\"\\""#, Some(b"a\tb\"\\")),
            (r#""\x41\101\u00e9\U0001f600""#, Some("AAé😀".as_bytes())),
            (r#""\xff""#, Some(b"\xff")),
            ("`a\\n\r\nb`", Some(b"a\\n\nb")),
            (r#""\'""#, None),
            (r#""\q""#, None),
            (r#""\400""#, None),
            (r#""\x+1""#, None),
            (r#""\ud800""#, None),
            (r#""\x4""#, None),
        ] {
            assert_eq!(unquote(quoted).as_deref(), text, "{quoted}");
        }
    }
}
