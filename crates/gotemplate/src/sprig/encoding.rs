//! Base64, base32 and JSON.

use data_encoding::{BASE32, BASE64};

use super::{
    Table,
    bases::{base32, base64},
    string,
};
use crate::{
    function::{Args, Failure, Function, Param},
    json::{self, Style},
    value::Value,
};

pub(super) const FUNCTIONS: Table = {
    use Param::{Any, Str};
    &[
        (
            &["b64enc"],
            Function::new(&[Str], |args| string(BASE64.encode(args.text(0)?).into_bytes())),
        ),
        (
            &["b32enc"],
            Function::new(&[Str], |args| string(BASE32.encode(args.text(0)?).into_bytes())),
        ),
        (
            &["b64dec"],
            Function::new(&[Str], |args| Ok(decoded(base64(args.text(0)?), "base64"))),
        ),
        (
            &["b32dec"],
            Function::new(&[Str], |args| Ok(decoded(base32(args.text(0)?), "base32"))),
        ),
        (
            &["fromJson"],
            Function::new(&[Str], |args| match json::decode(args.text(0)?) {
                Ok(value) | Err((value, Failure::Error(_))) => Ok(value),
                Err((_, failure)) => Err(failure),
            }),
        ),
        (
            &["mustFromJson"],
            Function::new(&[Str], |args| {
                json::decode(args.text(0)?).map_err(|(_, failure)| failure)
            }),
        ),
        (
            &["toJson"],
            Function::new(&[Any], |args| or_nothing(json::encode(args.any(0), Style::Compact))),
        ),
        (
            &["mustToJson"],
            Function::new(&[Any], |args| json::encode(args.any(0), Style::Compact).map(Value::str)),
        ),
        (
            &["toPrettyJson"],
            Function::new(&[Any], |args| or_nothing(json::encode(args.any(0), Style::Pretty))),
        ),
        (
            &["mustToPrettyJson"],
            Function::new(&[Any], |args| json::encode(args.any(0), Style::Pretty).map(Value::str)),
        ),
        (
            &["toRawJson", "mustToRawJson"],
            Function::new(&[Any], |args| json::encode(args.any(0), Style::Raw).map(Value::str)),
        ),
    ]
};

/// The empty string where Go ignores the error. Exceeding a limit of this crate is still an error.
fn or_nothing(result: Result<Vec<u8>, Failure>) -> Result<Value, Failure> {
    match result {
        Ok(text) => Ok(Value::str(text)),
        Err(Failure::Error(_)) => Ok(Value::str("")),
        Err(failure) => Err(failure),
    }
}

/// The bytes, or the error as text.
fn decoded(result: Result<Vec<u8>, usize>, name: &str) -> Value {
    match result {
        Ok(bytes) => Value::str(bytes),
        Err(at) => Value::str(format!("illegal {name} data at input byte {at}")),
    }
}
