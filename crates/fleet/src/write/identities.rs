//! What operations do to identities, and which identities go with a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::{Draft, Fault};
use crate::identity::{CLUSTER_PREFIX, IDENTITIES, Identity, MOST_TOKENS, Token, TokenId, cluster_of};
use crate::kind::{CLUSTERS, DECOMMISSIONS};
use crate::operation::{Target, Verb};
use crate::patch::{self, Form};
use crate::refusal::{Reason, Refusal};
use crate::snapshot::Fleet;

impl Draft<'_> {
    /// Runs the current operation, which is on identities.
    pub(super) fn run_on_identities(&mut self) -> Result<(), Fault> {
        match &self.operation().verb {
            _ if self.rules.batch => {
                let detail = "identities have routes of their own: /identities, /clusters/{id}/token";
                Err(Refusal::at(Reason::Invalid, "/kind", detail).into())
            }
            Verb::Create { value, .. } => self.create_identity(value),
            Verb::Replace { id, value } => self.replace_identity(id, value),
            Verb::Merge {
                on: Target::Id(id),
                form,
                value,
            } => self.merge_identity(id, *form, value),
            Verb::Delete { id, .. } => {
                self.check_version(IDENTITIES, id)?;
                Ok(self.put(IDENTITIES, id.as_str().into(), None)?)
            }
            Verb::IssueToken { id, token } => Ok(self.issue_token(id, token)?),
            Verb::RevokeToken { id, token } => Ok(self.revoke_token(id, *token)?),
            Verb::Register { id, cluster, dns } => {
                self.check_earlier_names(cluster, dns)?;
                Ok(self.count_use(id)?)
            }
            _ => {
                let detail = "identities are written by calls of their own: /identities, /clusters/{id}/token";
                Err(Refusal::at(Reason::Invalid, "/kind", detail).into())
            }
        }
    }

    fn create_identity(&mut self, value: &Value) -> Result<(), Fault> {
        let identity = Identity::read(value, None, self.now()).map_err(Fault::Value)?;
        if self.now().identities().get(&identity.id).is_some() {
            let detail = format!("there is already an identity \"{}\"", identity.id);
            return Err(Refusal::at(Reason::Exists, "/id", detail).into());
        }
        self.put_identity(&identity).map_err(Fault::from)
    }

    fn replace_identity(&mut self, id: &str, value: &Value) -> Result<(), Fault> {
        self.check_version(IDENTITIES, id)?;
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.entry("id").or_insert_with(|| id.into());
        }
        self.change_identity(id, &value)
    }

    fn merge_identity(&mut self, id: &str, form: Form, patch: &Value) -> Result<(), Fault> {
        self.check_version(IDENTITIES, id)?;
        let present = self.identity(id)?;
        let mut merged = present.shown();
        patch::apply(form, &[], &mut merged, patch).map_err(Fault::Value)?;
        self.change_identity(id, &merged)
    }

    fn change_identity(&mut self, id: &str, value: &Value) -> Result<(), Fault> {
        let present = self.identity(id)?;
        if let Some(cluster) = cluster_of(id) {
            let detail = format!(
                "the identity of a cluster has only tokens: use POST /clusters/{cluster}/token, or delete the identity to revoke all of them"
            );
            return Err(Refusal::at(Reason::Invalid, "/id", detail).into());
        }
        if value.get("id").and_then(Value::as_str) != Some(id) {
            return Err(Fault::value("/id", format!("the id is \"{id}\" and cannot be changed")));
        }
        let identity = Identity::read(value, Some(&present), self.now()).map_err(Fault::Value)?;
        self.put_identity(&identity).map_err(Fault::from)
    }

    /// Adds a token. A cluster's identity begins with its first token.
    fn issue_token(&mut self, id: &str, token: &Token) -> Result<(), Refusal> {
        let mut identity = match (self.now().identities().get(id), cluster_of(id)) {
            (Some(identity), _) => Identity::clone(&identity),
            (None, Some(cluster)) if self.may_poll(cluster) => Identity::of_cluster(cluster),
            (None, Some(cluster)) => return Err(self.not_found(CLUSTERS, cluster)),
            (None, None) => return Err(self.not_found(IDENTITIES, id)),
        };
        if identity.tokens.len() >= MOST_TOKENS {
            let detail = format!("\"{id}\" has {MOST_TOKENS} tokens, which is the most: revoke one first");
            return Err(Refusal::at(Reason::Invalid, "", detail));
        }
        if self.now().identities().has_token(token.id) {
            let detail = format!("a token with the id {} exists: make another one", token.id);
            return Err(Refusal::at(Reason::Exists, "", detail));
        }
        identity.tokens.push(token.clone());
        self.put_identity(&identity)
    }

    fn revoke_token(&mut self, id: &str, token: TokenId) -> Result<(), Refusal> {
        let mut identity = Identity::clone(&*self.identity(id)?);
        if identity.token(token).is_none() {
            let detail = format!("\"{id}\" has no token {token}");
            return Err(Refusal::at(Reason::NotFound, "", detail));
        }
        identity.tokens.retain(|own| own.id != token);
        match identity.tokens.is_empty() && cluster_of(id).is_some() {
            true => self.put(IDENTITIES, identity.id.clone(), None),
            false => self.put_identity(&identity),
        }
    }

    /// Refuses a cluster that would take the name or the DNS name of a decommissioned one, or a DNS name that a cluster gave up: the machine
    /// of that cluster may still poll it.
    fn check_earlier_names(&self, cluster: &str, dns: &str) -> Result<(), Refusal> {
        let now = self.now();
        let key = &*dns.to_ascii_lowercase();
        let (pointer, detail) = if now.decommissions().contains_key(key) {
            let detail = format!("\"{dns}\" is the name of a decommissioned cluster: delete its decommission first");
            ("/cluster_dns", detail)
        } else if now.released_names().contains_key(key) {
            let detail = format!("\"{dns}\" is a name that a cluster gave up: delete the released name first");
            ("/cluster_dns", detail)
        } else if now.is_decommissioned(cluster) {
            let detail =
                format!("\"{cluster}\" is the name of a decommissioned cluster: delete its decommission first");
            ("/cluster_name", detail)
        } else {
            return Ok(());
        };
        Err(Refusal::at(Reason::Exists, pointer, detail))
    }

    /// Counts a cluster that registers with a join identity.
    fn count_use(&mut self, id: &str) -> Result<(), Refusal> {
        let mut identity = Identity::clone(&*self.identity(id)?);
        let uses = identity.join_scope().map_or(0, |scope| scope.uses);
        if identity.used >= uses {
            let detail = format!("\"{id}\" is used up: {} of {uses} registrations", identity.used);
            return Err(Refusal::new(Reason::OutOfScope, detail));
        }
        identity.used += 1;
        self.put_identity(&identity)
    }

    fn identity(&self, id: &str) -> Result<Arc<Identity>, Refusal> {
        self.now()
            .identities()
            .get(id)
            .ok_or_else(|| self.not_found(IDENTITIES, id))
    }

    fn put_identity(&mut self, identity: &Identity) -> Result<(), Refusal> {
        let value = serde_json::to_value(identity).unwrap_or_default();
        self.put(IDENTITIES, identity.id.clone(), Some(value))
    }

    /// Whether a cluster exists, or a decommission of one with this id.
    fn may_poll(&self, cluster: &str) -> bool {
        self.now().cluster(cluster).is_some() || self.now().is_decommissioned(cluster)
    }

    /// Ends the identities of clusters that are gone, and the tokens of an earlier cluster of the same id.
    pub(super) fn settle_identities(&mut self) -> Result<(), Refusal> {
        if self.now().identities().is_empty() {
            return Ok(());
        }
        let mut clusters: BTreeSet<Arc<str>> = self.touched_ids(CLUSTERS).cloned().collect();
        clusters.extend(
            self.touched_ids(DECOMMISSIONS)
                .filter_map(|dns| self.base.decommissioned_cluster(dns)),
        );
        // Most clusters that go are decommissioned by this write: looking through all decommissions for each would take long.
        let decommissioned: BTreeSet<Arc<str>> = self
            .touched_ids(DECOMMISSIONS)
            .filter_map(|dns| self.now().decommissioned_cluster(dns))
            .collect();
        for cluster in clusters {
            let id: Arc<str> = format!("{CLUSTER_PREFIX}{cluster}").into();
            let Some(identity) = self.now().identities().get(&id) else {
                continue;
            };
            if !decommissioned.contains(&cluster) && !self.may_poll(&cluster) {
                self.put(IDENTITIES, id, None)?;
            } else if self.is_created_anew(&cluster) {
                self.keep_new_tokens(&identity)?;
            }
        }
        Ok(())
    }

    /// Whether this write creates a cluster that is not the one that had the id before. One that is restored is.
    fn is_created_anew(&self, cluster: &str) -> bool {
        let is_restored = |touch: &super::Touch| matches!(self.operations[touch.operation].verb, Verb::Restore { .. });
        self.base.cluster(cluster).is_none()
            && self.now().cluster(cluster).is_some()
            && !self.touch(CLUSTERS, cluster).is_some_and(is_restored)
    }

    /// Revokes the tokens that an identity had before this write.
    fn keep_new_tokens(&mut self, identity: &Identity) -> Result<(), Refusal> {
        let Some(old) = self.base.identities().get(&identity.id) else {
            return Ok(());
        };
        let mut identity = identity.clone();
        identity.tokens.retain(|token| old.token(token.id).is_none());
        match identity.tokens.is_empty() {
            true => self.put(IDENTITIES, identity.id.clone(), None),
            false => self.put_identity(&identity),
        }
    }
}

impl Fleet {
    /// The cluster that was decommissioned with this DNS name.
    pub fn decommissioned_cluster(&self, dns: &str) -> Option<Arc<str>> {
        let record = self.decommissions().get(dns)?;
        record.body.field("cluster_id")?.as_str().map(Arc::from)
    }

    /// Whether a DNS name is the cluster's: the one that it has, or the one that it was decommissioned with.
    pub fn is_name_of(&self, dns: &str, cluster: &str) -> bool {
        self.named(dns).is_of(cluster)
    }

    fn is_decommissioned(&self, cluster: &str) -> bool {
        let mut names = self.decommissions().keys();
        names.any(|dns| self.decommissioned_cluster(dns).as_deref() == Some(cluster))
    }
}
