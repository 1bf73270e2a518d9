//! `get KIND [ID...]`, `get KIND/ID...`.

use clap::Args;
use fleet::kind::CLUSTERS;

use crate::args::complete::{ids_of_the_kind, resources, selectors};
use crate::args::given;
use crate::args::ids::{self, Named};
use crate::args::target::{selector, selector_for};
use crate::cli::family_name;
use crate::commands::kind::{self, KindCommand};
use crate::error::Failure;
use crate::kinds::Kind;
use crate::output::jsonpath::JsonPath;
use crate::session::Session;
use crate::view::{self, WatchArgs, sort_path};

pub(crate) const AFTER_HELP: &str = "\
-o yaml prints documents that `apply -f` accepts; -o json prints them as the API has them.

Examples:
  flux-resourceset-cli get clusters
  flux-resourceset-cli get cluster demo-cluster-01 demo-cluster-02
  flux-resourceset-cli get clusters/demo-cluster-01 components/podinfo
  flux-resourceset-cli get clusters -l environment=dev,team!=a
  flux-resourceset-cli get components -o custom-columns=NAME:.id,TAG:.oci_tag
  flux-resourceset-cli get clusters -o jsonpath='{.items[?(@.protected && @.node_count>3)].id}'
  flux-resourceset-cli get clusters -o yaml | flux-resourceset-cli apply -f -";

#[derive(Args, Clone, Debug)]
pub(crate) struct GetArgs {
    /// A kind, by any of its names: cluster, components, platform_components, ...; several with commas; or KIND/ID
    #[arg(value_parser = given, add = resources())]
    kind: String,
    /// The ids of resources [default: all of them]
    #[arg(value_name = "ID", value_parser = given, add = ids_of_the_kind())]
    ids: Vec<String>,
    /// Show the resources as they were at this revision
    #[arg(long, value_name = "REVISION", conflicts_with = "watch")]
    revision: Option<u64>,
    /// Only clusters that match: environment=dev, 'team in (a,b)', !canary
    #[arg(short = 'l', long, value_parser = selector, conflicts_with = "ids", add = selectors())]
    selector: Option<String>,
    /// Sort a list by a value of each resource: .environment, .labels.team
    #[arg(long, value_name = "PATH", value_parser = sort_path, conflicts_with_all = ["ids", "watch"])]
    sort_by: Option<JsonPath>,
    #[command(flatten)]
    watch: WatchArgs,
}

pub(crate) fn run(session: &Session<'_>, args: &GetArgs) -> Result<(), Failure> {
    if let Some(name) = ids::kind_of_kinds(&args.kind, args.ids.first()) {
        return kind::run(session, &name.map_or(KindCommand::List, KindCommand::get));
    }
    let named = ids::resources(session.kinds()?, &args.kind, &args.ids)?;
    if named.iter().all(|named| !named.ids.is_empty()) {
        return match &args.selector {
            None => view::show_named(session, &named, args.revision, &args.watch),
            Some(_) => Err(Failure::usage("--selector is for all clusters: leave out the ids")),
        };
    }
    if args.revision.is_some() {
        let failure = Failure::usage("--revision is for resources by name: KIND ID");
        return Err(failure.hint("`export` writes the fleet as it is; `diff --from` compares revisions"));
    }
    if let Some(Named { kind, .. }) = named
        .iter()
        .find(|named| args.selector.is_some() && named.kind.name != CLUSTERS)
    {
        return Err(no_selector(kind));
    }
    match named.as_slice() {
        [Named { kind, .. }] => {
            let query = vec![("selector", args.selector.clone())];
            view::show_list(session, kind, query, args.sort_by.as_ref(), &args.watch)
        }
        several => show_all(session, several),
    }
}

/// Shows everything of several kinds.
fn show_all(session: &Session<'_>, named: &[Named<'_>]) -> Result<(), Failure> {
    let lists = named
        .iter()
        .map(|Named { kind, .. }| Ok((*kind, session.client.get(&format!("/{}", kind.name))?)));
    let lists: Result<Vec<_>, Failure> = lists.collect();
    view::print(session, &lists?)
}

fn no_selector(kind: &Kind) -> Failure {
    let failure = selector_for(&kind.name);
    match &kind.references {
        Some(_) => failure.hint(format!(
            "`{} where ID -l SELECTOR` lists the clusters that have one",
            family_name(kind)
        )),
        None => failure,
    }
}
