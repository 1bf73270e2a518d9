//! The commands of the demo chapter. Each says what should be, so each can be repeated.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::inputs;
use super::references::set_values;
use super::resource::Wanted;
use crate::args::{Target, WriteArgs, cluster_ids, given};
use crate::error::Failure;
use crate::kinds::pair;
use crate::session::Session;

const NAMESPACES: &str = "namespaces";
const COMPONENTS: &str = "platform_components";

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Add a namespace to a cluster
    AddNamespace(AddNamespaceArgs),
    /// Patch one component on a cluster, with any value paths
    PatchComponent(PatchComponentArgs),
    /// What Flux gets as namespaces of a cluster
    FluxNamespaces(FluxNamespacesArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AddNamespaceArgs {
    /// The id of the cluster
    #[arg(value_parser = given, add = cluster_ids())]
    cluster: String,
    /// The name of the namespace
    #[arg(value_parser = given)]
    namespace: String,
    /// A label of the namespace (can be repeated)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,
    /// An annotation of the namespace (can be repeated)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    annotation: Vec<(String, String)>,
    /// Overwrite the namespace if it is there and differs
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    how: WriteArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PatchComponentArgs {
    /// The id of the cluster
    #[arg(value_parser = given, add = cluster_ids())]
    cluster: String,
    /// The id of the component
    #[arg(value_parser = given)]
    component: String,
    /// A value, always stored as a string (can be repeated)
    #[arg(long, required = true, value_name = "PATH=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    how: WriteArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct FluxNamespacesArgs {
    /// The DNS name of the cluster
    #[arg(value_parser = given)]
    dns: String,
}

pub(crate) fn run(session: &Session<'_>, command: &DemoCommand) -> Result<(), Failure> {
    match command {
        DemoCommand::AddNamespace(args) => {
            let object = |pairs: &[(String, String)]| -> Value {
                pairs
                    .iter()
                    .map(|(key, value)| (key.clone(), value.as_str().into()))
                    .collect::<Map<_, _>>()
                    .into()
            };
            let mut value = Map::from_iter([("id".to_owned(), args.namespace.as_str().into())]);
            for (name, pairs) in [("labels", &args.label), ("annotations", &args.annotation)] {
                if !pairs.is_empty() {
                    value.insert(name.to_owned(), object(pairs));
                }
            }
            let wanted = Wanted {
                kind: session.kinds()?.get(NAMESPACES)?,
                value,
                target: Some(Target::Clusters(vec![args.cluster.clone()])),
                update: args.update,
            };
            wanted.ensure(session, &args.how)
        }
        DemoCommand::PatchComponent(args) => {
            let kind = session.kinds()?.get(COMPONENTS)?;
            let target = Target::Clusters(vec![args.cluster.clone()]);
            set_values(
                session,
                kind,
                &args.component,
                &target,
                args.set.iter().cloned(),
                &[],
                &args.how,
            )
        }
        DemoCommand::FluxNamespaces(args) => inputs::show(session, &args.dns, NAMESPACES),
    }
}
