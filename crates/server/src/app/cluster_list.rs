//! The list of clusters that provisioners poll.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use fleet::Fleet;
use fleet::inputs::{Breach, Reply, cluster_list};
use fleet::log::Head;
use fleet::refusal::quote;
use fleet::selector::{Selector, SelectorError};

use super::App;
use super::reads::{Class, Stop, Turn};

/// The most replies that are kept. When there are more, all are dropped: most fleets have a few provisioners.
const MOST_KEPT: usize = 64;

/// The replies, each with the state of the clusters that it was made for.
pub(super) type Cache = Mutex<HashMap<ClusterQuery, (Head, Reply)>>;

/// Which clusters are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterQuery {
    pub environment: Option<String>,
    pub selector: Option<String>,
    /// Part `0` of `1` parts.
    pub shard: Option<(u32, u32)>,
}

/// Why the list cannot be made.
#[derive(Debug)]
pub enum ClusterListError {
    /// The cluster kind has no such environment.
    UnknownEnvironment(String),
    Selector(SelectorError),
    /// Flux would refuse the reply, or cut it off.
    Breach(Breach),
    /// There never was a cluster.
    NoFleet,
    /// The list may lack damaged rows of the store.
    Damaged,
    Stopped(Stop),
}

impl From<Stop> for ClusterListError {
    fn from(stop: Stop) -> Self {
        ClusterListError::Stopped(stop)
    }
}

impl App {
    /// The list of clusters. It may read the whole fleet, so it waits for a place among the heavy reads.
    pub async fn cluster_list(self: &Arc<Self>, query: ClusterQuery) -> Result<Reply, ClusterListError> {
        let fleet = self.fleet();
        check_environment(&fleet, &query)?;
        if fleet.may_lack_names() {
            return Err(ClusterListError::Damaged);
        }
        // An empty store, by a wrong DATABASE_URL for example, must not make provisioners delete all clusters.
        if fleet.clusters().is_empty() && fleet.decommissions().is_empty() && fleet.released_names().is_empty() {
            return Err(ClusterListError::NoFleet);
        }
        self.read(Class::Flux, move |app, turn| app.make_cluster_list(&query, turn))
            .await?
    }

    /// Makes the list once for each state of the clusters.
    fn make_cluster_list(&self, query: &ClusterQuery, turn: &Turn) -> Result<Reply, ClusterListError> {
        let fleet = self.fleet();
        let state = fleet.clusters_changed();
        // Checked each time: a label that it names may no longer exist.
        let selector = query.selector.as_deref();
        let selector = selector.map(|text| Selector::for_fleet(text, &fleet)).transpose();
        let selector = selector.map_err(ClusterListError::Selector)?;
        let kept = self.cluster_lists.lock().expect("not poisoned").get(query).cloned();
        if let Some((_, reply)) = kept.filter(|(at, _)| *at == state) {
            return Ok(reply);
        }
        let kind = fleet.kinds().clusters();
        let matcher = selector.as_ref().zip(kind).map(|(selector, kind)| selector.on(kind));
        let environment = query.environment.as_deref();
        let clusters = fleet.clusters().values().filter(|cluster| {
            environment.is_none_or(|environment| &*cluster.head().environment == environment)
                && query
                    .shard
                    .is_none_or(|(part, parts)| shard_of(&cluster.document().id, parts) == part)
                && matcher.as_ref().is_none_or(|matcher| matcher.matches(cluster))
        });
        let clusters: Vec<_> = turn.until_stopped(clusters).collect::<Result<_, Stop>>()?;
        let body = cluster_list(clusters.into_iter().map(AsRef::as_ref)).map_err(ClusterListError::Breach)?;
        let reply = Reply::new(&body);
        let mut kept = self.cluster_lists.lock().expect("not poisoned");
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(query.clone(), (state, reply.clone()));
        Ok(reply)
    }
}

fn check_environment(fleet: &Fleet, query: &ClusterQuery) -> Result<(), ClusterListError> {
    let Some(environment) = &query.environment else {
        return Ok(());
    };
    let kind = fleet.kinds().clusters();
    let options = kind.and_then(|kind| kind.schema["properties"]["environment"]["enum"].as_array());
    match options.is_some_and(|options| !options.iter().any(|option| option == environment.as_str())) {
        true => Err(ClusterListError::UnknownEnvironment(quote(environment).into_owned())),
        false => Ok(()),
    }
}

/// The shard of a cluster: FNV-1a over its id. It must never change: a cluster that moves to another shard is
/// garbage-collected by the provider of the old one.
fn shard_of(id: &str, parts: u32) -> u32 {
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    u32::try_from(hash % u64::from(parts)).expect("less than parts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_never_move() {
        assert_eq!(shard_of("demo-cluster-01", 4), 3);
        assert_eq!(shard_of("us-east-prod-01", 4), 3);
        assert_eq!(shard_of("", 7), 2);
    }
}
