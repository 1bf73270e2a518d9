//! The commands of a kind: `component assign`, `cluster list`, … One file per command, with its arguments and what it does. They
//! are built from the kind, so a kind that is added to the server has them too.

mod assign;
mod bootstrap;
pub(crate) mod chosen;
mod create;
pub(crate) mod delete;
mod describe;
pub(crate) mod diagnostics;
mod edit;
mod edit_references;
mod enable;
mod exclude;
mod explain;
mod from_clusters;
mod get;
mod history;
mod label;
mod list;
mod maps;
mod r#override;
mod patch;
mod pins;
mod profile_references;
pub(crate) mod rollout;
mod unassign;
mod unpin;
mod update;
pub(crate) mod usages;
mod versions;
mod r#where;

pub(crate) use self::chosen::{Chosen, matching};
pub(crate) use self::create::Wanted;
pub(crate) use self::edit_references::overrides;
pub(crate) use self::label::Labels;
pub(crate) use self::patch::set_values;
pub(crate) use self::usages::usages;

use clap::{Arg, ArgMatches, Args as _, Command};

use crate::args::fields::trimmed;
use crate::args::ids::{id_of, unique};
use crate::args::target::target_args;
use crate::args::{WriteArgs, complete};
use crate::cli::{family_name, is_built_in};
use crate::client::Operation;
use crate::confirm::NAMED_HELP;
use crate::error::{ApiError, Failure};
use crate::kinds::{Kind, Kinds};
use crate::session::{Session, blame, missing};

/// One command of a kind.
struct Verb {
    name: &'static str,
    /// The command line; none for a kind that does not have the command.
    command: fn(Command, &Kind, &Kinds) -> Option<Command>,
    run: fn(&Session<'_>, &Kind, &ArgMatches) -> Result<(), Failure>,
}

/// Every command, in the order of the help.
const VERBS: [Verb; 36] = [
    rollout::PLAN,
    rollout::START,
    rollout::STATUS,
    rollout::APPROVE,
    rollout::PAUSE,
    rollout::RESUME,
    rollout::PROMOTE,
    rollout::REVERT,
    rollout::COMPLETE,
    rollout::ABORT,
    list::VERB,
    get::VERB,
    describe::VERB,
    create::VERB,
    update::VERB,
    label::VERB,
    delete::VERB,
    edit::VERB,
    history::VERB,
    diagnostics::VERB,
    explain::VERB,
    from_clusters::VERB,
    profile_references::ADD,
    profile_references::REMOVE,
    bootstrap::VERB,
    assign::VERB,
    unassign::VERB,
    exclude::VERB,
    r#where::VERB,
    versions::VERB,
    r#override::VERB,
    pins::VERB,
    unpin::VERB,
    enable::ENABLE,
    enable::DISABLE,
    patch::VERB,
];

/// The commands of a kind.
pub(crate) fn family(kind: &Kind, kinds: &Kinds) -> Command {
    let about = if kind.description.is_empty() {
        format!("Commands of {}", kind.name)
    } else {
        trimmed(&kind.description)
    };
    let commands = VERBS.iter().filter_map(|verb| {
        let command = Command::new(verb.name);
        (verb.command)(command, kind, kinds)
    });
    Command::new(family_name(kind))
        .aliases(aliases(kind, kinds))
        .about(about)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands)
}

/// Every other name of a kind, as a command: `clusters list`. Names that are commands themselves, or names of two kinds, are not
/// among them.
fn aliases(kind: &Kind, kinds: &Kinds) -> Vec<String> {
    let families: Vec<String> = kinds.iter().map(family_name).collect();
    let names = kind.names().into_iter().flat_map(|name| [name.replace('_', "-"), name]);
    let mut free: Vec<String> = names
        .filter(|name| !families.contains(name) && !is_built_in(name) && name != "help")
        .filter(|name| {
            kinds
                .iter()
                .filter(|other| other.names().contains(&name.replace('-', "_")))
                .count()
                == 1
        })
        .collect();
    free.sort();
    free.dedup();
    free
}

/// Runs a command of a kind.
pub(crate) fn run(session: &Session<'_>, family: &str, matches: &ArgMatches) -> Result<(), Failure> {
    let kind = session.kinds()?.iter().find(|kind| family_name(kind) == family);
    let Some((kind, (name, matches))) = kind.zip(matches.subcommand()) else {
        return Err(Failure::usage(format!("\"{family}\" is not a command")));
    };
    match VERBS.iter().find(|verb| verb.name == name) {
        Some(verb) => (verb.run)(session, kind, matches),
        None => Err(Failure::usage(format!("\"{name}\" is not a command of {}", kind.name))),
    }
}

/// What help calls one resource of a kind: as its command does.
fn noun(kind: &Kind) -> String {
    kind.command.replace(['-', '_'], " ")
}

/// How messages name a resource: `component podinfo`.
fn label(kind: &Kind, id: &str) -> String {
    format!("{} {id}", kind.command)
}

fn id_arg(kind: &Kind) -> Arg {
    Arg::new("id")
        .value_name("ID")
        .required(true)
        .value_parser(id_of(kind.names()))
        .help(format!("The id of the {}", noun(kind)))
        .add(complete::ids(&kind.name))
}

/// One id, or several.
fn ids_arg(kind: &Kind) -> Arg {
    let help = format!("The id of the {} (several can be given)", noun(kind));
    id_arg(kind).num_args(1..).help(help)
}

/// The ids that a command is about, each once.
fn ids(matches: &ArgMatches) -> Vec<String> {
    unique(
        matches
            .get_many::<String>("id")
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
    )
}

/// The id that a command is about.
fn id(matches: &ArgMatches) -> &str {
    matches.get_one::<String>("id").map(String::as_str).unwrap_or_default()
}

fn write_args(command: Command) -> Command {
    WriteArgs::augment_args(command).after_help(NAMED_HELP)
}

/// The same, with examples in the help.
fn write_args_with(command: Command, examples: &str) -> Command {
    write_args(command).after_help(format!("{NAMED_HELP}\n\n{examples}"))
}

/// A write to the references of clusters; only kinds that clusters refer to have it.
fn on_clusters(command: Command, kind: &Kind, about: String) -> Option<Command> {
    kind.references.as_ref()?;
    Some(write_args(target_args(command.about(about).arg(id_arg(kind)), true)))
}

/// Explains a refused assignment or patch. The server calls a batch that names an unknown definition invalid; here that is
/// "not found".
fn explain(session: &Session<'_>, kind: &Kind, id: &str, operations: &[Operation], error: ApiError) -> Failure {
    if error.is("invalid")
        && let Err(absent) = session.client.resource(&kind.name, id)
        && absent.is("not-found")
    {
        return missing(absent.into(), kind, id);
    }
    blame(operations, error)
}
