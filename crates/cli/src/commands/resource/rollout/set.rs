//! `--set KIND/ID FIELD=VALUE... FIELD-...`: the change of one shared document.

use fleet::kind::PROFILES;
use serde_json::{Map, Value, json};

use crate::args::fields::field_path;
use crate::args::given;
use crate::error::Failure;
use crate::kinds::{Field, Form, Kinds, pair};

/// The operation of one `--set`.
pub(super) fn operation(kinds: &Kinds, words: &[&String]) -> Result<Value, Failure> {
    let usage = |message: String| {
        let failure = Failure::usage(format!("--set: {message}"));
        failure.hint("for example --set platform_components/podinfo oci_tag=6.7.1")
    };
    let (first, fields) = words
        .split_first()
        .ok_or_else(|| usage("the value is empty".to_owned()))?;
    let Some((kind, id)) = first.split_once('/') else {
        return Err(usage(format!("\"{first}\" must be KIND/ID")));
    };
    let (kind, id) = (kinds.get(kind)?, given(id).map_err(usage)?);
    let mut known: Vec<String> = kind.fields.iter().map(|field| field.name.clone()).collect();
    if kind.name == PROFILES {
        known.extend(kinds.iter().filter_map(|other| other.references.clone()));
        known.push("patches".to_owned());
    }
    let mut value = Map::new();
    for word in fields {
        if let Some(path) = word.strip_suffix('-').filter(|path| !path.contains('=')) {
            let (name, key) = field_path(path, &known).map_err(usage)?;
            let cleared = key.map_or(Value::Null, |key| json!({ key: null }));
            add(&mut value, &name, cleared);
            continue;
        }
        let (path, text) = pair(word).map_err(usage)?;
        let (name, key) = field_path(&path, &known).map_err(usage)?;
        let parsed = match kind.fields.iter().find(|field| field.name == name) {
            Some(field) => parse(field, key.as_deref(), &text),
            // What a profile brings; no flag stands for it.
            None => serde_json::from_str(&text).map_err(|error| format!("not JSON: {error}")),
        };
        let parsed = parsed.map_err(|error| usage(format!("{path}: {error}")))?;
        add(&mut value, &name, parsed);
    }
    Ok(json!({"op": "merge", "kind": kind.name, "id": id, "value": value}))
}

/// The value of a field, typed as its kind says; a list or an object can be written as JSON.
fn parse(field: &Field, key: Option<&str>, text: &str) -> Result<Value, String> {
    let is_json = text.trim_start().starts_with(['[', '{']);
    match (key, &field.form) {
        (None, form) if is_json && form.is_repeated() => {
            serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
        }
        (None, Form::Texts(_) | Form::Items(_)) => Ok(json!([field.form.parse(text)?])),
        (None, form) => form.parse(text),
        (Some(key), Form::Pairs) => Ok(json!({ key: text })),
        (Some(key), form @ Form::Settings(_)) => form.parse(&format!("{key}={text}")),
        (Some(key), Form::Json) => {
            let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
            Ok(json!({ key: value }))
        }
        (Some(_), _) => Err("has no keys".to_owned()),
    }
}

/// Adds a value to a field: lists grow, objects are merged.
fn add(all: &mut Map<String, Value>, name: &str, value: Value) {
    match (all.get_mut(name), value) {
        (Some(Value::Array(present)), Value::Array(more)) => present.extend(more),
        (Some(Value::Object(present)), Value::Object(more)) => present.extend(more),
        (_, value) => {
            all.insert(name.to_owned(), value);
        }
    }
}

/// The id of a rollout that nobody named: the first document, and the first value that it gets.
pub(crate) fn derived_id(operations: &[Value]) -> Option<String> {
    let first = operations.first()?;
    let id = super::waves::slug(first["id"].as_str()?);
    let values = first["value"].as_object()?.values();
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    let value = values.filter_map(text).map(|text| super::waves::slug(&text));
    let value = value.into_iter().find(|text| !text.is_empty())?;
    let derived = format!("{id}-{value}");
    (!id.is_empty() && derived.len() <= 63).then_some(derived)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn value(words: &[&str]) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let words: Vec<&String> = words.iter().collect();
        operation(&Kinds::built_in(), &words)
            .map(|operation| operation["value"].clone())
            .map_err(|failure| failure.message)
    }

    #[test]
    fn values_are_typed_as_the_kind_says() {
        for (words, expected) in [
            (
                vec!["platform_components/podinfo", "oci_tag=6.7"],
                json!({"oci_tag": "6.7"}),
            ),
            (
                vec!["component/podinfo", "oci-tag=6", "cluster_env_enabled=true"],
                json!({"oci_tag": "6", "cluster_env_enabled": true}),
            ),
            (
                vec!["component/podinfo", "depends_on=a", "depends_on=b"],
                json!({"depends_on": ["a", "b"]}),
            ),
            (
                vec!["component/podinfo", r#"depends_on=["a","b"]"#],
                json!({"depends_on": ["a", "b"]}),
            ),
            (
                vec!["namespace/x", "labels.a.b/c=1", "labels=d=2"],
                json!({"labels": {"a.b/c": "1", "d": "2"}}),
            ),
            (
                vec!["component/podinfo", "oci-tag-", "depends_on=a-"],
                json!({"oci_tag": null, "depends_on": ["a-"]}),
            ),
            (
                vec!["namespace/x", "labels.a=1", "labels.b-", r#"annotations={"c":null}"#],
                json!({"labels": {"a": "1", "b": null}, "annotations": {"c": null}}),
            ),
        ] {
            assert_eq!(value(&words), Ok(expected), "{words:?}");
        }
    }

    #[test]
    fn words_that_set_nothing() {
        for (words, part) in [
            (vec!["podinfo", "a=b"], "must be KIND/ID"),
            (vec!["component/podinfo", "oci_tag"], "must be key=value"),
            (vec!["component/podinfo", "oci_tga=1"], "did you mean"),
            (vec!["component/podinfo", "oci_tga-"], "did you mean"),
            (
                vec!["component/podinfo", "cluster_env_enabled=maybe"],
                "not true or false",
            ),
            (vec!["nothing/podinfo", "a=b"], "there is no kind"),
            (vec!["component/", "a=b"], "the value is empty"),
        ] {
            let message = value(&words).unwrap_err();
            assert!(message.contains(part), "{words:?}: {message}");
        }
    }

    #[test]
    fn an_id_is_made_of_the_document_and_its_value() {
        let operation = |id: &str, value: Value| json!({"id": id, "value": value});
        for (id, value, expected) in [
            ("podinfo", json!({"oci_tag": "6.7.1"}), Some("podinfo-6.7.1")),
            ("pod_info", json!({"oci_tag": "v1.0+b_2"}), Some("pod-info-v1.0-b-2")),
            ("podinfo", json!({"depends_on": ["a"]}), None),
            ("podinfo", json!({"oci_tag": "x".repeat(63)}), None),
        ] {
            assert_eq!(derived_id(&[operation(id, value)]).as_deref(), expected);
        }
    }
}
