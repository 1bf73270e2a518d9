//! The identities of a snapshot, found by id, by token, by certificate and by claims.
//!
//! Those of clusters are many (one per cluster) and all alike, so that only what differs is kept: the digests of their tokens, in one
//! map. Their documents are made when they are read.

use std::num::NonZeroU32;
use std::sync::Arc;

use imbl::OrdMap;
use serde_json::{Map, Value};

use super::claims::{self, Claimed};
use super::{CLUSTER_PREFIX, Identity, Time, Token, TokenId, cluster_of};
use crate::document::Document;
use crate::json::Json;
use crate::log::Digest;
use crate::selector::Selector;

/// All identities.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// Those that are not a cluster's.
    named: OrdMap<Arc<str>, Named>,
    named_tokens: OrdMap<TokenId, Arc<str>>,
    /// The tokens of each cluster, by the cluster's id.
    clusters: OrdMap<Arc<str>, Tokens>,
    /// Ordered: a tree has fuller nodes than a hash map.
    cluster_tokens: OrdMap<TokenId, ClusterToken>,
    certificates: OrdMap<Arc<str>, Arc<str>>,
    /// Those that have claims, sorted by id.
    claimants: OrdMap<Arc<str>, Arc<Identity>>,
}

#[derive(Clone, Debug)]
struct Named {
    document: Arc<Document>,
    identity: Arc<Identity>,
}

/// The tokens of a cluster, oldest first. Nearly all have one.
#[derive(Clone, Debug)]
enum Tokens {
    One(TokenId),
    Several(Arc<[TokenId]>),
}

impl Tokens {
    fn new(ids: &[TokenId]) -> Tokens {
        match ids {
            [one] => Tokens::One(*one),
            several => Tokens::Several(several.into()),
        }
    }

    fn ids(&self) -> &[TokenId] {
        match self {
            Tokens::One(one) => std::slice::from_ref(one),
            Tokens::Several(several) => several,
        }
    }
}

/// A token of a cluster. The first bytes of its digest are its id.
#[derive(Clone, Debug)]
struct ClusterToken {
    cluster: Arc<str>,
    rest: [u8; 24],
    created_at: u32,
    expires_at: Option<NonZeroU32>,
}

impl ClusterToken {
    fn new(cluster: &Arc<str>, token: &Token) -> ClusterToken {
        let mut rest = [0; 24];
        rest.copy_from_slice(&token.digest.0[8..]);
        ClusterToken {
            cluster: cluster.clone(),
            rest,
            created_at: token.created_at.seconds(),
            expires_at: token.expires_at.and_then(|time| NonZeroU32::new(time.seconds())),
        }
    }

    fn expires_at(&self) -> Option<Time> {
        self.expires_at.map(|seconds| Time::from_seconds(seconds.get()))
    }

    fn token(&self, id: TokenId) -> Token {
        let mut digest = Digest::default();
        digest.0[..8].copy_from_slice(&id.bytes());
        digest.0[8..].copy_from_slice(&self.rest);
        Token::new(digest, Time::from_seconds(self.created_at), self.expires_at())
    }
}

/// Whose token it is.
#[derive(Clone, Debug)]
pub enum Holder<'a> {
    Cluster {
        /// The id of the cluster.
        cluster: &'a Arc<str>,
        expires_at: Option<Time>,
    },
    Named {
        identity: &'a Arc<Identity>,
        expires_at: Option<Time>,
    },
}

impl Identities {
    /// Whose token has this digest.
    pub fn holder(&self, digest: &Digest) -> Option<Holder<'_>> {
        let id = TokenId::of(digest);
        if let Some(token) = self.cluster_tokens.get(&id) {
            let (cluster, expires_at) = (&token.cluster, token.expires_at());
            return (token.rest == digest.0[8..]).then_some(Holder::Cluster { cluster, expires_at });
        }
        let identity = &self.named.get(self.named_tokens.get(&id)?)?.identity;
        let token = identity.token(id).filter(|token| token.digest == *digest)?;
        let expires_at = token.expires_at;
        Some(Holder::Named { identity, expires_at })
    }

    /// Whether any identity has this token.
    pub fn has_token(&self, id: TokenId) -> bool {
        self.cluster_tokens.contains_key(&id) || self.named_tokens.contains_key(&id)
    }

    /// The identity that lists this DNS name of certificates.
    pub fn with_certificate(&self, dns: &str) -> Option<&Arc<Identity>> {
        self.named.get(self.certificates.get(dns)?).map(|named| &named.identity)
    }

    /// Whose claims these are. `of_first_issuer`: they are from the first issuer of the server; those of others match only identities whose
    /// claims name `iss`.
    pub fn claimed(&self, claims: &Map<String, Value>, of_first_issuer: bool) -> Claimed<'_> {
        claims::claimed(self.claimants.values(), claims, of_first_issuer)
    }

    /// Identities that are not a cluster's, sorted by id.
    pub fn named(&self) -> impl Iterator<Item = &Arc<Identity>> {
        self.named.values().map(|named| &named.identity)
    }

    /// The selectors of operators' scopes, each with the id of its identity.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = (&str, Selector)> {
        self.named().filter_map(|identity| {
            let selector = Selector::parse(&identity.operator_scope()?.clusters).ok()?;
            Some((&*identity.id, selector))
        })
    }

    pub fn get(&self, id: &str) -> Option<Arc<Identity>> {
        if let Some(named) = self.named.get(id) {
            return Some(named.identity.clone());
        }
        let tokens = self.clusters.get(cluster_of(id)?)?;
        let mut identity = Identity::new(id, super::Role::Cluster);
        let stored = tokens.ids().iter();
        identity.tokens = stored
            .filter_map(|id| self.cluster_tokens.get(id).map(|token| token.token(*id)))
            .collect();
        Some(Arc::new(identity))
    }

    pub fn document(&self, id: &str) -> Option<Document> {
        if let Some(named) = self.named.get(id) {
            return Some(Document::clone(&named.document));
        }
        self.get(id).map(|identity| identity.document())
    }

    /// The id of a cluster that has an identity, as it is kept here.
    pub(crate) fn cluster_id(&self, id: &str) -> Option<&Arc<str>> {
        self.clusters.get_key_value(id).map(|(id, _)| id)
    }

    /// The ids of all identities, sorted.
    pub fn ids(&self) -> impl Iterator<Item = Arc<str>> {
        let (before, after) = (
            self.named.range(..Arc::from(CLUSTER_PREFIX)),
            self.named.range(Arc::from(CLUSTER_PREFIX)..),
        );
        let of_clusters = self.clusters.keys();
        let of_clusters = of_clusters.map(|cluster| Arc::from(format!("{CLUSTER_PREFIX}{cluster}")));
        let mut of_clusters = of_clusters.peekable();
        let mut after = after.map(|(id, _)| id.clone()).peekable();
        let merged = std::iter::from_fn(move || match (of_clusters.peek(), after.peek()) {
            (Some(one), Some(other)) if one <= other => of_clusters.next(),
            (Some(_), None) => of_clusters.next(),
            _ => after.next(),
        });
        before.map(|(id, _)| id.clone()).chain(merged)
    }

    pub fn len(&self) -> usize {
        self.named.len() + self.clusters.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts or removes an identity. `share` gives the id of a cluster as the snapshot has it, so that it is kept once.
    pub(crate) fn put(
        &mut self,
        id: &Arc<str>,
        after: Option<Json>,
        share: impl Fn(&str) -> Arc<str>,
    ) -> Result<(), String> {
        self.remove(id);
        let Some(body) = after else {
            return Ok(());
        };
        let unreadable = |error| format!("the identity \"{id}\" cannot be read: {error}");
        let identity: Identity = serde_json::from_str(body.as_str()).map_err(unreadable)?;
        match cluster_of(id) {
            Some(cluster) if identity.is_plain() => self.put_cluster(&share(cluster), &identity),
            _ => self.put_named(identity, body),
        }
        Ok(())
    }

    fn put_cluster(&mut self, cluster: &Arc<str>, identity: &Identity) {
        for token in &identity.tokens {
            self.cluster_tokens.insert(token.id, ClusterToken::new(cluster, token));
        }
        let ids: Vec<TokenId> = identity.tokens.iter().map(|token| token.id).collect();
        self.clusters.insert(cluster.clone(), Tokens::new(&ids));
    }

    fn put_named(&mut self, identity: Identity, body: Json) {
        let id = &identity.id;
        for token in &identity.tokens {
            self.named_tokens.insert(token.id, id.clone());
        }
        for dns in &identity.certificates {
            self.certificates.insert(dns.clone(), id.clone());
        }
        let document = Arc::new(Document::new(id.clone(), body));
        let identity = Arc::new(identity);
        if !identity.claims.is_empty() {
            self.claimants.insert(identity.id.clone(), identity.clone());
        }
        self.named.insert(identity.id.clone(), Named { document, identity });
    }

    fn remove(&mut self, id: &str) {
        if let Some(named) = self.named.remove(id) {
            for token in &named.identity.tokens {
                self.named_tokens.remove(&token.id);
            }
            for dns in &named.identity.certificates {
                self.certificates.remove(dns);
            }
            self.claimants.remove(id);
        } else if let Some(tokens) = cluster_of(id).and_then(|cluster| self.clusters.remove(cluster)) {
            for token in tokens.ids() {
                self.cluster_tokens.remove(token);
            }
        }
    }
}

impl Identity {
    /// Whether it is nothing but the tokens of a cluster, in a form that [`Identities`] can give back.
    fn is_plain(&self) -> bool {
        let zero = Time::from_seconds(0);
        let tokens = self.tokens.iter().filter(|token| token.expires_at != Some(zero));
        let plain = Identity {
            tokens: tokens.cloned().collect(),
            ..Identity::new(&self.id, super::Role::Cluster)
        };
        plain == *self
    }
}
