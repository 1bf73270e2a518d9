//! Go's `fmt`: every value under every verb and flag.
//!
//! Mistakes print as text too (`%!d(string=hi)`). As in Go, the flags of the directive also apply to that text.

mod directives;
mod number;
mod printer;
#[cfg(test)]
mod tests;

use self::{directives::Directives, printer::Printer};
use crate::{
    function::Failure,
    value::{Elem, IntType, Value},
};

/// `fmt.Sprint`: blanks between operands if neither is a string.
pub fn sprint(values: &[Value]) -> Result<Vec<u8>, Failure> {
    let mut printer = Printer::default();
    let mut after_string = true;
    for value in values {
        let string = matches!(value, Value::Str(_));
        if !string && !after_string {
            printer.out.push(b' ');
        }
        printer.argument(value, 'v')?;
        after_string = string;
    }
    printer.finish()
}

/// `fmt.Sprintln`: blanks between operands, and a newline.
pub fn sprintln(values: &[Value]) -> Result<Vec<u8>, Failure> {
    let mut printer = Printer::default();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            printer.out.push(b' ');
        }
        printer.argument(value, 'v')?;
    }
    printer.out.push(b'\n');
    printer.finish()
}

/// `fmt.Sprintf`.
///
/// ```
/// use gotemplate::{Value, fmt};
///
/// let text = fmt::sprintf(b"%05.1f|%-4s|%d", &[Value::Float(2.25), Value::str("a"), Value::str("b")])?;
/// assert_eq!(text, b"002.2|a   |%!d(string=b)");
/// # Ok::<(), gotemplate::Failure>(())
/// ```
pub fn sprintf(format: &[u8], values: &[Value]) -> Result<Vec<u8>, Failure> {
    let mut printer = Printer::default();
    Directives::new(format, values).run(&mut printer)?;
    printer.finish()
}

/// `%v`.
pub(crate) fn display(value: &Value) -> Result<Vec<u8>, Failure> {
    sprint(std::slice::from_ref(value))
}

/// `%T`: the name of the type.
pub(crate) const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(kind, _) => match kind {
            IntType::Int => "int",
            IntType::Int64 => "int64",
            IntType::Uint8 => "uint8",
            IntType::Duration => "time.Duration",
            IntType::Month => "time.Month",
            IntType::Weekday => "time.Weekday",
        },
        Value::Float(_) => "float64",
        Value::Complex(..) => "complex128",
        Value::Str(_) => "string",
        Value::List(list) => match list.elem() {
            Elem::Any => "[]interface {}",
            Elem::Str => "[]string",
            Elem::Int => "[]int",
            Elem::Anys => "[][]interface {}",
            Elem::Byte => "[]uint8",
        },
        Value::Map(map) => match map.elem() {
            Elem::Str => "map[string]string",
            _ => "map[string]interface {}",
        },
        Value::Time(_) => "time.Time",
        Value::Location(_) => "*time.Location",
    }
}

/// The name of the value's `reflect.Kind`.
pub(crate) const fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(IntType::Int | IntType::Month | IntType::Weekday, _) => "int",
        Value::Int(IntType::Int64 | IntType::Duration, _) => "int64",
        Value::Int(IntType::Uint8, _) => "uint8",
        Value::Float(_) => "float64",
        Value::Complex(..) => "complex128",
        Value::Str(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) => "map",
        Value::Time(_) => "struct",
        Value::Location(_) => "ptr",
    }
}

/// The result of the value's `String` method, if its type has one.
pub(crate) fn stringer(value: &Value) -> Option<String> {
    match value {
        Value::Int(kind, number) => crate::time::named(*kind, *number),
        Value::Time(time) => Some(time.to_string()),
        Value::Location(location) => Some(location.to_string()),
        _ => None,
    }
}
