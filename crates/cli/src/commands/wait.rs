//! `wait`: for pipelines, until a change has reached its clusters.

use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use fleet::kind::CLUSTERS;
use serde_json::{Value, json};

use super::status::no_status;
use crate::args::complete::{cluster_ids, selectors};
use crate::args::ids::{cluster_id, unique};
use crate::args::target::selector;
use crate::args::{duration, revision};
use crate::client::{encode, with_query};
use crate::error::{Code, Failure};
use crate::output::{Table, Tone};
use crate::session::{Session, missing_cluster, text, unknown_revision};
use crate::status::{message, progress};
use crate::view::interval;

pub(crate) const AFTER_HELP: &str = "\
With --revision, or with nothing: waits for the clusters that this revision changes, and for what it changes there; the current \
revision by default. With clusters or a selector and no --revision: until they have everything that they should have now.

`converged` needs evidence that things are ready, from the notifications or the reporter of each cluster; `told` needs only their \
polls. Ends at once when something fails, unless --keep-going is given; with --for told, failures do not matter. Progress goes to \
stderr.

Exit codes: 0 when all clusters are there, 1 on timeout or failure, with those that are missing and why.

Examples:
  flux-resourceset-cli wait --timeout 15m
  flux-resourceset-cli wait --revision 42 -l environment=prod --for told
  flux-resourceset-cli wait demo-cluster-01";

#[derive(Args, Clone, Debug)]
pub(crate) struct WaitArgs {
    /// Only these clusters
    #[arg(value_parser = cluster_id, add = cluster_ids(), conflicts_with = "selector")]
    cluster: Vec<String>,
    /// The revision to wait for [default: the current one, unless clusters are chosen]
    #[arg(long, value_name = "REVISION", value_parser = revision)]
    revision: Option<u64>,
    /// Only clusters that match: environment=dev, 'team in (a,b)', !canary
    #[arg(short = 'l', long, value_parser = selector, add = selectors())]
    selector: Option<String>,
    /// What to wait for
    #[arg(long = "for", value_name = "STATE", value_enum, default_value_t = Goal::Converged)]
    goal: Goal,
    /// How long to wait: 30s, 10m, 1h30m
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10m")]
    timeout: Duration,
    /// Do not end when something fails: it may recover
    #[arg(long)]
    keep_going: bool,
    /// Seconds between requests
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// Everything is ready
    Converged,
    /// The clusters were told
    Told,
}

impl Goal {
    fn name(self) -> &'static str {
        match self {
            Goal::Converged => "converged",
            Goal::Told => "told",
        }
    }
}

/// How many clusters a message names.
const NAMED: usize = 20;
/// How many clusters are asked for: those that fail may have been told.
const ASKED: u64 = 1000;

pub(crate) fn run(session: &Session<'_>, args: &WaitArgs) -> Result<(), Failure> {
    let subject = Subject::of(session, args)?;
    let until = Instant::now() + args.timeout;
    let mut shown = String::new();
    let mut found = subject.look(session, args.goal)?;
    loop {
        let line = found.line();
        if line != shown {
            session.printer.note(&line);
            shown = line;
        }
        if found.is_reached() {
            return found.show(session, args.goal);
        }
        let fails = args.goal == Goal::Converged && found.count("failing") > 0;
        if fails && !args.keep_going {
            return Err(found.failure("something fails"));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(found.failure("the time is up"));
        }
        thread::sleep(args.interval.min(left));
        found = match subject.look(session, args.goal) {
            Ok(found) => found,
            // The server may be restarting: the time limit ends this, too.
            Err(failure) if failure.code == Code::Unreachable => {
                let line = format!("{}; trying again", failure.message);
                if line != shown {
                    session.printer.note(&line);
                    shown = line;
                }
                found
            }
            Err(failure) => return Err(failure),
        };
    }
}

/// What is waited for.
struct Subject {
    /// None: everything that the clusters should have now.
    revision: Option<u64>,
    selector: Option<String>,
}

impl Subject {
    fn of(session: &Session<'_>, args: &WaitArgs) -> Result<Subject, Failure> {
        let named = unique(args.cluster.clone());
        for id in &named {
            let cluster = session.client.resource(CLUSTERS, id);
            cluster.map_err(|error| missing_cluster(error.into(), id))?;
        }
        let selector = match named.is_empty() {
            true => args.selector.clone(),
            false => Some(format!("id in ({})", named.join(","))),
        };
        let revision = match (args.revision, &selector) {
            (None, None) => Some(session.client.revision()?),
            (revision, _) => revision,
        };
        Ok(Subject { revision, selector })
    }

    fn look(&self, session: &Session<'_>, goal: Goal) -> Result<Found, Failure> {
        let selector = ("selector", self.selector.clone());
        let limit = ("limit", Some(ASKED.to_string()));
        match self.revision {
            Some(revision) => {
                let path = with_query(&format!("/revisions/{revision}/status"), [selector, limit]);
                let status = session
                    .client
                    .get(&path)
                    .map_err(|error| no_revision(error.into(), revision))?;
                Ok(Found::new(status, goal))
            }
            None => {
                let states = ("state", Some("failing,silent,never,behind,told".to_owned()));
                let path = with_query("/status", [selector, states, limit]);
                let status = session.client.get(&path).map_err(|error| no_status(error.into()))?;
                Ok(Found::new(now(session, &status, goal)?, goal))
            }
        }
    }
}

/// The revision does not exist, or the server is older than this command.
fn no_revision(failure: Failure, revision: u64) -> Failure {
    match failure.message.contains(&format!("revision {revision}")) {
        true => unknown_revision(failure),
        false => no_status(failure),
    }
}

/// The states now, in the form of the status of a revision.
fn now(session: &Session<'_>, status: &Value, goal: Goal) -> Result<Value, Failure> {
    let count = |name: &str| status["counts"][name].as_u64().unwrap_or_default();
    let mut found = json!({
        "converged": count("converged"), "failing": count("failing"), "silent": count("silent") + count("never"),
        "behind": count("behind"), "told": count("told"),
    });
    let all = found.as_object().into_iter().flatten();
    let affected: u64 = all.filter_map(|(_, count)| count.as_u64()).sum();
    found["affected"] = affected.into();
    let mut clusters = Vec::new();
    for (n, row) in status["clusters"].as_array().into_iter().flatten().enumerate() {
        let mut row = row.clone();
        row["told"] = (row["state"] == "told").into();
        // What fails on it, and whether it was told nevertheless.
        if row["state"] == "failing" && (goal == Goal::Told || n < NAMED) {
            let status = session
                .client
                .get(&format!("/{CLUSTERS}/{}/status", encode(text(&row["id"]))));
            explain(&mut row, &status.map_err(Failure::from)?);
        }
        clusters.push(row);
    }
    found["clusters"] = clusters.into();
    Ok(found)
}

fn explain(row: &mut Value, status: &Value) {
    let kinds = status["kinds"].as_object().into_iter().flatten();
    let is_told = |kind: &Value| match kind["told"].is_object() {
        true => kind["told"]["digest"] == kind["current"],
        false => kind["inputs"].as_array().is_none_or(Vec::is_empty),
    };
    row["told"] = kinds.clone().all(|(_, kind)| is_told(kind)).into();
    let mut inputs = kinds.flat_map(|(path, kind)| {
        let inputs = kind["inputs"].as_array().into_iter().flatten();
        inputs.map(move |input| (path, input))
    });
    match inputs.find(|(_, input)| input["state"] == "failing") {
        Some((path, input)) => (row["path"], row["input"]) = (path.as_str().into(), input.clone()),
        None => row["input"] = status["objects"][0].clone(),
    }
}

/// How far it has come.
struct Found {
    status: Value,
    goal: Goal,
}

impl Found {
    fn new(status: Value, goal: Goal) -> Found {
        Found { status, goal }
    }

    fn count(&self, name: &str) -> u64 {
        self.status[name].as_u64().unwrap_or_default()
    }

    /// The clusters that are not there yet, as far as they are named.
    fn missing(&self) -> impl Iterator<Item = &Value> {
        let clusters = self.status["clusters"].as_array().into_iter().flatten();
        clusters.filter(|row| self.goal == Goal::Converged || row["told"] != true)
    }

    fn is_reached(&self) -> bool {
        match self.goal {
            Goal::Converged => self.count("converged") == self.count("affected"),
            Goal::Told => {
                // These may have been told, and only those that are named say so.
                let unnamed = self.count("failing") + self.count("silent") > ASKED;
                self.count("behind") == 0 && !unnamed && self.missing().next().is_none()
            }
        }
    }

    fn line(&self) -> String {
        let what = match self.status["revision"].as_u64() {
            Some(revision) => format!("revision {revision}: "),
            None => String::new(),
        };
        let progress = progress(&self.status).unwrap_or_else(|| "no cluster is affected".to_owned());
        format!("{what}{progress}")
    }

    fn show(&self, session: &Session<'_>, goal: Goal) -> Result<(), Failure> {
        let mut reached = self.status.clone();
        reached["reached"] = goal.name().into();
        let table = |_| {
            let mut table = Table::default();
            let affected = self.count("affected");
            let clusters = match affected {
                1 => "1 cluster".to_owned(),
                many => format!("{many} clusters"),
            };
            table.line(format!("{clusters} {}", goal.name()), Tone::Good);
            table
        };
        session.printer.print(&reached, table, Vec::new)
    }

    /// Who is missing, and why.
    fn failure(&self, what: &str) -> Failure {
        let mut failure = Failure::new(Code::Refused, format!("{}; {what}", self.line()));
        let details = self.missing().take(NAMED).map(why);
        failure.details = details.collect();
        let named = failure.details.len() as u64;
        let more = self.count("affected").saturating_sub(self.count("converged") + named);
        if more > 0 && self.goal == Goal::Converged {
            failure.details.push((String::new(), format!("and {more} more")));
        }
        failure.hint("`status` shows the states of clusters, `status CLUSTER` what they rest on")
    }
}

fn why(row: &Value) -> (String, String) {
    let (state, input) = (text(&row["state"]), &row["input"]);
    let name = match (row["path"].as_str(), input["id"].as_str()) {
        (Some(path), Some(id)) => format!(", {path}/{id}"),
        _ => String::new(),
    };
    let reason = [text(&input["reason"]), &message(&input["message"], true)];
    let reason: Vec<&str> = reason
        .into_iter()
        .filter(|text| !text.is_empty() && *text != "-")
        .collect();
    let reason = match reason.is_empty() || state != "failing" {
        true => String::new(),
        false => format!(": {}", reason.join(": ")),
    };
    (text(&row["id"]).to_owned(), format!("{state}{name}{reason}"))
}
