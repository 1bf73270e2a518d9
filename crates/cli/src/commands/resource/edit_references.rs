//! Changes references that clusters already have: for `override`, `unpin`, `enable` and `disable`.

use std::cell::LazyCell;

use clap::ArgMatches;
use fleet::document::Etag;
use fleet::json::Json;
use fleet::kind::CLUSTERS;
use serde_json::{Map, Value, json};

use super::{id, label, usages};
use crate::args::WriteArgs;
use crate::args::target::Target;
use crate::cli::family_name;
use crate::client::{Operation, with_query};
use crate::confirm::note_restart;
use crate::error::Failure;
use crate::kinds::Kind;
use crate::session::{ATTEMPTS, Session, blame, missing, missing_cluster, text};

/// The fields of the definition that a reference overrides.
pub(crate) fn overrides<'a>(kind: &'a Kind, reference: &'a Value) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let set = |name: &'a str| {
        reference
            .get(name)
            .filter(|value| !value.is_null())
            .map(|value| (name, value))
    };
    kind.overridable.iter().filter_map(move |field| set(&field.name))
}

/// What happens to one reference: its new values, and what the user should know about them.
pub(super) struct Edit {
    pub(super) values: Map<String, Value>,
    pub(super) warning: Option<String>,
}

impl From<Map<String, Value>> for Edit {
    fn from(values: Map<String, Value>) -> Edit {
        Edit { values, warning: None }
    }
}

/// Changes references that exist; `change` returns the edit of one, or none to leave it. The API's `assign` also creates
/// references, so each operation names the version of the cluster that has the reference; if one has changed since, all are
/// read again.
pub(super) fn edit(
    session: &Session<'_>,
    kind: &Kind,
    matches: &ArgMatches,
    change: impl Fn(&Value) -> Option<Edit>,
) -> Result<(), Failure> {
    let (id, target, how) = (id(matches), Target::read(matches)?, WriteArgs::read(matches)?);
    let mut attempt = 1;
    loop {
        let found = find(session, &target, attempt > 1)?;
        let (operations, warnings) = operations(session, kind, id, &target, &found, &change)?;
        if operations.is_empty() {
            return session.show_unchanged(&how);
        }
        match session.write_with_warnings(&operations, &how, &warnings) {
            Ok(outcome) => return session.show(&outcome),
            Err(error) if error.is("stale") && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(blame(&operations, error)),
        }
        note_restart(session, &how);
    }
}

/// A cluster, and its version.
struct Found {
    cluster: Value,
    etag: String,
}

/// One operation for each reference that changes, and the warnings. A named cluster must have the reference; of selected clusters, at least one.
fn operations(
    session: &Session<'_>,
    kind: &Kind,
    id: &str,
    target: &Target,
    found: &[Found],
    change: &impl Fn(&Value) -> Option<Edit>,
) -> Result<(Vec<Operation>, Vec<Value>), Failure> {
    let (mut operations, mut warnings) = (Vec::new(), Vec::new());
    let mut assigned = 0;
    let brought = LazyCell::new(|| brought(session, kind, id));
    let none = json!({ "id": id });
    for Found { cluster, etag } in found {
        let name = text(&cluster["id"]);
        // What a profile brings can be changed on a cluster, too.
        let by_profile = || brought.iter().any(|cluster| cluster == name).then_some(&none);
        match reference(kind, id, cluster).or_else(by_profile) {
            Some(reference) => {
                assigned += 1;
                if let Some(Edit { values, warning }) = change(reference) {
                    warnings.extend(
                        warning.map(|detail| json!({"cluster": name, "kind": kind.name, "id": id, "detail": detail})),
                    );
                    let body = json!({
                        "op": "assign", "kind": kind.name, "id": id, "cluster": name, "value": values, "if_match": etag,
                    });
                    operations.push(Operation::new(format!("{} on {name}", label(kind, id)), body));
                }
            }
            None if matches!(target, Target::Clusters(_)) => {
                return Err(not_assigned(session, kind, id, &format!("to {name}"))?);
            }
            None => {}
        }
    }
    match assigned {
        0 => Err(not_assigned(session, kind, id, "to any of these clusters")?),
        _ => Ok((operations, warnings)),
    }
}

fn reference<'a>(kind: &Kind, id: &str, cluster: &'a Value) -> Option<&'a Value> {
    let all = cluster[kind.references.as_deref()?].as_array()?;
    all.iter()
        .find(|reference| reference["id"] == id && reference["excluded"] != true)
}

/// The clusters that have a definition by a profile. None if the server cannot tell: it may not have profiles.
fn brought(session: &Session<'_>, kind: &Kind, id: &str) -> Vec<String> {
    let found = usages(session, kind, id, None).unwrap_or_default();
    let all = found.as_array().into_iter().flatten();
    let brought = all.filter(|usage| {
        usage["profiles"]
            .as_array()
            .is_some_and(|profiles| !profiles.is_empty())
    });
    brought.map(|usage| text(&usage["cluster"]).to_owned()).collect()
}

fn not_assigned(session: &Session<'_>, kind: &Kind, id: &str, place: &str) -> Result<Failure, Failure> {
    // A definition that does not exist is the more useful error.
    session
        .client
        .resource(&kind.name, id)
        .map_err(|error| missing(error.into(), kind, id))?;
    let failure = Failure::refused(format!("{} is not assigned {place}", label(kind, id)));
    Ok(failure.hint(format!(
        "assign it with `{} assign {id}`, which also sets overrides",
        family_name(kind)
    )))
}

/// The clusters of a target. The version of a cluster is the digest of its document, so one list is enough; `exactly` asks for
/// each cluster instead, in case a server computes versions in another way.
fn find(session: &Session<'_>, target: &Target, exactly: bool) -> Result<Vec<Found>, Failure> {
    let ids = match target {
        Target::Clusters(ids) => ids.clone(),
        Target::Selector(selector) => {
            let query = [("selector", Some(selector.clone()))];
            let list = session.client.get(&with_query(&format!("/{CLUSTERS}"), query))?;
            let Value::Array(clusters) = list else {
                return Ok(Vec::new());
            };
            if !exactly {
                let found = clusters.into_iter().map(|cluster| Found {
                    etag: Etag::of(&Json::new(&cluster)).to_string(),
                    cluster,
                });
                return Ok(found.collect());
            }
            clusters.iter().map(|cluster| text(&cluster["id"]).to_owned()).collect()
        }
    };
    let mut found = Vec::new();
    for id in ids {
        let one = session.client.resource(CLUSTERS, &id);
        let one = one.map_err(|error| missing_cluster(error.into(), &id))?;
        found.push(Found {
            cluster: one.value,
            etag: one.etag,
        });
    }
    Ok(found)
}
