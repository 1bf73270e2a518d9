//! A revision in one line: who, when, why, and how many resources of each kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::log::{Action, Author, Change, Revision};
use crate::reversal::Reversal;

/// How many resources of each kind a revision creates, updates and deletes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Summary(pub BTreeMap<Arc<str>, Counts>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    pub create: u64,
    pub update: u64,
    pub delete: u64,
}

impl Summary {
    pub fn of<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Self {
        let mut summary = Summary::default();
        changes.into_iter().for_each(|change| summary.add(change));
        summary
    }

    fn add(&mut self, change: &Change) {
        if !self.0.contains_key(&change.kind) {
            self.0.insert(change.kind.clone(), Counts::default());
        }
        let Some(counts) = self.0.get_mut(&change.kind) else {
            return;
        };
        match change.action() {
            Action::Create => counts.create += 1,
            Action::Update => counts.update += 1,
            Action::Delete => counts.delete += 1,
        }
    }

    /// The stored form.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the stored form.
    pub fn from_text(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

/// A revision without its documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionSummary {
    pub revision: Revision,
    pub author: Author,
    pub changes: Summary,
    /// The later revision that takes it back; see [`crate::reversal::LastReversals::reverses`].
    pub reversed_by: Option<Revision>,
}

impl Serialize for RevisionSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let author = &self.author;
        let mut out = serializer.serialize_struct("RevisionSummary", 9)?;
        out.serialize_field("revision", &self.revision)?;
        out.serialize_field("at", &author.at)?;
        out.serialize_field("actor", &author.actor)?;
        out.serialize_field("request_id", &author.request_id)?;
        out.serialize_field("reason", &author.reason)?;
        match author.reversal {
            None => {}
            Some(Reversal::Undo(original)) => out.serialize_field("undoes", &original)?,
            Some(Reversal::Redo(original)) => out.serialize_field("redoes", &original)?,
        }
        match (self.reversed_by, author.reversal) {
            (None, _) => {}
            (Some(by), Some(Reversal::Undo(_))) => out.serialize_field("redone_by", &by)?,
            (Some(by), _) => out.serialize_field("undone_by", &by)?,
        }
        if !author.overrides.is_empty() {
            out.serialize_field("overrides", &author.overrides)?;
        }
        out.serialize_field("changes", &self.changes)?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    #[test]
    fn changes_are_counted_by_kind_and_action() {
        let body = || Some(Json::from_canonical("{}"));
        let change = |kind: &str, before, after| Change {
            kind: kind.into(),
            id: "x".into(),
            before,
            after,
            origin: None,
            unique: None,
            keeps_unique: false,
        };
        let summary = Summary::of(&[
            change("clusters", None, body()),
            change("clusters", body(), body()),
            change("clusters", body(), body()),
            change("namespaces", body(), None),
        ]);
        let text = summary.to_text();
        assert_eq!(
            text,
            r#"{"clusters":{"create":1,"update":2,"delete":0},"namespaces":{"create":0,"update":0,"delete":1}}"#
        );
        assert_eq!(Summary::from_text(&text), Ok(summary));
        // As a migration writes it.
        let migrated = Summary::from_text(r#"{"clusters": {"update": 2}}"#);
        assert_eq!(migrated.map(|summary| summary.0["clusters"].update), Ok(2));
    }
}
