//! A version directory that is a Helm chart.

use serde_json::Value;

use super::{Component, Findings, Tree, Version, yaml};

pub(super) fn check(tree: &Tree, component: &Component, version: &str, findings: &mut Findings) {
    let folder = component.folder(version);
    let file = format!("{folder}/Chart.yaml");
    if !tree.is_file(&file) {
        return findings.problem(&folder, "", "has no Chart.yaml, so it is no chart");
    }
    if let Some(about) = document(tree, &file, findings) {
        if !matches!(about["apiVersion"].as_str(), Some("v1" | "v2")) {
            findings.problem(&file, "/apiVersion", "is v1 or v2");
        }
        if about["name"] != component.id.as_str() {
            findings.problem(
                &file,
                "/name",
                format!("is not {}, as the registry calls it", component.id),
            );
        }
        match about["version"].as_str() {
            Some(text) if text == version => {}
            Some(text) if Version::parse(text).is_some() => {
                findings.problem(&file, "/version", format!("is {text}, and its folder says {version}"));
            }
            _ => findings.problem(&file, "/version", format!("is a text, \"{version}\"")),
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
        findings.warning(&folder, "", "has no templates: it installs nothing");
    }
}

/// The object that a file holds. An empty file is an empty one.
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
