//! Conversions that many functions share: slim-sprig's `strval`, `strslice`, `toInt64`, `toFloat64`.

use crate::{
    fmt,
    function::Failure,
    strconv::{Fault, parse_float, parse_int},
    value::{Elem, List, Value},
};

/// The value as text: strings and bytes unchanged, other values as they print.
pub(super) fn text_of(value: &Value) -> Result<Vec<u8>, Failure> {
    match value {
        Value::Str(text) => Ok(text.to_vec()),
        Value::List(list) if list.elem() == Elem::Byte => Ok(list.to_bytes()),
        _ => fmt::stringer(value).map_or_else(|| fmt::display(value), |text| Ok(text.into_bytes())),
    }
}

/// The items of a list as text, without the nils. A single value is a list of one.
pub(super) fn texts_of(value: &Value) -> Result<Vec<Vec<u8>>, Failure> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::List(list) => list
            .to_vec()
            .iter()
            .filter(|item| !matches!(item, Value::Nil))
            .map(text_of)
            .collect(),
        _ => Ok(vec![text_of(value)?]),
    }
}

/// The same as a `[]string`. A list that already is one is returned, and shares its memory.
pub(super) fn strings_of(value: &Value) -> Result<List, Failure> {
    match value {
        Value::List(list) if list.elem() == Elem::Str => Ok(list.clone()),
        _ => Ok(List::new(
            Elem::Str,
            texts_of(value)?.into_iter().map(Value::str).collect(),
        )),
    }
}

/// Any value as an integer; 0 if it is not a number.
pub(super) fn int_of(value: &Value) -> i64 {
    match value {
        Value::Str(text) => str::from_utf8(text)
            .ok()
            .and_then(|text| parse_int(text, 10).ok())
            .unwrap_or_default(),
        Value::Int(_, number) => *number,
        Value::Float(number) => truncate(*number),
        Value::Bool(yes) => i64::from(*yes),
        _ => 0,
    }
}

/// Text as an integer, with errors ignored: the nearest integer if it is out of range, 0 if it is not a number.
pub(super) fn nearest_int(text: &[u8]) -> i64 {
    match str::from_utf8(text).map(|text| parse_int(text, 10)) {
        Ok(Ok(number) | Err(Fault::Range(number))) => number,
        _ => 0,
    }
}

/// Go's conversion on amd64: a number out of range becomes the smallest integer.
fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// Any value as a float; 0 if it is not a number.
pub(super) fn float_of(value: &Value) -> f64 {
    match value {
        Value::Str(text) => str::from_utf8(text)
            .ok()
            .and_then(|text| parse_float(text).ok())
            .unwrap_or_default(),
        Value::Int(_, number) => *number as f64,
        Value::Float(number) => *number,
        Value::Bool(yes) => f64::from(u8::from(*yes)),
        _ => 0.0,
    }
}

/// Whether the value is the zero value of its type, or has no elements.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::Bool(yes) => !yes,
        Value::Int(_, number) => *number == 0,
        Value::Float(number) => *number == 0.0,
        Value::Complex(re, im) => *re == 0.0 && *im == 0.0,
        Value::Str(text) => text.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Time(_) | Value::Location(_) => false,
    }
}
