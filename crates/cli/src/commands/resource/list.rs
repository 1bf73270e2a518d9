//! `KIND list`.

use clap::{Arg, ArgMatches, Args as _, Command};
use fleet::kind::{CLUSTERS, GUARDS};

use super::Verb;
use crate::args::fields::trimmed;
use crate::args::given;
use crate::args::target::selector_arg;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds, free_flag};
use crate::output::jsonpath::JsonPath;
use crate::session::Session;
use crate::view::{self, WatchArgs, sort_path};

pub(super) const VERB: Verb = Verb {
    name: "list",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let mut command = command.about(format!("List {}", kind.plural().replace('_', " ")));
    if kind.name == CLUSTERS {
        command = command.arg(selector_arg(
            "Only clusters that match: environment=dev, 'team in (a,b)', !canary",
        ));
    }
    if kind.name == GUARDS {
        let at = Arg::new("at").long("at").value_name("TIME").value_parser(given);
        command = command.arg(at.help("Only guards that are in force at this time: 2026-12-24T00:00:00Z, or now"));
    }
    for (name, description) in &kind.filters {
        let filter = Arg::new(format!("filter:{name}")).long(free_flag(name.replace('_', "-")));
        command = command.arg(filter.value_name("VALUE").help(trimmed(description)));
    }
    let number = |name: &'static str, help: &'static str| {
        let number = Arg::new(name).long(name).value_name("N").help(help);
        number.value_parser(clap::value_parser!(u64))
    };
    let sort_by = Arg::new("sort-by")
        .long("sort-by")
        .value_name("PATH")
        .value_parser(sort_path);
    command = command
        .arg(
            sort_by
                .conflicts_with("watch")
                .help("Sort by a value of each resource: .oci_tag, .labels.team"),
        )
        .arg(number("limit", "At most N resources"))
        .arg(number("offset", "Skip the first N resources"));
    Some(WatchArgs::augment_args(command))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut parameters: Vec<(&str, Option<String>)> = Vec::new();
    for (name, _) in &kind.filters {
        parameters.push((name, matches.get_one::<String>(&format!("filter:{name}")).cloned()));
    }
    if kind.name == CLUSTERS {
        parameters.push(("selector", matches.get_one::<String>("selector").cloned()));
    }
    if kind.name == GUARDS {
        parameters.push(("at", matches.get_one::<String>("at").cloned()));
    }
    for name in ["limit", "offset"] {
        parameters.push((name, matches.get_one::<u64>(name).map(u64::to_string)));
    }
    let order = matches.get_one::<JsonPath>("sort-by");
    view::show_list(session, kind, parameters, order, &WatchArgs::read(matches)?)
}
