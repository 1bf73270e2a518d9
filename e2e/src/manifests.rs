//! YAML files with Kubernetes objects in them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Result;

/// The objects of one text, which may hold several documents.
pub(crate) fn objects(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents.into_iter().filter(Value::is_object).collect())
}

/// The objects of a file.
pub(crate) fn file(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    objects(&text).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// The objects of every YAML file of a folder, file by file.
pub(crate) fn folder(path: &Path) -> Result<Vec<Value>> {
    let entries = fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut files: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut found = Vec::new();
    for path in files {
        found.extend(file(&path)?);
    }
    Ok(found)
}
