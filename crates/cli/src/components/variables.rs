//! `${VARIABLES}` in manifests, which kustomize-controller replaces after the build (`postBuild`). Finds them, and those that the
//! controller would refuse.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

/// In an object with this label or annotation, nothing is replaced.
const SUBSTITUTE: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// A variable that a text uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Variable {
    pub(super) name: String,
    /// Whether it handles a missing value: with a default, a test or an error.
    pub(super) has_fallback: bool,
}

/// The variables that every cluster has, in its ConfigMap `cluster-identity`.
const IDENTITY: [&str; 4] = ["CLUSTER_NAME", "CLUSTER_DNS", "ENVIRONMENT", "INTERNAL_API_URL"];

impl Variable {
    /// Whether it is replaced by nothing unless a patch of the cluster sets it.
    pub(super) fn is_empty_without_patch(&self) -> bool {
        !self.has_fallback && !IDENTITY.contains(&self.name.as_str())
    }
}

/// The variables in the texts of an object, and the malformed ones, each with its pointer.
pub(super) fn of_object(object: &Value) -> (Vec<Variable>, Vec<(String, String)>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    let metadata = &object["metadata"];
    let disabled = ["labels", "annotations"]
        .iter()
        .any(|map| metadata[*map][SUBSTITUTE] == "disabled");
    if !disabled {
        collect(object, "", &mut found, &mut wrong);
    }
    (found, wrong)
}

fn collect(value: &Value, place: &str, found: &mut Vec<Variable>, wrong: &mut Vec<(String, String)>) {
    let mut look = |text: &str| match of_text(text) {
        Ok(variables) => found.extend(variables),
        Err(detail) => wrong.push((place.to_owned(), detail)),
    };
    match value {
        Value::String(text) => look(text),
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                collect(item, &format!("{place}/{n}"), found, wrong);
            }
        }
        Value::Object(fields) => {
            fields.keys().for_each(|key| look(key));
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect(value, &format!("{place}/{key}"), found, wrong);
            }
        }
        _ => {}
    }
}

fn of_text(text: &str) -> Result<Vec<Variable>, String> {
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        match (char, rest.peek()) {
            // `$${…}` is an escaped `${…}`.
            ('$', Some('$')) => {
                rest.next();
            }
            ('$', Some('{')) => {
                rest.next();
                variable(&mut rest, &mut found)?;
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Reads a variable after its `${`, up to the `}`.
fn variable(rest: &mut Peekable<Chars<'_>>, found: &mut Vec<Variable>) -> Result<(), String> {
    let behind = rest.clone();
    let wrong = || {
        let end = behind
            .clone()
            .take(40)
            .position(|char| char == '}')
            .map_or(20, |end| end + 1);
        let shown: String = behind.clone().take(end).collect();
        format!("\"${{{shown}\" is not a valid variable; write $${{…}} for text that is not a variable")
    };
    let length = rest.next_if_eq(&'#').is_some();
    let mut name = String::new();
    while let Some(char) = rest.next_if(|char| char.is_ascii_alphanumeric() || *char == '_') {
        name.push(char);
    }
    if name.is_empty() || name.starts_with(|char: char| char.is_ascii_digit()) {
        return Err(wrong());
    }
    let mut has_fallback = false;
    match rest.next() {
        Some('}') => {}
        _ if length => return Err(wrong()),
        Some(':') => {
            has_fallback = matches!(rest.peek(), Some('=' | '-' | '?' | '+'));
            argument(rest, found).ok_or_else(wrong)??;
        }
        Some('=') => {
            has_fallback = true;
            argument(rest, found).ok_or_else(wrong)??;
        }
        Some('#' | '%') => argument(rest, found).ok_or_else(wrong)??,
        Some('/') => {
            // `${A/x}` lacks the replacement of x.
            let mut within = rest.clone().skip(1).take_while(|char| *char != '}');
            if !within.any(|char| char == '/') {
                return Err(wrong());
            }
            argument(rest, found).ok_or_else(wrong)??;
        }
        Some(case @ (',' | '^')) => {
            rest.next_if_eq(&case);
            if rest.next() != Some('}') {
                return Err(wrong());
            }
        }
        _ => return Err(wrong()),
    }
    found.push(Variable { name, has_fallback });
    Ok(())
}

/// Reads text with variables in it, up to the closing brace; none if there is no closing brace.
fn argument(rest: &mut Peekable<Chars<'_>>, found: &mut Vec<Variable>) -> Option<Result<(), String>> {
    loop {
        match rest.next()? {
            '}' => return Some(Ok(())),
            '$' if rest.peek() == Some(&'{') => {
                rest.next();
                if let Err(wrong) = variable(rest, found) {
                    return Some(Err(wrong));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{of_object, of_text};

    fn names(text: &str) -> Vec<String> {
        let found = of_text(text).expect("the text is well-formed");
        found
            .into_iter()
            .map(|variable| format!("{}{}", variable.name, if variable.has_fallback { "=" } else { "" }))
            .collect()
    }

    #[test]
    fn variables_are_found() {
        assert_eq!(
            names("a ${A} b ${B:=1} ${C:-${D}} ${E:+x}"),
            ["A", "B=", "D", "C=", "E="]
        );
        assert_eq!(names("$A $ {B} $${C} $$${D} cost: 5$"), ["D"]);
        assert_eq!(
            names("${A,,} ${A^} ${#A} ${A:1:2} ${A#x} ${A%%y} ${A/x/y} ${A//x/} ${A=z}"),
            ["A", "A", "A", "A", "A", "A", "A", "A", "A="]
        );
    }

    #[test]
    fn malformed_variables_are_refused() {
        for text in [
            "${",
            "${}",
            "${A",
            "${A:=1",
            "${a-b}",
            "${a[0]}",
            "${1A}",
            "${ä}",
            "${A/x}",
            "${A,,,}",
            "${A B}",
            "${@}",
            "${#A:=1}",
            "${A:=${B}",
        ] {
            assert!(of_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_object_can_switch_replacement_off() {
        let mut object = json!({"metadata": {"name": "a"}, "data": {"run.sh": "for x in ${all[@]}"}});
        assert_eq!(of_object(&object).1[0].0, "/data/run.sh");
        object["metadata"]["annotations"] = json!({"kustomize.toolkit.fluxcd.io/substitute": "disabled"});
        assert_eq!(of_object(&object), (vec![], vec![]));
    }
}
