//! Label selectors.

use std::collections::BTreeMap;

use gotemplate::{json, strconv};
use serde::Deserialize;

/// A label selector, as `spec.inputsFrom` has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Selector {
    match_labels: Option<BTreeMap<String, Option<String>>>,
    match_expressions: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: Option<String>,
    operator: Option<String>,
    values: Option<Vec<Option<String>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// A valid selector.
pub(crate) struct Matcher {
    requirements: Vec<(String, Operator, Vec<String>)>,
}

impl Matcher {
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements
            .iter()
            .all(|(key, operator, values)| match (operator, labels.get(key)) {
                (Operator::In, Some(value)) => values.contains(value),
                (Operator::NotIn, Some(value)) => !values.contains(value),
                (Operator::Exists, found) => found.is_some(),
                (Operator::DoesNotExist, found) => found.is_none(),
                (Operator::In, None) => false,
                (Operator::NotIn, None) => true,
            })
    }
}

impl Selector {
    pub(crate) fn matcher(&self) -> Result<Matcher, String> {
        let mut requirements = Vec::new();
        for (key, value) in self.match_labels.iter().flatten() {
            let values = vec![value.clone().unwrap_or_default()];
            requirements.push(requirement(key, Operator::In, values)?);
        }
        for expression in self.match_expressions.iter().flatten() {
            let operator = match expression.operator.as_deref().unwrap_or_default() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{} is not a valid label selector operator", quoted(other))),
            };
            let key = expression.key.as_deref().unwrap_or_default();
            let values = expression
                .values
                .iter()
                .flatten()
                .map(|value| value.clone().unwrap_or_default())
                .collect();
            requirements.push(requirement(key, operator, values)?);
        }
        Ok(Matcher { requirements })
    }
}

fn requirement(key: &str, operator: Operator, values: Vec<String>) -> Result<(String, Operator, Vec<String>), String> {
    let mut problems = Vec::new();
    let faults = label_key_faults(key);
    if !faults.is_empty() {
        problems.push(format!("key: Invalid value: {}: {}", quoted(key), faults.join("; ")));
    }
    let list = || {
        // A nil slice is null in JSON.
        if values.is_empty() {
            return "null".to_owned();
        }
        json::marshal(&values.iter().cloned().map(serde_json::Value::String).collect())
    };
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => problems.push(format!(
            "values: Invalid value: {}: for 'in', 'notin' operators, values set can't be empty",
            list()
        )),
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => problems.push(format!(
            "values: Invalid value: {}: values set must be empty for exists and does not exist",
            list()
        )),
        _ => {}
    }
    for (at, value) in values.iter().enumerate() {
        let faults = label_value_faults(value);
        if !faults.is_empty() {
            let faults = faults.join("; ");
            problems.push(format!(
                "values[{at}][{key}]: Invalid value: {}: {faults}",
                quoted(value)
            ));
        }
    }
    match problems.as_slice() {
        [] => Ok((key.to_owned(), operator, values)),
        [problem] => Err(problem.clone()),
        _ => Err(format!("[{}]", problems.join(", "))),
    }
}

fn quoted(text: &str) -> String {
    strconv::quote(text.as_bytes())
}

const NAME: &str = "(e.g. 'MyName',  or 'my.name',  or '123-abc', \
                    regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', \
                         and must start and end with an alphanumeric character";
const MAX_LENGTH: usize = 63;

/// Whether a text starts and ends with a letter or digit and has only allowed characters between.
fn is_name(text: &str) -> bool {
    let ends = text.starts_with(|char: char| char.is_ascii_alphanumeric())
        && text.ends_with(|char: char| char.is_ascii_alphanumeric());
    ends && text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn label_key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(
                    subdomain_faults(prefix)
                        .into_iter()
                        .map(|fault| format!("prefix part {fault}")),
                );
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_RULE} {NAME} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_LENGTH {
        faults.push(format!("name part must be no more than {MAX_LENGTH} bytes"));
    }
    if !is_name(name) {
        faults.push(format!("name part {NAME_RULE} {NAME}"));
    }
    faults
}

fn subdomain_faults(prefix: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if prefix.len() > 253 {
        faults.push("must be no more than 253 bytes".to_owned());
    }
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    if !prefix.split('.').all(label) {
        faults.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    faults
}

fn label_value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > MAX_LENGTH {
        faults.push(format!("must be no more than {MAX_LENGTH} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        faults.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
             and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
             regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    faults
}
