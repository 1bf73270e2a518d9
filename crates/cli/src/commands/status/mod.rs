//! `status`: what came of the changes.

mod cluster;
mod overview;
mod watch;

pub(crate) use self::overview::no_status;

use clap::Args;
use fleet::status::State;

use crate::args::complete::{cluster_ids, kind_names, selectors, states};
use crate::args::given;
use crate::args::ids::cluster_id;
use crate::args::target::selector;
use crate::error::Failure;
use crate::session::Session;
use crate::status::{NOT_WELL, state};

pub(crate) const AFTER_HELP: &str = "\
Without a cluster: how many clusters have each state, those that are not well (failing, silent, never, behind), the worst first, \
and why they fail. With one: each input that it should have, its state, and what that rests on.

States:
  failing    something on it is known not to be ready
  silent     it has not polled for a while (SILENT_AFTER of the server, 20 minutes by default)
  never      it has never polled
  behind     it was told an older reply than it would get now
  told       it was told; whether it is ready is not known
  converged  it has what it should have, and that is ready

The exit code is 0 whatever the states are; `wait` exits with 1 if clusters do not get there.

Examples:
  flux-resourceset-cli status
  flux-resourceset-cli status -l environment=prod --state failing,silent
  flux-resourceset-cli status --kind component --component podinfo
  flux-resourceset-cli status demo-cluster-01";

#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    /// The id of a cluster: show each of its inputs
    #[arg(value_parser = cluster_id, add = cluster_ids(),
        conflicts_with_all = ["selector", "state", "kind", "component", "limit", "watch"])]
    cluster: Option<String>,
    /// Only clusters that match: environment=dev, 'team in (a,b)', !canary
    #[arg(short = 'l', long, value_parser = selector, add = selectors())]
    selector: Option<String>,
    /// List the clusters with one of these states, separated by commas [default: those that are not well]
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state, add = states())]
    state: Vec<State>,
    /// The states of the clusters' inputs of this kind
    #[arg(long, value_parser = given, add = kind_names(), conflicts_with = "watch")]
    kind: Option<String>,
    /// The states of one input, such as a component, on the clusters that have it
    #[arg(long, value_name = "ID", value_parser = given, conflicts_with = "watch")]
    component: Option<String>,
    /// List at most N clusters
    #[arg(long, value_name = "N", default_value = "50")]
    limit: u64,
    /// Keep running, and print each cluster whose state changes; in JSON, one document per line
    #[arg(short, long)]
    watch: bool,
}

impl StatusArgs {
    /// The states that are listed.
    fn listed(&self) -> &[State] {
        match self.state.is_empty() {
            true => &NOT_WELL,
            false => &self.state,
        }
    }
}

pub(crate) fn run(session: &Session<'_>, args: &StatusArgs) -> Result<(), Failure> {
    match &args.cluster {
        Some(id) => cluster::show(session, id),
        None if args.watch => watch::follow(session, args),
        None => overview::show(session, args),
    }
}
