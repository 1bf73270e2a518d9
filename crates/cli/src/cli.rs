//! The command line as a whole. The parser, the help, the man pages, the completions and docs/src/cli.md come from here; the
//! commands of the kinds are built from the kinds that the server has.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args as _, Command, Subcommand};

use crate::args::Global;
use crate::commands::{
    apply, changes, completion, components, config, delete, demo, describe, diff, edit, export, get, history, identity,
    inputs, kind, label, login, man, plan, redo, register, render, resource, rollback, status, token, undo, wait,
    whoami,
};
use crate::confirm::NAMED_HELP;
use crate::kinds::{Kind, Kinds};

pub(crate) const NAME: &str = "flux-resourceset-cli";

const ABOUT: &str = "Manages the desired state of a fleet of Kubernetes clusters.";

const ENVIRONMENT: &str = "\
Environment:
  FLUX_API_URL             address of the API, e.g. http://127.0.0.1:8080
  FLUX_API_TOKEN           token for reading
  FLUX_API_WRITE_TOKEN     token for writing [default: FLUX_API_TOKEN]
  FLUX_API_CA_FILE         file with the certificate authorities to trust [default: those of the system]
  FLUX_API_CLIENT_CERTIFICATE, FLUX_API_CLIENT_KEY
                           files with a client certificate and its key
  FLUX_RESOURCESET_CONFIG  path of the configuration file
  EDITOR                   editor that `edit` opens
  NO_COLOR, CLICOLOR_FORCE switch colours off or on

Those that begin with FLUX_API override the current context (see `config`); --context and the options for files override them.

Exit codes:
  0  success
  1  refused; or `diff` found differences, `components check` problems, or `wait` ended before its clusters were there
  2  wrong usage
  3  the server cannot be reached
  4  not found
  5  `rollout status --wait`: the rollout halted, or was reverted or aborted
  6  `rollout status --wait`: the time is up";

/// The commands that do not depend on the kinds.
#[derive(Debug, Subcommand)]
pub(crate) enum BuiltIn {
    /// Show the resources of a kind, or some of them
    #[command(after_help = get::AFTER_HELP)]
    Get(get::GetArgs),
    /// Show everything about a resource on one page
    #[command(after_help = describe::AFTER_HELP)]
    Describe(describe::DescribeArgs),
    /// Show what `apply` would change, and the effect on the clusters
    #[command(after_help = plan::after_help())]
    Plan(plan::PlanArgs),
    /// Create or update the resources in documents, in one revision
    #[command(after_help = apply::after_help())]
    Apply(apply::ApplyArgs),
    /// Show what `apply` would change, or what differs between two revisions; exits with 1 on differences
    #[command(after_help = diff::after_help())]
    Diff(diff::DiffArgs),
    /// Roll the fleet, one resource or some clusters back to a revision
    #[command(after_help = rollback::after_help())]
    Rollback(rollback::RollbackArgs),
    /// Undo one revision, and only that one
    #[command(after_help = undo::after_help())]
    Undo(undo::UndoArgs),
    /// Make the changes of an undone revision again
    #[command(after_help = redo::after_help())]
    Redo(redo::RedoArgs),
    /// Write the fleet, or part of it, as documents for `apply`; rollouts and identities are left out
    #[command(after_help = export::AFTER_HELP)]
    Export(export::ExportArgs),
    /// Delete resources: by name, by selector, or those that documents name
    #[command(after_help = delete::after_help())]
    Delete(delete::DeleteArgs),
    /// Change a resource in $EDITOR
    #[command(after_help = NAMED_HELP)]
    Edit(edit::EditArgs),
    /// Set or remove labels
    #[command(after_help = label::after_help())]
    Label(label::LabelArgs),
    /// Show what came of the changes: states of clusters, the worst first, and why they fail
    #[command(after_help = status::AFTER_HELP)]
    Status(status::StatusArgs),
    /// Wait until a change has reached its clusters, or clusters have what they should have
    #[command(after_help = wait::AFTER_HELP)]
    Wait(wait::WaitArgs),
    /// Show the audit log: who changed what, when and why
    #[command(after_help = changes::AFTER_HELP)]
    Changes(changes::ChangesArgs),
    /// Show the changes of one resource
    History(history::HistoryArgs),
    /// Show the inputs that Flux gets for a cluster
    Inputs(inputs::InputsArgs),
    /// Render the manifests of a cluster; with -f, of files, as `flux-operator build resourceset` does
    Render(render::RenderArgs),
    /// Manage the kinds of resources
    #[command(subcommand)]
    Kind(kind::KindCommand),
    /// Manage identities: who may call, and how far they reach
    #[command(subcommand)]
    Identity(identity::IdentityCommand),
    /// Issue, list, rotate and revoke the tokens of identities and clusters
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Log in with your account, in a browser (OpenID Connect)
    #[command(after_help = login::AFTER_HELP)]
    Login(login::LoginArgs),
    /// Forget the login of the context
    Logout,
    /// Show who you are for the server: identity, role, scope, expiry
    Whoami(whoami::WhoamiArgs),
    /// Register a new cluster from the cluster itself, with the token of a join identity
    #[command(after_help = register::AFTER_HELP)]
    Register(register::RegisterArgs),
    /// Check or prune a repository of platform components
    #[command(subcommand)]
    Components(components::ComponentsCommand),
    /// Run the steps of the demo; each can be repeated
    #[command(subcommand)]
    Demo(demo::DemoCommand),
    /// Manage contexts: addresses of the API, each with its tokens
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print the completion script for a shell
    Completion(completion::CompletionArgs),
    /// Write man pages
    Man(man::ManArgs),
    /// Print the version of this program
    Version,
    /// Print docs/src/cli.md
    #[command(hide = true)]
    Docs,
}

/// The command line without the kinds.
pub(crate) fn root() -> Command {
    let styles = Styles::styled()
        .header(AnsiColor::Green.on_default().bold())
        .usage(AnsiColor::Green.on_default().bold())
        .literal(AnsiColor::Cyan.on_default().bold())
        .placeholder(AnsiColor::Cyan.on_default());
    let root = Command::new(NAME)
        .about(ABOUT)
        .after_help(ENVIRONMENT)
        .version(env!("VERSION"))
        .styles(styles)
        .max_term_width(120)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .infer_long_args(false);
    BuiltIn::augment_subcommands(Global::augment_args(root))
}

/// Whether a word is a built-in command: such a line can be parsed without the kinds.
pub(crate) fn is_built_in(word: &str) -> bool {
    root().get_subcommands().any(|command| command.get_name() == word)
}

/// The command line with the commands of each kind, which come first in the help.
pub(crate) fn full(kinds: &Kinds) -> Command {
    let mut order = kinds.iter().count();
    let mut command = root().mut_subcommands(|command| {
        order += 1;
        command.display_order(order)
    });
    for (n, kind) in kinds.iter().enumerate() {
        command = command.subcommand(resource::family(kind, kinds).display_order(n));
    }
    command
}

/// The name of a kind's commands: its command, or its plural where the command is one of ours.
pub(crate) fn family_name(kind: &Kind) -> String {
    if is_built_in(&kind.command) || kind.command == "help" {
        kind.name.replace('_', "-")
    } else {
        kind.command.clone()
    }
}

/// The command of a line: the first word that is not an option. Only the options that may stand before it are known here.
pub(crate) fn first_word(given: &[String]) -> Option<&str> {
    let mut rest = given.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--context" | "-o" | "--output" | "--certificate-authority" | "--client-certificate" | "--client-key" => {
                rest.next();
            }
            flag if flag.starts_with('-') => {}
            word => return Some(word),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A paragraph, with as many words on each line as fit.
    fn wrapped(paragraph: &str, width: usize) -> String {
        let mut lines: Vec<String> = vec![String::new()];
        for word in paragraph.split(' ') {
            match lines.last_mut() {
                Some(line) if line.is_empty() => line.push_str(word),
                Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines.join("\n")
    }

    fn check(command: &mut Command, width: usize, checked: &mut usize) {
        let help = command.render_help().to_string();
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for paragraph in after.split("\n\n").filter(|paragraph| !paragraph.contains("\n  ")) {
            let expected = wrapped(paragraph, width);
            assert!(
                help.contains(&expected),
                "at {width} columns:\n{help}\nexpected:\n{expected}"
            );
            *checked += usize::from(!paragraph.is_empty());
        }
        for inner in command.get_subcommands_mut() {
            check(inner, width, checked);
        }
    }

    #[test]
    fn paragraphs_of_help_wrap_once() {
        for width in [60, 80, 100, 120] {
            let mut command = full(&Kinds::built_in()).term_width(width);
            command.build();
            let mut checked = 0;
            check(&mut command, width, &mut checked);
            assert!(checked >= 10, "{checked} paragraphs");
        }
    }
}
