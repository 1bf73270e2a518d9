//! What is generated from the command line's definition: shell completions, man pages, docs/src/cli.md.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use clap::{Args, Command, ValueEnum, ValueHint};
use clap_complete::env::{CompleteEnv, Shells};

use crate::args::{self, NAME};
use crate::client::Client;
use crate::config::Access;
use crate::error::Failure;
use crate::kinds::Kinds;
use crate::output::Printer;
use crate::session::text;

/// Set by the scripts when a shell asks.
const VARIABLE: &str = "FLUX_RESOURCESET_COMPLETE";

#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell; e.g. for bash: source <(flux-resourceset-cli completion bash)
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ManArgs {
    /// The folder to write to; it is made if need be
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: PathBuf,
}

/// Answers a shell, if one asks.
pub(crate) fn serve() -> bool {
    if env::var_os(VARIABLE).is_none() {
        return false;
    }
    let factory = || args::full(&kinds());
    let here = env::current_dir().ok();
    let given: Vec<OsString> = env::args_os().collect();
    CompleteEnv::with_factory(factory)
        .var(VARIABLE)
        .bin(NAME)
        .try_complete(given, here.as_deref())
        .unwrap_or(true)
}

/// The context that the line so far names.
fn client() -> Option<Client> {
    let given: Vec<String> = env::args_os().filter_map(|arg| arg.into_string().ok()).collect();
    Access::settle(crate::context_in(&given).as_deref())
        .ok()
        .map(Client::new)
}

fn kinds() -> Kinds {
    let client = client();
    let loaded = client.as_ref().and_then(|client| Kinds::load(client).ok());
    loaded.unwrap_or_else(|| Kinds::remembered(client.as_ref().and_then(|client| client.url().ok())))
}

pub(crate) fn commands_of_kinds() -> Vec<String> {
    kinds().iter().map(|kind| kind.command.clone()).collect()
}

/// Ids of the kind in `get KIND …` and its like: the second word of the line.
pub(crate) fn ids_of_the_kind() -> Vec<String> {
    let line: Vec<String> = env::args_os()
        .filter_map(|arg| arg.into_string().ok())
        .skip_while(|arg| arg != "--")
        .skip(1)
        .collect();
    let mut words = line.iter().skip(1).filter(|word| !word.starts_with('-'));
    let kinds = kinds();
    let kind = words.nth(1).and_then(|name| kinds.named(name));
    kind.map(|kind| ids_of(&kind.name)).unwrap_or_default()
}

pub(crate) fn ids_of(kind: &str) -> Vec<String> {
    let list = client().and_then(|client| client.get(&format!("/{kind}")).ok());
    let items = list.as_ref().and_then(|list| list.as_array()).into_iter().flatten();
    items.map(|item| text(&item["id"]).to_owned()).collect()
}

pub(crate) fn completion(printer: &Printer, args: &CompletionArgs) -> Result<(), Failure> {
    let name = args
        .shell
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default();
    let mut script = Vec::new();
    let written = Shells::builtins()
        .completer(&name)
        .map(|shell| shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script));
    match (written, String::from_utf8(script)) {
        (Some(Ok(())), Ok(script)) => printer.text(&script),
        _ => Err(Failure::usage(format!("there is no script for {name}"))),
    }
}

/// One page per command.
pub(crate) fn man(printer: &Printer, args: &ManArgs) -> Result<(), Failure> {
    fs::create_dir_all(&args.out).map_err(|error| Failure::file(&args.out, &error))?;
    let mut command = args::full(&kinds()).disable_help_subcommand(true);
    command.build();
    let count = pages(&command, NAME, &args.out)?;
    printer.note(&format!("{count} pages in {}", args.out.display()));
    Ok(())
}

fn pages(command: &Command, name: &str, folder: &std::path::Path) -> Result<usize, Failure> {
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    let renamed = command.clone().name(name.to_owned()).version(env!("CARGO_PKG_VERSION"));
    let written = clap_mangen::Man::new(renamed)
        .render(&mut page)
        .and_then(|()| fs::write(&path, page));
    written.map_err(|error| Failure::file(&path, &error))?;
    let mut count = 1;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        count += pages(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    Ok(count)
}

const INTRODUCTION: &str = "\
# The command line

<!-- Written by `flux-resourceset-cli docs`; a test compares. Change the definitions in crates/cli/src instead. -->

Every command of `flux-resourceset-cli`, with the built-in kinds. A kind that is added to the server has the same commands as
`namespace`, with flags from its schema, in a program that was built before it: the program asks `GET /kinds`.

**Output.** On a terminal a table; piped, or with `-o json`, JSON and nothing else. A write prints `{\"revision\", \"changes\": [{\"kind\",
\"id\", \"etag\"}]}`, a dry run `{\"dry_run\": true, \"base\", \"changes\": [{\"action\", \"kind\", \"id\", \"fields\": [{\"pointer\", \"before\",
\"after\"}]}], \"plan\", \"clusters\", \"totals\", \"removals\", \"warnings\"}`, where references are named by their id; `plan` prints the
server's own plan, and `diff --from` what differs in the same shape, with whole documents under `changes`. `--watch` and `--follow` print one JSON document per line.

**JSONPath.** `-o jsonpath=TEMPLATE` takes the useful part of kubectl's: text, `{.field}`, `{['field']}`, `\\.` in names, `[0]`, `[-1]`,
`[1:3]`, `[*]`, `.*`, `..field`, `[?(@.field==\"value\")]` (`==`, `!=`, `<`, `<=`, `>`, `>=`, or the field alone), `{\"\\n\"}`, and
`{range .items[*]}…{end}`. Lists are plain arrays: `{[*].id}` and `{.items[*].id}` mean the same.

**Selectors.** `-l` has Kubernetes' grammar over labels and the fields of clusters. An empty one is refused: every cluster is `--all`.

**Safety.** A write that rests on what was read names the version it read; if that moved on, the command reads again, or refuses.
`--dry-run` shows what any write does to the clusters, and `--if-plan DIGEST` does exactly that or nothing. `apply`, `rollback` and
`undo` show their plan and ask at a terminal; in CI, `--yes` goes on without. A write that takes something from more clusters than
the server's removal budget is refused until `--confirm-removals N` names their number. `undo` takes back the last revision.
";

/// docs/src/cli.md, from the kinds of this release.
pub(crate) fn docs(printer: &Printer) -> Result<(), Failure> {
    let mut command = args::full(&Kinds::built_in())
        .disable_help_subcommand(true)
        .term_width(100);
    command.build();
    let mut out = INTRODUCTION.to_owned();
    section(&mut command, NAME, 2, &mut out);
    printer.text(&out)
}

fn section(command: &mut Command, path: &str, depth: usize, out: &mut String) {
    let help = command.render_help().to_string();
    // What every command takes is said once, with the first.
    let help = match depth {
        2 => help.as_str(),
        _ => help.split("\nGlobal options:").next().unwrap_or_default(),
    };
    let after = command.get_after_help().filter(|_| depth > 2).map(ToString::to_string);
    let help = match after {
        Some(after) if !help.contains(&after) => format!("{}\n\n{}", help.trim_end(), after),
        _ => help.to_owned(),
    };
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    out.push_str(&format!(
        "\n{} `{path}`\n\n```text\n{}\n```\n",
        "#".repeat(depth),
        help.join("\n").trim_end()
    ));
    for inner in command.get_subcommands_mut().filter(|inner| !inner.is_hide_set()) {
        let path = format!("{path} {}", inner.get_name());
        section(inner, &path, (depth + 1).min(4), out);
    }
}
