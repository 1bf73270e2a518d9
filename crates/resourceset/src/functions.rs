//! Templates as Flux Operator sets them up: delimiters `<<` and `>>`, `missingkey=error`, and functions.

use std::sync::LazyLock;

use gotemplate::{Args, Error, Failure, Function, MissingKey, Options, Param, Template, Value, sprig, yaml};

use crate::slug::slug;

/// The name that Flux Operator gives every template. It appears in errors.
const NAME: &str = "resourceset";

/// The function that returns the input.
const INPUTS: &str = "inputs";

static OPTIONS: LazyLock<Options> = LazyLock::new(|| {
    let functions = sprig::functions()
        .with_supplied(INPUTS)
        .with(
            "slugify",
            Function::new(&[Param::Str], |args| Ok(Value::str(slug(args.text(0)?)))),
        )
        .with("toYaml", Function::new(&[Param::Any], to_yaml))
        .with(
            "mustToYaml",
            Function::new(&[Param::Any], |args| yaml::encode(args.any(0)).map(Value::str)),
        );
    Options::new()
        .delimiters("<<", ">>")
        .missing_key(MissingKey::Error)
        .functions(functions)
});

/// Parses a template.
pub(crate) fn parse(text: &str) -> Result<Template, Error> {
    Template::parse_with(NAME, text, &OPTIONS)
}

/// Executes a template for one input, a map. The template can change it.
pub(crate) fn execute(template: &Template, input: &Value) -> Result<Vec<u8>, Error> {
    template.execute_with(&Value::Nil, &[(INPUTS, input)])
}

/// The empty string where Go ignores the error. Exceeding a limit of our own is still an error.
fn to_yaml(args: &[Value]) -> Result<Value, Failure> {
    match yaml::encode(args.any(0)) {
        Ok(text) => Ok(Value::str(text)),
        Err(Failure::Error(_)) => Ok(Value::str("")),
        Err(failure) => Err(failure),
    }
}
