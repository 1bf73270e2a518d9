//! `status`: counts, then the clusters that are not well, then why they fail.

use fleet::kind::CLUSTERS;
use fleet::status::State;
use serde_json::{Value, json};

use super::StatusArgs;
use crate::client::with_query;
use crate::error::{Code, Failure};
use crate::output::{Table, Tone};
use crate::session::{Session, text};
use crate::status::{age, message, state_cell, tone};
use crate::suggest;

pub(super) fn show(session: &Session<'_>, args: &StatusArgs) -> Result<(), Failure> {
    let mut found = read(session, args)?;
    found["causes"] = causes(session, args, &found)?;
    if total(&found["counts"]) == 0
        && let Some(hint) = args
            .selector
            .as_deref()
            .and_then(|selector| suggest::unmatched(session, selector))
    {
        session.printer.hint(&hint);
    }
    let names = || rows(&found).iter().map(name).collect();
    session
        .printer
        .view(&found, |wide, colour| page(args, &found, wide, colour), names)
}

/// The counts, and the clusters that are listed.
pub(super) fn read(session: &Session<'_>, args: &StatusArgs) -> Result<Value, Failure> {
    let states: Vec<&str> = args.listed().iter().map(|state| state.name()).collect();
    let path = with_query(
        "/status",
        [
            ("selector", args.selector.clone()),
            ("state", Some(states.join(","))),
            ("kind", kind(session, args)?),
            ("component", args.component.clone()),
            ("limit", Some(args.limit.to_string())),
        ],
    );
    let found = session.client.get(&path);
    found.map_err(|error| match &args.component {
        // There may be no such component.
        Some(_) => error.into(),
        None => no_status(error.into()),
    })
}

/// The kind by the name that the server knows.
fn kind(session: &Session<'_>, args: &StatusArgs) -> Result<Option<String>, Failure> {
    match &args.kind {
        Some(name) => Ok(Some(session.kinds()?.get(name)?.name.clone())),
        None => Ok(None),
    }
}

/// The server may be older than this command.
pub(crate) fn no_status(failure: Failure) -> Failure {
    match failure.code {
        Code::NotFound => failure.or_hint(|| "the server is older than this command, or read-only".to_owned()),
        _ => failure,
    }
}

pub(super) fn rows(found: &Value) -> &[Value] {
    found["clusters"].as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn name(row: &Value) -> String {
    format!("{CLUSTERS}/{}", text(&row["id"]))
}

fn total(counts: &Value) -> u64 {
    let counts = counts.as_object().into_iter().flatten();
    counts.filter_map(|(_, count)| count.as_u64()).sum()
}

/// Why clusters fail, of what was asked for.
fn causes(session: &Session<'_>, args: &StatusArgs, found: &Value) -> Result<Value, Failure> {
    if found["counts"]["failing"] == 0 || !args.listed().contains(&State::Failing) {
        return Ok(json!([]));
    }
    let path = with_query("/status/causes", [("selector", args.selector.clone())]);
    let mut causes = session.client.get(&path)?["causes"].take();
    let path = match &args.kind {
        Some(name) => session.kinds()?.get(name)?.path.clone(),
        None => None,
    };
    let is_wanted = |cause: &Value| {
        path.as_ref().is_none_or(|path| cause["path"] == path.as_str())
            && args
                .component
                .as_ref()
                .is_none_or(|id| cause["component"] == id.as_str())
    };
    if let Value::Array(causes) = &mut causes {
        causes.retain(is_wanted);
    }
    Ok(causes)
}

fn page(args: &StatusArgs, found: &Value, wide: bool, colour: bool) -> String {
    let mut out = counts(found).render(colour, true);
    let listed = rows(found);
    out.push('\n');
    if listed.is_empty() {
        let mut none = Table::default();
        none.line(nothing(args, found), Tone::Quiet);
        out.push_str(&none.render(colour, true));
        return out;
    }
    let mut clusters = table(found, listed, wide);
    let more = found["total"]
        .as_u64()
        .unwrap_or_default()
        .saturating_sub(listed.len() as u64);
    if more > 0 {
        clusters.line(format!("and {more} more; --limit shows more of them"), Tone::Quiet);
    }
    out.push_str(&clusters.render(colour, true));
    let causes = found["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !causes.is_empty() {
        out.push('\n');
        out.push_str(&causes_table(found, causes, wide).render(colour, true));
    }
    out
}

/// What to say when no cluster is listed.
fn nothing(args: &StatusArgs, found: &Value) -> String {
    let states: Vec<&str> = args.listed().iter().map(|state| state.name()).collect();
    match total(&found["counts"]) {
        0 => "no clusters".to_owned(),
        _ if args.limit == 0 => "--limit 0 lists no clusters".to_owned(),
        _ => format!("no cluster is {}", states.join(", ")),
    }
}

/// How many clusters have each state, by environment.
fn counts(found: &Value) -> Table {
    let states = State::ALL.map(State::name);
    let heading = ["environment", "clusters"].into_iter().chain(states);
    let mut table = Table::new(heading);
    let mut row = |name: &str, counts: &Value| {
        let cells = states.iter().map(|state| match counts[*state].as_u64() {
            None | Some(0) => ("0".to_owned(), Tone::Quiet),
            Some(count) => (count.to_string(), tone(state)),
        });
        let first = [(name.to_owned(), Tone::Plain), (total(counts).to_string(), Tone::Plain)];
        table.row(first.into_iter().chain(cells));
    };
    let environments = found["by_environment"].as_object();
    for (name, counts) in environments.into_iter().flatten() {
        row(name, counts);
    }
    if environments.is_none_or(|environments| environments.len() != 1) {
        row("all", &found["counts"]);
    }
    table
}

/// The clusters; with an input, what is known about it.
pub(super) fn table(found: &Value, rows: &[Value], wide: bool) -> Table {
    let with_input = rows.iter().any(|row| row["input"].is_object());
    let mut heading = vec!["cluster", "environment", "state", "since", "last poll"];
    if with_input {
        heading.extend(["version", "evidence", "reason", "message"]);
    }
    if wide {
        heading.insert(1, "dns");
    }
    let mut table = Table::new(heading);
    for row in rows {
        let plain = |text: String| (text, Tone::Plain);
        let or_dash = |value: &Value| plain(value.as_str().unwrap_or("-").to_owned());
        let mut cells = vec![
            plain(text(&row["id"]).to_owned()),
            plain(text(&row["environment"]).to_owned()),
            state_cell(&row["state"]),
            plain(age(&found["at"], &row["since"])),
            plain(age(&found["at"], &row["last_poll"])),
        ];
        if with_input {
            let input = &row["input"];
            cells.extend(["version", "evidence", "reason"].map(|name| or_dash(&input[name])));
            cells.push(plain(message(&input["message"], wide)));
        }
        if wide {
            cells.insert(1, plain(text(&row["dns"]).to_owned()));
        }
        table.row(cells);
    }
    table
}

fn causes_table(found: &Value, causes: &[Value], wide: bool) -> Table {
    let mut heading = vec!["cause", "component", "version", "clusters", "since", "message"];
    if wide {
        heading.insert(4, "examples");
    }
    let mut table = Table::new(heading);
    for cause in causes {
        let component = match (cause["path"].as_str(), cause["component"].as_str()) {
            (Some(path), Some(id)) => format!("{path}/{id}"),
            _ => "-".to_owned(),
        };
        let version = text(&cause["version"]);
        let mut cells = vec![
            text(&cause["reason"]).to_owned(),
            component,
            if version.is_empty() { "-" } else { version }.to_owned(),
            cause["clusters"].to_string(),
            age(&found["at"], &cause["since"]),
            message(&cause["message"], wide),
        ];
        if wide {
            cells.insert(4, crate::output::cell(&cause["examples"]));
        }
        table.row(cells.into_iter().map(|text| (text, Tone::Plain)));
    }
    table
}
