//! Whether a document is valid under its kind, and what is wrong with it.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, PatternOptions, Validator};
use serde_json::{Map, Value};

use super::{CLUSTERS, Kind};
use crate::nearest::did_you_mean;
use crate::refusal::{MOST_VIOLATIONS, Violation, segment, shorten};

/// Where the compiled schema has the rules for the ids of all kinds.
const COMMON_RULES: &str = "/allOf/1";
/// The most characters of a message that quotes a value.
const MOST_DETAIL: usize = 300;

/// What is wrong with a property that does not exist.
const UNKNOWN: &str = "is not a property of this kind";

impl Kind {
    /// What the schema finds wrong with a document. Only the first problem if there may be very many.
    fn problems<'v>(&'v self, value: &'v Value) -> Vec<jsonschema::ValidationError<'v>> {
        const MOST: usize = 1000;
        if self.validator.is_valid(value) {
            Vec::new()
        } else if self.cost().may_be_flooded(value) {
            self.validator.validate(value).err().into_iter().collect()
        } else {
            self.validator.iter_errors(value).take(MOST).collect()
        }
    }

    /// Everything that is wrong with a document of this kind.
    pub fn validate(&self, value: &Value) -> Vec<Violation> {
        let mut errors: Vec<Violation> = Vec::new();
        for error in self.problems(value) {
            let at = error.instance_path().as_str();
            // The rule for the ids of all kinds is reported only if the kind's own rules for the same place hold.
            let common = error.schema_path().as_str().starts_with(COMMON_RULES);
            if common && errors.iter().any(|error| error.pointer == at) {
                continue;
            }
            errors.extend(violation(&error, &self.schema));
        }
        if &*self.name == CLUSTERS {
            errors.extend(self.ambiguous_labels(value));
        }
        errors.sort();
        errors.dedup();
        errors.truncate(MOST_VIOLATIONS);
        errors
    }

    /// Labels that have the name of a field: a selector could not tell them apart.
    fn ambiguous_labels(&self, cluster: &Value) -> impl Iterator<Item = Violation> {
        let labels = cluster["labels"].as_object().into_iter().flatten();
        labels.filter(|(key, _)| self.is_scalar_field(key)).map(|(key, _)| {
            let detail = "has the name of a field of clusters: a selector could not tell them apart";
            Violation::new(format!("/labels{}", segment(key)), detail)
        })
    }
}

/// The violations that one error of the schema stands for.
pub(super) fn violation(error: &jsonschema::ValidationError<'_>, schema: &Value) -> Vec<Violation> {
    let at = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let unexpected = unexpected.iter();
            unexpected
                .map(|name| Violation::new(format!("{at}{}", segment(name)), unknown_property(schema, at, name)))
                .collect()
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![Violation::new(format!("{at}{}", segment(name)), "is required")]
        }
        ValidationErrorKind::FalseSchema => vec![Violation::new(at, UNKNOWN)],
        _ => vec![Violation::new(at, describe(error))],
    }
}

/// The problem of a property that does not exist, with the one that was probably meant.
fn unknown_property(schema: &Value, at: &str, name: &str) -> String {
    let known = properties(schema, at).into_iter().flatten();
    match did_you_mean(name, known.map(|(known, _)| known.as_str())) {
        Some(like) => format!("{UNKNOWN}; {like}"),
        None => UNKNOWN.to_owned(),
    }
}

/// Compiles a JSON Schema.
pub(super) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::draft202012::options()
        // Users write these patterns, and a backtracking engine can take exponential time on one.
        .with_pattern_options(PatternOptions::regex())
        .should_validate_formats(true)
        .build(schema)
        .map_err(|error| shorten(error.to_string(), MOST_DETAIL))
}

/// Describes one problem of a document.
pub(super) fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let detail = match error.kind() {
        ValidationErrorKind::PropertyNames { error } => {
            let why = describe(error);
            let plain = format!("{} is not allowed: ", error.instance());
            let why = why.strip_prefix(&plain).unwrap_or(&why);
            format!("the name {} is not allowed: {why}", error.instance())
        }
        // The library's message lists only two of the options.
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().into_iter().flatten();
            let like = error.instance().as_str();
            let like = like.and_then(|given| did_you_mean(given, options.clone().filter_map(Value::as_str)));
            let like = like.map(|like| format!("; {like}")).unwrap_or_default();
            let options: Vec<_> = options.map(Value::to_string).take(MOST_DETAIL).collect();
            format!("{} is not one of {}{like}", quoted(error), options.join(", "))
        }
        ValidationErrorKind::Type { kind } => unquoted(error, kind).unwrap_or_else(|| message(error)),
        ValidationErrorKind::Pattern { .. } => spaced(error).unwrap_or_else(|| message(error)),
        // A schema under `not` may describe itself.
        ValidationErrorKind::Not { schema } => match schema.get("description").and_then(Value::as_str) {
            Some(description) => {
                let description = description.trim_end_matches('.');
                format!("{} is not allowed: {description}", quoted(error))
            }
            None => message(error),
        },
        _ => message(error),
    };
    shorten(detail, MOST_DETAIL)
}

/// YAML reads a version such as 1.10 as a number, unless it is in quotes.
fn unquoted(error: &jsonschema::ValidationError<'_>, expected: &TypeKind) -> Option<String> {
    let accepts_text = match expected {
        TypeKind::Single(one) => *one == JsonType::String,
        TypeKind::Multiple(several) => several.contains(JsonType::String),
    };
    let (is, because) = match error.instance().as_ref() {
        _ if !accepts_text => return None,
        Value::Number(number) if number.is_f64() => ("a number", ": without quotes, 1.10 is the number 1.1"),
        Value::Number(_) => ("a number", ""),
        Value::Bool(_) => ("a boolean", ""),
        _ => return None,
    };
    let given = quoted(error);
    Some(format!(
        "{given} is {is}, and a string is expected; in YAML, put the value in quotes{because}"
    ))
}

/// A space at the end of a value is easy to paste and hard to see.
fn spaced(error: &jsonschema::ValidationError<'_>) -> Option<String> {
    let instance = error.instance();
    let given = instance.as_str()?;
    let place = match (given.trim_start() != given, given.trim_end() != given) {
        _ if given.trim().is_empty() => return None,
        (true, true) => "begins and ends",
        (true, false) => "begins",
        (false, true) => "ends",
        (false, false) => return None,
    };
    Some(format!("{} {place} with a space, which is not allowed", quoted(error)))
}

/// The properties that a schema has for the object at a place of a document.
fn properties<'s>(schema: &'s Value, at: &str) -> Option<&'s Map<String, Value>> {
    let segments = at.split('/').skip(1);
    let inner = segments.fold(schema, |schema, segment| match schema.get("items") {
        Some(items) => items,
        None => match schema["properties"].get(segment.replace("~1", "/").replace("~0", "~")) {
            Some(property) => property,
            None => &schema["additionalProperties"],
        },
    });
    inner["properties"].as_object()
}

/// The library's message. It begins with the value, so a long value is shortened to keep the reason visible.
fn message(error: &jsonschema::ValidationError<'_>) -> String {
    let whole = error.to_string();
    match whole.chars().nth(MOST_DETAIL) {
        Some(_) => error.masked_with(quoted(error)).to_string(),
        None => whole,
    }
}

fn quoted(error: &jsonschema::ValidationError<'_>) -> String {
    const MOST: usize = 100;
    shorten(error.instance().to_string(), MOST)
}
