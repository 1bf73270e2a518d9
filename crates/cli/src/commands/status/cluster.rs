//! `status CLUSTER`: each input of one cluster.

use fleet::kind::CLUSTERS;
use serde_json::Value;

use super::overview::{name, no_status};
use crate::client::encode;
use crate::error::Failure;
use crate::output::{Page, Table, Tone};
use crate::session::{Session, missing_cluster, text};
use crate::status::{age, message, state_cell};

pub(super) fn show(session: &Session<'_>, id: &str) -> Result<(), Failure> {
    let path = format!("/{CLUSTERS}/{}/status", encode(id));
    let found = session.client.get(&path).map_err(|error| {
        let failure = Failure::from(error);
        match failure.message.contains(id) {
            true => missing_cluster(failure, id),
            false => no_status(failure),
        }
    })?;
    session
        .printer
        .view(&found, |wide, colour| page(&found, wide, colour), || vec![name(&found)])
}

fn page(found: &Value, wide: bool, colour: bool) -> String {
    let mut page = Page::new(&name(found), colour);
    let now = &found["at"];
    let mut fields: Vec<(&str, Value)> = Vec::new();
    for field in ["dns", "environment", "state"] {
        fields.push((field, found[field].clone()));
    }
    for (field, shown) in [("since", "since"), ("last_poll", "last poll"), ("heard", "last heard")] {
        fields.push((shown, age(now, &found[field]).into()));
    }
    fields.push(("reporter", found["reporter"].clone()));
    page.fields(fields.iter().map(|(name, value)| (*name, value)));
    for (path, kind) in found["kinds"].as_object().into_iter().flatten() {
        let title = format!("{path}: {}", told(now, kind));
        let inputs = kind["inputs"].as_array().map(Vec::as_slice).unwrap_or_default();
        match inputs.is_empty() {
            true => page.empty(&title, "no inputs"),
            false => page.section(&title, &inputs_table(now, inputs, wide)),
        }
    }
    let objects = found["objects"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !objects.is_empty() {
        page.section("Fails, and belongs to no input", &objects_table(now, objects, wide));
    }
    page.finish()
}

/// What the cluster was told of a kind, and whether that is what it should have.
fn told(now: &Value, kind: &Value) -> String {
    let (state, told) = (text(&kind["state"]), &kind["told"]);
    if !told.is_object() {
        return format!("{state}; never told");
    }
    let digest = text(&told["digest"]);
    let short = |digest: &str| digest.get(..8).unwrap_or(digest).to_owned();
    let mut out = format!(
        "{state}; told revision {} ({}) {} ago by {}",
        told["revision"],
        short(digest),
        age(now, &told["at"]),
        text(&told["agent"])
    );
    if kind["current"] != told["digest"] {
        out.push_str(&format!("; would get {} now", short(text(&kind["current"]))));
    }
    out
}

fn inputs_table(now: &Value, inputs: &[Value], wide: bool) -> Table {
    let mut heading = vec![
        "id", "state", "version", "since", "evidence", "object", "reason", "message",
    ];
    if wide {
        heading.extend(["seen", "digest"]);
    }
    let mut table = Table::new(heading);
    for input in inputs {
        let plain = |text: String| (text, Tone::Plain);
        let or_dash = |name: &str| plain(input[name].as_str().unwrap_or("-").to_owned());
        let mut state = state_cell(&input["state"]);
        if input["enabled"] == false {
            state.0.push_str(" (disabled)");
        }
        let mut cells = vec![
            or_dash("id"),
            state,
            or_dash("version"),
            plain(age(now, &input["since"])),
            or_dash("evidence"),
            or_dash("object"),
            or_dash("reason"),
            plain(message(&input["message"], wide)),
        ];
        if wide {
            cells.extend([plain(age(now, &input["at"])), or_dash("digest")]);
        }
        table.row(cells);
    }
    table
}

fn objects_table(now: &Value, objects: &[Value], wide: bool) -> Table {
    let mut table = Table::new(["object", "since", "evidence", "reason", "message"]);
    for object in objects {
        let cells = [
            text(&object["object"]).to_owned(),
            age(now, &object["since"]),
            text(&object["evidence"]).to_owned(),
            text(&object["reason"]).to_owned(),
            message(&object["message"], wide),
        ];
        table.row(cells.map(|text| (text, Tone::Plain)));
    }
    table
}
