//! `inputs`.

use clap::Args;
use fleet::kind::CLUSTERS;
use serde_json::Value;

use crate::args::complete::{cluster_ids, kind_names};
use crate::args::given;
use crate::args::ids::cluster_id;
use crate::client::{encode, with_query};
use crate::error::Failure;
use crate::kinds::Kinds;
use crate::output::{Table, Tone, cell};
use crate::session::{Session, missing_cluster, text};

#[derive(Args, Clone, Debug)]
pub(crate) struct InputsArgs {
    /// The id of a cluster, or its DNS name
    #[arg(value_parser = cluster_id, add = cluster_ids())]
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
    let cluster = cluster.map_err(|error| missing_cluster(error.into(), &args.cluster))?;
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
    let found = found.map_err(|error| missing_cluster(error.into(), &args.cluster));
    print(session, &found?)
}

pub(crate) fn show(session: &Session<'_>, dns: &str, path: &str) -> Result<(), Failure> {
    let found = session
        .client
        .get(&format!("/api/v2/flux/clusters/{}/{path}", encode(dns)));
    print(session, &found?)
}

fn print(session: &Session<'_>, reply: &Value) -> Result<(), Failure> {
    let inputs = reply["inputs"].as_array().map(Vec::as_slice).unwrap_or_default();
    session.printer.print(
        reply,
        |_| table(inputs),
        || inputs.iter().map(|input| text(&input["id"]).to_owned()).collect(),
    )
}

/// A column for each field that an input has.
pub(crate) fn table(inputs: &[Value]) -> Table {
    let mut heading: Vec<String> = vec!["id".to_owned()];
    let names = inputs
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|input| input.keys());
    for name in names.filter(|name| *name != "cluster") {
        if !heading.contains(name) {
            heading.push(name.clone());
        }
    }
    let mut table = Table::new(&heading);
    for input in inputs {
        table.row(heading.iter().map(|name| (cell(&input[name.as_str()]), Tone::Plain)));
    }
    table
}
