//! The clusters that have a definition, with the effective values there: for `where`, `versions` and `describe`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{encode, with_query};
use crate::error::Failure;
use crate::kinds::{Field, Kind};
use crate::output::{Table, Tone, cell};
use crate::session::{Session, missing, text};
use crate::status::{Rows, state_cell};
use crate::suggest;

/// The usages of one definition, as the API has them.
pub(crate) fn usages(session: &Session<'_>, kind: &Kind, id: &str, selector: Option<&str>) -> Result<Value, Failure> {
    let path = with_query(
        &format!("/{}/{}/references", kind.name, encode(id)),
        [("selector", selector.map(str::to_owned))],
    );
    session
        .client
        .get(&path)
        .map_err(|error| missing(error.into(), kind, id))
}

/// Says why there are no usages on the clusters that a selector should match.
pub(super) fn say_unmatched(session: &Session<'_>, usages: &[Value], selector: Option<&str>) {
    let selector = selector.filter(|_| usages.is_empty());
    if let Some(hint) = selector.and_then(|selector| suggest::unmatched(session, selector)) {
        session.printer.hint(&hint);
    }
}

/// The usages of every definition, each with the definition's id.
pub(super) fn all_usages(session: &Session<'_>, kind: &Kind, selector: Option<&str>) -> Result<Vec<Value>, Failure> {
    let definitions = session.client.get(&format!("/{}", kind.name))?;
    let mut all = Vec::new();
    for definition in definitions.as_array().into_iter().flatten() {
        let id = text(&definition["id"]);
        if let Value::Array(found) = usages(session, kind, id, selector)? {
            all.extend(found.into_iter().map(|usage| with_id(id, usage)));
        }
    }
    Ok(all)
}

/// Adds what is known to run: the state of the input, and the version that evidence names. Clusters that have never polled have none.
pub(super) fn add_states(
    session: &Session<'_>,
    kind: &Kind,
    id: Option<&str>,
    selector: Option<&str>,
    usages: &mut [Value],
) {
    let mut known: BTreeMap<String, Option<Rows>> = BTreeMap::new();
    for usage in usages {
        let id = id.unwrap_or_else(|| text(&usage["id"])).to_owned();
        let read = |id: &String| Rows::of_input(session, &kind.name, id, selector);
        let rows = known.entry(id).or_insert_with_key(read);
        let input = rows.as_ref().and_then(|rows| rows.input(text(&usage["cluster"])));
        if let Some(input) = input {
            usage["status"] = input;
        }
    }
}

pub(super) fn with_id(id: &str, mut usage: Value) -> Value {
    usage["id"] = json!(id);
    usage
}

/// The fields whose value is a version: tags and versions, those that clusters may override first.
pub(super) fn version_fields(kind: &Kind) -> Vec<&Field> {
    let is_version = |field: &&Field| {
        let name = field.name.as_str();
        ["version", "tag"].contains(&name) || name.ends_with("_version") || name.ends_with("_tag")
    };
    let mut found: Vec<&Field> = kind.overridable.iter().filter(is_version).collect();
    let others = kind.fields.iter().filter(is_version);
    found.extend(others.filter(|field| kind.overridable.iter().all(|known| known.name != field.name)));
    found
}

/// The table of usages; with the id of the definition, where there are several.
pub(crate) fn table(kind: &Kind, usages: &[Value], ids: bool, wide: bool) -> Table {
    // An optional field that no cluster has would be an empty column.
    let is_required = |name: &str| kind.fields.iter().any(|field| field.required && field.name == name);
    let is_set = |name: &str| usages.iter().any(|usage| !usage["values"][name].is_null());
    let overridable = kind.overridable.iter();
    let overridable = overridable.filter(|field| is_required(&field.name) || is_set(&field.name));
    let fields = overridable.chain(&kind.carried);
    let mut heading = vec!["cluster", "environment"];
    if ids {
        heading.push("id");
    }
    heading.extend(fields.map(|field| field.name.as_str()));
    if wide {
        heading.push("cluster_dns");
        if kind.patches {
            heading.push("patches");
        }
    }
    if !kind.overridable.is_empty() {
        heading.push("overridden");
    }
    // Most fleets have few profiles, or none.
    if usages.iter().any(|usage| !usage["profiles"].is_null()) {
        heading.push("profiles");
    }
    if usages.iter().any(|usage| usage["status"].is_object()) {
        heading.extend(["state", "reported"]);
    }
    let mut table = Table::new(&heading);
    for usage in usages {
        let overridden = usage["overridden"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tone = |attention: bool| if attention { Tone::Attention } else { Tone::Plain };
        table.row(heading.iter().map(|name| match *name {
            "overridden" => (cell(&usage["overridden"]), tone(!overridden.is_empty())),
            "profiles" => (cell(&usage["profiles"]), Tone::Plain),
            "state" => state_cell(&usage["status"]["state"]),
            "reported" => (cell(&usage["status"]["version"]), Tone::Plain),
            "cluster" | "environment" | "cluster_dns" | "id" => (text(&usage[*name]).to_owned(), Tone::Plain),
            field => {
                let own = overridden.iter().any(|name| name == field);
                (cell(&usage["values"][field]), tone(own))
            }
        }));
    }
    table
}
