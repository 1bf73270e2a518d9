//! The table: each figure, its target, and whether it was reached.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{fs, thread};

const HEADER: [&str; 5] = ["figure", "measured", "target", "", "in this run"];

#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<[String; 5]>,
    missed: bool,
}

impl Report {
    pub(crate) fn at_least(&mut self, figure: &str, value: f64, target: f64, detail: String) {
        let target_text = format!("≥ {target}");
        self.add(figure, format!("{value:.2}"), &target_text, value >= target, detail);
    }

    pub(crate) fn at_most(&mut self, figure: &str, value: f64, target: f64, unit: &str, detail: String) {
        let measured = format!("{value:.2}{unit}");
        self.add(figure, measured, &format!("≤ {target}{unit}"), value <= target, detail);
    }

    /// A figure whose rule is more than a comparison.
    pub(crate) fn add(&mut self, figure: &str, measured: String, target: &str, pass: bool, detail: String) {
        let verdict = if pass { "pass" } else { "MISS" };
        self.missed |= !pass;
        self.rows
            .push([figure.into(), measured, target.into(), verdict.into(), detail]);
    }

    /// A figure that cannot be measured on this machine.
    pub(crate) fn skip(&mut self, figure: &str, target: &str, why: String) {
        let row = [figure.into(), "-".into(), target.into(), "skipped".into(), why];
        self.rows.push(row);
    }

    pub(crate) fn missed(&self) -> bool {
        self.missed
    }

    /// A Markdown table that is aligned for those who read it in a terminal.
    pub(crate) fn table(&self) -> String {
        let mut lines = vec![HEADER.map(String::from)];
        lines.push(["---", "---:", "---:", "---", "---"].map(String::from));
        lines.extend(self.rows.iter().cloned());
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        let widths: [usize; 4] = std::array::from_fn(|column| width(column).unwrap_or(0));
        let mut out = String::new();
        for line in &lines {
            out.push('|');
            for (cell, width) in line.iter().zip(widths.into_iter().chain([0])) {
                let _ = write!(out, " {cell:<width$} |");
            }
            out.push('\n');
        }
        out
    }

    /// The page of the documentation; `dir` is where the databases were, `turns` how long each side was measured.
    pub(crate) fn page(&self, dir: &Path, turns: &str) -> String {
        PAGE.replace("{machine}", &machine(dir))
            .replace("{turns}", turns)
            .replace("{table}", &self.table())
    }
}

const PAGE: &str = "\
# Benchmarks

`make bench` measures these figures and writes this page (`cargo run --release -p bench -- --out docs/src/benchmarks.md`).
{machine}

{table}
## How to read it

The yardstick is a bare axum server in a process of its own that answers every request with one constant gzipped body,
as long as the average reply of the fleet. It looks nothing up, checks no token, counts nothing and logs nothing. The
product is the release binary with its logs as shipped, on SQLite, with a fleet that is the same in every run: 20
components in the catalog and 15 to 20 of them on each cluster, 15 namespaces, 10 rolebindings and 3 patched components.
Polls are of 10,000 clusters. Before anything is timed, every reply is polled once and its inputs are counted; a reply
that is not 200 ends the run.

Polls carry the headers of Flux Operator and go to random clusters and kinds, 64 at a time. With *kept connections* the
next poll goes over the same connection. *One connection per poll* is what Flux does: connect, poll, and leave the
connection idle unless the reply says that it is closed (the youngest 4,096 are left open, then the oldest is closed).

Loader and server share the cores, so polls per second say little beyond this machine, and latency is mostly the queue of
the other 63. Ratios say more: the two sides take turns ({turns}), and a ratio is the median of the turns'. CPU per
poll is the server's user and system time over its polls, without the loader.

Memory is the resident set after every reply was polled once. Commits are `PATCH` requests that each change one cluster.
Syncs are the calls of fsync and fdatasync by threads that commit, counted by strace; each checkpoint allows for one more,
because SQLite then starts its log anew.

*Seen on four replicas* is how long after the acknowledgement of a write the last of four read-only processes answers a poll
with it; the five processes share a PostgreSQL server, which is started for it in a temporary folder, on this machine. *Revocation* is the same for
tokens of clusters: from the acknowledgement of the revocation until the last of the four refuses a poll.

*A cluster's own token*: every cluster has a token, and the two sides are polls of the same server, with these tokens and with the shared one. *Memory of
each of 1000000 identities*: the resident set of a server that has started on a store with a million clusters, each with a token, minus that of one on
the same store before the tokens were issued.

*TLS, one connection per poll*: the yardstick is rustls as it comes and axum on top, with the same certificate (P-256). Every poll makes a full handshake
of TLS 1.3, without resumption, as those of Flux Operator do. The loader shares the cores and does the client's half of each handshake.

*The first page* of the dashboard is asked for by a client that unpacks gzip, after every cluster was polled once. *Polls beside 500 open pages*: each page listens to its stream
and is read again when counts or revision change, with the pauses that the script makes; a cluster is changed once a second. The target is what polls keep of their rate. Polls come first: with polls that use every core, pages wait.

*64 heavy readers* have a read token and ask, without pause, for what costs most: pages of the log with 200 changes of half a
megabyte and more, differences over all of it, whole lists, histories and manifests. What they add is the peak of the resident set over the
resident set before. The polls beside them are 8 at a time.

`cargo run --release -p bench -- --self-check` puts a second yardstick in the place of the product: how far its ratios are
from 1 is the noise of the machine.
";

pub(crate) fn machine(dir: &Path) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("an unknown CPU", |(_, model)| model.trim());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let df = Command::new("df").arg("--output=fstype").arg(dir).output();
    let df = df
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let filesystem = df.lines().nth(1).unwrap_or("an unknown file system");
    format!(
        "Machine: {cores} cores of {model}, Linux {}, database on {filesystem}.",
        kernel.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missed_target_is_a_failure() {
        let mut report = Report::default();
        report.at_least("a", 0.8, 0.8, String::new());
        report.at_most("b", 1.3, 1.3, "", String::new());
        report.skip("c", "1", "no strace".into());
        assert!(!report.missed());
        report.at_most("d", 64.1, 64.0, " MiB", String::new());
        assert!(report.missed());
        assert!(
            report
                .table()
                .contains("| d      | 64.10 MiB | ≤ 64 MiB | MISS    |  |"),
            "{}",
            report.table()
        );
    }
}
