//! Floats as Go's `strconv` and `encoding/json` print them.

use crate::number::{Style, format_float};

/// `strconv.FormatFloat(value, 'g', -1, 64)`.
pub(crate) fn general(value: f64) -> String {
    format_float(value, Style::General, None)
}

/// `strconv.FormatFloat(value, 'g', -1, 32)`: what is printed is the nearest `float32`.
pub(crate) fn general32(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to float32 is what Go does here"
    )]
    let narrow = value as f32;
    // A float64 tells the few digits of a float32 apart, so that they come out again.
    general(format!("{narrow:e}").parse().unwrap_or_else(|_| f64::from(narrow)))
}

/// A finite float as `encoding/json` writes it.
pub(crate) fn json(value: f64) -> String {
    if value == 0.0 || (1e-6..1e21).contains(&value.abs()) {
        return format_float(value, Style::Plain, None);
    }
    // One digit of exponent is enough for JSON: e-09 becomes e-9.
    format_float(value, Style::Exponent, None).replace("e-0", "e-")
}
