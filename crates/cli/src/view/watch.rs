//! `--watch`: prints resources again when the log says that they changed.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::columns::Columns;
use super::{document, items, names};
use crate::error::Failure;
use crate::kinds::Kind;
use crate::log::Feed;
use crate::output::{Table, Tone};
use crate::session::{Session, text};

pub(super) struct Watch<'a> {
    session: &'a Session<'a>,
    kind: &'a Kind,
    path: &'a str,
    columns: Columns<'a>,
    /// The resources that were printed, by id.
    known: BTreeMap<String, Value>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(session: &'a Session<'a>, kind: &'a Kind, path: &'a str, columns: Columns<'a>) -> Watch<'a> {
        Watch {
            session,
            kind,
            path,
            columns,
            known: BTreeMap::new(),
        }
    }

    /// Prints what was found, then every change. Ends only with an error.
    pub(super) fn run(mut self, found: &Value, mut feed: Feed, interval: Duration) -> Result<(), Failure> {
        let printer = self.session.printer;
        printer.heading(&self.columns.table(&json!([]), printer.is_wide()))?;
        for item in items(found) {
            self.print(item)?;
        }
        // With a selector or a filter, only the server knows which resources match.
        let filtered = self.path.contains('?');
        loop {
            let records = feed.next(self.session.client)?;
            match filtered {
                true if !records.is_empty() => self.reload()?,
                true => {}
                false => records.iter().try_for_each(|record| self.apply(record))?,
            }
            thread::sleep(interval);
        }
    }

    fn print(&mut self, item: &Value) -> Result<(), Failure> {
        self.known.insert(text(&item["id"]).to_owned(), item.clone());
        let shown = document(self.session, self.kind, item);
        self.session
            .printer
            .stream(&shown, |wide| self.columns.table(item, wide), || names(self.kind, item))
    }

    /// Prints a resource if it differs from what was printed last.
    fn update(&mut self, item: &Value) -> Result<(), Failure> {
        match self.known.get(text(&item["id"])) == Some(item) {
            true => Ok(()),
            false => self.print(item),
        }
    }

    fn apply(&mut self, record: &Value) -> Result<(), Failure> {
        match &record["after"] {
            Value::Null => self.remove(text(&record["id"])),
            after => self.update(after),
        }
    }

    /// Reads the list again, and prints what changed in it.
    fn reload(&mut self) -> Result<(), Failure> {
        let now = self.session.client.get(self.path)?;
        let listed = |id: &str| items(&now).iter().any(|item| item["id"] == id);
        let left: Vec<String> = self.known.keys().filter(|id| !listed(id)).cloned().collect();
        left.iter().try_for_each(|id| self.remove(id))?;
        items(&now).iter().try_for_each(|item| self.update(item))
    }

    fn remove(&mut self, id: &str) -> Result<(), Failure> {
        self.known.remove(id);
        let mark = json!({"id": id, "$patch": "delete"});
        let table = |_: bool| {
            let mut table = Table::new(["id", "state"]);
            table.row([(id.to_owned(), Tone::Plain), ("gone".to_owned(), Tone::Bad)]);
            table
        };
        self.session
            .printer
            .stream(&mark, table, || vec![format!("{}/{id}", self.kind.name)])
    }
}
