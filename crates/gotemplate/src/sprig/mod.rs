//! The functions of [slim-sprig](https://github.com/go-task/slim-sprig)'s hermetic set.
//!
//! They are deterministic here, also the few that are not so in Go: `ago` and `durationRound` of a time act as if the clock
//! stood at that time, `randInt` returns the lower bound, and `keys` and `values` come sorted by key instead of in random
//! order.

mod bases;
mod convert;
mod dates;
mod defaults;
mod dicts;
mod encoding;
mod equal;
mod lists;
mod numbers;
mod paths;
mod regexes;
mod strings;
#[cfg(test)]
mod tests;
mod types;
mod urls;

use crate::{
    function::{Failure, Function, Functions, size_limit},
    value::Value,
};

/// slim-sprig's hermetic functions, `sprig.HermeticTxtFuncMap` in Go.
///
/// ```
/// use gotemplate::{Options, Template, Value, sprig};
///
/// let options = Options::new().functions(sprig::functions());
/// let template = Template::parse_with("t", r#"{{ list "b" "a" | sortAlpha | join "," | quote }}"#, &options)?;
/// assert_eq!(template.execute(&Value::Nil)?, br#""a,b""#);
/// # Ok::<(), gotemplate::Error>(())
/// ```
#[must_use]
pub fn functions() -> Functions {
    let tables = [
        dates::FUNCTIONS,
        defaults::FUNCTIONS,
        dicts::FUNCTIONS,
        encoding::FUNCTIONS,
        lists::FUNCTIONS,
        numbers::FUNCTIONS,
        paths::FUNCTIONS,
        regexes::FUNCTIONS,
        strings::FUNCTIONS,
        types::FUNCTIONS,
        urls::FUNCTIONS,
    ];
    let mut functions = Functions::new();
    for (names, function) in tables.into_iter().flatten() {
        functions.extend(names.iter().map(|name| (*name, function.clone())));
    }
    functions
}

/// Functions with their names, of which most have one.
type Table = &'static [(&'static [&'static str], Function)];

/// A string result, if it is not too long.
fn string(text: Vec<u8>) -> Result<Value, Failure> {
    size_limit(text.len())?;
    Ok(Value::str(text))
}
