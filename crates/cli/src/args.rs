//! The command line: what is static is derived, what the kinds bring is built from them. Parser, help, man pages, completions
//! and docs/src/cli.md all come from here.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches as _, Subcommand, ValueHint};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use fleet::kind::CLUSTERS;
use serde_json::{Map, Value};

use crate::client::Conditions;
use crate::commands::{back, changes, complete, components, config, demo, documents, edit, get, inputs, kind, render};
use crate::consent::RULE;
use crate::error::Failure;
use crate::kinds::{Field, Form, Kind, Kinds, free_flag, pair};
use crate::output::Format;

pub(crate) const NAME: &str = "flux-resourceset-cli";

const ABOUT: &str = "The desired state of a fleet of Kubernetes clusters, from the command line.";

const AFTER: &str = "\
Environment:
  FLUX_API_URL          the address of the API, e.g. http://127.0.0.1:8080
  FLUX_API_TOKEN        the token that reads
  FLUX_API_WRITE_TOKEN  the token that writes (else the one that reads)
  These win over the current context (see `config`); --context wins over these.
  NO_COLOR, CLICOLOR_FORCE, EDITOR, FLUX_RESOURCESET_CONFIG

Exit codes:
  1  refused, or `diff` found differences, or `components check` problems
  2  wrong usage
  3  the server cannot be reached
  4  not found";

const WHOLE: &str = "\
A document is the whole resource: what it leaves out is removed, or goes back to its default. An array
of references that is forgotten is refused instead: [] removes them. The kinds' `update` commands change
single fields. A document says its `kind`, by any of the kind's names, and its `id`; one with a `schema`
is a kind itself.";

const PLANNED: &str = "\
What is the same on many clusters is said once; -o wide names every cluster and cuts nothing short.
-o json is the plan as the server gives it. The digest at the end stands for the effect: `apply` with
--if-plan does exactly that, or nothing. So does `apply --plan` with what --out kept. Neither asks, for
the plan was seen; removals beyond the budget take --confirm-removals all the same.";

const BACK: &str = "\
What was created since is deleted, what was deleted comes back, kinds included, in one new revision.
Decommissions and released names are not rolled back: a cluster that goes is deleted like any other.";

const UNDONE: &str = "\
It is refused where something that the revision changed has changed again since. An undo is a revision
too: undoing it does again what it took back.";

// What every command takes. (Not a doc comment: clap would make it the description of each command that has these.)
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Use this context of the configuration file
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub(crate) context: Option<String>,
    /// json, yaml, name, table, wide or jsonpath=TEMPLATE; a table on a terminal, JSON elsewhere
    #[arg(short, long, global = true, value_name = "FORMAT", help_heading = "Global options")]
    pub(crate) output: Option<Format>,
}

// What every write takes.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WriteArgs {
    /// Why; kept in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Show what would change, field by field and on the clusters, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Confirm that something is removed from this many clusters, as it must be beyond the removal budget
    #[arg(long, value_name = "N")]
    pub(crate) confirm_removals: Option<u64>,
    /// Only if the effect is still that of the plan with this digest, which a dry run shows
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    pub(crate) if_plan: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Static {
    /// Show resources of a kind, or one of them
    Get(get::GetArgs),
    /// Show what `apply` would do: which resources it changes, and what that means on the clusters
    #[command(after_help = PLANNED)]
    Plan(documents::PlanArgs),
    /// Create or update what documents say, in one revision
    #[command(after_help = format!("{WHOLE}\n\n{RULE}"))]
    Apply(documents::ApplyArgs),
    /// Show what `apply` would change, or what differs between two revisions; exit code 1 when something does
    #[command(after_help = WHOLE)]
    Diff(documents::DiffArgs),
    /// Go back to what the fleet, a resource or some clusters were at a revision
    #[command(after_help = format!("{BACK}\n\n{RULE}"))]
    Rollback(back::RollbackArgs),
    /// Take back one revision, and only that one
    #[command(after_help = format!("{UNDONE}\n\n{RULE}"))]
    Undo(back::UndoArgs),
    /// Write the fleet, or part of it, as documents that `apply` takes
    Export(documents::ExportArgs),
    /// Delete a resource, or what documents name
    Delete(documents::DeleteArgs),
    /// Change a resource in $EDITOR
    Edit(edit::EditArgs),
    /// The audit log: who changed what, when and why
    Changes(changes::ChangesArgs),
    /// What happened to one resource
    History(changes::HistoryArgs),
    /// What Flux gets on a cluster
    Inputs(inputs::InputsArgs),
    /// What Flux makes of a cluster's inputs; with -f, of files, as `flux-operator build resourceset` does
    Render(render::RenderArgs),
    /// The kinds of resources themselves
    #[command(subcommand)]
    Kind(kind::KindCommand),
    /// A repository of platform components: version directories that the catalog's paths name
    #[command(subcommand)]
    Components(components::ComponentsCommand),
    /// The commands of the demo; each can be repeated
    #[command(subcommand)]
    Demo(demo::DemoCommand),
    /// Contexts: which API, with which tokens
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print the script that completes commands and ids in a shell
    Completion(complete::CompletionArgs),
    /// Write man pages
    Man(complete::ManArgs),
    /// Print the version of this program
    Version,
    /// Print docs/src/cli.md
    #[command(hide = true)]
    Docs,
}

/// The command without the kinds.
pub(crate) fn root() -> Command {
    let styles = Styles::styled()
        .header(AnsiColor::Green.on_default().bold())
        .usage(AnsiColor::Green.on_default().bold())
        .literal(AnsiColor::Cyan.on_default().bold())
        .placeholder(AnsiColor::Cyan.on_default());
    let root = Command::new(NAME)
        .about(ABOUT)
        .after_help(AFTER)
        .version(env!("VERSION"))
        .styles(styles)
        .max_term_width(120)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .infer_long_args(false);
    Static::augment_subcommands(Global::augment_args(root))
}

/// Whether a word is a command of ours, so that no kinds are needed to understand the line.
pub(crate) fn is_static(word: &str) -> bool {
    root().get_subcommands().any(|command| command.get_name() == word)
}

/// The command with a family of commands for each kind. A kind whose command is one of ours is there under its own name.
pub(crate) fn full(kinds: &Kinds) -> Command {
    // The resources themselves come first.
    let mut order = kinds.iter().count();
    let mut command = root().mut_subcommands(|command| {
        order += 1;
        command.display_order(order)
    });
    for (n, kind) in kinds.iter().enumerate() {
        command = command.subcommand(family(kind, kinds).display_order(n));
    }
    command
}

/// The name of a kind's family of commands.
pub(crate) fn family_name(kind: &Kind) -> String {
    if is_static(&kind.command) || kind.command == "help" {
        kind.name.replace('_', "-")
    } else {
        kind.command.clone()
    }
}

fn family(kind: &Kind, kinds: &Kinds) -> Command {
    let name = family_name(kind);
    let about = if kind.description.is_empty() {
        format!("Commands of {}", kind.name)
    } else {
        trimmed(&kind.description)
    };
    let one = one(kind);
    let id = || id_arg(kind);
    let mut family = Command::new(name)
        .about(about)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(list_command(kind))
        .subcommand(watch_args(
            Command::new("get")
                .about(format!("Show one {one}"))
                .arg(id())
                .arg(revision_arg()),
        ))
        .subcommand(create_command(kind, kinds))
        .subcommand(update_command(kind, &one))
        .subcommand(write_args(delete_args(
            kind,
            Command::new("delete").about(match kind.name.as_str() {
                CLUSTERS => "Decommission a cluster: Flux removes everything there".to_owned(),
                _ => format!("Delete a {one}"),
            }),
        )))
        .subcommand(write_args(
            Command::new("edit")
                .about(format!("Change a {one} in $EDITOR"))
                .arg(id()),
        ))
        .subcommand(
            Command::new("history")
                .about(format!("What happened to a {one}"))
                .arg(id()),
        );
    if kind.name == CLUSTERS {
        return family.subcommand(
            Command::new("diagnostics")
                .about("What is wrong with a cluster's references and dependencies")
                .arg(id()),
        );
    }
    let reference_flags = |command: Command| {
        let fields = kind.overridable.iter().chain(&kind.carried);
        command.args(fields.map(|field| field_arg(field, false).help_heading("Values of the reference")))
    };
    let on_clusters =
        |name: &'static str, about: String| write_args(target_args(Command::new(name).about(about).arg(id()), true));
    let assign = on_clusters(
        "assign",
        format!("Give clusters a {one}; one that is there keeps its overrides"),
    );
    family = family.subcommand(reference_flags(assign));
    let mut unassign = on_clusters("unassign", format!("Take a {one} from clusters"));
    if kind.patches {
        unassign = unassign.arg(switch(
            "drop-patches",
            "Also drop the patches that the clusters keep for it",
        ));
    }
    family = family.subcommand(unassign);
    let place = Command::new("where").about(format!(
        "The clusters that have a {one}, each with its effective values"
    ));
    family = family.subcommand(place.arg(id()).arg(selector_arg("Only clusters that match")));
    if !kind.overridable.is_empty() {
        let clear = Arg::new("clear")
            .long("clear")
            .value_name("FIELD")
            .action(ArgAction::Append)
            .help("Go back to the catalog's value");
        let known: Vec<String> = kind.overridable.iter().map(|field| field.name.clone()).collect();
        let clear = clear.value_parser(move |text: &str| field_name(text, &known));
        let command = on_clusters(
            "override",
            format!("Set or clear what clusters have otherwise than the catalog says, where the {one} is"),
        );
        let fields = kind.overridable.iter().map(|field| field_arg(field, false));
        let names = kind.overridable.iter().map(Field::arg).chain(["clear".to_owned()]);
        let group = ArgGroup::new("values").args(names).required(true).multiple(true);
        family = family.subcommand(command.args(fields).arg(clear).group(group));
        let pins = Command::new("pins").about("Every override: which cluster, which field, what the catalog says");
        family = family.subcommand(
            pins.arg(id().required(false))
                .arg(selector_arg("Only clusters that match")),
        );
        family = family.subcommand(on_clusters(
            "unpin",
            format!("Clear every override of a {one}: back to the catalog"),
        ));
    }
    if kind.switches().is_some() {
        family = family.subcommand(on_clusters("enable", format!("Turn a {one} on where it is assigned")));
        family = family.subcommand(on_clusters(
            "disable",
            format!("Turn a {one} off where it is assigned; Flux removes it there"),
        ));
    }
    if kind.patches {
        let set = Arg::new("set")
            .long("set")
            .value_name("PATH=VALUE")
            .action(ArgAction::Append)
            .value_parser(pair);
        let unset = Arg::new("unset")
            .long("unset")
            .value_name("PATH")
            .action(ArgAction::Append);
        let group = ArgGroup::new("values")
            .args(["set", "unset"])
            .required(true)
            .multiple(true);
        let command = on_clusters("patch", format!("Set or remove values that clusters give a {one}"));
        let command = command.arg(set.help("Set a value, always as a string: replicaCount=3 stores \"3\""));
        family = family.subcommand(command.arg(unset.help("Remove a value")).group(group));
    }
    family
}

fn list_command(kind: &Kind) -> Command {
    let mut command = Command::new("list").about(format!("List {}", kind.plural().replace('_', " ")));
    if kind.name == CLUSTERS {
        command = command.arg(selector_arg(
            "Only clusters that match: environment=dev, 'team in (a,b)', !canary",
        ));
    }
    for (name, description) in &kind.filters {
        let flag = free_flag(name.replace('_', "-"));
        command = command.arg(
            Arg::new(format!("filter:{name}"))
                .long(flag)
                .value_name("VALUE")
                .help(trimmed(description)),
        );
    }
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .value_parser(clap::value_parser!(u64))
            .help(help)
    };
    let command = command
        .arg(number("limit", "At most this many"))
        .arg(number("offset", "Skip this many"));
    watch_args(command)
}

fn create_command(kind: &Kind, kinds: &Kinds) -> Command {
    let mut command = Command::new("create")
        .about(format!("Create a {}", one(kind)))
        .arg(id_arg(kind));
    command = command.args(kind.fields.iter().map(|field| field_arg(field, requires(kind, field))));
    let update = switch("update", "Overwrite what is there, if something is and it differs");
    command = write_args(command.arg(update));
    if kind.references.is_some() {
        let about = format!(
            "Create a {}; with clusters, make sure that it is there as said, then assign it, in one revision",
            one(kind)
        );
        return target_args(command.about(about), false);
    }
    // A cluster can be given what it runs right away.
    let taken: Vec<String> = command
        .get_arguments()
        .flat_map(|arg| {
            arg.get_long()
                .into_iter()
                .chain(arg.get_all_aliases().unwrap_or_default())
        })
        .map(str::to_owned)
        .collect();
    for other in kinds
        .iter()
        .filter(|other| other.references.is_some() && !taken.contains(&other.command))
    {
        let arg = Arg::new(format!("assign:{}", other.name))
            .long(other.command.clone())
            .value_name("ID");
        let arg = arg
            .action(ArgAction::Append)
            .help(format!("Assign this {}", one(other)));
        let arg = arg.value_parser(given).add(ids(&other.name));
        command = command.arg(arg.help_heading("What it runs"));
    }
    command
}

fn update_command(kind: &Kind, one: &str) -> Command {
    let known: Vec<String> = kind.fields.iter().map(|field| field.name.clone()).collect();
    let unset = Arg::new("unset")
        .long("unset")
        .value_name("FIELD")
        .action(ArgAction::Append)
        .value_parser(move |text: &str| field_path(text, &known))
        .help("Clear a field, or one key of it: labels.team");
    let command = Command::new("update")
        .about(format!("Change fields of a {one}; the others stay"))
        .arg(id_arg(kind));
    let command = command
        .args(kind.fields.iter().map(|field| field_arg(field, false)))
        .arg(unset);
    let names = kind.fields.iter().map(Field::arg).chain(["unset".to_owned()]);
    write_args(command.group(ArgGroup::new("values").args(names).required(true).multiple(true)))
}

fn delete_args(kind: &Kind, command: Command) -> Command {
    let command = command.arg(id_arg(kind));
    match kind.references {
        Some(_) => command.arg(switch("cascade", "Also take it from the clusters that have it")),
        None => command,
    }
}

/// A field's name as a value: `oci_tag`, or `oci-tag` as the flags have it. One that is misspelt would otherwise be cleared in vain,
/// and nobody would be told.
fn field_name(text: &str, known: &[String]) -> Result<String, String> {
    let field = text.replace('-', "_");
    match known.contains(&field) {
        true => Ok(field),
        false => Err(format!("\"{text}\" is not one of {}", known.join(", "))),
    }
}

/// A field, or a field and a key within it. Keys of labels have dots of their own: only the first one separates.
fn field_path(text: &str, known: &[String]) -> Result<(String, Option<String>), String> {
    match text.split_once('.') {
        Some((field, key)) => Ok((field_name(field, known)?, Some(key.to_owned()))),
        None => Ok((field_name(text, known)?, None)),
    }
}

/// A cluster's name is its id unless one is given.
fn requires(kind: &Kind, field: &Field) -> bool {
    field.required && !(kind.name == CLUSTERS && field.name == "cluster_name")
}

/// What people call one of a kind: as its command does.
fn one(kind: &Kind) -> String {
    kind.command.replace(['-', '_'], " ")
}

fn id_arg(kind: &Kind) -> Arg {
    Arg::new("id")
        .value_name("ID")
        .required(true)
        .value_parser(given)
        .help(format!("The id of the {}", one(kind)))
        .add(ids(&kind.name))
}

fn revision_arg() -> Arg {
    Arg::new("revision")
        .long("revision")
        .value_name("REVISION")
        .value_parser(clap::value_parser!(u64))
        .conflicts_with("watch")
        .help("As it was at this revision")
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// A description as help shows it: one sentence, without the full stop.
fn trimmed(text: &str) -> String {
    text.trim().trim_end_matches('.').to_owned()
}

fn field_arg(field: &Field, required: bool) -> Arg {
    let form = field.form.clone();
    let mut arg = Arg::new(field.arg())
        .long(field.flag.clone())
        .value_name(form.placeholder())
        .required(required);
    if let Some(alias) = &field.alias {
        arg = arg.alias(alias.clone());
    }
    let mut help = if field.description.is_empty() {
        format!("Set {}", field.name)
    } else {
        trimmed(&field.description)
    };
    if !field.options.is_empty() {
        help.push_str(&format!(" [{}]", field.options.join(", ")));
    }
    if let Form::Items(parts) = &form {
        let names: Vec<_> = parts.iter().map(|(name, _)| name.as_str()).collect();
        help.push_str(&format!(" [{}]", names.join(", ")));
    }
    if form.is_repeated() {
        help.push_str(" (can be repeated)");
        arg = arg.action(ArgAction::Append);
    }
    if form == Form::Switch {
        arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    if !field.options.is_empty() {
        let options = field.options.clone();
        arg = arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            starting_with(current, &options)
        }));
    }
    arg.help(help).value_parser(move |text: &str| form.parse(text))
}

/// The values of flags, by the names of their fields. Repeated flags make one array or object.
pub(crate) fn field_values(fields: &[Field], matches: &ArgMatches) -> Map<String, Value> {
    let mut values = Map::new();
    for field in fields {
        let Some(mut given) = matches.get_many::<Value>(&field.arg()) else {
            continue;
        };
        let value = match field.form {
            Form::Texts(_) | Form::Items(_) => Value::Array(given.cloned().collect()),
            Form::Pairs => given
                .filter_map(Value::as_object)
                .flat_map(Map::clone)
                .collect::<Map<_, _>>()
                .into(),
            _ => match given.next_back() {
                Some(value) => value.clone(),
                None => continue,
            },
        };
        values.insert(field.name.clone(), value);
    }
    values
}

fn watch_args(command: Command) -> Command {
    get::WatchArgs::augment_args(command)
}

fn write_args(command: Command) -> Command {
    WriteArgs::augment_args(command)
}

fn selector_arg(help: &'static str) -> Arg {
    Arg::new("selector")
        .short('l')
        .long("selector")
        .value_name("SELECTOR")
        .value_parser(selector)
        .help(help)
}

fn target_args(command: Command, required: bool) -> Command {
    let cluster = Arg::new("cluster")
        .long("cluster")
        .value_name("ID")
        .action(ArgAction::Append)
        .value_parser(given)
        .add(ids(CLUSTERS));
    let group = ArgGroup::new("target")
        .args(["cluster", "selector", "all"])
        .required(required);
    command
        .arg(cluster.help("On this cluster (can be repeated)"))
        .arg(
            selector_arg("On the clusters that match: environment=dev, 'team in (a,b)', !canary")
                .value_parser(target_selector),
        )
        .arg(switch("all", "On every cluster of the fleet"))
        .group(group)
}

/// A name or an id from the command line. An empty one is what an unset shell variable leaves, and it names nothing.
pub(crate) fn given(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("it is empty, as an unset shell variable is".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A selector from the command line, where leaving it out means every cluster.
pub(crate) fn selector(text: &str) -> Result<String, String> {
    parsed_selector(
        text,
        "the selector is empty; leave it out, or say '*', for every cluster",
    )
}

/// A selector of the clusters that a command is for.
fn target_selector(text: &str) -> Result<String, String> {
    parsed_selector(text, "the selector is empty; every cluster is said as --all, or as '*'")
}

/// An empty selector is what an unset shell variable leaves.
fn parsed_selector(text: &str, empty: &str) -> Result<String, String> {
    fleet::selector::Selector::parse(text).map_err(|error| match error {
        fleet::selector::SelectorError::Empty => empty.to_owned(),
        error => error.to_string(),
    })?;
    Ok(text.to_owned())
}

/// Clusters that a command is for.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Clusters(Vec<String>),
    Selector(String),
}

impl Target {
    pub(crate) fn read(matches: &ArgMatches) -> Option<Target> {
        if let Some(ids) = matches.get_many::<String>("cluster") {
            let mut unique: Vec<String> = Vec::new();
            for id in ids {
                if !unique.contains(id) {
                    unique.push(id.clone());
                }
            }
            return Some(Target::Clusters(unique));
        }
        if matches.get_flag("all") {
            return Some(Target::Selector("*".to_owned()));
        }
        matches.get_one::<String>("selector").cloned().map(Target::Selector)
    }
}

/// Completes ids by asking the server. Silent when that fails: a shell has no place for errors.
fn ids(kind: &str) -> ArgValueCompleter {
    let kind = kind.to_owned();
    ArgValueCompleter::new(move |current: &OsStr| starting_with(current, &complete::ids_of(&kind)))
}

/// Completes any of a kind's names.
pub(crate) fn kind_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| starting_with(current, &complete::commands_of_kinds()))
}

/// Completes ids of the kind that the line names before.
pub(crate) fn ids_of_the_kind() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| starting_with(current, &complete::ids_of_the_kind()))
}

/// Completes ids of clusters.
pub(crate) fn cluster_ids() -> ArgValueCompleter {
    ids(CLUSTERS)
}

fn starting_with(current: &OsStr, all: &[String]) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    all.iter()
        .filter(|one| one.starts_with(&*current))
        .map(CompletionCandidate::new)
        .collect()
}

// Files of documents.
#[derive(Args, Clone, Debug)]
pub(crate) struct Files {
    /// A file or folder of documents, YAML or JSON, or - for stdin (can be repeated)
    #[arg(short, long, required = true, value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    pub(crate) filename: Vec<PathBuf>,
    /// Look into folders within folders too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
}

/// What stands for a plan.
fn digest(text: &str) -> Result<String, String> {
    match text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("a plan's digest has 64 hexadecimal digits".to_owned()),
    }
}

impl WriteArgs {
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions {
            dry_run: self.dry_run,
            plan: self.if_plan.clone(),
            removals: self.confirm_removals,
        }
    }

    pub(crate) fn read(matches: &ArgMatches) -> Result<WriteArgs, Failure> {
        WriteArgs::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))
    }
}
