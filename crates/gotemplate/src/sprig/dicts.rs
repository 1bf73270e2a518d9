//! Maps.

use std::collections::BTreeMap;

use super::{Table, convert::text_of};
use crate::{
    fmt::type_name,
    function::{Args, Failure, Function, Param, item_limit},
    value::{Elem, List, Map, Str, Value},
};

pub(super) const FUNCTIONS: Table = {
    use Param::{Any, Dict, Str};
    &[
        (&["dict"], Function::variadic(&[], Any, dict)),
        (
            &["get"],
            Function::new(&[Dict, Str], |args| {
                Ok(args.dict(0)?.get(args.text(1)?).unwrap_or_else(|| Value::str("")))
            }),
        ),
        (&["set"], Function::new(&[Dict, Str, Any], set)),
        (
            &["unset"],
            Function::new(&[Dict, Str], |args| {
                let dict = args.dict(0)?;
                dict.remove(args.text(1)?);
                Ok(Value::Map(dict.clone()))
            }),
        ),
        (
            &["hasKey"],
            Function::new(&[Dict, Str], |args| {
                Ok(Value::Bool(args.dict(0)?.contains(args.text(1)?)))
            }),
        ),
        (&["pluck"], Function::variadic(&[Str], Dict, pluck)),
        (&["keys"], Function::variadic(&[], Dict, keys)),
        (
            &["values"],
            Function::new(&[Dict], |args| {
                Ok(Value::appended(
                    args.dict(0)?.to_vec().into_iter().map(|(_, value)| value).collect(),
                ))
            }),
        ),
        (&["pick"], Function::variadic(&[Dict], Str, |args| chosen(args, true))),
        (&["omit"], Function::variadic(&[Dict], Str, |args| chosen(args, false))),
        (&["dig"], Function::variadic(&[], Any, dig)),
    ]
};

/// A map of alternating keys and values. A key without a value gets the empty string.
fn dict(args: &[Value]) -> Result<Value, Failure> {
    let mut entries = BTreeMap::new();
    for pair in args.chunks(2) {
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::str(""));
        entries.insert(Str::from(text_of(pair.any(0))?), value);
    }
    Ok(Value::map(entries))
}

fn set(args: &[Value]) -> Result<Value, Failure> {
    let dict = args.dict(0)?;
    item_limit(dict.len())?;
    if dict.insert(args.text(1)?.into(), args.any(2).clone()) {
        Ok(Value::Map(dict.clone()))
    } else {
        Err(Failure::Panic("assignment to entry in nil map".to_owned()))
    }
}

fn pluck(args: &[Value]) -> Result<Value, Failure> {
    let key = args.text(0)?;
    let mut found = Vec::new();
    for at in 1..args.len() {
        found.extend(args.dict(at)?.get(key));
    }
    Ok(Value::appended(found))
}

fn keys(args: &[Value]) -> Result<Value, Failure> {
    let mut keys = Vec::new();
    for at in 0..args.len() {
        keys.extend(args.dict(at)?.to_vec().into_iter().map(|(key, _)| Value::Str(key)));
        item_limit(keys.len())?;
    }
    Ok(Value::List(List::appended(Elem::Str, keys)))
}

/// The entries whose keys are among the arguments, or those whose keys are not.
fn chosen(args: &[Value], named: bool) -> Result<Value, Failure> {
    let names = (1..args.len()).map(|at| args.text(at)).collect::<Result<Vec<_>, _>>()?;
    let entries = args.dict(0)?.to_vec();
    Ok(Value::map(
        entries.into_iter().filter(|(key, _)| names.contains(&&**key) == named),
    ))
}

/// Follows keys through nested maps. Returns the default if a key is missing.
fn dig(args: &[Value]) -> Result<Value, Failure> {
    let [keys @ .., default, dict] = args else {
        return Err(too_few());
    };
    if keys.is_empty() {
        return Err(too_few());
    }
    let mut dict = dict_of(dict)?;
    let keys = keys.iter().map(key_of).collect::<Result<Vec<_>, _>>()?;
    let Some((last, path)) = keys.split_last() else {
        return Err(too_few());
    };
    for key in path {
        let Some(step) = dict.get(key) else {
            return Ok(default.clone());
        };
        dict = dict_of(&step)?;
    }
    Ok(dict.get(last).unwrap_or_else(|| default.clone()))
}

fn too_few() -> Failure {
    Failure::Panic("dig needs at least three arguments".to_owned())
}

fn dict_of(value: &Value) -> Result<Map, Failure> {
    match value {
        Value::Map(map) if map.elem() == Elem::Any => Ok(map.clone()),
        _ => Err(not_a(value, "map[string]interface {}")),
    }
}

fn key_of(value: &Value) -> Result<Str, Failure> {
    if let Value::Str(key) = value {
        Ok(key.clone())
    } else {
        Err(not_a(value, "string"))
    }
}

/// Go's panic on a failed type assertion.
fn not_a(value: &Value, wanted: &str) -> Failure {
    let found = if matches!(value, Value::Nil) {
        "nil"
    } else {
        type_name(value)
    };
    Failure::Panic(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
}
