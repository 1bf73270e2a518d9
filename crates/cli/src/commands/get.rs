//! `get KIND [ID]`.

use clap::Args;
use fleet::kind::CLUSTERS;

use crate::args::complete::{ids_of_the_kind, kind_names};
use crate::args::given;
use crate::args::target::{selector, selector_for};
use crate::client::with_query;
use crate::error::Failure;
use crate::session::Session;
use crate::view::{self, WatchArgs};

#[derive(Args, Clone, Debug)]
pub(crate) struct GetArgs {
    /// A kind, by any of its names: cluster, components, platform_components, ...
    #[arg(value_parser = given, add = kind_names())]
    kind: String,
    /// The id of one resource [default: all of them]
    #[arg(value_parser = given, add = ids_of_the_kind())]
    id: Option<String>,
    /// Show the resource as it was at this revision
    #[arg(long, value_name = "REVISION", requires = "id", conflicts_with = "watch")]
    revision: Option<u64>,
    /// Only clusters that match: environment=dev, 'team in (a,b)', !canary
    #[arg(short = 'l', long, value_parser = selector, conflicts_with = "id")]
    selector: Option<String>,
    #[command(flatten)]
    watch: WatchArgs,
}

pub(crate) fn run(session: &Session<'_>, args: &GetArgs) -> Result<(), Failure> {
    let kind = session.kinds()?.get(&args.kind)?;
    let path = match &args.id {
        Some(id) => view::path(kind, id, args.revision),
        None => {
            if args.selector.is_some() && kind.name != CLUSTERS {
                let hint = format!(
                    "`{} where ID -l SELECTOR` lists the clusters that have one",
                    kind.command
                );
                return Err(selector_for(&kind.name).hint(hint));
            }
            with_query(&format!("/{}", kind.name), [("selector", args.selector.clone())])
        }
    };
    view::show(session, kind, &path, args.id.as_deref(), &args.watch)
}
