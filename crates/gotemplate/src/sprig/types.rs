//! Types and equality.

use super::{Table, equal::Comparison};
use crate::{
    fmt::{kind_name, type_name},
    function::{Args, Function, Param},
    value::Value,
};

pub(super) const FUNCTIONS: Table = {
    use Param::{Any, Str};
    &[
        (
            &["typeOf"],
            Function::new(&[Any], |args| Ok(Value::str(type_name(args.any(0))))),
        ),
        (
            &["typeIs"],
            Function::new(&[Str, Any], |args| {
                Ok(Value::Bool(args.text(0)? == type_name(args.any(1)).as_bytes()))
            }),
        ),
        (
            &["typeIsLike"],
            Function::new(&[Str, Any], |args| {
                let name = type_name(args.any(1));
                let alike = [name, name.strip_prefix('*').unwrap_or(name)]
                    .iter()
                    .any(|name| Ok(name.as_bytes()) == args.text(0));
                Ok(Value::Bool(alike))
            }),
        ),
        (
            &["kindOf"],
            Function::new(&[Any], |args| Ok(Value::str(kind_name(args.any(0))))),
        ),
        (
            &["kindIs"],
            Function::new(&[Str, Any], |args| {
                Ok(Value::Bool(args.text(0)? == kind_name(args.any(1)).as_bytes()))
            }),
        ),
        (
            &["deepEqual"],
            Function::new(&[Any, Any], |args| {
                Comparison::default().equal(args.any(0), args.any(1)).map(Value::Bool)
            }),
        ),
    ]
};
