//! How much was done: counts by name, and how long requests took.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Mutex<BTreeMap<&'static str, u64>>,
    times: Mutex<BTreeMap<&'static str, Times>>,
}

/// Durations in buckets that are 10 % apart: small whatever the run's length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    buckets: BTreeMap<u16, u64>,
    pub(crate) count: u64,
    pub(crate) most: Duration,
}

const STEP: f64 = 1.1;

impl Times {
    fn add(&mut self, time: Duration) {
        let micros = time.as_micros().max(1) as f64;
        let bucket = (micros.ln() / STEP.ln()).ceil() as u16;
        *self.buckets.entry(bucket).or_default() += 1;
        self.count += 1;
        self.most = self.most.max(time);
    }

    /// The time that this share of all requests did not exceed, rounded up to a bucket.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let rank = (self.count as f64 * percent / 100.0).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                let upper = Duration::from_micros(STEP.powi(i32::from(*bucket)) as u64);
                return upper.min(self.most);
            }
        }
        self.most
    }
}

impl Tally {
    pub(crate) fn count(&self, name: &'static str) {
        self.add(name, 1);
    }

    pub(crate) fn add(&self, name: &'static str, number: u64) {
        *self
            .counts
            .lock()
            .expect("no panic while it is held")
            .entry(name)
            .or_default() += number;
    }

    pub(crate) fn time(&self, name: &'static str, time: Duration) {
        let mut times = self.times.lock().expect("no panic while it is held");
        times.entry(name).or_default().add(time);
    }

    pub(crate) fn get(&self, name: &str) -> u64 {
        self.counts().get(name).copied().unwrap_or_default()
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().expect("no panic while it is held").clone()
    }

    pub(crate) fn times(&self) -> BTreeMap<&'static str, Times> {
        self.times.lock().expect("no panic while it is held").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_bucket_of_the_truth() {
        let mut times = Times::default();
        for micros in 1..=1000 {
            times.add(Duration::from_micros(micros));
        }
        let near = |percent: f64, micros: u64| {
            let found = times.percentile(percent).as_micros() as u64;
            assert!((micros..=micros * 111 / 100).contains(&found), "{percent}: {found}");
        };
        near(50.0, 500);
        near(99.0, 990);
        assert_eq!(times.percentile(100.0), Duration::from_millis(1));
    }
}
