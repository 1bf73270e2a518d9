//! What a poll is answered, and whether a reply would break the contract with Flux.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::cluster::List;
use super::{Cluster, Definitions, Fleet, lower_case};
use crate::damage::Damage;
use crate::document::Etag;
use crate::inputs::{self, Body, Breach, Form, MARK_BYTES, MAX_INPUTS, MAX_REPLY_BYTES, Reply};
use crate::kind::{KINDS, Kind, PROFILES};

/// The answer to a poll, or `Poll<Bytes>` for one who only looks: the body.
#[derive(Clone, Debug)]
pub enum Poll<T = Reply> {
    Reply(T),
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
    /// The cluster that has the name.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster
    }

    /// Whether a cluster has the name, or had it when it was decommissioned.
    pub fn exists(&self) -> bool {
        self.cluster.is_some() || self.fleet.decommissions.contains_key(&*self.dns)
    }

    /// Whether the name is the cluster's: the one that it has, or the one that it was decommissioned with.
    pub fn is_of(&self, cluster: &str) -> bool {
        match self.cluster {
            Some(holder) => &*holder.document().id == cluster,
            None => self.fleet.decommissioned_cluster(&self.dns).as_deref() == Some(cluster),
        }
    }

    /// The inputs of the kind at `path`, for a client that will ask for this form again.
    pub fn poll(&self, path: &str, form: Form) -> Poll {
        self.answer(path, Reply::clone, |cluster, kind| {
            self.fleet.reply(cluster, kind, form)
        })
    }

    /// The body of that reply. The cluster's reply stays cached in the form in which the cluster polls it.
    pub fn read(&self, path: &str, form: Form) -> Poll<Bytes> {
        self.answer(path, Reply::identity, |cluster, kind| {
            self.fleet.text(cluster, kind, form)
        })
    }

    /// `empty` converts the reply without inputs, `make` makes that of a cluster.
    fn answer<T>(
        &self,
        path: &str,
        empty: impl FnOnce(&Reply) -> T,
        make: impl FnOnce(&Cluster, &Kind) -> Option<Result<T, Breach>>,
    ) -> Poll<T> {
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
            Some(cluster) => match make(cluster, kind) {
                Some(Ok(reply)) => Poll::Reply(reply),
                Some(Err(breach)) => Poll::Breach(breach),
                None => Poll::Reply(empty(Reply::empty())),
            },
            None if fleet.decommissions.contains_key(&*self.dns) => Poll::Reply(empty(Reply::empty())),
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

    /// The inputs of the kind at `path` for the cluster with this DNS name, in the plain form.
    pub fn poll(&self, dns: &str, path: &str) -> Poll {
        self.named(dns).poll(path, Form::Plain)
    }

    /// The ETag of the plain form of a cluster's reply: what names the content, whichever form the cluster polls. From the cached
    /// reply if there is one.
    pub fn plain_etag(&self, cluster: &Cluster, kind: &Kind) -> Result<Etag, Breach> {
        self.reply_outline(cluster, kind).map(|(etag, _)| etag)
    }

    /// The same, and whether an input of the reply is turned on.
    pub fn reply_outline(&self, cluster: &Cluster, kind: &Kind) -> Result<(Etag, bool), Breach> {
        let Some((list, definitions)) = self.list(cluster, kind) else {
            return Ok((Reply::empty().plain, false));
        };
        list.reply.outline().unwrap_or_else(|| {
            let body = Body::new(kind, cluster, definitions, Form::Plain)?;
            Ok((body.plain_etag(), body.is_active()))
        })
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

    /// The references of a cluster to a kind, and what they refer to. None: the reply is empty.
    fn list<'a>(&'a self, cluster: &'a Cluster, kind: &Kind) -> Option<(&'a List, &'a Definitions)> {
        cluster.list(&kind.name).zip(self.definitions.get(&kind.name))
    }

    fn reply(&self, cluster: &Cluster, kind: &Kind, form: Form) -> Option<Result<Reply, Breach>> {
        let (list, definitions) = self.list(cluster, kind)?;
        let made = list.reply.get(form).unwrap_or_else(|| {
            let made = Body::new(kind, cluster, definitions, form).map(|body| body.to_reply());
            list.reply.fill(&made);
            made
        });
        Some(made)
    }

    fn text(&self, cluster: &Cluster, kind: &Kind, form: Form) -> Option<Result<Bytes, Breach>> {
        let (list, definitions) = self.list(cluster, kind)?;
        Some(match list.reply.get(form) {
            Some(made) => made.map(|reply| reply.identity()),
            None => Body::new(kind, cluster, definitions, form).map(|body| body.into_text().into()),
        })
    }

    /// How the cluster's reply for `kind` would break the contract in its larger form, if it would. Cheap in all but extreme cases: the reply is
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
        let bound = list.count * (definitions.longest + block) + list.count * MARK_BYTES + own + 64;
        if bound <= MAX_REPLY_BYTES && list.count <= MAX_INPUTS {
            return None;
        }
        inputs::breach(kind, cluster, definitions)
    }
}
