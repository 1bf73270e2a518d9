//! A version folder that is a Helm chart.

use serde_json::Value;

use super::{Component, Findings, Tree, version, yaml};

pub(super) fn check(tree: &Tree, component: &Component, version: &str, findings: &mut Findings) {
    let folder = component.folder(version);
    let file = format!("{folder}/Chart.yaml");
    if !tree.is_file(&file) {
        return findings.problem(&folder, "", "has no Chart.yaml");
    }
    if let Some(about) = document(tree, &file, findings) {
        if !matches!(about["apiVersion"].as_str(), Some("v1" | "v2")) {
            findings.problem(&file, "/apiVersion", "must be v1 or v2");
        }
        if about["name"] != component.id.as_str() {
            findings.problem(
                &file,
                "/name",
                format!("must be {}, the id in the registry", component.id),
            );
        }
        match about["version"].as_str() {
            Some(text) if text == version => {}
            Some(text) if version::parse(text).is_some() => {
                findings.problem(&file, "/version", format!("is {text}, but the folder is {version}"));
            }
            _ => findings.problem(&file, "/version", format!("must be the text \"{version}\"")),
        }
    }
    let values = format!("{folder}/values.yaml");
    match tree.is_file(&values) {
        true => drop(document(tree, &values, findings)),
        false => findings.problem(&folder, "", "has no values.yaml"),
    }
    if !tree
        .files_below(&format!("{folder}/templates"))
        .iter()
        .any(|file| file.ends_with(".yaml") || file.ends_with(".tpl"))
    {
        findings.warning(&folder, "", "has no templates, so it installs nothing");
    }
}

/// The object in a file; null for an empty file.
fn document(tree: &Tree, file: &str, findings: &mut Findings) -> Option<Value> {
    let text = match tree.text(file) {
        Ok(text) => text,
        Err(detail) => {
            findings.problem(file, "", detail);
            return None;
        }
    };
    match yaml::document(&text) {
        Ok(found) if found.is_object() || found.is_null() => Some(found),
        Ok(_) => {
            findings.problem(file, "", "is not an object");
            None
        }
        Err((place, detail)) => {
            findings.problem(file, place, detail);
            None
        }
    }
}
