//! Waiting for a cluster's replies to change: what the reporter holds open so that it can nudge Flux.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fleet::Fleet;
use fleet::document::Etag;
use fleet::log::Revision;
use fleet::snapshot::Cluster;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::App;

/// How many clusters learn of one revision at once. The others follow, spread over [`SPREAD`]: what they do next is to poll.
const AT_ONCE: usize = 100;
const SPREAD: Duration = Duration::from_secs(10);

/// The replies of a cluster, by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Identifies them all.
    pub since: Etag,
    pub paths: BTreeMap<String, Etag>,
}

/// Those who wait.
#[derive(Debug)]
pub struct Waiting {
    places: Arc<Semaphore>,
    /// The last revision that somebody learnt of, and how many did.
    told: Mutex<(Revision, usize)>,
}

impl Waiting {
    pub fn new(most: usize) -> Self {
        Waiting {
            places: Arc::new(Semaphore::new(most)),
            told: Mutex::default(),
        }
    }

    /// How long a cluster has to wait before it learns of a revision.
    fn delay(&self, revision: Revision, cluster: &str) -> Duration {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.0 != revision {
            *told = (revision, 0);
        }
        told.1 += 1;
        if told.1 <= AT_ONCE {
            return Duration::ZERO;
        }
        let mut hasher = DefaultHasher::new();
        (cluster, revision).hash(&mut hasher);
        SPREAD * u32::try_from(hasher.finish() % 1000).unwrap_or_default() / 1000
    }
}

impl App {
    /// Waits until the replies of the cluster at `dns` are not those of `since`, or for a while. None: there is no such cluster.
    /// Err: too many wait.
    pub async fn changed(
        &self,
        dns: &str,
        since: Option<Etag>,
        patience: Duration,
    ) -> Result<Option<Changed>, Crowded> {
        let mut served = self.engine.served();
        let Some((mut known, mut current)) = self.replies_at(dns) else {
            return Ok(None);
        };
        if since != Some(current.since) {
            return Ok(Some(current));
        }
        let Ok(_place) = self.waiting.places.clone().try_acquire_owned() else {
            return Err(Crowded);
        };
        let until = Instant::now() + patience;
        loop {
            tokio::select! {
                moved = served.changed() => if moved.is_err() { return Ok(Some(current)) },
                () = tokio::time::sleep_until(until) => return Ok(Some(current)),
                () = self.stops() => return Ok(Some(current)),
            }
            let fleet = self.fleet();
            match fleet.cluster_at(dns) {
                // No reply of this cluster was made again.
                Some(now) if known.is(&fleet, now) => continue,
                _ => {}
            }
            let Some((now, replies)) = self.replies_at(dns) else {
                return Ok(None);
            };
            known = now;
            if replies.since != current.since {
                let delay = self.waiting.delay(fleet.revision(), &known.cluster.document().id);
                if !delay.is_zero() {
                    tokio::time::sleep_until((Instant::now() + delay).min(until)).await;
                }
                return Ok(self.replies_at(dns).map(|(_, replies)| replies));
            }
            current = replies;
        }
    }

    fn replies_at(&self, dns: &str) -> Option<(Known, Changed)> {
        let fleet = self.fleet();
        let cluster = fleet.cluster_at(dns)?;
        let known = Known {
            cluster: cluster.clone(),
            catalog: fleet.catalog(),
            rollouts: fleet.rollouts().stamp(),
        };
        Some((known, replies(&fleet, cluster)))
    }
}

/// What the replies of a cluster were made of. Nothing that equals it makes other ones.
struct Known {
    cluster: Arc<Cluster>,
    /// Kinds, definitions and profiles.
    catalog: u64,
    /// The state of the rollouts.
    rollouts: u64,
}

impl Known {
    fn is(&self, fleet: &Fleet, cluster: &Arc<Cluster>) -> bool {
        Arc::ptr_eq(&self.cluster, cluster)
            && fleet.has_same_catalog(self.catalog, cluster)
            && self.rollouts == fleet.rollouts().stamp()
    }
}

/// Too many clients wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowded;

fn replies(fleet: &Fleet, cluster: &Cluster) -> Changed {
    let paths = fleet.kinds().definitions().filter_map(|kind| {
        let path = kind.path.clone()?;
        Some((path, fleet.plain_etag(cluster, kind).unwrap_or(Etag(0))))
    });
    let paths: BTreeMap<_, _> = paths.collect();
    let mut text = String::new();
    for (path, digest) in &paths {
        text.push_str(path);
        text.push_str(&digest.to_string());
    }
    Changed {
        since: Etag::of_bytes(text.as_bytes()),
        paths,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_learn_of_a_change_at_once_and_the_others_are_spread() {
        let waiting = Waiting::new(1);
        for revision in [Revision(7), Revision(8)] {
            let delays: Vec<_> = (0..1100).map(|n| waiting.delay(revision, &format!("c{n}"))).collect();
            let (first, rest) = delays.split_at(AT_ONCE);
            assert!(first.iter().all(Duration::is_zero));
            assert!(rest.iter().all(|delay| *delay < SPREAD));
            // Evenly, more or less.
            for second in 0..10 {
                let within = rest.iter().filter(|delay| delay.as_secs() == second).count();
                assert!((50..200).contains(&within), "{within} in second {second}");
            }
        }
    }
}
