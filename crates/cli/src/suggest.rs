//! "Did you mean": looks for what a misspelt name stands for, when a command has failed because of it.

use std::collections::BTreeSet;

use fleet::kind::CLUSTERS;
use fleet::nearest::did_you_mean;
use fleet::selector::Selector;
use serde_json::Value;

use crate::error::{Failure, Subject};
use crate::session::{Session, text};

/// The most values of a label that a hint lists.
const MOST_VALUES: usize = 10;

/// Adds what was probably meant to a failure. A hint that says more than a list of everything replaces it.
pub(crate) fn improve(session: &Session<'_>, failure: Failure) -> Failure {
    let hint = match failure.subject.as_deref() {
        Some(Subject::Resource { kind, id }) => like_id(session, kind, id),
        Some(Subject::Selector(selector)) => unmatched(session, selector),
        None => None,
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn like_id(session: &Session<'_>, kind: &str, id: &str) -> Option<String> {
    let all = session.client.get(&format!("/{kind}")).ok()?;
    // Kinds have a name in place of an id.
    let known = all
        .as_array()?
        .iter()
        .map(|one| text(one.get("id").unwrap_or(&one["name"])));
    let known: Vec<&str> = known.collect();
    // It may exist now, and not have existed at a revision.
    match known.contains(&id) {
        true => None,
        false => did_you_mean(id, known),
    }
}

/// Why a selector matches no cluster: a value that none has, and the one that was probably meant.
pub(crate) fn unmatched(session: &Session<'_>, selector: &str) -> Option<String> {
    let selector = Selector::parse(selector).ok()?;
    let clusters = session.client.get(&format!("/{CLUSTERS}")).ok()?;
    let clusters = clusters.as_array()?;
    selector.wanted().find_map(|(key, wanted)| {
        let known: BTreeSet<String> = clusters.iter().filter_map(|cluster| value_of(cluster, key)).collect();
        let known: Vec<String> = known.into_iter().collect();
        if wanted.iter().any(|value| known.contains(value)) {
            return None;
        }
        let wanted = wanted.first()?;
        let none = format!("no cluster has {key}={wanted}");
        let like = did_you_mean(wanted, known.iter().map(String::as_str));
        Some(match like {
            Some(like) => format!("{none}; {like}"),
            None if known.len() == 1 => format!("{none}; the only value of {key} is {}", known.join(", ")),
            None if known.len() <= MOST_VALUES => format!("{none}; the values of {key} are {}", known.join(", ")),
            None => none,
        })
    })
}

/// The value of a label or a field, as a selector compares it.
fn value_of(cluster: &Value, key: &str) -> Option<String> {
    match cluster.get(key).unwrap_or(&cluster["labels"][key]) {
        Value::String(text) => Some(text.clone()),
        scalar @ (Value::Number(_) | Value::Bool(_)) => Some(scalar.to_string()),
        _ => None,
    }
}
