//! Go's `strconv`: numbers and quoted strings in the syntax of Go.

use std::fmt;

use crate::text;

/// Why a text is no number. Carries the nearest number where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault<T> {
    Syntax,
    Range(T),
}

impl<T> fmt::Display for Fault<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "invalid syntax",
            Self::Range(_) => "value out of range",
        })
    }
}

/// `strconv.ParseUint(text, base, 64)`. Base 0 goes by the prefix and lets underscores separate digits.
pub(crate) fn parse_uint(text: &str, base: u32) -> Result<u64, Fault<u64>> {
    let (digits, radix) = match base {
        0 => split_base(text),
        base => (text, base),
    };
    let mut number = 0u64;
    let mut seen = false;
    for c in digits.chars() {
        if c == '_' && base == 0 {
            continue;
        }
        let digit = c.to_digit(radix).ok_or(Fault::Syntax)?;
        let larger = number
            .checked_mul(radix.into())
            .and_then(|number| number.checked_add(digit.into()));
        // What follows is not looked at any more.
        number = larger.ok_or(Fault::Range(u64::MAX))?;
        seen = true;
    }
    if !seen || base == 0 && text.contains('_') && !underscores_fit(text) {
        return Err(Fault::Syntax);
    }
    Ok(number)
}

/// `strconv.ParseInt(text, base, 64)`.
pub(crate) fn parse_int(text: &str, base: u32) -> Result<i64, Fault<i64>> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let nearest = Fault::Range(if negative { i64::MIN } else { i64::MAX });
    let magnitude = parse_uint(unsigned, base).map_err(|fault| match fault {
        Fault::Syntax => Fault::Syntax,
        Fault::Range(_) => nearest,
    })?;
    let number = i128::from(magnitude);
    i64::try_from(if negative { -number } else { number }).map_err(|_| nearest)
}

fn split_base(text: &str) -> (&str, u32) {
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return (digits, radix);
        }
    }
    match text.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => (digits, 8),
        _ => (text, 10),
    }
}

/// Whether every underscore stands between digits. A base prefix counts as a digit.
fn underscores_fit(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let bytes = text.as_bytes();
    let (prefixed, hex) = match bytes {
        [b'0', b'x' | b'X', ..] => (true, true),
        [b'0', b'b' | b'B' | b'o' | b'O', ..] => (true, false),
        _ => (false, false),
    };
    let mut after_digit = prefixed;
    let mut after_underscore = false;
    for &byte in bytes.iter().skip(if prefixed { 2 } else { 0 }) {
        let digit = byte.is_ascii_digit() || hex && byte.is_ascii_hexdigit();
        let underscore = byte == b'_';
        if underscore && !after_digit || after_underscore && !digit {
            return false;
        }
        (after_digit, after_underscore) = (digit, underscore);
    }
    !after_underscore
}

/// `strconv.ParseFloat(text, 64)`.
pub(crate) fn parse_float(text: &str) -> Result<f64, Fault<f64>> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if ["inf", "infinity"]
        .iter()
        .any(|name| unsigned.eq_ignore_ascii_case(name))
    {
        return Ok(sign * f64::INFINITY);
    }
    if text.eq_ignore_ascii_case("nan") {
        return Ok(f64::NAN);
    }
    if text.contains('_') && !underscores_fit(text) {
        return Err(Fault::Syntax);
    }
    let plain = unsigned.replace('_', "");
    let magnitude = match plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        Some(hex) => parse_hex_float(hex).ok_or(Fault::Syntax)?,
        None if is_decimal_float(&plain) => plain.parse().map_err(|_| Fault::Syntax)?,
        None => return Err(Fault::Syntax),
    };
    if magnitude.is_infinite() {
        Err(Fault::Range(sign * magnitude))
    } else {
        Ok(sign * magnitude)
    }
}

fn is_decimal_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent = exponent.map(|exponent| exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

/// The part after `0x` of a hexadecimal float, whose exponent is mandatory. Infinite when out of range.
fn parse_hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let (negative, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    if exponent.is_empty() || !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Any larger exponent is as good as this one.
    let magnitude = exponent.parse().unwrap_or(i32::MAX).min(1 << 28);
    let mut exponent = i64::from(if negative { -magnitude } else { magnitude });
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    exponent -= 4 * i64::try_from(fraction.len()).ok()?;
    let mut number = 0u64;
    for c in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(c.to_digit(16)?);
        if number >> 60 == 0 {
            number = number << 4 | digit;
        } else {
            // No room left: the lowest bit stands for all that follows, which is enough to round by.
            number |= u64::from(digit != 0);
            exponent += 4;
        }
    }
    Some(scale(number, exponent))
}

/// `number × 2^exponent`, rounded once, to even.
fn scale(number: u64, exponent: i64) -> f64 {
    if number == 0 {
        return 0.0;
    }
    let bits = i64::from(u64::BITS - number.leading_zeros());
    let magnitude = exponent + bits - 1;
    if magnitude > 1023 {
        return f64::INFINITY;
    }
    let kept = if magnitude >= -1022 {
        53
    } else {
        53 - (-1022 - magnitude)
    };
    let dropped = bits - kept;
    let (rounded, exponent) = match u32::try_from(dropped) {
        Err(_) | Ok(0) => (number, exponent),
        Ok(dropped) if dropped > 64 => return 0.0,
        Ok(dropped) => {
            let wide = u128::from(number);
            let half = 1u128 << (dropped - 1);
            let rest = wide & ((1 << dropped) - 1);
            let floor = wide >> dropped;
            let up = rest > half || rest == half && floor & 1 == 1;
            (
                u64::try_from(floor).unwrap_or(u64::MAX) + u64::from(up),
                exponent + i64::from(dropped),
            )
        }
    };
    // Exact: the number fits, and each step by a power of two does too.
    let mut result = rounded as f64;
    let mut left = exponent;
    while left != 0 {
        let step = left.clamp(-512, 512);
        result *= 2f64.powi(i32::try_from(step).unwrap_or_default());
        left -= step;
    }
    result
}

/// `strconv.Quote`.
pub(crate) fn quote(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&text::quote(bytes, false)).into_owned()
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

/// What one character or escape of a literal stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Char(char),
    /// From `\x` or an octal escape: a byte, not a code point.
    Byte(u8),
}

/// `strconv.UnquoteChar`: the first character or escape, and what follows it.
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

/// A number made of digits only: `from_str_radix` would take a sign too.
fn number(digits: &str, radix: u32) -> Option<u32> {
    digits
        .chars()
        .try_fold(0u32, |sum, c| sum.checked_mul(radix)?.checked_add(c.to_digit(radix)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_go_by_their_prefix() {
        for (text, number) in [
            ("0", Ok(0)),
            ("-0", Ok(0)),
            ("017", Ok(15)),
            ("0o17", Ok(15)),
            ("0b1_0", Ok(2)),
            ("0x_1", Ok(1)),
            ("0_1", Ok(1)),
            ("-0x10", Ok(-16)),
            ("+5", Ok(5)),
            ("9223372036854775807", Ok(i64::MAX)),
            ("-9223372036854775808", Ok(i64::MIN)),
            ("9223372036854775808", Err(Fault::Range(i64::MAX))),
            ("-99999999999999999999", Err(Fault::Range(i64::MIN))),
            ("1__0", Err(Fault::Syntax)),
            ("1_", Err(Fault::Syntax)),
            ("_1", Err(Fault::Syntax)),
            ("08", Err(Fault::Syntax)),
            ("0x", Err(Fault::Syntax)),
            ("0o", Err(Fault::Syntax)),
            ("", Err(Fault::Syntax)),
            ("--1", Err(Fault::Syntax)),
            ("99999999999999999999x", Err(Fault::Range(i64::MAX))),
            ("9x", Err(Fault::Syntax)),
        ] {
            assert_eq!(parse_int(text, 0), number, "{text}");
        }
        assert_eq!(parse_int("1_0", 10), Err(Fault::Syntax));
        assert_eq!(parse_int("010", 10), Ok(10));
        assert_eq!(parse_uint("+1", 0), Err(Fault::Syntax));
    }

    #[test]
    fn floats_are_those_of_go() {
        for (text, number) in [
            ("1_0.5", Ok(10.5)),
            ("1.", Ok(1.0)),
            (".5", Ok(0.5)),
            ("1e1_0", Ok(1e10)),
            ("0x1_0p1", Ok(32.0)),
            ("0x.8p1", Ok(1.0)),
            ("-0x1.8p1", Ok(-3.0)),
            ("0x1p-1074", Ok(5e-324)),
            ("0x1.8p-1074", Ok(1e-323)),
            ("0x0.8p-1074", Ok(0.0)),
            ("0x1.fffffffffffff8p0", Ok(2.0)),
            ("0x1.fffffffffffff7ffffffffffp0", Ok(1.999_999_999_999_999_8)),
            ("0x1p1024", Err(Fault::Range(f64::INFINITY))),
            ("-1e400", Err(Fault::Range(f64::NEG_INFINITY))),
            ("Inf", Ok(f64::INFINITY)),
            ("-infinity", Ok(f64::NEG_INFINITY)),
            ("0x1", Err(Fault::Syntax)),
            ("0x1p", Err(Fault::Syntax)),
            ("0b11", Err(Fault::Syntax)),
            ("1e", Err(Fault::Syntax)),
            (".", Err(Fault::Syntax)),
            ("+-1", Err(Fault::Syntax)),
            ("1_", Err(Fault::Syntax)),
        ] {
            assert_eq!(parse_float(text), number, "{text}");
        }
        assert!(parse_float("NaN").is_ok_and(f64::is_nan));
        assert_eq!(parse_float("+nan"), Err(Fault::Syntax));
    }

    #[test]
    fn quotes_come_off() {
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
