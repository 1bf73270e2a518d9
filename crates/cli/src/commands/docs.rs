//! `docs`: writes docs/src/cli.md from the definition of the command line and the built-in kinds.

use clap::Command;

use crate::cli::{self, NAME};
use crate::error::Failure;
use crate::kinds::Kinds;
use crate::output::Printer;

/// The width of the help texts in the page.
const WIDTH: usize = 100;

const INTRODUCTION: &str = "\
# The command line

<!-- Written by `flux-resourceset-cli docs`; a test compares. Change the definitions in crates/cli/src instead. -->

Every command of `flux-resourceset-cli`, with the built-in kinds. A kind that is added to the server gets the same commands as
`namespace`, with flags from its schema. A program that was built earlier has them too: it reads the kinds from `GET /kinds`.

**Output.** On a terminal, a table; piped, or with `-o json`, JSON and nothing else. A write prints `{\"revision\", \"changes\": [{\"action\",
\"kind\", \"id\", \"etag\"}]}`. A dry run prints `{\"dry_run\": true, \"base\", \"changes\": [{\"action\", \"kind\", \"id\", \"fields\": [{\"pointer\", \"before\",
\"after\"}]}], \"plan\", \"clusters\", \"totals\", \"removals\", \"warnings\"}`, where pointers name references by their id. `plan` prints the
plan as the server returns it; `diff -f` prints a dry run with `only_on_server`; `diff --from` prints the same shape, with whole
documents under `changes`. With `--manifests`, each cluster has `objects` and `manifests`. `--watch` and `--follow` print one JSON
document per line.

**Names.** Wherever an id is expected, `KIND/ID` is accepted too. `get`, `describe`, `delete`, `update`, `label` and `export` accept several. `get -o json`
prints resources as the API has them; `get -o yaml` adds their kind, so that `apply` accepts them. For a name that does not exist, the closest
ones are proposed.

**JSONPath.** `-o jsonpath=TEMPLATE` supports this part of kubectl's syntax: text, `{.field}`, `{['field']}`, `\\.` in names, `[0]`, `[-1]`,
`[1:3]`, `[*]`, `.*`, `..field`, `[?(@.field==\"value\")]` (`==`, `!=`, `<`, `<=`, `>`, `>=`, or the field alone; with
`&&`, `||`, `!` and parentheses), `{\"\\n\"}`, and `{range .items[*]}…{end}`. Lists are plain arrays: `{[*].id}` and `{.items[*].id}` mean the same.
`-o custom-columns=NAME:.id,TAG:.oci_tag` prints a table with these columns.

**Selectors.** `-l` uses the grammar of Kubernetes on labels and on the fields of clusters. An empty selector is refused; use `--all`
for every cluster.

**Safety.** A write that depends on data that was read sends the version of that data. If the version has changed, the command reads
again or refuses. `--dry-run` shows the effect of any write on the clusters, and `--if-plan DIGEST` makes exactly these changes or
none. At a terminal, `apply`, `rollback`, `undo` and `redo` show their plan and ask; every other write does so if it reaches more
than one cluster or removes something. `--yes` skips the question. Without a terminal, `--yes` is needed to remove something: for
`apply`, `rollback`, `undo` and `redo` from any cluster, for other writes from more than one. A write that removes something from more clusters than
the server's removal budget is refused until `--confirm-removals N` gives their number. `undo` undoes the last revision.
";

pub(crate) fn run(printer: &Printer) -> Result<(), Failure> {
    let mut command = cli::full(&Kinds::built_in())
        .disable_help_subcommand(true)
        .term_width(WIDTH);
    command.build();
    let mut out = INTRODUCTION.to_owned();
    section(&mut command, NAME, 2, &mut out);
    printer.text(&out)
}

/// Writes the help of a command and of its subcommands. The global options are shown once, with the program itself.
fn section(command: &mut Command, path: &str, depth: usize, out: &mut String) {
    let help = match depth {
        2 => command.render_help(),
        _ => without_global_options(command).render_help(),
    };
    let help = help.to_string();
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

fn without_global_options(command: &Command) -> Command {
    command.clone().mut_args(|arg| match arg.is_global_set() {
        true => arg.hide(true),
        false => arg,
    })
}
