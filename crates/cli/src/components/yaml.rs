//! YAML of files that somebody else wrote: bounded, and with the line of what is wrong.

use serde_json::Value;

/// Deeper than any object that Kubernetes takes.
const MOST_DEPTH: usize = 200;

/// The documents of a text, without empty ones; or the line of what is wrong, and what it is.
pub(super) fn documents(text: &str) -> Result<Vec<Value>, (String, String)> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_depth: MOST_DEPTH },
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        told(line.strip_prefix("error: ").unwrap_or(line))
    })?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// One document; nothing at all is null.
pub(super) fn document(text: &str) -> Result<Value, (String, String)> {
    let mut all = documents(text)?.into_iter();
    match (all.next(), all.next()) {
        (found, None) => Ok(found.unwrap_or_default()),
        _ => Err((String::new(), "holds several documents, and one is expected".to_owned())),
    }
}

/// `line 3 column 7: what` as its place and the rest.
fn told(text: &str) -> (String, String) {
    match text.split_once(": ") {
        Some((place, rest)) if place.starts_with("line ") => (place.to_owned(), rest.to_owned()),
        _ => (String::new(), text.to_owned()),
    }
}
