//! Defaults, conditions and `fail`.

use super::{Table, convert::is_empty};
use crate::{
    function::{Args, Failure, Function, Param},
    value::Value,
};

pub(super) const FUNCTIONS: Table = {
    use Param::{Any, Bool, Str};
    &[
        (
            &["default"],
            Function::variadic(&[Any], Any, |args| {
                let given = args.get(1).filter(|given| !is_empty(given));
                Ok(given.unwrap_or(args.any(0)).clone())
            }),
        ),
        (
            &["empty"],
            Function::new(&[Any], |args| Ok(Value::Bool(is_empty(args.any(0))))),
        ),
        (
            &["coalesce"],
            Function::variadic(&[], Any, |args| {
                Ok(args
                    .iter()
                    .find(|value| !is_empty(value))
                    .cloned()
                    .unwrap_or(Value::Nil))
            })
            .returning_any(),
        ),
        (
            &["all"],
            Function::variadic(&[], Any, |args| Ok(Value::Bool(!args.iter().any(is_empty)))),
        ),
        (
            &["any"],
            Function::variadic(&[], Any, |args| Ok(Value::Bool(!args.iter().all(is_empty)))),
        ),
        (
            &["ternary"],
            Function::new(&[Any, Any, Bool], |args| {
                Ok(args.any(usize::from(!args.bool(2)?)).clone())
            }),
        ),
        (
            &["fail"],
            Function::new(&[Str], |args| {
                Err(Failure::Error(String::from_utf8_lossy(args.text(0)?).into_owned()))
            }),
        ),
    ]
};
