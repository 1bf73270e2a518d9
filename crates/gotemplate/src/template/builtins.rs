//! The built-in functions of text/template.

use std::cmp::Ordering;

use super::{
    ast::Term,
    call::{Act, Callee},
    escape,
    slot::Slot,
};
use crate::{
    fmt,
    function::{Failure, Function, Param},
    value::{Elem, IntType, Value},
};

pub(super) fn lookup(name: &str) -> Option<Callee> {
    const SLOT: Param = Param::Reflect;
    let unary = |body| Callee::new(&[SLOT], None, Act::Unary(body));
    let binary = |body| Callee::new(&[SLOT, SLOT], None, Act::Binary(body));
    let variadic = |act| Callee::new(&[SLOT], Some(SLOT), act);
    let text = |body| Callee::from_function(&Function::variadic(&[], Param::Any, body));
    Some(match name {
        "and" => variadic(Act::ShortCircuit { at: false }),
        "or" => variadic(Act::ShortCircuit { at: true }),
        "not" => unary(|arg| Ok(Value::Bool(!arg.is_true()))),
        "len" => unary(len),
        "index" => variadic(Act::Variadic(index)),
        "slice" => variadic(Act::Variadic(slice)),
        "call" => variadic(Act::Call),
        "eq" => variadic(Act::Variadic(|arg, others| {
            equals_any(arg, others).map(|is| Slot::bare(Value::Bool(is)))
        })),
        "ne" => binary(|a, b| equal(a, b).map(|is| Value::Bool(!is))),
        "lt" => binary(|a, b| less(a, b).map(Value::Bool)),
        "le" => binary(|a, b| less_or_equal(a, b).map(Value::Bool)),
        "gt" => binary(|a, b| less_or_equal(a, b).map(|is| Value::Bool(!is))),
        "ge" => binary(|a, b| less(a, b).map(|is| Value::Bool(!is))),
        "print" => text(|args| fmt::sprint(args).map(Value::str)),
        "println" => text(|args| fmt::sprintln(args).map(Value::str)),
        "printf" => Callee::from_function(&Function::variadic(&[Param::Str], Param::Any, printf)),
        "html" => text(|args| text_of(args).map(|text| Value::str(escape::html(&text)))),
        "js" => text(|args| text_of(args).map(|text| Value::str(escape::js(&text)))),
        "urlquery" => text(|args| text_of(args).map(|text| Value::str(escape::query(&text)))),
        _ => return None,
    })
}

fn error<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Error(text.into()))
}

fn printf(args: &[Value]) -> Result<Value, Failure> {
    match args {
        [Value::Str(format), args @ ..] => fmt::sprintf(format, args).map(Value::str),
        _ => Ok(Value::str("")),
    }
}

/// The text that the escaping functions escape: the arguments as `print` joins them, with nil as an action prints it.
fn text_of(args: &[Value]) -> Result<Vec<u8>, Failure> {
    let printable = |arg: &Value| {
        if matches!(arg, Value::Nil) {
            Value::str("<no value>")
        } else {
            arg.clone()
        }
    };
    fmt::sprint(&args.iter().map(printable).collect::<Vec<_>>())
}

fn len(item: &Slot) -> Result<Value, Failure> {
    let length = match item.value() {
        Value::Str(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Nil if item.is_boxed() => return error("len of nil pointer"),
        Value::Nil => {
            return Err(Failure::Panic(
                "reflect: call of reflect.Value.Type on zero Value".to_owned(),
            ));
        }
        other => return error(format!("len of type {}", pointed_type(other))),
    };
    Ok(Value::int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// The name of the type; for a pointer, the type that it points to.
fn pointed_type(value: &Value) -> &'static str {
    fmt::type_name(value).trim_start_matches('*')
}

fn index(item: &Slot, indexes: &[Slot]) -> Result<Slot, Failure> {
    let mut item = item.clone().unboxed();
    if item.is_none() {
        return error("index of untyped nil");
    }
    for index in indexes {
        let index = index.value();
        item = match item.value() {
            Value::Nil => return error("index of nil pointer"),
            Value::Str(text) => {
                let at = position(index, text.len())?;
                let byte = text
                    .get(at)
                    .ok_or_else(|| Failure::Panic("reflect: string index out of range".to_owned()))?;
                Slot::bare(Value::Int(IntType::Uint8, (*byte).into()))
            }
            Value::List(list) => Slot::item(list, position(index, list.len())?)
                .ok_or_else(|| Failure::Panic("reflect: slice index out of range".to_owned()))?,
            Value::Map(map) => match index {
                Value::Nil => return error("value is nil; should be of type string"),
                Value::Str(key) => Slot::entry(map, key).unwrap_or_else(|| zero(map.elem())),
                other => return error(format!("value has type {}; should be string", fmt::type_name(other))),
            },
            other => return error(format!("can't index item of type {}", pointed_type(other))),
        };
    }
    Ok(item)
}

fn slice(item: &Slot, indexes: &[Slot]) -> Result<Slot, Failure> {
    let capacity = match item.value() {
        Value::Nil => return error("slice of untyped nil"),
        _ if indexes.len() > 3 => return error(format!("too many slice indexes: {}", indexes.len())),
        Value::Str(_) if indexes.len() == 3 => return error("cannot 3-index slice a string"),
        Value::Str(text) => text.len(),
        Value::List(list) => list.capacity(),
        other => return error(format!("can't slice item of type {}", fmt::type_name(other))),
    };
    let length = match item.value() {
        Value::List(list) => list.len(),
        _ => capacity,
    };
    let mut bounds = [0, length, capacity];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        if index.is_boxed() {
            return error(format!("cannot index slice/array with type {}", index.type_name()));
        }
        *bound = position(index.value(), capacity)?;
    }
    let [start, end, max] = bounds;
    if start > end {
        return error(format!("invalid slice index: {start} > {end}"));
    }
    if end > max {
        return error(format!("invalid slice index: {end} > {max}"));
    }
    let part = match item.value() {
        Value::Str(text) => text.get(start..end).map(Value::str),
        Value::List(list) => list.slice3(start, end, max).map(Value::List),
        _ => None,
    };
    part.map(Slot::bare)
        .ok_or_else(|| Failure::Panic("reflect.Value.Slice: slice index out of bounds".to_owned()))
}

/// The result of `index` for a key that the map does not have.
fn zero(elem: Elem) -> Slot {
    match elem {
        Elem::Str => Slot::bare(Value::str("")),
        _ => Slot::boxed(Value::Nil),
    }
}

/// An index into a list. Like in Go, the length itself is accepted, and the access then panics.
fn position(index: &Value, length: usize) -> Result<usize, Failure> {
    match index {
        Value::Int(_, number) => match usize::try_from(*number) {
            Ok(at) if at <= length => Ok(at),
            _ => error(format!("index out of range: {number}")),
        },
        Value::Nil => error("cannot index slice/array with nil"),
        other => error(format!("cannot index slice/array with type {}", fmt::type_name(other))),
    }
}

/// Always fails, because no value of a template is a function. The term is the first argument, unless it was piped in.
pub(super) fn call(callee: &Slot, term: Option<&Term>) -> Failure {
    let type_name = match callee.value() {
        Value::Nil => return Failure::Error("call of nil".to_owned()),
        value => fmt::type_name(value),
    };
    let name = match (term, callee.value()) {
        (Some(term), _) => term.to_string(),
        (None, Value::Str(text)) => String::from_utf8_lossy(text).into_owned(),
        (None, _) => format!("<{type_name} Value>"),
    };
    Failure::Error(format!("non-function {name} of type {type_name}"))
}

/// Groups of types. Values of the same group can be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basic {
    Bool,
    Complex,
    /// Signed and unsigned integers.
    Int,
    Float,
    Str,
}

const fn basic(value: &Value) -> Option<Basic> {
    match value {
        Value::Bool(_) => Some(Basic::Bool),
        Value::Complex(..) => Some(Basic::Complex),
        Value::Int(..) => Some(Basic::Int),
        Value::Float(_) => Some(Basic::Float),
        Value::Str(_) => Some(Basic::Str),
        Value::Nil | Value::List(_) | Value::Map(_) | Value::Time(_) | Value::Location(_) => None,
    }
}

fn incompatible<T>(a: &Value, b: &Value) -> Result<T, Failure> {
    let (a, b) = (fmt::type_name(a), fmt::type_name(b));
    error(format!("incompatible types for comparison: {a} and {b}"))
}

fn equals_any(arg: &Slot, others: &[Slot]) -> Result<bool, Failure> {
    if others.is_empty() {
        return error("missing argument for comparison");
    }
    for other in others {
        if equal(arg, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal(a: &Slot, b: &Slot) -> Result<bool, Failure> {
    let (a, b) = (a.value(), b.value());
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(_, a), Value::Int(_, b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Complex(a, ai), Value::Complex(b, bi)) => a == b && ai == bi,
        (Value::Str(a), Value::Str(b)) => a == b,
        _ if basic(a).is_some() || basic(b).is_some() => {
            // Nil differs from all basic values; other values cannot be compared with them.
            if !matches!(a, Value::Nil) && !matches!(b, Value::Nil) {
                return incompatible(a, b);
            }
            false
        }
        _ if !matches!(a, Value::Nil) && !matches!(b, Value::Nil) && kind(a) != kind(b) => {
            let types = [a, b].map(|value| Value::str(fmt::type_name(value)));
            let [a_type, b_type] = types;
            let text = fmt::sprintf(
                b"non-comparable types %s: %v, %s: %v",
                &[a.clone(), a_type, b_type, b.clone()],
            )?;
            return error(String::from_utf8_lossy(&text));
        }
        _ if is_nil(a) || is_nil(b) => is_nil(a) == is_nil(b),
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Location(a), Value::Location(b)) => a == b,
        _ => {
            let text = fmt::sprintf(
                b"non-comparable type %s: %v",
                &[b.clone(), Value::str(fmt::type_name(b))],
            )?;
            return error(String::from_utf8_lossy(&text));
        }
    })
}

/// Distinguishes values that are not basic.
fn kind(value: &Value) -> std::mem::Discriminant<Value> {
    std::mem::discriminant(value)
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.is_nil(),
        _ => false,
    }
}

fn less(a: &Slot, b: &Slot) -> Result<bool, Failure> {
    let (a, b) = (a.value(), b.value());
    match (a, b) {
        (Value::Int(_, a), Value::Int(_, b)) => Ok(a < b),
        (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b) == Some(Ordering::Less)),
        (Value::Str(a), Value::Str(b)) => Ok(a < b),
        _ => match (basic(a), basic(b)) {
            (Some(a_kind), Some(b_kind)) if a_kind != b_kind => incompatible(a, b),
            _ => error("invalid type for comparison"),
        },
    }
}

fn less_or_equal(a: &Slot, b: &Slot) -> Result<bool, Failure> {
    Ok(less(a, b)? || equal(a, b)?)
}
