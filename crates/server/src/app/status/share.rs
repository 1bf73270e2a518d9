//! Sharing evidence with other processes, and keeping it over a restart.
//!
//! What a state depends on is written within a second or so. That clusters polled again is written now and then: it counts only for
//! who is silent. The task rests many times as long as it works, so that a large fleet makes it slower and not greedier.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::status::Evidence;
use store::{EvidenceRow, SharedEvidence, StoreError};
use tracing::warn;

use super::App;
use super::evidence_map::Unsaved;

/// The shortest time between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// The share of time that this may take.
const REST: u32 = 20;
/// How long to rest between two parts, as a multiple of the time that a part takes.
const PAUSE: u32 = 10;
/// How many clusters are written at a time.
const PART: usize = 2_000;
/// How often the times of polls are written: this long for each thousand clusters, within bounds.
const TIMES_PER_THOUSAND: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_secs(5);
/// How long to wait after an error.
const RETRY: Duration = Duration::from_secs(10);
/// How long writing at the end may take.
const LAST: Duration = Duration::from_secs(5);

/// Shares evidence until the server stops.
pub async fn share(app: Arc<App>, table: Arc<dyn SharedEvidence>) {
    let mut failed = false;
    let mut times_written = Instant::now();
    loop {
        let begun = Instant::now();
        let longest = app.silent_after / 4;
        let thousands = u32::try_from(app.evidence.len() / 1000).unwrap_or(u32::MAX);
        let interval = (TIMES_PER_THOUSAND.saturating_mul(thousands)).clamp(SHORTEST.min(longest), longest);
        let with_times = times_written.elapsed() >= interval;
        if with_times {
            times_written = Instant::now();
        }
        let result = exchange(&app, &*table, with_times).await;
        app.metrics.evidence_shared.set(result.is_ok().into());
        let rest = match &result {
            Ok(()) => (begun.elapsed() * REST).max(EVERY),
            Err(error) => {
                if !failed {
                    warn!(%error, "evidence of clusters stays in this process");
                }
                RETRY
            }
        };
        failed = result.is_err();
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = app.stops() => break,
        }
    }
    let last = async {
        app.evidence.collect(&app.fleet());
        let _lost = exchange(&app, &*table, true).await;
        table.close().await;
    };
    let _late = tokio::time::timeout(LAST, last).await;
}

/// Reads what others know, and writes what they do not.
async fn exchange(app: &App, table: &dyn SharedEvidence, with_times: bool) -> Result<(), StoreError> {
    loop {
        let news = table.news().await?;
        if news.is_empty() {
            break;
        }
        let fleet = app.fleet();
        for (id, body) in news {
            // Of a later release, or damaged: the cluster tells it again.
            let Ok(evidence) = serde_json::from_str::<Evidence>(&body) else {
                continue;
            };
            // The id of the fleet, so that memory is shared.
            if let Some(cluster) = fleet.cluster(&id) {
                app.evidence.merge(&cluster.document().id, evidence);
            }
        }
        tokio::task::yield_now().await;
    }
    let least = if with_times { Unsaved::Times } else { Unsaved::Content };
    loop {
        let begun = Instant::now();
        let unsaved = app.evidence.take_unsaved(least, PART);
        if unsaved.is_empty() {
            break;
        }
        let rows: Vec<EvidenceRow> = unsaved
            .iter()
            .filter_map(|(id, evidence)| Some((id.clone(), serde_json::to_string(evidence).ok()?)))
            .collect();
        if let Err(error) = table.put(&rows).await {
            app.evidence.put_back(unsaved.iter().map(|(id, _)| id));
            return Err(error);
        }
        if unsaved.len() >= PART {
            tokio::time::sleep(begun.elapsed() * PAUSE).await;
        }
    }
    let forgotten = app.evidence.take_forgotten();
    if !forgotten.is_empty() {
        table.remove(&forgotten).await?;
    }
    Ok(())
}
