//! `demo`: the steps of the demo chapter. Each ensures a state, so each can be repeated.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::inputs;
use super::resource::{Wanted, set_values};
use crate::args::complete::cluster_ids;
use crate::args::ids::cluster_id;
use crate::args::target::Target;
use crate::args::{WriteArgs, given};
use crate::confirm::NAMED_HELP;
use crate::error::Failure;
use crate::kinds::pair;
use crate::session::Session;

const NAMESPACES: &str = "namespaces";
const COMPONENTS: &str = "platform_components";

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Add a namespace to a cluster
    #[command(after_help = NAMED_HELP)]
    AddNamespace(AddNamespaceArgs),
    /// Set patch values of a component on a cluster
    #[command(after_help = NAMED_HELP)]
    PatchComponent(PatchComponentArgs),
    /// Show the namespaces that Flux gets for a cluster
    FluxNamespaces(FluxNamespacesArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AddNamespaceArgs {
    /// The id of the cluster
    #[arg(value_parser = cluster_id, add = cluster_ids())]
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
    /// Overwrite the namespace if it exists and differs
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    how: WriteArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PatchComponentArgs {
    /// The id of the cluster
    #[arg(value_parser = cluster_id, add = cluster_ids())]
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
        DemoCommand::AddNamespace(args) => add_namespace(session, args),
        DemoCommand::PatchComponent(args) => {
            let kind = session.kinds()?.get(COMPONENTS)?;
            let target = Target::Clusters(vec![args.cluster.clone()]);
            let set = args.set.iter().cloned();
            set_values(session, kind, &args.component, &target, set, &[], &args.how)
        }
        DemoCommand::FluxNamespaces(args) => inputs::show(session, &args.dns, NAMESPACES),
    }
}

fn add_namespace(session: &Session<'_>, args: &AddNamespaceArgs) -> Result<(), Failure> {
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
