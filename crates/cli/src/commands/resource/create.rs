//! `KIND create`.

use clap::{Arg, ArgAction, ArgMatches, Command};
use fleet::diff::differences;
use fleet::kind::{CLUSTERS, GUARDS, ROLLOUTS};
use serde_json::{Map, Value, json};

use super::{Verb, id, id_arg, label, noun, write_args};
use crate::args::fields::{field_arg, field_values};
use crate::args::ids::id_of;
use crate::args::target::{Target, target_args};
use crate::args::{WriteArgs, complete, switch};
use crate::cli::family_name;
use crate::client::{Conditions, Operation};
use crate::confirm::{NAMED_HELP, note_restart};
use crate::error::{ApiError, Failure};
use crate::kinds::{Field, Kind, Kinds};
use crate::plan::whole::Objects;
use crate::session::{ATTEMPTS, Session, blame, text};

pub(super) const VERB: Verb = Verb {
    name: "create",
    command,
    run,
};

fn command(command: Command, kind: &Kind, kinds: &Kinds) -> Option<Command> {
    // A rollout is started.
    if kind.name == ROLLOUTS {
        return None;
    }
    let noun = noun(kind);
    let fields = flagged(kind);
    let fields = fields.iter().map(|field| field_arg(field, is_required(kind, field)));
    let update = switch("update", "Overwrite it if it exists and differs");
    let mut command = write_args(command.arg(id_arg(kind)).args(fields).arg(update));
    if kind.name == GUARDS {
        let help = "Why the guard exists: writes that it refuses are told, and the audit log keeps it";
        command = command.mut_arg("reason", |reason| reason.required(true).help(help));
        command = command.after_help(format!("{NAMED_HELP}\n\n{GUARD_EXAMPLES}"));
    }
    Some(match kind.references {
        Some(_) => target_args(
            command.about(format!(
                "Create a {noun}; with clusters, create it if it is missing and assign it, in one revision"
            )),
            false,
        ),
        None if kind.name == CLUSTERS => assign_args(command.about(format!("Create a {noun}")), kinds),
        None => command.about(format!("Create a {noun}")),
    })
}

/// The fields that have a flag of their own. For the reason of a guard there is `--reason`, which is that of the change, too.
fn flagged(kind: &Kind) -> Vec<Field> {
    let is_reason = |field: &&Field| kind.name == GUARDS && field.name == "reason";
    kind.fields.iter().filter(|field| !is_reason(field)).cloned().collect()
}

const GUARD_EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli guard create freeze --selector environment=prod --changes 0 --reason holidays
  flux-resourceset-cli guard create steps --selector '*' --changes 9 --removals 0 --reason steps
  flux-resourceset-cli guard update freeze --until 2027-01-03T00:00:00Z";

/// The name of a cluster defaults to its id.
fn is_required(kind: &Kind, field: &Field) -> bool {
    field.required && !(kind.name == CLUSTERS && field.name == "cluster_name")
}

/// Flags that assign definitions to a new cluster.
fn assign_args(mut command: Command, kinds: &Kinds) -> Command {
    let taken: Vec<String> = command
        .get_arguments()
        .flat_map(|arg| {
            arg.get_long()
                .into_iter()
                .chain(arg.get_all_aliases().unwrap_or_default())
        })
        .map(str::to_owned)
        .collect();
    let others = kinds
        .iter()
        .filter(|other| other.references.is_some() && !taken.contains(&other.command));
    for other in others {
        let arg = Arg::new(format!("assign:{}", other.name))
            .long(other.command.clone())
            .value_name("ID")
            .action(ArgAction::Append)
            .help(format!("Assign this {} (can be repeated)", noun(other)))
            .value_parser(id_of(other.names()))
            .add(complete::ids(&other.name));
        command = command.arg(arg.help_heading("References"));
    }
    command
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut value = field_values(&flagged(kind), matches);
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
    let how = WriteArgs::read(matches)?;
    if kind.name == GUARDS {
        value.insert("reason".to_owned(), how.reason.clone().into());
    }
    let target = kind.references.as_ref().and_then(|_| Target::find(matches));
    let wanted = Wanted {
        kind,
        value,
        target,
        update: matches.get_flag("update"),
    };
    wanted.ensure(session, &how)
}

/// A resource that should exist with these values, and be assigned to some clusters.
pub(crate) struct Wanted<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) value: Map<String, Value>,
    pub(crate) target: Option<Target>,
    /// Overwrite a resource that exists and differs.
    pub(crate) update: bool,
}

impl Wanted<'_> {
    fn id(&self) -> &str {
        self.value.get("id").map(text).unwrap_or_default()
    }

    /// Creates the resource if it is missing, and assigns it. One that exists and differs is an error unless it may be
    /// overwritten. The write names the version that was read, so a concurrent change starts this over.
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
            note_restart(session, how);
        }
    }

    /// A plain create fails if the resource exists; the other forms read it first, and what they read may be stale.
    fn tries_again(&self, error: &ApiError) -> bool {
        error.is("stale") || (error.is("exists") && !self.is_plain())
    }

    fn is_plain(&self) -> bool {
        self.target.is_none() && !self.update
    }

    fn exists(&self, failure: Failure) -> Failure {
        let (command, id) = (family_name(self.kind), self.id());
        failure.hint(format!(
            "use `{command} update {id}` to change its fields, or `{command} create {id} --update` to overwrite it"
        ))
    }

    fn operations(&self, session: &Session<'_>) -> Result<Vec<Operation>, Failure> {
        let (kind, id) = (self.kind.name.as_str(), self.id());
        let label = label(self.kind, id);
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
            operations.extend(target.operations(&label, &json!({"op": "assign", "kind": kind, "id": id})));
        }
        Ok(operations)
    }

    /// Fails if the operations would change the resource. The server compares, since it fills in the defaults.
    fn refuse_difference(&self, session: &Session<'_>, operations: &[Operation]) -> Result<(), Failure> {
        let reply = match session
            .client
            .batch(operations, None, &Conditions::dry_run(Objects::None))
        {
            Ok(reply) => reply,
            // It changed since it was read; the write that follows fails too, and starts over.
            Err(error) if error.is("stale") => return Ok(()),
            Err(error) => return Err(blame(operations, error)),
        };
        let Some(change) = reply["changes"].as_array().and_then(|changes| changes.first()) else {
            return Ok(());
        };
        let (command, id) = (family_name(self.kind), self.id());
        let mut failure = Failure::refused(format!("{} exists and differs", label(self.kind, id)));
        failure.details = differences(Some(&change["before"]), Some(&change["after"]))
            .iter()
            .map(|difference| (difference.pointer.clone(), difference.describe()))
            .collect();
        Err(failure.hint(format!(
            "use --update to overwrite it, or `{command} assign {id}` to assign it as it is"
        )))
    }
}
