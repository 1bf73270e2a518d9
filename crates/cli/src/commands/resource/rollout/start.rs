//! `rollout start`, and `rollout plan`, its dry run.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches as _, ValueHint};
use fleet::kind::ROLLOUTS;
use serde_json::{Value, json};

use super::super::Verb;
use super::{is_of, set, waves};
use crate::args::ids::id_of;
use crate::args::{WriteArgs, complete, given};
use crate::client::Operation;
use crate::confirm::{self, Asks, Proposal};
use crate::documents;
use crate::error::{ApiError, Failure};
use crate::kinds::{Kind, Kinds};
use crate::session::{Outcome, Session, blame, text};

pub(in super::super) const PLAN: Verb = Verb {
    name: "plan",
    command: plan_command,
    run: plan,
};

pub(in super::super) const START: Verb = Verb {
    name: "start",
    command: start_command,
    run: start,
};

const ABOUT: &str = "\
A wave is named in a few words: `10%` is a share of the clusters that no selector names, `environment=dev` those that match, and a \
bare word such as `canary` those with the label ring=canary. The last wave is `rest`: everyone who is left. --wave has one wave each, \
whose selector may have commas, and which may be named: gold:ring=stable,tier=gold. A cluster that \
matches several selectors is in the first of these waves; percentages add up, so that 10%,20%,rest are 10, 20 and 70 in a hundred.

A gate has converged (or told), failures, silent, soak and deadline. What it leaves out is converged=95%, failures=0, silent=5%, \
soak=0s and deadline=24h.";

const EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli rollout plan -f rollout.yaml
  flux-resourceset-cli rollout start -f rollout.yaml
  flux-resourceset-cli rollout start --set component/podinfo oci_tag=6.7.1 --waves canary,10%,rest
  flux-resourceset-cli rollout start r --set component/x oci_tag=2 --waves 10%,rest --gate soak=1h
  flux-resourceset-cli rollout start r --set namespace/x labels.a=b --waves dev,rest --approve rest
  flux-resourceset-cli rollout start --set component/x oci_tag=2 --wave a:tier=b,ring=c --wave rest";

// What both commands propose. (Not a doc comment: clap would use it as their description.)
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("source").args(["filename", "set"]).required(true)))]
struct Proposed {
    /// The id of the rollout [default: the first document and its value, such as podinfo-6.7.1]
    #[arg(value_name = "ID", value_parser = given, conflicts_with = "filename")]
    id: Option<String>,
    /// A file of rollouts, YAML or JSON, or - for stdin (can be repeated)
    #[arg(short, long, value_name = "FILE|-", value_hint = ValueHint::AnyPath)]
    filename: Vec<PathBuf>,
    /// The waves, in their order: canary,10%,rest
    #[arg(long, value_name = "WAVES", required_unless_present_any = ["filename", "wave"], conflicts_with_all = ["filename", "wave"], value_parser = given)]
    waves: Option<String>,
    /// One wave, in the order of these flags: canary, gold:ring=stable,tier=gold, 10%, rest (can be repeated)
    #[arg(long, value_name = "[NAME:]WAVE", conflicts_with = "filename", value_parser = given)]
    wave: Vec<String>,
    /// A wave that waits for an approval (can be repeated)
    #[arg(long, value_name = "WAVE", conflicts_with = "filename", value_delimiter = ',', value_parser = given)]
    approve: Vec<String>,
    /// What must hold before the next wave: converged=95%, told=95%, failures=1, silent=5%, soak=30m, deadline=2h (can be repeated)
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "filename", value_parser = given)]
    gate: Vec<String>,
    /// What happens when a gate fails [default: halt] [halt, revert]
    #[arg(long, value_name = "WHAT", conflicts_with = "filename", value_parser = given)]
    on_failure: Option<String>,
    /// What the rollout is for
    #[arg(long, value_name = "TEXT", conflicts_with = "filename")]
    description: Option<String>,
}

fn set_arg() -> Arg {
    Arg::new("set")
        .long("set")
        .value_names(["KIND/ID", "FIELD=VALUE"])
        .num_args(2..)
        .action(ArgAction::Append)
        .value_parser(given)
        .add(complete::resources())
        .help(
            "Change these fields of a definition or a profile, or clear them: platform_components/podinfo oci_tag=6.7.1 timeout- \
             (can be repeated)",
        )
}

fn plan_command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let manifests = Arg::new("manifests")
        .long("manifests")
        .action(ArgAction::SetTrue)
        .help("Show the Kubernetes objects that change, as a diff");
    let command = command.about("Show what a rollout would do, wave by wave, and start nothing");
    let command = Proposed::augment_args(command).arg(set_arg()).arg(manifests);
    is_of(kind).then(|| command.after_help(format!("{ABOUT}\n\n{EXAMPLES}")))
}

fn start_command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let about = "Start a rollout: a change to shared documents that goes out wave by wave";
    // Other kinds are created.
    let command = command.about(about).alias("create");
    let command = WriteArgs::augment_args(Proposed::augment_args(command).arg(set_arg()));
    is_of(kind).then(|| command.after_help(format!("{ABOUT}\n\n{}\n\n{EXAMPLES}", confirm::AFTER_HELP)))
}

fn plan(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let how = WriteArgs {
        dry_run: true,
        manifests: matches.get_flag("manifests"),
        ..WriteArgs::default()
    };
    propose(session, kind, matches, &how)
}

fn start(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    propose(session, kind, matches, &WriteArgs::read(matches)?)
}

fn propose(session: &Session<'_>, kind: &Kind, matches: &ArgMatches, how: &WriteArgs) -> Result<(), Failure> {
    let proposed = Proposed::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    let operations = match proposed.filename.is_empty() {
        false => of_files(kind, &proposed.filename)?,
        true => vec![operation(&proposed.document(session, kind, matches)?, "")],
    };
    let question = match operations.len() {
        1 => "Start this rollout",
        _ => "Start these rollouts",
    };
    let proposal = Proposal {
        question,
        asks: Asks::Always,
        warns_of_reverts: false,
        warnings: &[],
        send: &|conditions| session.client.batch(&operations, how.reason.as_deref(), conditions),
    };
    let outcome = proposal.carry_out(session, how);
    let outcome = outcome.map_err(|error| explain(&operations, error))?;
    session.show(&outcome)?;
    if let (Outcome::Done(_), [id]) = (&outcome, outcome.ids().as_slice()) {
        session.printer.hint(&format!("`rollout status {id} -w` follows it"));
    }
    Ok(())
}

fn explain(operations: &[Operation], error: ApiError) -> Failure {
    let exists = error.is("exists");
    let failure = blame(operations, error);
    match exists {
        true => failure.hint("an id is used once: choose another one, or delete the rollout that has ended"),
        false => failure,
    }
}

/// The creation of a rollout.
fn operation(document: &Value, place: &str) -> Operation {
    let id = text(&document["id"]).to_owned();
    let label = match place {
        "" => format!("rollout {id}"),
        place => format!("{place} (rollouts/{id})"),
    };
    Operation::new(
        label,
        json!({"op": "create", "kind": ROLLOUTS, "id": id, "value": document}),
    )
}

/// The rollouts of files. A document without a kind is a rollout.
fn of_files(kind: &Kind, paths: &[PathBuf]) -> Result<Vec<Operation>, Failure> {
    let read = documents::read(paths, false)?;
    let operations = read.into_iter().map(|document| {
        let place = document.place().to_owned();
        let mut value = document.value;
        let named = value.as_object_mut().and_then(|fields| fields.remove("kind"));
        let named = named.as_ref().map_or(ROLLOUTS, text).replace('-', "_");
        match kind.names().contains(&named) {
            true => Ok(operation(&value, &place)),
            false => {
                let failure = Failure::usage(format!("{place}: this is not a rollout, but of the kind \"{named}\""));
                Err(failure.hint("`apply -f` applies documents of every kind, rollouts among them"))
            }
        }
    });
    operations.collect()
}

impl Proposed {
    /// The document that the flags stand for.
    fn document(&self, session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<Value, Failure> {
        let kinds = session.kinds()?;
        let sets = matches.get_occurrences::<String>("set").into_iter().flatten();
        let operations: Result<Vec<Value>, Failure> = sets
            .map(|words| set::operation(kinds, &words.collect::<Vec<_>>()))
            .collect();
        let id = match &self.id {
            Some(id) => Some(id_of(kind.names())(id).map_err(Failure::usage)?),
            None => None,
        };
        let waves = match &self.waves {
            Some(words) => waves::split(words),
            None => self.wave.iter().map(|word| word.trim()).collect(),
        };
        let mut document = made(id, &operations?, &waves, &self.approve)?;
        let field = |name: &str| kind.fields.iter().find(|field| field.name == name);
        for text in &self.gate {
            let parsed = field("gate").map_or(Ok(Value::Null), |gate| gate.form.parse(text));
            let parsed = parsed.map_err(|error| Failure::usage(format!("--gate: {error}")))?;
            for (name, value) in parsed.as_object().into_iter().flatten() {
                document["gate"][name] = value.clone();
            }
        }
        if let Some(what) = &self.on_failure {
            let options = field("on_failure")
                .map(|field| field.options.as_slice())
                .unwrap_or_default();
            if !options.contains(what) {
                return Err(Failure::usage(format!(
                    "--on-failure is one of {}, not \"{what}\"",
                    options.join(", ")
                )));
            }
            document["on_failure"] = what.as_str().into();
        }
        if let Some(description) = &self.description {
            document["description"] = description.as_str().into();
        }
        Ok(document)
    }
}

/// A rollout of operations, with waves in words as in `--waves`.
pub(crate) fn new_rollout(id: Option<String>, operations: &[Value], words: &str) -> Result<Value, Failure> {
    made(id, operations, &waves::split(words), &[])
}

fn made(id: Option<String>, operations: &[Value], words: &[&str], approve: &[String]) -> Result<Value, Failure> {
    let waves = waves::parse(words, approve)?;
    let id = id.or_else(|| set::derived_id(operations)).ok_or_else(|| {
        let failure = Failure::usage("the rollout needs an id: nothing that it sets makes one");
        failure.hint("for example `rollout start ID --set ...`")
    })?;
    Ok(json!({"id": id, "operations": operations, "waves": waves}))
}
