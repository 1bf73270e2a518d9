//! What Flux gets.

use clap::Args;
use fleet::kind::CLUSTERS;
use serde_json::Value;

use super::resource::missing;
use crate::args::{cluster_ids, given, kind_names};
use crate::client::encode;
use crate::error::Failure;
use crate::output::{Table, Tone, cell};
use crate::session::{Session, text};

#[derive(Args, Clone, Debug)]
pub(crate) struct InputsArgs {
    /// The id of a cluster, or its DNS name
    #[arg(value_parser = given, add = cluster_ids())]
    cluster: String,
    /// A kind by any of its names
    #[arg(value_parser = given, add = kind_names())]
    kind: String,
}

pub(crate) fn run(session: &Session<'_>, args: &InputsArgs) -> Result<(), Failure> {
    let kinds = session.kinds()?;
    let kind = kinds.get(&args.kind)?;
    let Some(path) = &kind.path else {
        return Err(Failure::usage(format!("Flux does not ask for {}", kind.name)));
    };
    // Ids have no dots, DNS names of clusters do; a decommissioned cluster is known by its DNS name alone.
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

pub(crate) fn show(session: &Session<'_>, dns: &str, path: &str) -> Result<(), Failure> {
    let reply = session
        .client
        .get(&format!("/api/v2/flux/clusters/{}/{path}", encode(dns)))?;
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
    session.printer.print(&reply, table, || {
        inputs.iter().map(|input| text(&input["id"]).to_owned()).collect()
    })
}
