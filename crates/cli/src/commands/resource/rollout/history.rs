//! `rollout history`: each step of a rollout, and the evidence that it rests on.

use fleet::kind::ROLLOUTS;
use serde_json::Value;

use super::words::wave;
use crate::error::{Code, Failure};
use crate::log::{Feed, name, overrides};
use crate::output::{Table, Tone};
use crate::session::{Session, text};

pub(in super::super) fn show(session: &Session<'_>, id: &str) -> Result<(), Failure> {
    let mut feed = Feed {
        kind: Some(ROLLOUTS.to_owned()),
        id: Some(id.to_owned()),
        ..Feed::default()
    };
    let records = feed.newest(session.client, usize::MAX)?;
    if records.is_empty() {
        let failure = Failure::new(Code::NotFound, format!("the log has no record of the rollout \"{id}\""));
        return Err(failure.hint("`rollout list` lists all of them").about(ROLLOUTS, id));
    }
    session.printer.print(
        &Value::Array(records.clone()),
        |_| table(&records),
        || records.iter().map(name).collect(),
    )
}

fn table(records: &[Value]) -> Table {
    let mut table = Table::new(["revision", "at", "by", "step", "wave", "reason"]);
    for record in records {
        let reason = [record["reason"].as_str().map(str::to_owned), overrides(record)];
        let reason: Vec<String> = reason.into_iter().flatten().collect();
        let cells = [
            record["revision"].to_string(),
            text(&record["at"]).to_owned(),
            text(&record["actor"]).to_owned(),
            step(&record["before"], &record["after"]).to_owned(),
            wave(&record["after"]),
            if reason.is_empty() {
                "-".to_owned()
            } else {
                reason.join(" ")
            },
        ];
        table.row(cells.into_iter().map(|text| (text, Tone::Plain)));
    }
    table
}

/// What happened, by the documents before and after.
fn step<'a>(before: &Value, after: &'a Value) -> &'a str {
    let differs = |name: &str| before[name] != after[name];
    match (text(&before["state"]), text(&after["state"])) {
        _ if after.is_null() => "deleted",
        _ if before.is_null() => "started",
        (_, state @ ("completed" | "aborted" | "halted" | "reverted" | "paused")) if differs("state") => state,
        _ if differs("wave") && after["wave"].is_string() => "promoted",
        (_, "running") if differs("state") => "resumed",
        _ if differs("approved") => "approved",
        _ if differs("waiting_for") => match after["waiting_for"].as_str() {
            Some(what) if what.starts_with("guard/") => "waits for a guard",
            Some(_) => "waits for approval",
            None => "waits no longer",
        },
        _ => "changed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_are_read_from_documents() {
        let at = |state: &str, wave: Value| json!({"state": state, "wave": wave});
        let (none, canary) = (Value::Null, json!("canary"));
        for (before, after, expected) in [
            (Value::Null, at("running", none.clone()), "started"),
            (at("running", none.clone()), at("running", canary.clone()), "promoted"),
            (at("running", canary.clone()), at("halted", canary.clone()), "halted"),
            (at("halted", canary.clone()), at("running", canary.clone()), "resumed"),
            (at("running", canary.clone()), at("reverted", none.clone()), "reverted"),
            (at("reverted", none), at("running", canary.clone()), "promoted"),
            (
                at("running", canary.clone()),
                at("completed", json!("rest")),
                "completed",
            ),
            (at("completed", canary), Value::Null, "deleted"),
        ] {
            assert_eq!(step(&before, &after), expected);
        }
    }
}
