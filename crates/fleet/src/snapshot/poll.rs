//! What a poll is answered, and whether a reply would break the contract with Flux.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::{Cluster, Fleet, lower_case};
use crate::damage::Damage;
use crate::inputs::{self, Breach, MAX_INPUTS, MAX_REPLY_BYTES, Reply};
use crate::kind::{KINDS, Kind, PROFILES};

/// The answer to a poll.
#[derive(Clone, Debug)]
pub enum Poll {
    Reply(Reply),
    UnknownCluster,
    UnknownKind,
    /// The stored documents would break the contract: no answer is better than a wrong one.
    Breach(Breach),
    /// The store is damaged, and the answer may depend on a damaged row.
    Damaged,
}

/// A DNS name that was looked up: who may poll it, and what is answered.
#[derive(Debug)]
pub struct Named<'a> {
    fleet: &'a Fleet,
    /// In lower case.
    dns: Cow<'a, str>,
    cluster: Option<&'a Arc<Cluster>>,
}

impl Named<'_> {
    /// Whether the name is the cluster's: the one that it has, or the one that it was decommissioned with.
    pub fn is_of(&self, cluster: &str) -> bool {
        match self.cluster {
            Some(holder) => &*holder.document().id == cluster,
            None => self.fleet.decommissioned_cluster(&self.dns).as_deref() == Some(cluster),
        }
    }

    /// The inputs of the kind at `path`.
    pub fn poll(&self, path: &str) -> Poll {
        let fleet = self.fleet;
        if fleet.damage().is_some_and(Damage::hides_everything) {
            return Poll::Damaged;
        }
        let Some(kind) = fleet.kinds.at_path(path) else {
            return match fleet.is_damaged(KINDS) {
                true => Poll::Damaged,
                false => Poll::UnknownKind,
            };
        };
        match self.cluster {
            Some(cluster) if fleet.is_damaged(&kind.name) && fleet.dangles(cluster, kind) => Poll::Damaged,
            // The missing profile may bring something to any cluster.
            Some(_) if fleet.is_damaged(PROFILES) => Poll::Damaged,
            Some(cluster) => match fleet.reply(cluster, kind) {
                Ok(reply) => Poll::Reply(reply.clone()),
                Err(breach) => Poll::Breach(breach.clone()),
            },
            None if fleet.decommissions.contains_key(&*self.dns) => Poll::Reply(Reply::empty().clone()),
            None if fleet.may_lack_names() => Poll::Damaged,
            None => Poll::UnknownCluster,
        }
    }
}

impl Fleet {
    /// Looks up a DNS name, once for all questions about it.
    pub fn named<'a>(&'a self, dns: &'a str) -> Named<'a> {
        let dns = lower_case(dns);
        let cluster = self.by_dns.get(&*dns);
        Named {
            fleet: self,
            dns,
            cluster,
        }
    }

    /// The inputs of the kind at `path` for the cluster with this DNS name.
    pub fn poll(&self, dns: &str, path: &str) -> Poll {
        self.named(dns).poll(path)
    }

    /// Whether an unknown DNS name may belong to a damaged row.
    pub fn may_lack_names(&self) -> bool {
        let is_definition = |kind: &str| kind == PROFILES || self.definitions.contains_key(kind);
        self.damage().is_some_and(|damage| damage.hides_names(is_definition))
    }

    /// Whether the cluster refers to a missing definition.
    fn dangles(&self, cluster: &Cluster, kind: &Kind) -> bool {
        let document: Value = cluster.effective_for(kind);
        let definitions = self.definitions.get(&kind.name);
        let is_there = |id| definitions.is_some_and(|definitions| definitions.get(id).is_some());
        let mut ids = inputs::references(kind, &document).iter().map(inputs::reference_id);
        ids.any(|id| !is_there(id))
    }

    fn reply<'a>(&'a self, cluster: &'a Cluster, kind: &Kind) -> Result<&'a Reply, &'a Breach> {
        let (Some(list), Some(definitions)) = (cluster.list(&kind.name), self.definitions.get(&kind.name)) else {
            return Ok(Reply::empty());
        };
        list.reply
            .get_or_init(|| inputs::reply(kind, cluster, definitions))
            .as_ref()
    }

    /// How the cluster's reply for `kind` would break the contract, if it would. Cheap in all but extreme cases: the reply is
    /// created only if a bound says that it might be too large.
    pub(crate) fn breach(&self, cluster: &Cluster, kind: &Kind) -> Option<Breach> {
        // Per input: the definition, the cluster block, and the names of carried and nested fields. What the cluster and its profiles
        // add (overrides, patches) is in their documents, once.
        const PER_INPUT: usize = 128;
        let list = cluster.list(&kind.name)?;
        let definitions = self.definitions.get(&kind.name)?;
        let head = cluster.head();
        let labels = head.labels.iter().map(|(name, value)| name.len() + value.len() + 1);
        let labels: usize = if kind.flux.cluster_labels.is_empty() {
            0
        } else {
            labels.sum()
        };
        let block =
            PER_INPUT + 6 * (head.name.len() + head.dns.len() + head.environment.len() + labels) + kind.carried_len();
        let own = cluster.document().body.as_str().len() + cluster.merged_profiles().bytes(kind);
        let bound = list.count * (definitions.longest + block) + own + 64;
        if bound <= MAX_REPLY_BYTES && list.count <= MAX_INPUTS {
            return None;
        }
        inputs::body(kind, cluster, definitions).err()
    }
}
