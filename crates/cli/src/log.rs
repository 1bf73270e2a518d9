//! The audit log, as the API pages it.

use std::collections::VecDeque;

use fleet::diff::{Difference, differences};
use serde_json::Value;

use crate::client::{Client, with_query};
use crate::error::ApiError;
use crate::kinds::Kinds;
use crate::output::Tone;
use crate::session::text;

/// How many records one request asks for.
const PAGE: u64 = 1000;

/// Reads the log page by page, after a revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    /// Zero: from the beginning of the log, which may have been compacted.
    pub(crate) after: u64,
    pub(crate) kind: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) actor: Option<String>,
}

impl Feed {
    /// The changes from now on.
    pub(crate) fn from_now(client: &Client, kind: Option<&str>, id: Option<&str>) -> Result<Feed, ApiError> {
        Ok(Feed {
            after: client.revision()?,
            kind: kind.map(str::to_owned),
            id: id.map(str::to_owned),
            actor: None,
        })
    }

    /// The next page; empty at the end of the log.
    pub(crate) fn next(&mut self, client: &Client) -> Result<Vec<Value>, ApiError> {
        let path = with_query(
            "/changes",
            [
                ("after", (self.after > 0).then(|| self.after.to_string())),
                ("limit", Some(PAGE.to_string())),
                ("kind", self.kind.clone()),
                ("id", self.id.clone()),
                ("actor", self.actor.clone()),
            ],
        );
        let Value::Array(records) = client.get(&path)? else {
            return Ok(Vec::new());
        };
        if let Some(last) = records.last().and_then(|record| record["revision"].as_u64()) {
            self.after = last;
        }
        Ok(records)
    }

    /// The newest records up to the end of the log, at most `limit`.
    pub(crate) fn newest(&mut self, client: &Client, limit: usize) -> Result<Vec<Value>, ApiError> {
        let mut newest = VecDeque::new();
        loop {
            let page = self.next(client)?;
            if page.is_empty() {
                return Ok(newest.into());
            }
            for record in page {
                newest.push_back(record);
                if newest.len() > limit {
                    newest.pop_front();
                }
            }
        }
    }
}

/// Reads the list of revisions page by page, newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Revisions {
    /// Only revisions before this one.
    pub(crate) before: Option<u64>,
    pub(crate) kind: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) actor: Option<String>,
    pub(crate) since: Option<String>,
    pub(crate) until: Option<String>,
    pub(crate) reason: Option<String>,
    /// Whether the last page was read.
    pub(crate) ended: bool,
}

impl Revisions {
    /// The next page of at most `limit` revisions, which may be empty. None after the last.
    pub(crate) fn next(&mut self, client: &Client, limit: u64) -> Result<Option<Vec<Value>>, ApiError> {
        if self.ended {
            return Ok(None);
        }
        let path = with_query(
            "/revisions",
            [
                ("before", self.before.map(|before| before.to_string())),
                ("limit", Some(limit.min(PAGE).to_string())),
                ("kind", self.kind.clone()),
                ("id", self.id.clone()),
                ("actor", self.actor.clone()),
                ("since", self.since.clone()),
                ("until", self.until.clone()),
                ("reason", self.reason.clone()),
            ],
        );
        let mut page = client.get(&path)?;
        self.before = page["next"].as_u64();
        self.ended = self.before.is_none();
        match page["revisions"].take() {
            Value::Array(revisions) => Ok(Some(revisions)),
            _ => Ok(None),
        }
    }

    /// The first revision for which `decide` gives a result.
    pub(crate) fn find<T>(
        &mut self,
        client: &Client,
        decide: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        const FEW: u64 = 20;
        let mut limit = FEW;
        while let Some(page) = self.next(client, limit)? {
            if let Some(found) = page.iter().find_map(&decide) {
                return Ok(Some(found));
            }
            limit = PAGE;
        }
        Ok(None)
    }
}

/// The guards that the author of a revision overrode: `(overrides freeze)`.
pub(crate) fn overrides(record: &Value) -> Option<String> {
    let ids = record["overrides"].as_array()?;
    let ids: Vec<&str> = ids.iter().map(text).collect();
    Some(format!("(overrides {})", ids.join(", ")))
}

/// What a revision changed: `371 clusters, 1 component`.
pub(crate) fn counts(revision: &Value, kinds: &Kinds) -> String {
    let mut counts: Vec<(u64, String)> = Vec::new();
    for (kind, actions) in revision["changes"].as_object().into_iter().flatten() {
        let actions = actions.as_object().into_iter().flatten();
        let number = actions.filter_map(|(_, number)| number.as_u64()).sum();
        counts.push((number, kinds.counted(kind, number)));
    }
    counts.sort_by(|(a, _), (b, _)| b.cmp(a));
    let counts: Vec<String> = counts.into_iter().map(|(_, text)| text).collect();
    counts.join(", ")
}

/// The fields that a record changed.
pub(crate) fn fields(record: &Value) -> Vec<Difference> {
    let some = |value: &'_ Value| Some(value.clone()).filter(|value| !value.is_null());
    differences(some(&record["before"]).as_ref(), some(&record["after"]).as_ref())
}

pub(crate) fn tone(record: &Value) -> Tone {
    match text(&record["action"]) {
        "create" => Tone::Good,
        "delete" => Tone::Bad,
        _ => Tone::Attention,
    }
}

/// The resource of a record: `clusters/demo-cluster-01`.
pub(crate) fn name(record: &Value) -> String {
    format!("{}/{}", text(&record["kind"]), text(&record["id"]))
}
