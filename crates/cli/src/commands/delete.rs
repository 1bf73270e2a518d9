//! `delete`.

use std::path::PathBuf;

use clap::Args;
use fleet::kind::{CLUSTERS, KINDS};
use serde_json::json;

use super::resource::delete::{remove, remove_matching};
use crate::args::complete::{ids_of_the_kind, resources, selectors};
use crate::args::ids::{self, Named};
use crate::args::target::target_selector;
use crate::args::{WriteArgs, given};
use crate::client::Operation;
use crate::confirm::NAMED_HELP;
use crate::documents::{self, Applied};
use crate::error::{Code, Failure};
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli delete namespace team-sandbox
  flux-resourceset-cli delete clusters/dev-1 clusters/dev-2
  flux-resourceset-cli delete clusters -l team=a --dry-run
  flux-resourceset-cli delete -f old/";

pub(crate) fn after_help() -> String {
    format!("{NAMED_HELP}\n\n{EXAMPLES}")
}

#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    /// A kind, by any of its names; or KIND/ID
    #[arg(value_parser = given, add = resources(), required_unless_present = "filename", conflicts_with = "filename")]
    kind: Option<String>,
    /// The ids of the resources
    #[arg(value_name = "ID", value_parser = given, add = ids_of_the_kind())]
    ids: Vec<String>,
    /// The clusters that match: environment=dev, 'team in (a,b)', !canary
    #[arg(short = 'l', long, value_parser = target_selector, requires = "kind", conflicts_with_all = ["ids", "all"], add = selectors())]
    selector: Option<String>,
    /// Every cluster of the fleet
    #[arg(long, requires = "kind", conflicts_with = "ids")]
    all: bool,
    /// Delete the resources that these documents name: a file, a folder, or - for stdin (can be repeated)
    #[arg(short, long, value_name = "FILE|DIR|-")]
    filename: Vec<PathBuf>,
    /// Also read the folders within folders
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Also unassign definitions from the clusters that refer to them
    #[arg(long)]
    cascade: bool,
    /// Ignore resources that do not exist
    #[arg(long)]
    ignore_not_found: bool,
    #[command(flatten)]
    how: WriteArgs,
}

pub(crate) fn run(session: &Session<'_>, args: &DeleteArgs) -> Result<(), Failure> {
    match &args.kind {
        Some(kind) => by_name(session, kind, args),
        None => named_by_documents(session, args),
    }
}

fn by_name(session: &Session<'_>, kind: &str, args: &DeleteArgs) -> Result<(), Failure> {
    // --ignore-not-found is about resources: an unknown kind is still an error.
    let mut named = ids::resources(session.kinds()?, kind, &args.ids)?;
    let selector = match args.all {
        true => Some("*"),
        false => args.selector.as_deref(),
    };
    if let Some(selector) = selector {
        return match named.as_slice() {
            [Named { kind, ids }] if kind.name == CLUSTERS && ids.is_empty() => {
                remove_matching(session, kind, selector, &args.how)
            }
            _ => Err(Failure::usage("--selector and --all are for clusters, without ids")),
        };
    }
    if named.iter().any(|named| named.ids.is_empty()) {
        let failure = Failure::usage("name the resources to delete: KIND ID or KIND/ID");
        return Err(failure.hint("use -l or --all to delete many clusters"));
    }
    if args.ignore_not_found {
        for Named { kind, ids } in &mut named {
            let mut existing = Vec::new();
            for id in ids.drain(..) {
                if session.client.find(&kind.name, &id)?.is_some() {
                    existing.push(id);
                }
            }
            *ids = existing;
        }
        named.retain(|named| !named.ids.is_empty());
    }
    match named.is_empty() {
        true => session.show_unchanged(&args.how),
        false => remove(session, &named, args.cascade, &args.how),
    }
}

fn named_by_documents(session: &Session<'_>, args: &DeleteArgs) -> Result<(), Failure> {
    let mut all = Applied::read_all(session, &documents::read(&args.filename, args.recursive)?)?;
    // Clusters go first, since they refer to definitions; kinds go last.
    all.sort_by_key(|applied| match applied.kind.as_str() {
        CLUSTERS => 0,
        KINDS => 2,
        _ => 1,
    });
    let mut operations = Vec::new();
    for applied in all {
        if applied.id.is_empty() {
            return Err(Failure::usage(format!(
                "{} /id: `delete` needs the id of the resource",
                applied.operation.label
            )));
        }
        if args.ignore_not_found && session.client.find(&applied.kind, &applied.id)?.is_none() {
            continue;
        }
        let mut body = json!({"op": "delete", "kind": applied.kind, "id": applied.id});
        if args.cascade && applied.kind != CLUSTERS && applied.kind != KINDS {
            body["cascade"] = true.into();
        }
        operations.push(Operation::new(applied.operation.label, body));
    }
    if operations.is_empty() {
        return session.show_unchanged(&args.how);
    }
    session
        .write_and_show(&operations, &args.how)
        .map_err(|failure| match failure.code {
            Code::NotFound => failure.or_hint(|| "use --ignore-not-found to skip missing resources".to_owned()),
            _ => failure,
        })
}
