//! The states of clusters beside something else: a list of clusters, the clusters that have a definition.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::age;
use crate::client::with_query;
use crate::session::{Session, text};

/// The largest number of clusters that can be asked for.
const ALL: u64 = i64::MAX as u64;

/// Rows of `GET /status`, by the id of the cluster.
#[derive(Debug)]
pub(crate) struct Rows {
    at: Value,
    rows: HashMap<String, Value>,
}

impl Rows {
    /// The clusters that a selector matches. None where the server does not tell: it is older, or the caller may not read it. A list
    /// does not fail because of that.
    pub(crate) fn of_clusters(session: &Session<'_>, selector: Option<&str>) -> Option<Rows> {
        Rows::read(session, [("selector", selector.map(str::to_owned))])
    }

    /// The clusters that have an input.
    pub(crate) fn of_input(session: &Session<'_>, kind: &str, id: &str, selector: Option<&str>) -> Option<Rows> {
        let selector = selector.map(str::to_owned);
        let input = [("kind", Some(kind.to_owned())), ("component", Some(id.to_owned()))];
        Rows::read(session, input.into_iter().chain([("selector", selector)]))
    }

    fn read<'q>(session: &Session<'_>, query: impl IntoIterator<Item = (&'q str, Option<String>)>) -> Option<Rows> {
        let limit = [("limit", Some(ALL.to_string()))];
        let mut reply = session
            .client
            .get(&with_query("/status", query.into_iter().chain(limit)))
            .ok()?;
        let Value::Array(rows) = reply["clusters"].take() else {
            return None;
        };
        let rows = rows.into_iter().map(|row| (text(&row["id"]).to_owned(), row));
        Some(Rows {
            rows: rows.collect(),
            at: reply["at"].take(),
        })
    }

    pub(crate) fn state(&self, cluster: &str) -> &Value {
        &self.row(cluster)["state"]
    }

    /// When the cluster last polled: `12s`.
    pub(crate) fn last_poll(&self, cluster: &str) -> String {
        age(&self.at, &self.row(cluster)["last_poll"])
    }

    /// What is known about the input: its state, and the version that evidence names. None for a cluster that has never polled.
    pub(crate) fn input(&self, cluster: &str) -> Option<Value> {
        let row = self.row(cluster);
        let known = row["state"].is_string() && row["state"] != "never";
        known.then(|| json!({"state": row["state"], "version": row["input"]["version"], "since": row["since"]}))
    }

    fn row(&self, cluster: &str) -> &Value {
        self.rows.get(cluster).unwrap_or(&Value::Null)
    }
}
