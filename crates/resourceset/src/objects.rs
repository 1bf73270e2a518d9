//! Kubernetes objects: how they are read from rendered text, their identity and their metadata.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::documents::Documents;

/// A Kubernetes object.
pub(crate) type Object = Map<String, Value>;

/// Reads the first document.
pub(crate) fn read_one(text: &[u8]) -> Result<Object, String> {
    Documents::new(text).next().unwrap_or_else(|| Err("EOF".to_owned()))
}

/// Reads all objects. Lists are expanded. Objects without a name or version and Kustomize's configuration are ignored.
pub(crate) fn read_all(text: &[u8]) -> Result<Vec<Object>, String> {
    let mut objects = Vec::new();
    for document in Documents::new(text) {
        let mut document = document?;
        if let Some(Value::Array(items)) = document.get_mut("items") {
            for item in std::mem::take(items) {
                match item {
                    Value::Object(object) => objects.push(object),
                    _ => return Err("items member is not an object: map[string]interface {}".to_owned()),
                }
            }
        } else if is_object(&document) && !is_kustomization(&document) {
            objects.push(document);
        }
    }
    Ok(objects)
}

fn text<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    let (last, parents) = path.split_last().unwrap_or((&"", &[]));
    let mut object = object;
    for key in parents {
        match object.get(*key) {
            Some(Value::Object(inner)) => object = inner,
            _ => return "",
        }
    }
    object.get(*last).and_then(Value::as_str).unwrap_or_default()
}

fn is_object(object: &Object) -> bool {
    [["metadata", "name"].as_slice(), &["kind"], &["apiVersion"]]
        .iter()
        .all(|path| !text(object, path).is_empty())
}

fn is_kustomization(object: &Object) -> bool {
    text(object, &["kind"]).to_lowercase() == "kustomization"
        && text(object, &["apiVersion"]).starts_with("kustomize.config.k8s.io/")
}

/// Identifies an object in a cluster: group, kind, namespace and name, but not the version.
pub(crate) fn key(object: &Object) -> String {
    format!(
        "{}/{}/{}/{}",
        group(object),
        text(object, &["kind"]),
        namespace(object),
        name(object)
    )
}

fn group(object: &Object) -> &str {
    match text(object, &["apiVersion"]).split_once('/') {
        Some((group, version)) if !version.contains('/') => group,
        _ => "",
    }
}

fn namespace(object: &Object) -> &str {
    text(object, &["metadata", "namespace"])
}

fn name(object: &Object) -> &str {
    text(object, &["metadata", "name"])
}

/// `kind/namespace/name`, for messages.
pub(crate) fn display(object: &Object) -> String {
    let versioned = text(object, &["apiVersion"]).matches('/').count() <= 1;
    let kind = if versioned { text(object, &["kind"]) } else { "" };
    match namespace(object) {
        "" => format!("{kind}/{}", name(object)),
        namespace => format!("{kind}/{namespace}/{}", name(object)),
    }
}

/// Whether an annotation disables the object. Its value must be in lower case.
pub(crate) fn is_disabled(object: &Object) -> bool {
    strings(object, "annotations")
        .get("fluxcd.controlplane.io/reconcile")
        .is_some_and(|value| value == "disabled")
}

/// Labels or annotations. If one value is not a string, there are none, as in Go.
fn strings(object: &Object, which: &str) -> BTreeMap<String, String> {
    let Some(Value::Object(entries)) = object.get("metadata").and_then(|metadata| metadata.get(which)) else {
        return BTreeMap::new();
    };
    let string = |(key, value): (&String, &Value)| match value {
        Value::String(value) => Some((key.clone(), value.clone())),
        Value::Null => Some((key.clone(), String::new())),
        _ => None,
    };
    entries.iter().map(string).collect::<Option<_>>().unwrap_or_default()
}

/// Adds labels and annotations. Existing ones are lost if one of them is not a string.
pub(crate) fn add_metadata<'a>(
    object: &mut Object,
    labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    annotations: impl IntoIterator<Item = (&'a String, &'a String)>,
) {
    add_strings(object, "labels", labels);
    add_strings(object, "annotations", annotations);
}

fn add_strings<'a>(object: &mut Object, which: &str, added: impl IntoIterator<Item = (&'a String, &'a String)>) {
    let mut strings = strings(object, which);
    strings.extend(added.into_iter().map(|(key, value)| (key.clone(), value.clone())));
    if strings.is_empty() {
        return;
    }
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    // Like Go, do nothing if the metadata is not a map.
    if let Value::Object(metadata) = metadata {
        let strings = strings
            .into_iter()
            .map(|(key, value)| (key, Value::String(value)))
            .collect();
        metadata.insert(which.to_owned(), Value::Object(strings));
    }
}
