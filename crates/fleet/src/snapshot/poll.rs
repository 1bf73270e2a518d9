//! What a poll is answered, and whether a reply would break the contract with Flux.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::catalog::{Catalog, CatalogStamp};
use super::cell::{Ingredients, Visit};
use super::{Cluster, Fleet, Number, View, lower_case};
use crate::damage::Damage;
use crate::document::Etag;
use crate::inputs::{self, Body, Breach, Form, MARK_BYTES, MAX_INPUTS, MAX_REPLY_BYTES, Reply};
use crate::kind::{KINDS, Kind, PROFILES, ROLLOUTS, is_server_kind};
use crate::rollout::{Active, Promoted, Stamp};

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

/// What a cached reply is made with.
struct MadeWith<'a> {
    catalog: &'a Catalog,
    kind: &'a str,
    cluster: Number,
    rollouts: Stamp,
}

impl Ingredients for MadeWith<'_> {
    fn catalog(&self) -> CatalogStamp {
        self.catalog.stamp()
    }

    fn is_same_with(&self, catalog: CatalogStamp) -> bool {
        self.catalog.is_same(catalog, Some(self.kind), self.cluster)
    }

    fn rollouts(&self) -> Stamp {
        self.rollouts
    }
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
        self.visit(path, form, None).0
    }

    /// The same, for the cluster itself. Also returns whether the visit is noted with the reply: it was told this reply before, by the same
    /// program, so that [`Fleet::visits`] tells the rest.
    pub fn visit(&self, path: &str, form: Form, visit: Option<Visit>) -> (Poll, bool) {
        let mut is_noted = false;
        let poll = self.answer(path, Reply::clone, |cluster, kind| {
            let (made, noted) = self.fleet.reply(cluster, kind, form, visit)?;
            is_noted = noted;
            Some(made)
        });
        (poll, is_noted)
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
            // The missing profile or rollout may bring something to any cluster.
            Some(_) if fleet.is_damaged(PROFILES) || fleet.is_damaged(ROLLOUTS) => Poll::Damaged,
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
        if !self.may_have_inputs(cluster, kind) {
            return Ok((Reply::empty().plain, false));
        }
        let known = cluster
            .list(&kind.name)
            .and_then(|list| list.reply.outline(&self.made_with(cluster, kind)));
        known.unwrap_or_else(|| {
            let body = Body::new(kind, &self.view(cluster), Form::Plain)?;
            Ok((body.plain_etag(), body.is_active()))
        })
    }

    /// Whether an unknown DNS name may belong to a damaged row.
    pub fn may_lack_names(&self) -> bool {
        let is_definition = |kind: &str| is_server_kind(kind) || self.definitions.contains_key(kind);
        self.damage().is_some_and(|damage| damage.hides_names(is_definition))
    }

    /// Whether the cluster refers to a missing definition.
    fn dangles(&self, cluster: &Cluster, kind: &Kind) -> bool {
        let document: Value = self.view(cluster).effective_for(kind);
        let definitions = self.definitions.get(&kind.name);
        let is_there = |id| definitions.is_some_and(|definitions| definitions.get(id).is_some());
        let mut ids = inputs::references(kind, &document).iter().map(inputs::reference_id);
        ids.any(|id| !is_there(id))
    }

    /// Whether a cluster can have inputs of a kind. A patched profile may bring the first one; such a reply is not cached until the
    /// rollout is complete.
    fn may_have_inputs(&self, cluster: &Cluster, kind: &Kind) -> bool {
        let by_rollout = |active: &Arc<Active>| active.patches_profiles() && active.promoted(cluster) != Promoted::NONE;
        self.has_references(cluster, &kind.name) || self.rollouts.active().is_some_and(by_rollout)
    }

    /// What a cluster's reply of a kind is made with.
    fn made_with<'a>(&'a self, cluster: &Cluster, kind: &'a Kind) -> MadeWith<'a> {
        MadeWith {
            catalog: &self.catalog,
            kind: &kind.name,
            cluster: cluster.number(),
            rollouts: self.rollouts.active().map_or(0, |active| active.stamp(&kind.name)),
        }
    }

    fn reply(
        &self,
        cluster: &Cluster,
        kind: &Kind,
        form: Form,
        visit: Option<Visit>,
    ) -> Option<(Result<Reply, Breach>, bool)> {
        if !self.may_have_inputs(cluster, kind) {
            return None;
        }
        let (cell, with) = (
            cluster.list(&kind.name).map(|list| &list.reply),
            self.made_with(cluster, kind),
        );
        let made = cell.and_then(|cell| cell.poll(form, &with, visit));
        Some(made.unwrap_or_else(|| {
            let made = Body::new(kind, &self.view(cluster), form);
            // Most clusters do not notice that a rollout moved, or that a definition was written.
            let same = |body: &Body| cell?.same(form, body.plain_etag());
            let made = made.map(|body| same(&body).unwrap_or_else(|| body.to_reply()));
            if let Some(cell) = cell {
                cell.fill(&made, &with, visit);
            }
            (made, false)
        }))
    }

    /// What a cluster was last told, by path: the digest of the plain reply, and the visit. Only replies that are cached.
    pub fn visits<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = (&'a str, Etag, Visit)> {
        cluster.lists().filter_map(|list| {
            let (digest, visit) = list.reply.visit()?;
            let path = self.kinds.get(list.kind())?.path.as_deref()?;
            Some((path, digest, visit))
        })
    }

    fn text(&self, cluster: &Cluster, kind: &Kind, form: Form) -> Option<Result<Bytes, Breach>> {
        if !self.may_have_inputs(cluster, kind) {
            return None;
        }
        let cell = cluster.list(&kind.name).map(|list| &list.reply);
        Some(
            match cell.and_then(|cell| cell.get(form, &self.made_with(cluster, kind))) {
                Some(made) => made.map(|reply| reply.identity()),
                None => Body::new(kind, &self.view(cluster), form).map(|body| body.into_text().into()),
            },
        )
    }

    /// How the cluster's reply for `kind` would break the contract in its larger form, if it would. Cheap in all but extreme cases: the reply is
    /// created only if a bound says that it might be too large.
    pub(crate) fn breach(&self, cluster: &Cluster, kind: &Kind) -> Option<Breach> {
        // Also as it will be when every rollout is complete: a promotion is not checked again.
        let now = self.breach_of(&self.view(cluster), kind);
        now.or_else(|| self.breach_of(&self.view_as(cluster, self.rollouts.active()?.everyone()), kind))
    }

    fn breach_of(&self, view: &View<'_>, kind: &Kind) -> Option<Breach> {
        // Per input: the definition, the cluster block, and the names of carried and nested fields. What the cluster and its profiles
        // add (overrides, patches) is in their documents, once.
        const PER_INPUT: usize = 128;
        let count = view.most_inputs(kind);
        let longest = self.longest_definition(kind);
        let head = view.cluster().head();
        let labels = head.labels.iter().map(|(name, value)| name.len() + value.len() + 1);
        let labels: usize = if kind.flux.cluster_labels.is_empty() {
            0
        } else {
            labels.sum()
        };
        let block =
            PER_INPUT + 6 * (head.name.len() + head.dns.len() + head.environment.len() + labels) + kind.carried_len();
        let own = view.cluster().document().body.as_str().len() + view.profiles().bytes(kind);
        let bound = count * (longest + block) + count * MARK_BYTES + own + 64;
        if bound <= MAX_REPLY_BYTES && count <= MAX_INPUTS {
            return None;
        }
        inputs::breach(kind, view)
    }

    /// No definition of a kind is longer, as it is or as a rollout patches it.
    fn longest_definition(&self, kind: &Kind) -> usize {
        let present = self.definitions.get(&kind.name).map_or(0, |all| all.longest);
        let patched = self.rollouts.active().map_or(0, |active| active.longest(&kind.name));
        present.max(patched)
    }
}
