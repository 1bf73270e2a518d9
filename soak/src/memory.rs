//! Resident memory and open files of every process over time. Both must be flat.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::process::Usage;
use crate::run::Run;

const EVERY: Duration = Duration::from_secs(5);
/// How much a steady process may grow between the second quarter and the last.
const GROWTH: f64 = 1.10;
const GROWTH_BYTES: f64 = (8 << 20) as f64;
const MORE_FILES: usize = 32;
/// The fewest samples at quiet points that show growth.
const ENOUGH: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Samples>);

#[derive(Debug, Default)]
struct Samples {
    last: Option<Instant>,
    processes: BTreeMap<String, Vec<Sample>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) usage: Usage,
    /// Taken at a quiet point.
    pub(crate) quiet: bool,
}

impl Memory {
    /// Takes a sample of every process, now and then or at a quiet point.
    pub(crate) fn sample(&self, run: &Run, quiet: bool) {
        let mut samples = self.0.lock().expect("no panic while it is held");
        if !quiet && samples.last.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        samples.last = Some(Instant::now());
        let at = run.begun.elapsed();
        for process in run.sites.iter().flat_map(|site| &site.processes) {
            if let Some(usage) = process.usage() {
                let all = samples.processes.entry(process.name.clone()).or_default();
                all.push(Sample { at, usage, quiet });
            }
        }
    }

    pub(crate) fn of(&self, process: &str) -> Vec<Sample> {
        let samples = self.0.lock().expect("no panic while it is held");
        samples.processes.get(process).cloned().unwrap_or_default()
    }

    /// Compares the quiet points of the last quarter with those of the second, for processes that ran all the time.
    pub(crate) fn judge(&self, run: &Run) {
        for process in run
            .sites
            .iter()
            .flat_map(|site| &site.processes)
            .filter(|process| process.steady)
        {
            let samples = self.of(&process.name);
            let quiet: Vec<Usage> = samples.iter().filter(|one| one.quiet).map(|one| one.usage).collect();
            if quiet.len() < ENOUGH {
                run.tally
                    .count("processes whose memory was not judged: too few quiet points");
                continue;
            }
            if let Err(problem) = is_flat(&quiet) {
                run.findings
                    .add("memory and files stay flat", format!("{}: {problem}", process.name));
            }
        }
    }
}

fn is_flat(quiet: &[Usage]) -> Result<(), String> {
    let quarter = quiet.len() / 4;
    let (early, late) = (&quiet[quarter..2 * quarter], &quiet[quiet.len() - quarter..]);
    let resident = |part: &[Usage]| median(part.iter().map(|one| one.resident).collect());
    let files = |part: &[Usage]| median(part.iter().map(|one| one.files as u64).collect()) as usize;
    let (before, after) = (resident(early), resident(late));
    if after as f64 > before as f64 * GROWTH + GROWTH_BYTES {
        return Err(format!(
            "resident memory grew from {} to {} MiB",
            before >> 20,
            after >> 20
        ));
    }
    let (before, after) = (files(early), files(late));
    if after > before + MORE_FILES {
        return Err(format!("open files grew from {before} to {after}"));
    }
    Ok(())
}

pub(crate) fn median(mut numbers: Vec<u64>) -> u64 {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usages(megabytes: impl Iterator<Item = u64>, files: usize) -> Vec<Usage> {
        megabytes
            .map(|megabytes| Usage {
                resident: megabytes << 20,
                files,
            })
            .collect()
    }

    #[test]
    fn growth_after_the_first_quarter_is_found() {
        assert_eq!(is_flat(&usages((0..20).map(|_| 100), 10)), Ok(()));
        // Growth while a process warms up is ignored.
        assert_eq!(
            is_flat(&usages((0..20).map(|n| if n < 5 { 20 } else { 100 }), 10)),
            Ok(())
        );
        assert!(is_flat(&usages((0..20).map(|n| 100 + 2 * n), 10)).is_err());
        let mut files = usages((0..20).map(|_| 100), 10);
        files[15..].iter_mut().for_each(|one| one.files = 100);
        assert!(is_flat(&files).is_err());
    }
}
