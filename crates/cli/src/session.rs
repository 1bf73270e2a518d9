//! What every command needs: the API, the kinds, the printer; and the one way to write.

use std::cell::OnceCell;

use fleet::kind::CLUSTERS;
use serde_json::{Value, json};

use crate::args::WriteArgs;
use crate::cli::family_name;
use crate::client::{Client, Operation};
use crate::confirm::{Asks, Proposal};
use crate::error::{ApiError, Code, Failure, Subject};
use crate::kinds::{Kind, Kinds};
use crate::output::{Printer, Table, Tone};
use crate::plan::Plan;

/// How often a write is tried again on fresh data before the command gives up.
pub(crate) const ATTEMPTS: usize = 5;

#[derive(Debug)]
pub(crate) struct Session<'a> {
    pub(crate) client: &'a Client,
    pub(crate) printer: &'a Printer,
    kinds: OnceCell<Kinds>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(client: &'a Client, printer: &'a Printer, kinds: Option<Kinds>) -> Session<'a> {
        Session {
            client,
            printer,
            kinds: kinds.map(OnceCell::from).unwrap_or_default(),
        }
    }

    pub(crate) fn kinds(&self) -> Result<&Kinds, Failure> {
        if let Some(kinds) = self.kinds.get() {
            return Ok(kinds);
        }
        let kinds = Kinds::load(self.client)?;
        Ok(self.kinds.get_or_init(|| kinds))
    }

    /// Sends operations as one revision, or as a dry run. The user confirms what reaches several clusters or removes something.
    pub(crate) fn write(&self, operations: &[Operation], how: &WriteArgs) -> Result<Outcome, ApiError> {
        self.write_with_warnings(operations, how, &[])
    }

    /// The same, with warnings of the command for the plan.
    pub(crate) fn write_with_warnings(
        &self,
        operations: &[Operation],
        how: &WriteArgs,
        warnings: &[Value],
    ) -> Result<Outcome, ApiError> {
        let proposal = Proposal {
            question: "Make these changes",
            asks: Asks::Beyond,
            warns_of_reverts: false,
            warnings,
            send: &|conditions| self.client.batch(operations, how.reason.as_deref(), conditions),
        };
        proposal.carry_out(self, how)
    }

    /// Sends operations, and shows the outcome.
    pub(crate) fn write_and_show(&self, operations: &[Operation], how: &WriteArgs) -> Result<(), Failure> {
        let outcome = self.write(operations, how).map_err(|error| blame(operations, error))?;
        self.show(&outcome)
    }

    /// Shows that nothing had to change; no write was sent.
    pub(crate) fn show_unchanged(&self, how: &WriteArgs) -> Result<(), Failure> {
        let revision = self.client.revision()?;
        self.show(&match how.dry_run {
            true => Outcome::Planned(Plan::read(json!({"base": revision, "changes": []}))),
            false => Outcome::Done(json!({"revision": revision, "changes": []})),
        })
    }

    pub(crate) fn show(&self, outcome: &Outcome) -> Result<(), Failure> {
        match outcome {
            Outcome::Planned(plan) => plan.show(self.printer),
            Outcome::Done(reply) => {
                let changes = reply["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
                let name = |change: &Value| format!("{}/{}", text(&change["kind"]), text(&change["id"]));
                let table = |_| {
                    let mut table = Table::default();
                    for change in changes {
                        let verb = match text(&change["action"]) {
                            "create" => "created",
                            "delete" => "deleted",
                            // An older server returns no action.
                            "" if change["etag"].is_null() => "deleted",
                            _ => "changed",
                        };
                        table.line(format!("{} {verb}", name(change)), Tone::Good);
                    }
                    match changes.is_empty() {
                        true => table.line("nothing changed", Tone::Quiet),
                        false => table.line(format!("revision {}", reply["revision"]), Tone::Quiet),
                    }
                    table
                };
                self.printer.print(reply, table, || changes.iter().map(name).collect())
            }
        }
    }
}

/// The result of a write, or of a dry run.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Value),
    Planned(Plan),
}

impl Outcome {
    /// The ids of the resources that changed, or would change.
    pub(crate) fn ids(&self) -> Vec<&str> {
        match self {
            Outcome::Done(reply) => {
                let changes = reply["changes"].as_array().into_iter().flatten();
                changes.map(|change| text(&change["id"])).collect()
            }
            Outcome::Planned(plan) => plan.changes.iter().map(|change| change.id.as_str()).collect(),
        }
    }
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Explains a refusal. Its pointers are into the batch, which the user has not seen: they are replaced by the label of the
/// operation and the place within its document.
pub(crate) fn blame(operations: &[Operation], error: ApiError) -> Failure {
    let mut failure = Failure::from(error);
    let place = |pointer: &str| -> Option<String> {
        let rest = pointer.strip_prefix("/operations/")?;
        let (n, rest) = rest
            .split_once('/')
            .map_or((rest, String::new()), |(n, rest)| (n, format!("/{rest}")));
        let operation = operations.get(n.parse::<usize>().ok()?)?;
        let given = &operation.body["value"]["id"];
        let rest = match rest.as_str() {
            // The label of a document without an id does not show what is missing.
            "/value/id" if !given.is_string() => return Some(format!("{} /id", operation.label)),
            rest => rest.strip_prefix("/value").unwrap_or(rest),
        };
        Some(match rest {
            "" | "/id" | "/cluster" | "/kind" | "/op" | "/if_match" => operation.label.clone(),
            "/selector" => format!("{} --selector", operation.label),
            rest => format!("{} {rest}", operation.label),
        })
    };
    failure.subject = subject(operations, &failure).map(Box::new);
    if failure.details.iter().any(|(pointer, _)| pointer.ends_with("/cluster")) {
        failure = failure.or_hint(|| "`cluster list` lists the clusters".to_owned());
    }
    // With several operations, the message must name the one that failed.
    if let [(pointer, detail)] = failure.details.as_slice()
        && operations.len() > 1
        && failure.message == *detail
        && let Some(place) = place(pointer)
    {
        failure.message = format!("{place}: {detail}");
    }
    // The message of an invalid document repeats the pointer of the first problem.
    if let Some((pointer, detail)) = failure.details.first()
        && failure.message.contains(pointer.as_str())
        && let Some(first) = place(pointer)
    {
        failure.message = match failure.details.len() {
            1 => format!("{first}: {detail}"),
            many => format!("{many} problems"),
        };
    }
    for (pointer, _) in &mut failure.details {
        if let Some(shown) = place(pointer) {
            *pointer = shown;
        }
    }
    failure
}

/// The name that a refused operation failed about.
fn subject(operations: &[Operation], failure: &Failure) -> Option<Subject> {
    let (pointer, detail) = failure.details.first()?;
    let (n, place) = pointer.strip_prefix("/operations/")?.split_once('/')?;
    let body = &operations.get(n.parse::<usize>().ok()?)?.body;
    let resource = |kind: &str, id: &Value| {
        let (kind, id) = (kind.to_owned(), text(id).to_owned());
        Some(Subject::Resource { kind, id })
    };
    match place {
        "selector" if detail.ends_with("matches no cluster") => {
            Some(Subject::Selector(text(&body["selector"]).to_owned()))
        }
        "cluster" if failure.code == Code::NotFound => resource(CLUSTERS, &body["cluster"]),
        "id" if failure.code == Code::NotFound => resource(text(&body["kind"]), &body["id"]),
        _ => None,
    }
}

/// Adds a hint to a "not found" of a resource.
pub(crate) fn missing(failure: Failure, kind: &Kind, id: &str) -> Failure {
    not_found(failure, &kind.name, id, || {
        format!("`{} list` lists all of them", family_name(kind))
    })
}

/// The same for a cluster, also for one at a revision.
pub(crate) fn missing_cluster(failure: Failure, id: &str) -> Failure {
    not_found(failure, CLUSTERS, id, || "`cluster list` lists the clusters".to_owned())
}

fn not_found(failure: Failure, kind: &str, id: &str, hint: impl FnOnce() -> String) -> Failure {
    let is_about_it = failure.message.contains(&format!("\"{id}\""));
    match failure.code {
        Code::NotFound if is_about_it => failure.or_hint(hint).about(kind, id),
        Code::NotFound => unknown_revision(failure),
        _ => failure,
    }
}

/// Adds a hint to a "not found" of a revision.
pub(crate) fn unknown_revision(failure: Failure) -> Failure {
    match failure.code {
        Code::NotFound => failure.or_hint(|| "`changes` lists the revisions".to_owned()),
        _ => failure,
    }
}
