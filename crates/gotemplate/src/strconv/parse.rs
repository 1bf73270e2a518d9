//! Numbers in the syntax of Go.

use std::fmt;

/// Why a text is not a number of the type. Out of range, it has the nearest number.
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

/// `strconv.ParseUint(text, base, 64)`. With base 0 the prefix decides, and underscores may separate digits.
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
        // The rest of the text is not checked then.
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

/// Whether every underscore is between digits. A base prefix counts as a digit.
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

/// A hexadecimal float after its `0x`. The exponent is mandatory. Infinite if it is out of range.
fn parse_hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let (negative, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    if exponent.is_empty() || !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Larger exponents give the same result.
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
            // No room left: the lowest bit records whether any further digit is not zero, which is enough to round.
            number |= u64::from(digit != 0);
            exponent += 4;
        }
    }
    Some(scale(number, exponent))
}

/// `number × 2^exponent`, rounded once, half to even.
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
    // Exact: the number fits, and so does each multiplication by a power of two.
    let mut result = rounded as f64;
    let mut left = exponent;
    while left != 0 {
        let step = left.clamp(-512, 512);
        result *= 2f64.powi(i32::try_from(step).unwrap_or_default());
        left -= step;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_an_integer_decides_its_base() {
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
}
