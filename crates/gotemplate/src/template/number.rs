//! Number constants. They are untyped: each use takes the form that it needs, if the constant has it.

use crate::strconv::{Unit, parse_float, parse_int, parse_uint, quote, unquote_char};

/// The forms that represent a constant exactly.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Number {
    pub(super) int: Option<i64>,
    /// A `uint64` that is too large for an `int64`. No function accepts one, so every use is an error.
    pub(super) uint_only: bool,
    pub(super) float: Option<f64>,
    pub(super) complex: Option<(f64, f64)>,
}

impl Number {
    /// A character constant, with its quotes.
    pub(super) fn from_char(text: &str) -> Result<Self, String> {
        let (unit, tail) = text
            .strip_prefix('\'')
            .and_then(|inside| unquote_char(inside, '\''))
            .ok_or_else(|| "invalid syntax".to_owned())?;
        if tail != "'" {
            return Err(format!("malformed character constant: {text}"));
        }
        let code = match unit {
            Unit::Char(c) => u32::from(c),
            Unit::Byte(byte) => byte.into(),
        };
        Ok(Self {
            int: Some(code.into()),
            float: Some(code.into()),
            ..Self::default()
        })
    }

    /// A real and an imaginary part, in the syntax of Go's `fmt.Sscan`.
    pub(super) fn from_complex(text: &str) -> Result<Self, String> {
        const SYNTAX: &str = "syntax error scanning complex number";
        let (real, rest) = scan_float(text);
        if !rest.starts_with(['+', '-']) {
            return Err(SYNTAX.to_owned());
        }
        let (imaginary, rest) = scan_float(&rest[1..]);
        let imaginary = format!("{}{imaginary}", &text[real.len()..=real.len()]);
        if !rest.starts_with('i') {
            return Err(SYNTAX.to_owned());
        }
        Ok(Self::complex(scanned_float(real)?, scanned_float(&imaginary)?))
    }

    /// Any other number.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // An imaginary constant is complex; it has other forms only if it is zero.
        if let Some(Ok(imaginary)) = text.strip_suffix('i').map(parse_float) {
            return Ok(Self::complex(0.0, imaginary));
        }
        if let Ok(int) = parse_int(text, 0) {
            return Ok(Self {
                int: Some(int),
                float: Some(int as f64),
                ..Self::default()
            });
        }
        if let Ok(uint) = parse_uint(text, 0) {
            return Ok(Self {
                uint_only: true,
                float: Some(uint as f64),
                ..Self::default()
            });
        }
        match parse_float(text) {
            Ok(_) if !looks_like_float(text) => Err(format!("integer overflow: {}", quote(text.as_bytes()))),
            Ok(float) => Ok(Self {
                int: exact_int(float),
                float: Some(float),
                ..Self::default()
            }),
            Err(_) => Err(format!("illegal number syntax: {}", quote(text.as_bytes()))),
        }
    }

    fn complex(real: f64, imaginary: f64) -> Self {
        let float = (imaginary == 0.0).then_some(real);
        Self {
            int: float.and_then(exact_int),
            uint_only: false,
            float,
            complex: Some((real, imaginary)),
        }
    }
}

/// Whether a constant is written as a float, even if its value is an integer.
pub(super) fn looks_like_float(text: &str) -> bool {
    text.contains(['.', 'e', 'E', 'p', 'P'])
}

fn exact_int(float: f64) -> Option<i64> {
    // The upper limit is 2^63, which is out of range.
    let in_range = (i64::MIN as f64..i64::MAX as f64).contains(&float);
    (in_range && float.fract() == 0.0).then_some(float as i64)
}

/// The longest prefix that `fmt.Sscan` reads as a float.
fn scan_float(text: &str) -> (&str, &str) {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    // The scanner tries "inf" and does not put back what it read.
    rest = rest.strip_prefix('i').unwrap_or(rest);
    let mut hex = false;
    if let Some(after) = rest.strip_prefix('0') {
        let digits = after.strip_prefix(['x', 'X']);
        hex = digits.is_some();
        rest = digits.unwrap_or(after);
    }
    let is_digit = |c: char| c == '_' || if hex { c.is_ascii_hexdigit() } else { c.is_ascii_digit() };
    rest = rest.trim_start_matches(is_digit);
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(is_digit);
    }
    if let Some(exponent) = rest.strip_prefix(if hex { ['p', 'P'] } else { ['e', 'E'] }) {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        rest = digits.trim_start_matches(|c: char| c == '_' || c.is_ascii_digit());
    }
    text.split_at(text.len() - rest.len())
}

fn scanned_float(text: &str) -> Result<f64, String> {
    parse_float(text).map_err(|fault| format!("strconv.ParseFloat: parsing {}: {fault}", quote(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_take_every_form_that_loses_nothing() {
        let int = |n: i64| {
            Ok(Number {
                int: Some(n),
                float: Some(n as f64),
                ..Number::default()
            })
        };
        assert_eq!(Number::parse("0x1e"), int(30));
        assert_eq!(Number::parse("1_000"), int(1000));
        assert_eq!(Number::parse("1e3"), int(1000));
        assert_eq!(Number::parse("-0b11"), int(-3));
        assert_eq!(Number::from_char("'a'"), int(97));
        assert_eq!(Number::from_char(r"'\xff'"), int(255));
        assert_eq!(
            Number::parse("1.5").map(|number| (number.int, number.float)),
            Ok((None, Some(1.5)))
        );
        assert_eq!(
            Number::parse("9223372036854775808").map(|number| number.uint_only),
            Ok(true)
        );
        assert_eq!(Number::parse("1e19").map(|number| number.int), Ok(None));
        assert_eq!(
            Number::parse("2i").map(|number| (number.float, number.complex)),
            Ok((None, Some((0.0, 2.0))))
        );
        assert_eq!(Number::parse("0i").map(|number| number.int), Ok(Some(0)));
        assert_eq!(
            Number::from_complex("1+2i").map(|number| number.complex),
            Ok(Some((1.0, 2.0)))
        );
        assert_eq!(
            Number::from_complex("1.5-.5i").map(|number| number.complex),
            Ok(Some((1.5, -0.5)))
        );
        assert_eq!(Number::from_complex("3+0i").map(|number| number.int), Ok(Some(3)));
    }

    #[test]
    fn what_is_no_number_is_refused_in_the_words_of_go() {
        for (result, text) in [
            (Number::parse("089"), r#"integer overflow: "089""#),
            (
                Number::parse("18446744073709551616"),
                r#"integer overflow: "18446744073709551616""#,
            ),
            (Number::parse("1e400"), r#"illegal number syntax: "1e400""#),
            (Number::parse("1__0"), r#"illegal number syntax: "1__0""#),
            (Number::parse("+i"), r#"illegal number syntax: "+i""#),
            (Number::from_char("''"), "invalid syntax"),
            (Number::from_char("'ab'"), "malformed character constant: 'ab'"),
            (
                Number::from_complex("0x1+2i"),
                r#"strconv.ParseFloat: parsing "0x1": invalid syntax"#,
            ),
            (
                Number::from_complex("1e400+1i"),
                r#"strconv.ParseFloat: parsing "1e400": value out of range"#,
            ),
            (Number::from_complex("1+i"), "syntax error scanning complex number"),
            (Number::from_complex("0b1+2i"), "syntax error scanning complex number"),
        ] {
            assert_eq!(result, Err(text.to_owned()));
        }
    }
}
