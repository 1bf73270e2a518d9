//! Who may call: identities with a role, a scope and tokens.
//!
//! Identities are documents of the kind `identities`, with plan, history and backup like every other. They are written by routes of
//! their own only, and rollback and undo leave them alone: a revoked token must stay revoked.

mod claims;
mod document;
mod registration;
mod registry;
mod revocations;
mod scope;
mod time;
mod token;
mod token_text;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::claims::Claimed;
pub use self::document::{SCHEMA, shown};
pub use self::registration::Registration;
pub use self::registry::{Holder, Identities};
pub use self::revocations::{Reduced, Revocations};
pub use self::scope::{Reach, judge_scope};
pub use self::time::Time;
pub use self::token::{MOST_TOKENS, Token, TokenId};
pub use self::token_text::{is_mistyped, token_text};

/// The name of the kind.
pub const IDENTITIES: &str = "identities";
/// The id of a cluster's identity is this and the cluster's id.
pub const CLUSTER_PREFIX: &str = "cluster:";

/// The cluster whose identity has this id, if it is one of a cluster.
pub fn cluster_of(id: &str) -> Option<&str> {
    id.strip_prefix(CLUSTER_PREFIX)
}

/// What an identity may do; `docs/src/security.md` has the table of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Polls the Flux paths of its own cluster.
    Cluster,
    /// Reads everything but identities and backups.
    Reader,
    /// Reads, and writes within its scope.
    Operator,
    /// Does everything.
    Admin,
    /// Copies the log and the state.
    Mirror,
    /// Registers new clusters within its scope.
    Join,
}

impl Role {
    pub const ALL: [Role; 6] = [
        Role::Cluster,
        Role::Reader,
        Role::Operator,
        Role::Admin,
        Role::Mirror,
        Role::Join,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Role::Cluster => "cluster",
            Role::Reader => "reader",
            Role::Operator => "operator",
            Role::Admin => "admin",
            Role::Mirror => "mirror",
            Role::Join => "join",
        }
    }

    /// The letter of its tokens, `frs_<letter>_…`, so that a leaked token says what it is.
    pub const fn letter(self) -> char {
        match self {
            Role::Cluster => 'c',
            Role::Reader => 'r',
            Role::Operator => 'o',
            Role::Admin => 'a',
            Role::Mirror => 'm',
            Role::Join => 'j',
        }
    }

    pub fn parse(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// An identity as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub id: Arc<str>,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Token>,
    /// DNS names of client certificates, in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<Arc<str>>,
    /// What a JWT must claim.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How many clusters registered with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub used: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How far an identity reaches, by its role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scope {
    Operator(OperatorScope),
    Join(JoinScope),
}

/// What an operator may write. The default has no selector, and so refuses every write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorScope {
    /// A selector: the clusters that its writes may change.
    pub clusters: String,
    /// The other kinds that it may write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Whether it may approve rollouts.
    #[serde(default)]
    pub approve: bool,
}

/// Which clusters may register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinScope {
    /// Their environments. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<String>,
    /// The end of their DNS name, from a dot on.
    pub dns_suffix: String,
    /// Labels that every one of them gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How many clusters may register.
    pub uses: u32,
}

impl Identity {
    /// The identity of a cluster, without tokens.
    pub fn of_cluster(cluster: &str) -> Identity {
        Identity::new(&format!("{CLUSTER_PREFIX}{cluster}"), Role::Cluster)
    }

    fn new(id: &str, role: Role) -> Identity {
        Identity {
            id: id.into(),
            role,
            scope: None,
            expires_at: None,
            tokens: Vec::new(),
            certificates: Vec::new(),
            claims: BTreeMap::new(),
            description: None,
            used: 0,
        }
    }

    pub fn token(&self, id: TokenId) -> Option<&Token> {
        self.tokens.iter().find(|token| token.id == id)
    }

    pub fn operator_scope(&self) -> Option<&OperatorScope> {
        match &self.scope {
            Some(Scope::Operator(scope)) => Some(scope),
            _ => None,
        }
    }

    pub fn join_scope(&self) -> Option<&JoinScope> {
        match &self.scope {
            Some(Scope::Join(scope)) => Some(scope),
            _ => None,
        }
    }
}
