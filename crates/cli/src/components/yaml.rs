//! Reads YAML that may be hostile: with limits, and errors that name the line.

use serde_json::Value;

/// Deeper than any object that Kubernetes accepts.
const MOST_DEPTH: usize = 200;

/// The documents of a text, without empty ones; or the line of an error, and the error.
pub(super) fn documents(text: &str) -> Result<Vec<Value>, (String, String)> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_depth: MOST_DEPTH },
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        split(line.strip_prefix("error: ").unwrap_or(line))
    })?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// The one document of a text; null if it is empty.
pub(super) fn document(text: &str) -> Result<Value, (String, String)> {
    let mut all = documents(text)?.into_iter();
    match (all.next(), all.next()) {
        (found, None) => Ok(found.unwrap_or_default()),
        _ => Err((String::new(), "has several documents, but one is expected".to_owned())),
    }
}

/// Splits `line 3 column 7: detail` into the place and the detail.
fn split(text: &str) -> (String, String) {
    match text.split_once(": ") {
        Some((place, rest)) if place.starts_with("line ") => (place.to_owned(), rest.to_owned()),
        _ => (String::new(), text.to_owned()),
    }
}
