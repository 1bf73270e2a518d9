//! What went wrong: each kind of finding with its count and its first examples.

use std::collections::BTreeMap;
use std::sync::Mutex;

const EXAMPLES: usize = 5;

#[derive(Debug, Default)]
pub(crate) struct Findings(Mutex<BTreeMap<&'static str, Found>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) count: usize,
    pub(crate) examples: Vec<String>,
}

impl Findings {
    /// Records a failed check, and prints it at once.
    pub(crate) fn add(&self, check: &'static str, detail: String) {
        let mut all = self.0.lock().expect("no panic while it is held");
        let found = all.entry(check).or_default();
        found.count += 1;
        if found.examples.len() < EXAMPLES {
            eprintln!("soak: FAILED: {check}: {detail}");
            found.examples.push(detail);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().expect("no panic while it is held").is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        let all = self.0.lock().expect("no panic while it is held");
        all.values().map(|found| found.count).sum()
    }

    pub(crate) fn all(&self) -> BTreeMap<&'static str, Found> {
        self.0.lock().expect("no panic while it is held").clone()
    }
}
