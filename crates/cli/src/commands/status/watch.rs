//! `status --watch`: the clusters that are not well, then each cluster whose state changes.

use std::collections::{BTreeMap, HashSet};
use std::thread;
use std::time::Duration;

use fleet::kind::CLUSTERS;
use fleet::status::State;
use serde_json::{Value, json};

use super::StatusArgs;
use super::overview::{name, no_status, read, rows, table};
use crate::client::{encode, with_query};
use crate::error::Failure;
use crate::session::{Session, text};
use crate::status::{Event, Events};

/// How long to wait before the stream is opened again.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows the stream. Ends only with an error.
pub(super) fn follow(session: &Session<'_>, args: &StatusArgs) -> Result<(), Failure> {
    let mut watch = Watch {
        session,
        args,
        known: BTreeMap::new(),
        members: None,
        revision: Value::Null,
    };
    let mut is_first = true;
    loop {
        // The stream is opened before the list is read: a change between the two is then shown by both, not lost.
        let mut events = Events::open(session.client).map_err(|error| no_status(error.into()))?;
        watch.list(is_first)?;
        is_first = false;
        while let Some(event) = events.next() {
            match event {
                Event::Counts(counts) => watch.counts(&counts)?,
                Event::Cluster(change) => watch.change(&change)?,
                Event::Missed => watch.list(false)?,
            }
        }
        thread::sleep(AGAIN);
    }
}

struct Watch<'a> {
    session: &'a Session<'a>,
    args: &'a StatusArgs,
    /// The states that were printed, by cluster.
    known: BTreeMap<String, Value>,
    /// The clusters that the selector matches, at a revision.
    members: Option<HashSet<String>>,
    revision: Value,
}

impl Watch<'_> {
    /// Prints the clusters that are listed, unless they were printed so; and those that are no longer among them.
    fn list(&mut self, is_first: bool) -> Result<(), Failure> {
        let found = read(self.session, self.args)?;
        if is_first {
            let printer = self.session.printer;
            printer.heading(&table(&found, rows(&found), printer.is_wide()))?;
        }
        let listed: HashSet<&str> = rows(&found).iter().map(|row| text(&row["id"])).collect();
        let is_listed =
            |state: &Value| State::parse(text(state)).is_some_and(|state| self.args.listed().contains(&state));
        // What should be in the list, and is not.
        let left = self.known.iter().filter(|(_, state)| is_listed(state));
        let left = left.filter(|(id, _)| !listed.contains(id.as_str()));
        let left: Vec<String> = left.map(|(id, _)| id.clone()).collect();
        for row in rows(&found) {
            self.print(&found["at"], row)?;
        }
        for id in left {
            self.recall(&id)?;
        }
        Ok(())
    }

    /// Prints a cluster that is no longer listed, if its state is another one.
    fn recall(&mut self, id: &str) -> Result<(), Failure> {
        match self.session.client.get(&format!("/{CLUSTERS}/{}/status", encode(id))) {
            Ok(row) => self.print(&row["at"].clone(), &brief(&row)),
            Err(error) if error.status() == Some(404) => {
                self.known.remove(id);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Which clusters the selector matches may change with each revision.
    fn counts(&mut self, counts: &Value) -> Result<(), Failure> {
        if self.args.selector.is_none() || self.revision == counts["revision"] {
            return Ok(());
        }
        let path = with_query(&format!("/{CLUSTERS}"), [("selector", self.args.selector.clone())]);
        let found = match self.session.client.get(&path) {
            Ok(found) => found,
            // No cluster has the label any more.
            Err(error) if error.status() == Some(400) => json!([]),
            Err(error) => return Err(error.into()),
        };
        let members = found.as_array().into_iter().flatten();
        self.members = Some(members.map(|cluster| text(&cluster["id"]).to_owned()).collect());
        self.revision = counts["revision"].clone();
        Ok(())
    }

    fn change(&mut self, change: &Value) -> Result<(), Failure> {
        let is_member = |members: &HashSet<String>| members.contains(text(&change["id"]));
        if self.args.selector.is_some() && !self.members.as_ref().is_some_and(is_member) {
            return Ok(());
        }
        // With --state, who enters and who leaves.
        let state = |name: &str| State::parse(text(&change[name]));
        let wanted = &self.args.state;
        let is_wanted = |state: Option<State>| state.is_some_and(|state| wanted.contains(&state));
        if !wanted.is_empty() && !is_wanted(state("state")) && !is_wanted(state("before")) {
            return Ok(());
        }
        // Ages are those at the time of the change.
        let last = [&change["since"], &change["last_poll"]];
        let now = last.into_iter().filter_map(Value::as_str).max();
        self.print(&json!(now), change)
    }

    fn print(&mut self, now: &Value, row: &Value) -> Result<(), Failure> {
        let id = text(&row["id"]);
        if self.known.get(id) == Some(&row["state"]) {
            return Ok(());
        }
        self.known.insert(id.to_owned(), row["state"].clone());
        let found = json!({ "at": now });
        let one = std::slice::from_ref(row);
        self.session
            .printer
            .stream(row, |wide| table(&found, one, wide), || vec![name(row)])
    }
}

/// The status of one cluster as a list has it.
fn brief(status: &Value) -> Value {
    let fields = ["id", "dns", "environment", "state", "since", "last_poll"];
    fields.map(|name| (name, status[name].clone())).into_iter().collect()
}
