//! `inputs`.

use clap::Args;
use fleet::kind::CLUSTERS;
use serde_json::Value;

use crate::args::complete::{cluster_ids, kind_names};
use crate::args::given;
use crate::client::{encode, with_query};
use crate::error::Failure;
use crate::kinds::Kinds;
use crate::output::{Table, Tone, cell};
use crate::session::{Session, missing, text, unknown_revision};

#[derive(Args, Clone, Debug)]
pub(crate) struct InputsArgs {
    /// The id of a cluster, or its DNS name
    #[arg(value_parser = given, add = cluster_ids())]
    cluster: String,
    /// A kind, by any of its names
    #[arg(value_parser = given, add = kind_names())]
    kind: String,
    /// The inputs at this revision; name the cluster by its id
    #[arg(long, value_name = "REVISION")]
    revision: Option<u64>,
}

pub(crate) fn run(session: &Session<'_>, args: &InputsArgs) -> Result<(), Failure> {
    let kinds = session.kinds()?;
    if let Some(revision) = args.revision {
        return show_past(session, kinds, args, revision);
    }
    let kind = kinds.get(&args.kind)?;
    let Some(path) = &kind.path else {
        return Err(Failure::usage(format!("{} have no Flux endpoint", kind.name)));
    };
    // Only DNS names contain dots. A decommissioned cluster is known by its DNS name alone.
    if args.cluster.contains('.') {
        return show(session, &args.cluster, path);
    }
    let cluster = session.client.resource(CLUSTERS, &args.cluster);
    let cluster = cluster.map_err(|error| match kinds.named(CLUSTERS) {
        Some(clusters) => missing(error.into(), clusters),
        None => error.into(),
    })?;
    show(session, text(&cluster.value["cluster_dns"]), path)
}

/// Shows the inputs at a revision. A kind that no longer exists can be named by its path.
fn show_past(session: &Session<'_>, kinds: &Kinds, args: &InputsArgs, revision: u64) -> Result<(), Failure> {
    let path = match kinds.named(&args.kind) {
        Some(kind) => kind.path.as_deref().unwrap_or(&kind.name),
        None => &args.kind,
    };
    let path = format!("/{CLUSTERS}/{}/inputs/{}", encode(&args.cluster), encode(path));
    let found = session
        .client
        .get(&with_query(&path, [("revision", Some(revision.to_string()))]));
    print(session, &found.map_err(|error| unknown_revision(error.into()))?)
}

pub(crate) fn show(session: &Session<'_>, dns: &str, path: &str) -> Result<(), Failure> {
    let found = session
        .client
        .get(&format!("/api/v2/flux/clusters/{}/{path}", encode(dns)));
    print(session, &found?)
}

fn print(session: &Session<'_>, reply: &Value) -> Result<(), Failure> {
    let inputs = reply["inputs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let table = |_| {
        let known = |input: &Value| {
            input
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        let mut heading: Vec<String> = vec!["id".to_owned()];
        for name in inputs.iter().flat_map(known).filter(|name| name != "cluster") {
            if !heading.contains(&name) {
                heading.push(name);
            }
        }
        let mut table = Table::new(&heading);
        for input in inputs {
            table.row(heading.iter().map(|name| (cell(&input[name.as_str()]), Tone::Plain)));
        }
        table
    };
    session.printer.print(reply, table, || {
        inputs.iter().map(|input| text(&input["id"]).to_owned()).collect()
    })
}
