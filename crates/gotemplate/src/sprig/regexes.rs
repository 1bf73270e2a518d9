//! Regular expressions.

use super::{Table, string};
use crate::{
    function::{Args, Failure, Function, Param, item_limit},
    regexp::{self, Regexp, Split},
    strconv,
    value::{Elem, List, Value},
};

pub(super) const FUNCTIONS: Table = {
    use Param::{Int, Str};
    &[
        (
            &["regexMatch"],
            Function::new(&[Str, Str], |args| match Regexp::compile(args.text(0)?) {
                Ok(regexp) => regexp.is_match(args.text(1)?).map(Value::Bool),
                Err(Failure::Error(_)) => Ok(Value::Bool(false)),
                Err(failure) => Err(failure),
            }),
        ),
        (
            &["mustRegexMatch"],
            Function::new(&[Str, Str], |args| {
                Regexp::compile(args.text(0)?)?.is_match(args.text(1)?).map(Value::Bool)
            }),
        ),
        (
            &["regexFindAll"],
            Function::new(&[Str, Str, Int], |args| find_all(&must(args)?, args)),
        ),
        (
            &["mustRegexFindAll"],
            Function::new(&[Str, Str, Int], |args| {
                find_all(&Regexp::compile(args.text(0)?)?, args)
            }),
        ),
        (
            &["regexFind"],
            Function::new(&[Str, Str], |args| find(&must(args)?, args)),
        ),
        (
            &["mustRegexFind"],
            Function::new(&[Str, Str], |args| find(&Regexp::compile(args.text(0)?)?, args)),
        ),
        (
            &["regexReplaceAll"],
            Function::new(&[Str, Str, Str], |args| replace(&must(args)?, args)),
        ),
        (
            &["mustRegexReplaceAll"],
            Function::new(&[Str, Str, Str], |args| replace(&Regexp::compile(args.text(0)?)?, args)),
        ),
        (
            &["regexReplaceAllLiteral"],
            Function::new(&[Str, Str, Str], |args| replace_literal(&must(args)?, args)),
        ),
        (
            &["mustRegexReplaceAllLiteral"],
            Function::new(&[Str, Str, Str], |args| {
                replace_literal(&Regexp::compile(args.text(0)?)?, args)
            }),
        ),
        (
            &["regexSplit"],
            Function::new(&[Str, Str, Int], |args| split(&must(args)?, args)),
        ),
        (
            &["mustRegexSplit"],
            Function::new(&[Str, Str, Int], |args| split(&Regexp::compile(args.text(0)?)?, args)),
        ),
        (
            &["regexQuoteMeta"],
            Function::new(&[Str], |args| string(regexp::quote_meta(args.text(0)?))),
        ),
    ]
};

/// `regexp.MustCompile`, which panics.
fn must(args: &[Value]) -> Result<Regexp, Failure> {
    let expression = args.text(0)?;
    Regexp::compile(expression).map_err(|failure| match failure {
        Failure::Error(problem) => {
            let quoted = if strconv::can_backquote(expression) {
                format!("`{}`", String::from_utf8_lossy(expression))
            } else {
                strconv::quote(expression)
            };
            Failure::Panic(format!("regexp: Compile({quoted}): {problem}"))
        }
        failure => failure,
    })
}

fn find(regexp: &Regexp, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::str(regexp.find(args.text(1)?)?.unwrap_or_default()))
}

fn find_all(regexp: &Regexp, args: &[Value]) -> Result<Value, Failure> {
    let found = regexp.find_all(args.text(1)?, args.int(2)?)?;
    // Go starts with a capacity of ten.
    let capacity = match found.len() {
        0 => return Ok(Value::List(List::nil(Elem::Str))),
        1..=10 => 10,
        11..=20 => 20,
        _ => 0,
    };
    Ok(strings(&found, capacity))
}

fn replace(regexp: &Regexp, args: &[Value]) -> Result<Value, Failure> {
    string(regexp.replace_all(args.text(1)?, args.text(2)?)?)
}

fn replace_literal(regexp: &Regexp, args: &[Value]) -> Result<Value, Failure> {
    string(regexp.replace_all_literal(args.text(1)?, args.text(2)?)?)
}

fn split(regexp: &Regexp, args: &[Value]) -> Result<Value, Failure> {
    match regexp.split(args.text(1)?, args.int(2)?)? {
        Some(Split { parts, matches }) => {
            item_limit(parts.len())?;
            // Go starts with a capacity of the number of matches.
            let capacity = if parts.len() > matches && matches <= 16 {
                2 * matches
            } else {
                matches
            };
            Ok(strings(&parts, capacity))
        }
        None => Ok(Value::List(List::nil(Elem::Str))),
    }
}

fn strings(texts: &[&[u8]], capacity: usize) -> Value {
    Value::List(List::with_capacity(
        Elem::Str,
        texts.iter().map(Value::str).collect(),
        capacity,
    ))
}
