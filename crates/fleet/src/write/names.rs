//! DNS names that clusters give up: decommissions of deleted clusters, and names that were released by renames.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Draft;
use crate::kind::{CLUSTERS, DECOMMISSIONS, RELEASED_NAMES};
use crate::refusal::{Reason, Refusal};
use crate::released::{self, MOST_RELEASED};
use crate::snapshot::Fleet;

impl Draft<'_> {
    /// Deletes a cluster, and decommissions the DNS name that it was served under.
    pub(super) fn delete_cluster(&mut self, id: &str) -> Result<(), Refusal> {
        // The base counts too: lifting the protection must be a revision of its own.
        let both = [self.base.cluster(id), self.now().cluster(id)];
        if both.into_iter().flatten().any(|cluster| cluster.head().protected) {
            let detail = format!("cluster \"{id}\" is protected: set \"protected\" to false first");
            let mut refusal = Refusal::at(Reason::Protected, "/id", detail);
            refusal.clusters.push(id.to_owned());
            return Err(refusal);
        }
        // The name in the base is the one that Flux polls, even if this write renamed the cluster first. A cluster that this
        // write created was never served, and needs no decommission.
        if let Some(served) = self.base.cluster(id) {
            let head = served.head();
            let decommission = json!({
                "id": &*head.dns_key,
                "cluster_dns": &*head.dns,
                "cluster_id": id,
                "cluster_name": &*head.name,
                "environment": &*head.environment,
            });
            self.put(DECOMMISSIONS, head.dns_key.clone(), Some(decommission))?;
        }
        self.put(CLUSTERS, id.into(), None)
    }

    /// Checks that no two clusters have the same DNS name, and that protected clusters keep theirs.
    pub(super) fn check_dns(&mut self) -> Result<(), Refusal> {
        let is_protected = |id: &str| self.base.cluster(id).is_some_and(|cluster| cluster.head().protected);
        let is_held = |id: &&Arc<str>| is_protected(id) && self.gives_up_name(id);
        let renamed = self.touched_ids(CLUSTERS).find(is_held);
        if let Some(id) = renamed {
            // The next cluster to take the name would decide what Flux installs behind it.
            let detail = format!(
                "cluster \"{id}\" is protected, so its DNS name cannot change: set \"protected\" to false first"
            );
            let mut refusal = Refusal::at(Reason::Protected, &self.blame(CLUSTERS, id, "/cluster_dns"), detail);
            refusal.clusters.push(id.to_string());
            return Err(refusal);
        }
        self.edit.settle_dns();
        let clashes = self.edit.dns_clashes();
        let Some((cluster, holder)) = clashes.first() else {
            return self.check_certificates();
        };
        let (id, other) = (&cluster.document().id, &holder.document().id);
        let detail = format!("the DNS name {} belongs to cluster \"{other}\"", cluster.head().dns);
        let mut refusal = Refusal::at(Reason::Exists, &self.blame(CLUSTERS, id, "/cluster_dns"), detail);
        refusal.clusters.push(other.to_string());
        Err(refusal)
    }

    /// Refuses a cluster that takes a name in the `certificates` of an identity: a client certificate with it would be of two, and so of
    /// none.
    fn check_certificates(&self) -> Result<(), Refusal> {
        let dns_of = |fleet: &Fleet, id: &str| fleet.cluster(id).map(|cluster| cluster.head().dns_key.clone());
        for id in self.touched_ids(CLUSTERS) {
            let Some(dns) = dns_of(self.now(), id).filter(|dns| dns_of(self.base, id).as_ref() != Some(dns)) else {
                continue;
            };
            if let Some(identity) = self.now().identities().with_certificate(&dns) {
                let detail = format!(
                    "certificates with the DNS name {dns} belong to the identity \"{}\"",
                    identity.id
                );
                return Err(Refusal::at(
                    Reason::Exists,
                    &self.blame(CLUSTERS, id, "/cluster_dns"),
                    detail,
                ));
            }
        }
        Ok(())
    }

    /// Whether a cluster of the base has another DNS name now, or is deleted.
    fn gives_up_name(&self, id: &str) -> bool {
        let dns = |fleet: &Fleet| fleet.cluster(id).map(|cluster| cluster.head().dns_key.clone());
        let before = dns(self.base);
        before.is_some() && before != dns(self.now())
    }

    /// Brings the records of DNS names in line with the clusters. A cluster that has a name ends the name's decommission or
    /// release. A name that no cluster has any more is released, with its last inputs, unless it is decommissioned.
    pub(super) fn settle_names(&mut self) -> Result<(), Refusal> {
        let now = self.now();
        let mut settled: Vec<(&str, Arc<str>, Option<Value>)> = Vec::new();
        for id in self.touched_ids(CLUSTERS) {
            if let Some(cluster) = now.cluster(id) {
                let dns = &cluster.head().dns_key;
                let ended = [DECOMMISSIONS, RELEASED_NAMES].into_iter();
                let ended = ended.filter(|kind| now.document(kind, dns).is_some());
                settled.extend(ended.map(|kind| (kind, dns.clone(), None)));
            }
            if let Some(served) = self.base.cluster(id) {
                let dns = &served.head().dns_key;
                let is_released = now.cluster_at(dns).is_none() && !now.decommissions().contains_key(dns);
                let document = is_released.then(|| released::document(self.base, served)).flatten();
                settled.extend(document.map(|document| (RELEASED_NAMES, dns.clone(), Some(document))));
            }
        }
        self.current = 0;
        for (kind, dns, document) in settled {
            self.put(kind, dns, document)?;
        }
        self.check_released_count()
    }

    /// Limits the number of released names. They are never forgotten by themselves: the next cluster of a forgotten name could lose
    /// its inputs without a removal that is counted. So a write that releases too many is refused.
    fn check_released_count(&self) -> Result<(), Refusal> {
        let count = |fleet: &Fleet| fleet.released_names().len();
        if count(self.now()) <= MOST_RELEASED.max(count(self.base)) {
            return Ok(());
        }
        let detail = format!(
            "there would be {} released DNS names, and at most {MOST_RELEASED} are kept: delete those that no machine polls any \
             more (GET /released_names, DELETE /released_names/{{dns}})",
            count(self.now())
        );
        let renamed = self.touched_ids(CLUSTERS).find(|id| self.gives_up_name(id));
        let pointer = renamed.map_or_else(String::new, |id| self.blame(CLUSTERS, id, "/cluster_dns"));
        Err(Refusal::at(Reason::Invalid, &pointer, detail))
    }
}
