//! `KIND unassign`.

use clap::{ArgMatches, Command};
use fleet::kind::CLUSTERS;
use serde_json::{Map, Value, json};

use super::{Verb, id, label, noun, on_clusters};
use crate::args::target::Target;
use crate::args::{WriteArgs, switch};
use crate::client::{encode, with_query};
use crate::error::Failure;
use crate::kinds::{Kind, Kinds};
use crate::session::Session;

pub(super) const VERB: Verb = Verb {
    name: "unassign",
    command,
    run,
};

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let command = on_clusters(command, kind, format!("Unassign a {} from clusters", noun(kind)))?;
    let drop_patches = switch("drop-patches", "Also drop the patches that the clusters have for it");
    Some(match kind.patches {
        true => command.arg(drop_patches),
        false => command,
    })
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let id = id(matches);
    let drop = kind.patches && matches.get_flag("drop-patches");
    let how = WriteArgs::read(matches)?;
    let target = Target::read(matches)?;
    let mut body = json!({"op": "unassign", "kind": kind.name, "id": id});
    if drop {
        body["drop_patches"] = true.into();
    }
    session.write_and_show(&target.operations(&label(kind, id), &body), &how)?;
    match kind.patches && !drop {
        true => hint_at_patches(session, kind, id, &target),
        false => Ok(()),
    }
}

/// Patches stay when a reference goes, for a later assignment: says so where a cluster has some.
fn hint_at_patches(session: &Session<'_>, kind: &Kind, id: &str, target: &Target) -> Result<(), Failure> {
    let flag = "use --drop-patches to drop them";
    let label = label(kind, id);
    let count = |cluster: &Value| cluster["patches"][id].as_object().map_or(0, Map::len);
    let clusters = match target {
        Target::Clusters(clusters) => clusters,
        Target::Selector(selector) => {
            let query = [("selector", Some(selector.clone()))];
            let found = session.client.get(&with_query(&format!("/{CLUSTERS}"), query))?;
            let all = found.as_array().into_iter().flatten();
            let patched = all.filter(|cluster| count(cluster) > 0).count();
            if patched > 0 {
                session.printer.hint(&format!(
                    "{patched} of these clusters still have patch values for {label}; {flag}"
                ));
            }
            return Ok(());
        }
    };
    for cluster in clusters {
        let document = session.client.get(&format!("/{CLUSTERS}/{}", encode(cluster)))?;
        let count = count(&document);
        if count > 0 {
            session
                .printer
                .hint(&format!("{cluster} keeps {count} patch values for {label}; {flag}"));
        }
    }
    Ok(())
}
