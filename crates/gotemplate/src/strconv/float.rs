//! Floats as text: `strconv.FormatFloat`.

/// The formats of `strconv.FormatFloat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `e`, or `E`: with an exponent.
    Exponent,
    /// `f`: without an exponent.
    Plain,
    /// `g`, or `G`: with an exponent if it is large.
    General,
    /// `b`: mantissa and binary exponent, in decimal.
    Binary,
    /// `x`, or `X`: hexadecimal.
    Hexadecimal,
}

/// `strconv.FormatFloat`. Without a precision: the fewest digits that identify the number.
pub(crate) fn format_float(number: f64, style: Style, precision: Option<usize>) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return if sign.is_empty() {
            "+Inf".to_owned()
        } else {
            "-Inf".to_owned()
        };
    }
    let number = number.abs();
    let body = match style {
        Style::Binary => binary(number),
        Style::Hexadecimal => hexadecimal_text(number, precision),
        Style::Exponent => exponent(&Digits::of(number, precision.map(|precision| precision + 1)), precision),
        Style::Plain => match precision {
            Some(precision) => format!("{number:.precision$}"),
            None => plain(&Digits::of(number, None), None),
        },
        Style::General => {
            let digits = Digits::of(number, precision.map(|precision| precision.max(1)));
            general(&digits, precision.map(|precision| precision.max(1)))
        }
    };
    format!("{sign}{body}")
}

/// `strconv.FormatFloat(value, 'g', -1, 64)`.
pub(crate) fn format_general(value: f64) -> String {
    format_float(value, Style::General, None)
}

/// `strconv.FormatFloat(value, 'g', -1, 32)`: rounds to a `float32` first.
pub(crate) fn format_general32(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to float32 is what Go does here"
    )]
    let narrow = value as f32;
    // The shortest digits of a float32, read as a float64, print as the same digits.
    format_general(format!("{narrow:e}").parse().unwrap_or_else(|_| f64::from(narrow)))
}

/// Significant digits without trailing zeros. The decimal point is before the digit with the index `point`.
struct Digits {
    digits: String,
    point: i64,
}

impl Digits {
    /// The digits of a number: the given count, rounded, or the fewest that identify it.
    fn of(number: f64, count: Option<usize>) -> Self {
        let text = match count {
            // A float has no more than 767 digits; the rest would be zeros.
            Some(count) => format!("{number:.*e}", count.saturating_sub(1).min(800)),
            None => shortest(number),
        };
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let digits = digits.trim_end_matches('0').to_owned();
        let point = if digits.is_empty() {
            0
        } else {
            exponent.parse::<i64>().unwrap_or_default() + 1
        };
        Self { digits, point }
    }

    fn exponent(&self) -> i64 {
        if self.digits.is_empty() { 0 } else { self.point - 1 }
    }
}

/// The fewest digits that identify the number. Of two equally near candidates Go takes the even one.
fn shortest(number: f64) -> String {
    let text = format!("{number:e}");
    let count = text
        .bytes()
        .take_while(|&byte| byte != b'e')
        .filter(u8::is_ascii_digit)
        .count();
    let nearest = format!("{number:.*e}", count.saturating_sub(1));
    if nearest.parse() == Ok(number) { nearest } else { text }
}

fn exponent(digits: &Digits, precision: Option<usize>) -> String {
    let precision = precision.unwrap_or_else(|| digits.digits.len().saturating_sub(1));
    let mut all = digits.digits.chars().chain(std::iter::repeat('0'));
    let mut text: String = all.by_ref().take(1).collect();
    if precision > 0 {
        text.push('.');
        text.extend(all.take(precision));
    }
    let exponent = digits.exponent();
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{text}e{sign}{:02}", exponent.abs())
}

fn plain(digits: &Digits, precision: Option<usize>) -> String {
    let count = i64::try_from(digits.digits.len()).unwrap_or(i64::MAX);
    let precision = precision.map_or((count - digits.point).max(0), |precision| {
        i64::try_from(precision).unwrap_or(i64::MAX)
    });
    let at = |index: i64| {
        usize::try_from(index)
            .ok()
            .and_then(|index| digits.digits.as_bytes().get(index))
            .map_or('0', |&b| char::from(b))
    };
    let mut text: String = if digits.point > 0 {
        (0..digits.point).map(at).collect()
    } else {
        "0".to_owned()
    };
    if precision > 0 {
        text.push('.');
        text.extend((digits.point..digits.point + precision).map(at));
    }
    text
}

fn general(digits: &Digits, precision: Option<usize>) -> String {
    let count = digits.digits.len();
    let signed = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
    let limit = match precision {
        None => 6,
        Some(precision) if precision > count && signed(count) >= digits.point => signed(count),
        Some(precision) => signed(precision),
    };
    let exp = digits.point - 1;
    let precision = precision.unwrap_or(count);
    if exp < -4 || exp >= limit {
        return exponent(digits, Some(precision.min(count).saturating_sub(1)));
    }
    let precision = if signed(precision) > digits.point {
        count
    } else {
        precision
    };
    plain(
        digits,
        Some(usize::try_from(signed(precision) - digits.point).unwrap_or_default()),
    )
}

/// The bits of a number: `mantissa * 2^exponent`.
fn parts(number: f64) -> (u64, i64) {
    let bits = number.to_bits();
    let exponent = i64::try_from(bits >> 52 & 0x7ff).unwrap_or_default();
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 {
        (fraction, -1074)
    } else {
        (fraction | 1 << 52, exponent - 1075)
    }
}

fn binary(number: f64) -> String {
    let (mantissa, exponent) = parts(number);
    let sign = if exponent >= 0 { "+" } else { "" };
    format!("{mantissa}p{sign}{exponent}")
}

fn hexadecimal_text(number: f64, precision: Option<usize>) -> String {
    let (mantissa, exponent) = parts(number);
    if mantissa == 0 {
        let zeros = match precision.unwrap_or_default() {
            0 => String::new(),
            precision => format!(".{}", "0".repeat(precision)),
        };
        return format!("0x0{zeros}p+00");
    }
    // Move the leading one to bit 60, so that whole hexadecimal digits follow it.
    let shift = mantissa.leading_zeros() - 3;
    let mut mantissa = mantissa << shift;
    let mut exponent = exponent + 60 - i64::from(shift);
    if let Some(precision) = precision.filter(|&precision| precision < 15) {
        let shift = precision * 4;
        let extra = (mantissa << shift) & ((1 << 60) - 1);
        mantissa >>= 60 - shift;
        if extra | (mantissa & 1) > 1 << 59 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & 1 << 61 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let digits = format!("{:015x}", mantissa & ((1 << 60) - 1));
    let fraction = match precision {
        None => digits.trim_end_matches('0').to_owned(),
        Some(precision) => digits.chars().chain(std::iter::repeat('0')).take(precision).collect(),
    };
    let point = if fraction.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("0x1{point}{fraction}p{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_go() {
        for (number, style, precision, expected) in [
            (1.5, Style::General, None, "1.5"),
            (100_000.0, Style::General, None, "100000"),
            (1_000_000.0, Style::General, None, "1e+06"),
            (1e21, Style::Plain, None, "1000000000000000000000"),
            (1e-7, Style::Exponent, None, "1e-07"),
            (2.5, Style::Plain, Some(0), "2"),
            (1234.5678, Style::General, Some(3), "1.23e+03"),
            (0.0, Style::Exponent, Some(2), "0.00e+00"),
            (1.0, Style::Binary, None, "4503599627370496p-52"),
            (-3.5, Style::Hexadecimal, None, "-0x1.cp+01"),
            (1.999, Style::Hexadecimal, Some(0), "0x1p+01"),
            // Two candidates are equally near: the even one.
            (
                -5_417_005_556_409_513.0 / 4.0,
                Style::General,
                None,
                "-1.3542513891023782e+15",
            ),
            (5e-324, Style::General, None, "5e-324"),
        ] {
            assert_eq!(
                format_float(number, style, precision),
                expected,
                "{number} {style:?} {precision:?}"
            );
        }
    }
}
