//! The audit log, as the API pages it.

use std::collections::VecDeque;

use fleet::diff::{Difference, differences};
use serde_json::Value;

use crate::client::{Client, with_query};
use crate::error::ApiError;
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

/// The records of an actor's last revision; empty if there is none. The log is read from its end, in spans that grow: a
/// revision that somebody undoes is usually a recent one.
pub(crate) fn last_by(client: &Client, actor: &str, head: u64) -> Result<Vec<Value>, ApiError> {
    let mut span = 64;
    loop {
        let after = head.saturating_sub(span);
        let mut feed = Feed {
            after,
            actor: Some(actor.to_owned()),
            ..Feed::default()
        };
        let mut last: Vec<Value> = Vec::new();
        loop {
            let page = feed.next(client)?;
            let Some(newest) = page.last().map(|record| record["revision"].clone()) else {
                break;
            };
            // A page never splits a revision.
            last = page.into_iter().filter(|record| record["revision"] == newest).collect();
        }
        if !last.is_empty() || after == 0 {
            return Ok(last);
        }
        span = span.saturating_mul(8);
    }
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
