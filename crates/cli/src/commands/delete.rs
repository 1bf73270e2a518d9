//! `delete`.

use std::path::PathBuf;

use clap::Args;
use fleet::kind::{CLUSTERS, KINDS};
use serde_json::json;

use super::resource::delete::remove;
use crate::args::complete::{ids_of_the_kind, kind_names};
use crate::args::{WriteArgs, given};
use crate::client::Operation;
use crate::documents::{self, Applied};
use crate::error::{Code, Failure};
use crate::session::Session;

#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    /// A kind, by any of its names
    #[arg(value_parser = given, add = kind_names(), required_unless_present = "filename", conflicts_with = "filename", requires = "id")]
    kind: Option<String>,
    /// The id of the resource
    #[arg(value_parser = given, add = ids_of_the_kind())]
    id: Option<String>,
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
    match (&args.kind, &args.id) {
        (Some(kind), Some(id)) => one(session, kind, id, args),
        _ => named_by_documents(session, args),
    }
}

fn one(session: &Session<'_>, kind: &str, id: &str, args: &DeleteArgs) -> Result<(), Failure> {
    // --ignore-not-found is about resources: an unknown kind is still an error.
    let kind = session.kinds()?.get(kind)?;
    match remove(session, kind, id, args.cascade, &args.how) {
        Err(failure) if args.ignore_not_found && failure.code == Code::NotFound => session.show_unchanged(&args.how),
        other => other,
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
