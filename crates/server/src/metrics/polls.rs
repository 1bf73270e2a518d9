//! Polls, by kind and status, and how long they take.
//!
//! Nearly all requests are polls, and every thread answers them: counters that all threads share would cost more than a poll's lookup.
//! So each thread counts in a part of its own, and a scrape adds the parts up.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::SECONDS;

/// How many parts there are. With more threads than this, some share one.
const PARTS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Labels {
    kind: String,
    status: u16,
}

/// Aligned, so that no two threads write to the same cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Few: a search is quicker than a hash.
    polls: Vec<(Labels, u64)>,
    seconds: f64,
    /// The last one is for what is longer than all bounds.
    buckets: [u64; SECONDS.len() + 1],
}

/// How many polls there were, and how long they took.
#[derive(Debug, Default)]
pub struct Polls([Part; PARTS]);

impl Polls {
    pub fn count(&self, kind: &str, status: StatusCode, elapsed: Duration) {
        let (status, seconds) = (status.as_u16(), elapsed.as_secs_f64());
        let mut counts = self.part();
        let is_it = |(labels, _): &&mut (Labels, u64)| labels.status == status && labels.kind == kind;
        match counts.polls.iter_mut().find(is_it) {
            Some((_, count)) => *count += 1,
            None => {
                let kind = kind.to_owned();
                counts.polls.push((Labels { kind, status }, 1));
            }
        }
        counts.seconds += seconds;
        let bucket = SECONDS.iter().position(|bound| seconds <= *bound);
        counts.buckets[bucket.unwrap_or(SECONDS.len())] += 1;
    }

    /// The part of this thread.
    fn part(&self) -> MutexGuard<'_, Counts> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static PART: usize = NEXT.fetch_add(1, Ordering::Relaxed) % PARTS;
        }
        lock(&self.0[PART.with(|part| *part)])
    }
}

fn lock(part: &Part) -> MutexGuard<'_, Counts> {
    part.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Collector for Polls {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (mut polls, mut seconds, mut buckets) = (BTreeMap::<Labels, u64>::new(), 0.0, [0; SECONDS.len() + 1]);
        for part in &self.0 {
            let counts = lock(part);
            for (labels, count) in &counts.polls {
                *polls.entry(labels.clone()).or_default() += count;
            }
            seconds += counts.seconds;
            for (sum, count) in buckets.iter_mut().zip(counts.buckets) {
                *sum += count;
            }
        }
        let help = "Polls by Flux, by kind and status.";
        let mut counter = encoder.encode_descriptor("polls", help, None, MetricType::Counter)?;
        for (labels, count) in &polls {
            let mut family = counter.encode_family(labels)?;
            family.encode_counter::<NoLabelSet, u64, u64>(count, None)?;
        }
        let bounds = SECONDS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(buckets).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let mut histogram = encoder.encode_descriptor(
            "poll_duration_seconds",
            "Duration of polls.",
            None,
            MetricType::Histogram,
        )?;
        histogram.encode_histogram::<NoLabelSet>(seconds, count, &buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_scrape_has_the_polls_of_all_threads() {
        let polls = std::sync::Arc::<Polls>::default();
        std::thread::scope(|threads| {
            for _ in 0..2 * PARTS {
                threads.spawn(|| {
                    polls.count("namespaces", StatusCode::OK, Duration::from_micros(20));
                    polls.count("none", StatusCode::NOT_FOUND, Duration::from_secs(6));
                });
            }
        });
        let mut registry = Registry::with_prefix("flux");
        registry.register_collector(Box::new(polls));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "# HELP flux_polls Polls by Flux, by kind and status.",
            "# TYPE flux_polls counter",
            "flux_polls_total{kind=\"namespaces\",status=\"200\"} 32",
            "flux_polls_total{kind=\"none\",status=\"404\"} 32",
            "# TYPE flux_poll_duration_seconds histogram",
            "flux_poll_duration_seconds_count 64",
            "flux_poll_duration_seconds_bucket{le=\"0.00005\"} 32",
            "flux_poll_duration_seconds_bucket{le=\"5.0\"} 32",
            "flux_poll_duration_seconds_bucket{le=\"+Inf\"} 64",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
