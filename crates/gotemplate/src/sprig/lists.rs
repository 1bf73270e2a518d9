//! Lists.

use super::{
    Table,
    convert::{int_of, is_empty, strings_of, text_of},
    equal::Comparison,
};
use crate::{
    fmt::kind_name,
    function::{Args, Failure, Function, Param, item_limit},
    value::{Elem, List, Value},
};

pub(super) const FUNCTIONS: Table = {
    use Param::{Any, Int};
    &[
        (
            &["list", "tuple"],
            Function::variadic(&[], Any, |args| Ok(Value::list(args.to_vec()))),
        ),
        (
            &["append", "push", "mustAppend", "mustPush"],
            Function::new(&[Any, Any], |args| {
                let mut list = list_of(args.any(0), "Cannot push on type ")?;
                // Go doubles the capacity; this crate follows that for short lists.
                let capacity = if list.len() <= 16 { 2 * list.len() } else { 0 };
                list.push(args.any(1).clone());
                item_limit(list.len())?;
                Ok(Value::List(List::with_capacity(Elem::Any, list, capacity)))
            }),
        ),
        (
            &["prepend", "mustPrepend"],
            Function::new(&[Any, Any], |args| {
                let list = list_of(args.any(0), "Cannot prepend on type ")?;
                item_limit(list.len() + 1)?;
                Ok(Value::list([vec![args.any(1).clone()], list].concat()))
            }),
        ),
        (&["chunk", "mustChunk"], Function::new(&[Int, Any], chunk)),
        (
            &["first", "mustFirst"],
            Function::new(&[Any], |args| {
                let list = list_of(args.any(0), "Cannot find first on type ")?;
                Ok(list.first().cloned().unwrap_or(Value::Nil))
            }),
        ),
        (
            &["last", "mustLast"],
            Function::new(&[Any], |args| {
                let list = list_of(args.any(0), "Cannot find last on type ")?;
                Ok(list.last().cloned().unwrap_or(Value::Nil))
            }),
        ),
        (
            &["rest", "mustRest"],
            Function::new(&[Any], |args| {
                let list = list_of(args.any(0), "Cannot find rest on type ")?;
                Ok(list
                    .split_first()
                    .map_or_else(nil_list, |(_, rest)| Value::list(rest.to_vec())))
            }),
        ),
        (
            &["initial", "mustInitial"],
            Function::new(&[Any], |args| {
                let list = list_of(args.any(0), "Cannot find initial on type ")?;
                Ok(list
                    .split_last()
                    .map_or_else(nil_list, |(_, initial)| Value::list(initial.to_vec())))
            }),
        ),
        (
            &["reverse", "mustReverse"],
            Function::new(&[Any], |args| {
                let mut list = list_of(args.any(0), "Cannot find reverse on type ")?;
                list.reverse();
                Ok(Value::list(list))
            }),
        ),
        (
            &["compact", "mustCompact"],
            Function::new(&[Any], |args| {
                let list = list_of(args.any(0), "Cannot compact on type ")?;
                Ok(Value::appended(
                    list.into_iter().filter(|item| !is_empty(item)).collect(),
                ))
            }),
        ),
        (&["uniq", "mustUniq"], Function::new(&[Any], uniq)),
        (&["without", "mustWithout"], Function::variadic(&[Any], Any, without)),
        (&["has", "mustHas"], Function::new(&[Any, Any], has)),
        (&["slice", "mustSlice"], Function::variadic(&[Any], Any, slice)),
        (&["concat"], Function::variadic(&[], Any, concat).returning_any()),
        (&["sortAlpha"], Function::new(&[Any], sort_alpha)),
    ]
};

/// The items of a list. For other values an error: the problem and the kind of the value.
fn list_of(value: &Value, problem: &str) -> Result<Vec<Value>, Failure> {
    match value {
        Value::Nil => Err(Failure::nil_dereference()),
        Value::List(list) => Ok(list.to_vec()),
        _ => Err(Failure::Error(format!("{problem}{}", kind_name(value)))),
    }
}

fn nil_list() -> Value {
    Value::List(List::nil(Elem::Any))
}

/// Lists of `size` items; the last one has the rest. sprig computes the count in floats, which matters for negative sizes.
fn chunk(args: &[Value]) -> Result<Value, Failure> {
    let too_long = || Failure::Panic("runtime error: makeslice: len out of range".to_owned());
    let list = list_of(args.any(1), "Cannot chunk type ")?;
    let size = args.int(0)?;
    let length = i64::try_from(list.len()).map_err(|_| Failure::size())?;
    if size == 0 {
        return Err(too_long());
    }
    let count = ((length - 1) as f64 / size as f64).floor() as i64 + 1;
    if count < 0 {
        return Err(too_long());
    }
    let mut chunks = Vec::new();
    for index in 0..count {
        let last = if length % size == 0 { size } else { length % size };
        let taken = if index == count - 1 { last } else { size };
        let taken = usize::try_from(taken).map_err(|_| too_long())?;
        let from = usize::try_from(index * size).map_err(|_| too_long())?;
        let part = list.get(from..from + taken).unwrap_or_default().to_vec();
        chunks.push(Value::list(part));
    }
    Ok(Value::List(List::new(Elem::Anys, chunks)))
}

fn uniq(args: &[Value]) -> Result<Value, Failure> {
    let mut comparison = Comparison::default();
    let mut kept: Vec<Value> = Vec::new();
    for item in list_of(args.any(0), "Cannot find uniq on type ")? {
        if !comparison.any(&item, &kept)? {
            kept.push(item);
        }
    }
    Ok(Value::appended(kept))
}

fn without(args: &[Value]) -> Result<Value, Failure> {
    let mut comparison = Comparison::default();
    let mut kept = Vec::new();
    for item in list_of(args.any(0), "Cannot find without on type ")? {
        if !comparison.any(&item, args.rest(1))? {
            kept.push(item);
        }
    }
    Ok(Value::appended(kept))
}

fn has(args: &[Value]) -> Result<Value, Failure> {
    if matches!(args.any(1), Value::Nil) {
        return Ok(Value::Bool(false));
    }
    let list = list_of(args.any(1), "Cannot find has on type ")?;
    Comparison::default().any(args.any(0), &list).map(Value::Bool)
}

/// A part of the list, with the same memory and type.
fn slice(args: &[Value]) -> Result<Value, Failure> {
    let list = match args.any(0) {
        Value::Nil => return Err(Failure::nil_dereference()),
        Value::List(list) => list,
        other => {
            return Err(Failure::Error(format!(
                "list should be type of slice or array but {}",
                kind_name(other)
            )));
        }
    };
    if list.is_empty() {
        return Ok(Value::Nil);
    }
    let bound = |at: usize, otherwise: usize| match args.get(at) {
        Some(value) => usize::try_from(int_of(value)).ok(),
        None => Some(otherwise),
    };
    let range = bound(1, 0).zip(bound(2, list.len()));
    range
        .and_then(|(start, end)| list.slice(start, end))
        .map(Value::List)
        .ok_or_else(|| Failure::Panic("reflect.Value.Slice: slice index out of bounds".to_owned()))
}

fn concat(args: &[Value]) -> Result<Value, Failure> {
    let mut all = Vec::new();
    for list in args {
        match list {
            Value::Nil => return Err(Failure::nil_dereference()),
            Value::List(list) => all.extend(list.to_vec()),
            other => {
                let problem = format!("Cannot concat type {} as list", kind_name(other));
                return Err(Failure::Panic(problem));
            }
        }
        item_limit(all.len())?;
    }
    if all.is_empty() {
        Ok(nil_list())
    } else {
        Ok(Value::appended(all))
    }
}

/// Sorts by bytes. A `[]string` is sorted in place, so every holder of the list sees it.
fn sort_alpha(args: &[Value]) -> Result<Value, Failure> {
    let value = args.any(0);
    if !matches!(value, Value::List(_)) {
        return Ok(Value::strings([text_of(value)?]));
    }
    let list = strings_of(value)?;
    let mut items = list.to_vec();
    items.sort_by(|a, b| match (a, b) {
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        _ => std::cmp::Ordering::Equal,
    });
    list.overwrite(items);
    Ok(Value::List(list))
}
