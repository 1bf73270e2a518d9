//! `label KIND ID... KEY=VALUE... KEY-...`.

use clap::Args;
use fleet::kind::CLUSTERS;

use super::resource::{Chosen, Labels};
use crate::args::complete::{ids_of_the_kind, resources, selectors};
use crate::args::ids;
use crate::args::target::{selector_for, target_selector};
use crate::args::{WriteArgs, given};
use crate::confirm::NAMED_HELP;
use crate::error::Failure;
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli label cluster demo-cluster-01 team=payments
  flux-resourceset-cli label clusters/dev-1 clusters/dev-2 team=payments wave- --overwrite
  flux-resourceset-cli label clusters -l environment=dev wave=1 --dry-run";

pub(crate) fn after_help() -> String {
    format!("{NAMED_HELP}\n\n{EXAMPLES}")
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabelArgs {
    /// A kind that has labels, by any of its names; or KIND/ID
    #[arg(value_parser = given, add = resources())]
    kind: String,
    /// Ids, then the labels: KEY=VALUE sets one, KEY- removes one
    #[arg(value_name = "ID|KEY=VALUE|KEY-", value_parser = given, required = true, add = ids_of_the_kind())]
    words: Vec<String>,
    /// Also change labels that have another value
    #[arg(long)]
    overwrite: bool,
    /// The clusters that match: environment=dev, 'team in (a,b)', !canary
    #[arg(short = 'l', long, value_parser = target_selector, conflicts_with = "all", add = selectors())]
    selector: Option<String>,
    /// Every cluster of the fleet
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    how: WriteArgs,
}

pub(crate) fn run(session: &Session<'_>, args: &LabelArgs) -> Result<(), Failure> {
    let (words, labels) = Labels::split(&args.words)?;
    let named = ids::resources(session.kinds()?, &args.kind, &words)?;
    let [named] = named.as_slice() else {
        return Err(Failure::usage("label resources of one kind at a time"));
    };
    let kind = named.kind;
    if !kind.fields.iter().any(|field| field.name == "labels") {
        return Err(Failure::usage(format!("{} have no labels", kind.name)));
    }
    let selector = match args.all {
        true => Some("*"),
        false => args.selector.as_deref(),
    };
    let chosen = match (selector, named.ids.is_empty()) {
        (Some(_), _) if kind.name != CLUSTERS => return Err(selector_for(&kind.name)),
        (Some(_), false) => {
            return Err(Failure::usage(
                "--selector and --all choose the clusters: leave out the ids",
            ));
        }
        (Some(selector), true) => Chosen::Selector(selector.to_owned()),
        (None, false) => Chosen::Ids(named.ids.clone()),
        (None, true) => {
            return Err(Failure::usage(format!(
                "name the {} to label",
                kind.plural().replace('_', " ")
            )));
        }
    };
    labels.write(session, kind, &chosen, args.overwrite, &args.how)
}
