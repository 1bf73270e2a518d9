//! Resources of any kind: list, get, create, update, delete.

use clap::ArgMatches;
use fleet::kind::CLUSTERS;
use serde_json::{Map, Value, json};

use super::get::{self, WatchArgs};
use super::id;
use crate::args::{Target, WriteArgs, field_values};
use crate::client::{Conditions, Operation, encode, with_query};
use crate::error::{ApiError, Code, Failure};
use crate::kinds::Kind;
use crate::output::{Table, Tone};
use crate::session::{ATTEMPTS, Session, blame, on_clusters, text};
use fleet::diff::differences;

pub(crate) fn list(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut parameters: Vec<(&str, Option<String>)> = Vec::new();
    for (name, _) in &kind.filters {
        parameters.push((name, matches.get_one::<String>(&format!("filter:{name}")).cloned()));
    }
    if kind.name == CLUSTERS {
        parameters.push(("selector", matches.get_one::<String>("selector").cloned()));
    }
    for name in ["limit", "offset"] {
        parameters.push((name, matches.get_one::<u64>(name).map(u64::to_string)));
    }
    let path = with_query(&format!("/{}", kind.name), parameters);
    get::show(session, kind, &path, None, &WatchArgs::read(matches)?)
}

pub(crate) fn get(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let revision = matches.get_one::<u64>("revision").copied();
    let path = get::path(kind, id(matches), revision);
    get::show(session, kind, &path, Some(id(matches)), &WatchArgs::read(matches)?)
}

pub(crate) fn create(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut value = field_values(&kind.fields, matches);
    value.insert("id".to_owned(), id(matches).into());
    if kind.name == CLUSTERS {
        value.entry("cluster_name").or_insert_with(|| id(matches).into());
        for other in session.kinds()?.iter() {
            let Some(array) = &other.references else { continue };
            let given = matches
                .try_get_many::<String>(&format!("assign:{}", other.name))
                .ok()
                .flatten();
            if let Some(ids) = given {
                value.insert(array.clone(), ids.map(|id| json!({ "id": id })).collect());
            }
        }
    }
    let target = kind.references.as_ref().and_then(|_| Target::read(matches));
    let wanted = Wanted {
        kind,
        value,
        target,
        update: matches.get_flag("update"),
    };
    wanted.ensure(session, &WriteArgs::read(matches)?)
}

/// A definition that should be there as it is said, and perhaps on some clusters.
pub(crate) struct Wanted<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) value: Map<String, Value>,
    pub(crate) target: Option<Target>,
    /// Overwrite what is there.
    pub(crate) update: bool,
}

impl Wanted<'_> {
    fn id(&self) -> &str {
        self.value.get("id").map(text).unwrap_or_default()
    }

    /// Absent: created. Present and equal: attached. Present and different: refused, unless it is to be overwritten. What was
    /// read is named by its version, so that a change meanwhile starts this over and is never overwritten unseen.
    pub(crate) fn ensure(&self, session: &Session<'_>, how: &WriteArgs) -> Result<(), Failure> {
        let mut attempt = 1;
        loop {
            let operations = self.operations(session)?;
            match session.write(&operations, how) {
                Ok(outcome) => return session.show(&outcome),
                Err(error) if attempt < ATTEMPTS && self.tries_again(&error) => attempt += 1,
                Err(error) if error.is("exists") => return Err(self.exists(blame(&operations, error))),
                Err(error) => return Err(blame(&operations, error)),
            }
        }
    }

    /// A plain create fails on what exists; the others read first, and what they read may have changed.
    fn tries_again(&self, error: &ApiError) -> bool {
        error.is("stale") || (error.is("exists") && !self.is_plain())
    }

    fn is_plain(&self) -> bool {
        self.target.is_none() && !self.update
    }

    fn exists(&self, failure: Failure) -> Failure {
        let (command, id) = (&self.kind.command, self.id());
        failure.hint(format!(
            "`{command} update {id}` changes fields of it; `create --update` overwrites it"
        ))
    }

    fn operations(&self, session: &Session<'_>) -> Result<Vec<Operation>, Failure> {
        let (kind, id) = (self.kind.name.as_str(), self.id());
        let label = format!("{} {id}", self.kind.command);
        let body = |op: &str| json!({"op": op, "kind": kind, "id": id, "value": self.value});
        let present = if self.is_plain() {
            None
        } else {
            session.client.find(kind, id)?
        };
        let mut operations = vec![match &present {
            None => Operation::new(&label, body("create")),
            Some(present) => {
                let mut body = body("apply");
                body["if_match"] = present.etag.as_str().into();
                Operation::new(&label, body)
            }
        }];
        if present.is_some() && !self.update {
            self.refuse_difference(session, &operations)?;
        }
        if let Some(target) = &self.target {
            operations.extend(on_clusters(
                target,
                &label,
                &json!({"op": "assign", "kind": kind, "id": id}),
            ));
        }
        Ok(operations)
    }

    /// The server says what would change, defaults filled in: nothing must.
    fn refuse_difference(&self, session: &Session<'_>, operations: &[Operation]) -> Result<(), Failure> {
        let reply = match session.client.batch(operations, None, &Conditions::dry_run()) {
            Ok(reply) => reply,
            // It changed since it was read; the write that follows finds that too, and starts over.
            Err(error) if error.is("stale") => return Ok(()),
            Err(error) => return Err(blame(operations, error)),
        };
        let Some(change) = reply["changes"].as_array().and_then(|changes| changes.first()) else {
            return Ok(());
        };
        let (command, id) = (&self.kind.command, self.id());
        let mut failure = Failure::refused(format!("{command} {id} exists and is different"));
        failure.details = differences(Some(&change["before"]), Some(&change["after"]))
            .iter()
            .map(|difference| (difference.pointer.clone(), difference.describe()))
            .collect();
        Err(failure.hint(format!(
            "--update overwrites it; `{command} assign {id}` attaches it as it is"
        )))
    }
}

pub(crate) fn update(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut value = Value::Object(field_values(&kind.fields, matches));
    for (field, key) in matches
        .get_many::<(String, Option<String>)>("unset")
        .into_iter()
        .flatten()
    {
        match key {
            Some(key) if value[field].is_object() || value[field].is_null() => value[field][key] = Value::Null,
            _ => value[field] = Value::Null,
        }
    }
    let body = json!({"op": "merge", "kind": kind.name, "id": id(matches), "value": value});
    let operation = Operation::new(format!("{} {}", kind.command, id(matches)), body);
    session.write_and_show(&[operation], &WriteArgs::read(matches)?)
}

pub(crate) fn delete(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let cascade = kind.references.is_some() && matches.get_flag("cascade");
    remove(session, kind, id(matches), cascade, &WriteArgs::read(matches)?)
}

pub(crate) fn remove(
    session: &Session<'_>,
    kind: &Kind,
    id: &str,
    cascade: bool,
    how: &WriteArgs,
) -> Result<(), Failure> {
    let mut body = json!({"op": "delete", "kind": kind.name, "id": id});
    if cascade {
        body["cascade"] = true.into();
    }
    let operations = [Operation::new(format!("{} {id}", kind.command), body)];
    let outcome = session.write(&operations, how).map_err(|error| {
        let in_use = error.is("in-use");
        let failure = missing(blame(&operations, error), kind);
        match in_use && !cascade {
            true => failure.hint("--cascade also takes it from the clusters that have it"),
            false => failure,
        }
    })?;
    session.show(&outcome)
}

/// What is not there can be looked for.
pub(crate) fn missing(failure: Failure, kind: &Kind) -> Failure {
    match failure.code {
        Code::NotFound => failure.or_hint(|| format!("`{} list` shows what is there", kind.command)),
        _ => failure,
    }
}

/// Revisions can be looked up.
pub(crate) fn unknown_revision(failure: Failure) -> Failure {
    match failure.code {
        Code::NotFound => failure.or_hint(|| "`changes` shows the revisions".to_owned()),
        _ => failure,
    }
}

pub(crate) fn diagnostics(session: &Session<'_>, matches: &ArgMatches) -> Result<(), Failure> {
    let found = session
        .client
        .get(&format!("/{CLUSTERS}/{}/diagnostics", encode(id(matches))))?;
    let items = || found.as_array().into_iter().flatten();
    let table = |_| {
        const COLUMNS: [&str; 4] = ["code", "kind", "id", "detail"];
        if items().next().is_none() {
            let mut table = Table::default();
            table.line("nothing is wrong", Tone::Good);
            return table;
        }
        let mut table = Table::new(COLUMNS);
        for item in items() {
            table.row(COLUMNS.map(|name| (crate::output::cell(&item[name]), Tone::Attention)));
        }
        table
    };
    session
        .printer
        .print(&found, table, || vec![format!("{CLUSTERS}/{}", id(matches))])
}
