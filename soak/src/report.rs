//! The report: what was done, what was found, and how memory went, as Markdown.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use crate::memory::{Sample, median};
use crate::run::Run;

const PAGE: &str = "\
# Soak

`make soak` runs the release binary for an hour under everything at once: two `crud` processes and a `read-only` one on a SQLite file, two
and two on a PostgreSQL server, each with a fleet of its own. Polls, writes, streams and plans go on while processes are restarted and
killed, the database is stopped, paused and cut off, and attacks run in the background. It stays on the loopback interface, ends by
itself and cleans up.

```sh norun
make soak                  # an hour; writes this page
DURATION=10m make soak     # a shorter one
```

Checked all the time, and the command fails if one of these does not hold:

- No reply to a poll is shorter than acknowledged writes allow, on any process.
- Every acknowledged write is served by the process that acknowledged it, and is in the log, with the same document.
- Revisions have no gaps, streams neither gaps nor repetitions, and all agree on the digests.
- At quiet points all processes have the same head and the same replies, `verify` passes, and names that are gone answer as they should.
- A process on a copy of the database with one flipped bit gives no shorter list.
- Failures and 503 occur only while a fault is in progress or was less than 10 seconds ago. Nothing else is a 5xx.
- Resident memory and open files of processes that were never restarted stay flat: the median of the last quarter of quiet points is at most
  10 % and 8 MiB above that of the second quarter.
- No panic and no error in the logs.

The actors work from fixed seeds; the model that replies are compared with is in `soak/src/model.rs`.

## The last run

";

#[derive(Debug)]
pub(crate) struct Report(String);

impl Report {
    pub(crate) fn of(run: &Run) -> Report {
        let mut text = String::new();
        summary(&mut text, run);
        counts(&mut text, run);
        times(&mut text, run);
        memory(&mut text, run);
        findings(&mut text, run);
        Report(text)
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn page(&self) -> String {
        format!("{PAGE}{}", self.0)
    }
}

/// Writing to a string cannot fail.
macro_rules! put {
    ($text:expr, $($arguments:tt)*) => {
        let _infallible = writeln!($text, $($arguments)*);
    };
}

fn summary(text: &mut String, run: &Run) {
    let stores: Vec<&str> = run.sites.iter().map(|site| site.name).collect();
    let checked: u64 = run
        .sites
        .iter()
        .map(|site| site.ledger.lock().expect("no panic while it is held").checked)
        .sum();
    let verdict = match run.findings.is_empty() {
        true => "every check passed".to_owned(),
        false => format!("**{} checks failed**", run.findings.count()),
    };
    let minutes = run.duration.as_secs_f64() / 60.0;
    let build = run.sites[0].launch.binary.parent().and_then(Path::file_name);
    put!(
        text,
        "{minutes:.0} minutes of the {} build, {} clusters on each of {}, seed {}: {verdict}. {checked} acknowledged changes were found in the logs.\n",
        build.unwrap_or_default().display(),
        run.clusters,
        stores.join(" and "),
        run.seed
    );
}

fn counts(text: &mut String, run: &Run) {
    put!(text, "| done | times |\n|---|---:|");
    for (name, count) in run.tally.counts() {
        put!(text, "| {name} | {count} |");
    }
    put!(text, "");
}

fn times(text: &mut String, run: &Run) {
    put!(
        text,
        "| milliseconds | p50 | p99 | p99.9 | longest |\n|---|---:|---:|---:|---:|"
    );
    let shown = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    for (name, times) in run.tally.times() {
        let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|percent| shown(times.percentile(percent)));
        put!(text, "| {name} | {p50} | {p99} | {p999} | {} |", shown(times.most));
    }
    put!(
        text,
        "\nClients, servers and databases share one machine; failures during faults are not in these times.\n"
    );
}

/// Resident memory by eighths of the run.
fn memory(text: &mut String, run: &Run) {
    const PARTS: u32 = 8;
    let marks = (1..=PARTS).map(|part| format!(" {:.0} |", (run.duration * part / PARTS).as_secs_f64() / 60.0));
    put!(
        text,
        "| resident MiB until minute |{} open files |",
        marks.collect::<String>()
    );
    put!(text, "|---|{}---:|", "---:|".repeat(PARTS as usize));
    for process in run.sites.iter().flat_map(|site| &site.processes) {
        let samples = run.memory.of(&process.name);
        let part = |part: u32| -> Vec<u64> {
            let (from, to) = (run.duration * part / PARTS, run.duration * (part + 1) / PARTS);
            let within = |sample: &&Sample| from <= sample.at && sample.at < to;
            samples
                .iter()
                .filter(within)
                .map(|sample| sample.usage.resident >> 20)
                .collect()
        };
        let cells = (0..PARTS).map(|number| format!(" {} |", median(part(number))));
        let files = median(samples.iter().map(|sample| sample.usage.files as u64).collect());
        let steady = if process.steady { ", never restarted" } else { "" };
        put!(
            text,
            "| {}{steady} |{} {files} |",
            process.name,
            cells.collect::<String>()
        );
    }
    put!(text, "");
}

fn findings(text: &mut String, run: &Run) {
    for (check, found) in run.findings.all() {
        put!(text, "- **{check}**: failed {} times", found.count);
        for example in found.examples {
            put!(text, "  - `{}`", example.replace('`', "'"));
        }
    }
}
