//! JSON numbers.

use serde_json::Number;

use crate::strconv::{Style, format_float};

/// The number as `encoding/json` writes it.
pub(super) fn number_text(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) => float_text(float),
        None => number.to_string(),
    }
}

/// The number after it was written as JSON and read again: whole numbers of up to 64 bits are integers.
pub(crate) fn normalized(number: &Number) -> Number {
    if number.is_f64() {
        number_from_text(&number_text(number))
    } else {
        number.clone()
    }
}

/// Reads a JSON number. Out of range, the nearest float.
pub(crate) fn number_from_text(text: &str) -> Number {
    let integer = text
        .parse::<i64>()
        .map(Number::from)
        .or_else(|_| text.parse::<u64>().map(Number::from));
    integer.unwrap_or_else(|_| {
        let float = text.parse::<f64>().unwrap_or_default().clamp(f64::MIN, f64::MAX);
        Number::from_f64(float).unwrap_or_else(|| Number::from(0))
    })
}

/// A finite float as `encoding/json` writes it.
pub(crate) fn float_text(value: f64) -> String {
    if value == 0.0 || (1e-6..1e21).contains(&value.abs()) {
        return format_float(value, Style::Plain, None);
    }
    // JSON has exponents without a leading zero: e-09 becomes e-9.
    format_float(value, Style::Exponent, None).replace("e-0", "e-")
}
