//! `rollout status`: how far rollouts have come, wave by wave, and what they wait for.

use std::thread;
use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use fleet::kind::ROLLOUTS;
use serde_json::{Value, json};

use super::super::Verb;
use super::is_of;
use super::wait::{self, Goal};
use super::words::{gate, waiting_for, wave};
use crate::args::ids::id_of;
use crate::args::{complete, duration, given};
use crate::client::encode;
use crate::error::{Code, Failure};
use crate::kinds::{Kind, Kinds};
use crate::output::{Page, Table, Tone};
use crate::session::{Session, missing, text};
use crate::status::age;
use crate::view::interval;

pub(in super::super) const VERB: Verb = Verb {
    name: "status",
    command,
    run,
};

const AFTER_HELP: &str = "\
Counts are those of clusters that the rollout affects; clusters that override what it changes are not among them. With --wait, the \
command ends when the rollout is completed, or with --for WAVE when the gate of this wave has passed; a rollout that waits for an \
approval, for a guard or for a person who paused it is waited for, too. Progress goes to stderr.

Exit codes of --wait:
  0  reached
  4  there is no such rollout
  5  the rollout halted, or was reverted or aborted
  6  the time is up

Examples:
  flux-resourceset-cli rollout status
  flux-resourceset-cli rollout status podinfo-6.7.1 -w
  flux-resourceset-cli rollout status podinfo-6.7.1 --wait --for canary --timeout 30m";

#[derive(Args, Clone, Debug)]
struct StatusArgs {
    /// The id of the rollout [default: all that have not ended, one line each]
    #[arg(value_name = "ID", value_parser = given, add = complete::ids(ROLLOUTS))]
    id: Option<String>,
    /// Keep running, and print each change, until the rollout ends; in JSON, one document per line
    #[arg(short, long)]
    watch: bool,
    /// For pipelines: wait until the rollout is completed, or --for a wave
    #[arg(long, requires = "id", conflicts_with = "watch")]
    wait: bool,
    /// What to wait for: completed, or the name of a wave
    #[arg(long = "for", value_name = "WHAT", requires = "wait", default_value = "completed", value_parser = given)]
    goal: String,
    /// How long to wait: 30s, 10m, 1h30m
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = duration, default_value = "30m")]
    timeout: Duration,
    /// Seconds between requests
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    interval: Duration,
}

fn command(command: Command, kind: &Kind, _: &Kinds) -> Option<Command> {
    let command = command.about("Show how far rollouts have come, wave by wave, and what they wait for");
    is_of(kind).then(|| StatusArgs::augment_args(command).after_help(AFTER_HELP))
}

fn run(session: &Session<'_>, kind: &Kind, matches: &ArgMatches) -> Result<(), Failure> {
    let mut args = StatusArgs::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(id) = &args.id {
        args.id = Some(id_of(kind.names())(id).map_err(Failure::usage)?);
    }
    let Some(id) = &args.id else {
        return match args.watch {
            true => watch(session, args.interval, || active(session, kind)),
            false => show_active(session, kind),
        };
    };
    if args.wait {
        let goal = Goal::read(&rollout(session, kind, id)?, &args.goal)?;
        return wait::until(session, &goal, args.timeout, args.interval, || read(session, kind, id));
    }
    if args.watch {
        return watch(session, args.interval, || Ok(vec![read(session, kind, id)?]));
    }
    let (rollout, status) = (rollout(session, kind, id)?, read(session, kind, id)?);
    let page = |_, colour| page(&rollout, &status, colour);
    session.printer.view(&status, page, || vec![format!("{ROLLOUTS}/{id}")])
}

fn rollout(session: &Session<'_>, kind: &Kind, id: &str) -> Result<Value, Failure> {
    let found = session.client.resource(ROLLOUTS, id);
    found
        .map(|found| found.value)
        .map_err(|error| missing(error.into(), kind, id))
}

/// How far a rollout has come.
fn read(session: &Session<'_>, kind: &Kind, id: &str) -> Result<Value, Failure> {
    let found = session.client.get(&format!("/{ROLLOUTS}/{}/status", encode(id)));
    found.map_err(|error| missing(error.into(), kind, id))
}

/// How far those have come that have not ended.
fn active(session: &Session<'_>, kind: &Kind) -> Result<Vec<Value>, Failure> {
    let all = session.client.get(&format!("/{ROLLOUTS}"))?;
    let active = all
        .as_array()
        .into_iter()
        .flatten()
        .filter(|rollout| !has_ended(rollout));
    let mut found = Vec::new();
    for rollout in active {
        match read(session, kind, text(&rollout["id"])) {
            Ok(status) => found.push(status),
            // It was deleted meanwhile.
            Err(failure) if failure.code == Code::NotFound => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(found)
}

pub(super) fn has_ended(rollout: &Value) -> bool {
    ["completed", "aborted"].contains(&text(&rollout["state"]))
}

fn show_active(session: &Session<'_>, kind: &Kind) -> Result<(), Failure> {
    let found = active(session, kind)?;
    if found.is_empty() && session.printer.is_table() {
        session.printer.note("no rollout is active");
        return Ok(());
    }
    let names = || {
        found
            .iter()
            .map(|status| format!("{ROLLOUTS}/{}", text(&status["id"])))
            .collect()
    };
    session.printer.print(&found.clone().into(), |_| rows(&found), names)
}

/// One line for each rollout.
fn rows(found: &[Value]) -> Table {
    let mut table = Table::new([
        "rollout",
        "state",
        "since",
        "wave",
        "affected",
        "told",
        "converged",
        "failing",
        "silent",
        "waiting for",
    ])
    .at_least(&[16, 9, 5, 16, 8, 5, 9, 7, 6]);
    for status in found {
        let plain = |text: String| (text, Tone::Plain);
        let counts = ["affected", "told", "converged", "failing", "silent"]
            .map(|name| plain(promoted(status, name).to_string()));
        let first = [
            plain(text(&status["id"]).to_owned()),
            state_cell(&status["state"]),
            plain(age(&status["at"], &status["since"])),
            plain(wave(status)),
        ];
        table.row(first.into_iter().chain(counts).chain([plain(waits(status))]));
    }
    table
}

/// The sum of a count over promoted waves.
pub(super) fn promoted(status: &Value, name: &str) -> u64 {
    let waves = status["waves"].as_array().into_iter().flatten();
    let promoted = waves.filter(|wave| wave["promoted"] == true);
    promoted.filter_map(|wave| wave[name].as_u64()).sum()
}

fn state_cell(state: &Value) -> (String, Tone) {
    let state = text(state);
    let tone = match state {
        "halted" => Tone::Bad,
        "paused" | "reverted" => Tone::Attention,
        "completed" => Tone::Good,
        "aborted" => Tone::Quiet,
        _ => Tone::Plain,
    };
    (state.to_owned(), tone)
}

/// Why a rollout does not go on: in the server's words, where it has some.
pub(super) fn waits(status: &Value) -> String {
    let short = waiting_for(status);
    match (status["message"].as_str(), status["waits"].as_str()) {
        (Some(message), _) if !has_ended(status) => format!("{short}: {message}"),
        (_, Some(_)) if status["waiting_for"].is_string() => short,
        (_, Some(words)) => format!("{short}: {words}"),
        _ => short,
    }
}

fn page(rollout: &Value, status: &Value, colour: bool) -> String {
    let id = text(&status["id"]);
    let mut page = Page::new(&format!("rollout {id}"), colour);
    let (state, since) = (text(&status["state"]), age(&status["at"], &status["since"]));
    let mut fields = vec![("state", json!(format!("{state}, since {since}")))];
    if let Some(description) = rollout["description"].as_str() {
        fields.push(("description", json!(description)));
    }
    let operations = rollout["operations"].as_array().into_iter().flatten();
    let changes: Vec<String> = operations.map(change).collect();
    fields.push(("changes", json!(changes.join("; "))));
    fields.push(("gate", json!(gate(&rollout["gate"]))));
    if rollout["on_failure"] == "revert" {
        fields.push(("on failure", json!("revert")));
    }
    match (has_ended(status), status["message"].as_str()) {
        (true, Some(message)) => fields.push(("message", json!(message))),
        (true, None) => {}
        (false, _) => fields.push(("waits for", json!(waits(status)))),
    }
    page.fields(fields.iter().map(|(name, value)| (*name, value)));
    match has_ended(status) {
        true => page.empty(
            "Waves",
            &format!("it has ended: `rollout history {id}` shows each wave with its evidence"),
        ),
        false => page.section("Waves", &waves(rollout, status)),
    }
    page.finish()
}

/// `platform_components/podinfo {"oci_tag":"6.7.1"}`
fn change(operation: &Value) -> String {
    format!(
        "{}/{} {}",
        text(&operation["kind"]),
        text(&operation["id"]),
        operation["value"]
    )
}

fn waves(rollout: &Value, status: &Value) -> Table {
    let counts = ["members", "affected", "told", "converged", "failing", "silent"];
    let goal = if rollout["gate"]["told"].is_null() {
        "converged"
    } else {
        "told"
    };
    let heading = ["wave", "state"].into_iter().chain(counts).chain(["progress"]);
    let mut table = Table::new(heading);
    for wave in status["waves"].as_array().into_iter().flatten() {
        let is_promoted = wave["promoted"] == true;
        let (state, tone) = match (is_promoted, wave["approve"] == true) {
            (true, _) => ("promoted", Tone::Good),
            (false, true) if rollout["approved"] == wave["name"] => ("approved", Tone::Plain),
            (false, true) => ("needs approval", Tone::Attention),
            (false, false) => ("waiting", Tone::Quiet),
        };
        let count = |name: &str| match is_promoted || ["members", "affected"].contains(&name) {
            true => wave[name].as_u64().unwrap_or_default().to_string(),
            false => "-".to_owned(),
        };
        let number = |name: &str| wave[name].as_u64().unwrap_or_default();
        let bar = match is_promoted && number("affected") > 0 {
            true => bar(number(goal), number("affected")),
            false => "-".to_owned(),
        };
        let first = [(text(&wave["name"]).to_owned(), Tone::Plain), (state.to_owned(), tone)];
        let counts = counts.map(|name| (count(name), Tone::Plain));
        table.row(first.into_iter().chain(counts).chain([(bar, Tone::Plain)]));
    }
    table
}

/// `[#######...]  70%`
fn bar(part: u64, whole: u64) -> String {
    const WIDTH: u64 = 20;
    let filled = (WIDTH * part / whole.max(1)).min(WIDTH);
    let (done, left) = (filled as usize, (WIDTH - filled) as usize);
    format!(
        "[{}{}] {:>3}%",
        "#".repeat(done),
        ".".repeat(left),
        100 * part / whole.max(1)
    )
}

/// Prints a line for each rollout whenever something about it changes; ends when all of them have ended.
fn watch(
    session: &Session<'_>,
    every: Duration,
    read: impl Fn() -> Result<Vec<Value>, Failure>,
) -> Result<(), Failure> {
    let mut known: Vec<(String, Value)> = Vec::new();
    let mut is_first = true;
    loop {
        let found = read()?;
        if std::mem::take(&mut is_first) {
            session.printer.heading(&rows(&found))?;
        }
        for status in &found {
            let (id, lasting) = (text(&status["id"]), lasting(status));
            let is_known = known.iter().any(|(one, seen)| one == id && *seen == lasting);
            if !is_known {
                let one = std::slice::from_ref(status);
                session
                    .printer
                    .stream(status, |_| rows(one), || vec![format!("{ROLLOUTS}/{id}")])?;
                known.retain(|(one, _)| one != id);
                known.push((id.to_owned(), lasting));
            }
        }
        if !found.is_empty() && found.iter().all(has_ended) {
            return Ok(());
        }
        thread::sleep(every);
    }
}

/// A status without what changes by itself, such as the seconds of a soak.
pub(super) fn lasting(status: &Value) -> Value {
    let mut lasting = status.clone();
    lasting["at"] = Value::Null;
    if text(&lasting["waits"]).starts_with("soaks") {
        lasting["waits"] = "soaks".into();
    }
    lasting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_full_only_when_all_are_there() {
        assert_eq!(bar(0, 3), "[....................]   0%");
        assert_eq!(bar(2, 3), "[#############.......]  66%");
        assert_eq!(bar(999, 1000), "[###################.]  99%");
        assert_eq!(bar(3, 3), "[####################] 100%");
    }
}
