//! The fields of a kind as flags.

use std::ffi::OsStr;

use clap::{Arg, ArgAction, ArgMatches};
use clap_complete::engine::ArgValueCompleter;
use fleet::nearest::did_you_mean;
use serde_json::{Map, Value};

use super::complete;
use crate::kinds::{Field, Form};

/// The flag of a field.
pub(crate) fn field_arg(field: &Field, required: bool) -> Arg {
    let form = field.form.clone();
    let mut arg = Arg::new(field.arg())
        .long(field.flag.clone())
        .value_name(form.placeholder())
        .required(required);
    if let Some(alias) = &field.alias {
        arg = arg.alias(alias.clone());
    }
    let mut help = if field.description.is_empty() {
        format!("Set {}", field.name)
    } else {
        trimmed(&field.description)
    };
    if !field.options.is_empty() {
        help.push_str(&format!(" [{}]", field.options.join(", ")));
    }
    if let Form::Items(parts) | Form::Settings(parts) = &form {
        let names: Vec<_> = parts.iter().map(|(name, _)| name.as_str()).collect();
        help.push_str(&format!(" [{}]", names.join(", ")));
    }
    if form.is_repeated() {
        help.push_str(" (can be repeated)");
        arg = arg.action(ArgAction::Append);
    }
    if matches!(form, Form::Whole | Form::Number) {
        arg = arg.allow_negative_numbers(true);
    }
    if form == Form::Switch {
        arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    if !field.options.is_empty() {
        let options = field.options.clone();
        arg = arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            complete::starting_with(current, &options)
        }));
    }
    arg.help(help).value_parser(move |text: &str| form.parse(text))
}

/// The values of the flags that were given, by field. A repeated flag gives one array or object.
pub(crate) fn field_values(fields: &[Field], matches: &ArgMatches) -> Map<String, Value> {
    let mut values = Map::new();
    for field in fields {
        let Some(mut given) = matches.get_many::<Value>(&field.arg()) else {
            continue;
        };
        let value = match field.form {
            Form::Texts(_) | Form::Items(_) => Value::Array(given.cloned().collect()),
            Form::Pairs | Form::Settings(_) => given
                .filter_map(Value::as_object)
                .flat_map(Map::clone)
                .collect::<Map<_, _>>()
                .into(),
            _ => match given.next_back() {
                Some(value) => value.clone(),
                None => continue,
            },
        };
        values.insert(field.name.clone(), value);
    }
    values
}

/// Parses the name of a field: `oci_tag`, or `oci-tag` as in the flag. A misspelt name is refused: clearing a field that does
/// not exist would silently do nothing.
pub(crate) fn field_name(text: &str, known: &[String]) -> Result<String, String> {
    let field = text.replace('-', "_");
    match known.contains(&field) {
        true => Ok(field),
        false => {
            let like = did_you_mean(&field, known.iter().map(String::as_str));
            let like = like.map(|like| format!("; {like}")).unwrap_or_default();
            Err(format!("\"{text}\" is not one of {}{like}", known.join(", ")))
        }
    }
}

/// Parses a field, or a field and a key within it. Keys of labels contain dots: only the first dot separates.
pub(crate) fn field_path(text: &str, known: &[String]) -> Result<(String, Option<String>), String> {
    match text.split_once('.') {
        Some((field, key)) => Ok((field_name(field, known)?, Some(key.to_owned()))),
        None => Ok((field_name(text, known)?, None)),
    }
}

/// A description as help shows it: without the full stop at the end.
pub(crate) fn trimmed(text: &str) -> String {
    text.trim().trim_end_matches('.').to_owned()
}
