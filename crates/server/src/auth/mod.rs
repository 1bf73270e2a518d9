//! Who makes a request, and what they may do.
//!
//! A caller shows a token, as a bearer or as the password of basic authentication: one of the environment ([`Environment`]), or one of
//! an identity in the snapshot. Without a token, the DNS names of its client certificate count.

mod environment;
mod failures;
mod new_token;
mod right;
mod source;

use std::sync::Arc;
use std::time::SystemTime;

use fleet::Fleet;
use fleet::identity::{CLUSTER_PREFIX, Holder, Identity, Reach, Role, Time, Token};

pub use self::environment::Environment;
pub use self::failures::Failures;
pub use self::new_token::NewToken;
pub use self::right::Right;
use fleet::identity::is_mistyped;

/// Who makes a request.
#[derive(Clone, Debug)]
pub struct Actor {
    /// Its name in the log.
    pub name: Arc<str>,
    pub role: Role,
    /// The identity, unless the token is one of the environment.
    pub identity: Option<Arc<Identity>>,
    /// When its token, or its identity, stops being valid.
    pub expires_at: Option<Time>,
}

/// Why a caller is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    Missing,
    Invalid,
    Mistyped,
    Expired,
    /// The client certificate has no name of an identity.
    Unnamed,
    /// It has the names of two.
    Ambiguous,
}

impl Unknown {
    /// The value of the metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Unknown::Missing => "missing",
            Unknown::Invalid | Unknown::Mistyped => "unknown",
            Unknown::Expired => "expired",
            Unknown::Unnamed | Unknown::Ambiguous => "certificate",
        }
    }

    pub const fn detail(self) -> &'static str {
        match self {
            Unknown::Missing => "a bearer token is required",
            Unknown::Invalid => "the token is not valid",
            Unknown::Mistyped => {
                "the token is not valid: its checksum does not match, so a part of it is missing or changed"
            }
            Unknown::Expired => "the token has expired",
            Unknown::Unnamed => "no cluster and no identity has a DNS name of the client certificate",
            Unknown::Ambiguous => "the client certificate has DNS names of two identities",
        }
    }
}

impl Actor {
    /// Who has this token.
    pub fn of_token(environment: &Environment, fleet: &Fleet, token: &[u8]) -> Result<Actor, Unknown> {
        let digest = Token::digest_of(token);
        if let Some(owner) = environment.owner(&digest) {
            return Ok(Actor {
                name: owner.name,
                role: owner.role,
                identity: None,
                expires_at: None,
            });
        }
        let actor = match fleet.identities().holder(&digest) {
            None if is_mistyped(token) => return Err(Unknown::Mistyped),
            None => return Err(Unknown::Invalid),
            Some(Holder::Cluster { cluster, expires_at }) => Actor {
                name: format!("{CLUSTER_PREFIX}{cluster}").into(),
                role: Role::Cluster,
                identity: None,
                expires_at,
            },
            Some(Holder::Named { identity, expires_at }) => Actor {
                name: identity.id.clone(),
                role: identity.role,
                identity: Some(identity.clone()),
                expires_at: [expires_at, identity.expires_at].into_iter().flatten().min(),
            },
        };
        match actor.expires_at.is_some_and(|end| end <= now()) {
            true => Err(Unknown::Expired),
            false => Ok(actor),
        }
    }

    /// Whose certificate has these DNS names, which are in lower case.
    pub fn of_names(fleet: &Fleet, names: &[String]) -> Result<Actor, Unknown> {
        let mut found: Option<Actor> = None;
        for name in names {
            for actor in Actor::of_name(fleet, name) {
                match &found {
                    Some(other) if other.name != actor.name => return Err(Unknown::Ambiguous),
                    _ => found = Some(actor),
                }
            }
        }
        match found {
            None => Err(Unknown::Unnamed),
            Some(actor) if actor.expires_at.is_some_and(|end| end <= now()) => Err(Unknown::Expired),
            Some(actor) => Ok(actor),
        }
    }

    /// The cluster with this DNS name, and the identity that lists it.
    fn of_name(fleet: &Fleet, dns: &str) -> Vec<Actor> {
        let cluster = fleet.cluster_at(dns).map(|cluster| cluster.document().id.clone());
        let cluster = cluster.or_else(|| fleet.decommissioned_cluster(dns));
        let cluster = cluster.map(|cluster| Actor {
            name: format!("{CLUSTER_PREFIX}{cluster}").into(),
            role: Role::Cluster,
            identity: None,
            expires_at: None,
        });
        let named = fleet.identities().with_certificate(dns).map(|identity| Actor {
            name: identity.id.clone(),
            role: identity.role,
            identity: Some(identity.clone()),
            expires_at: identity.expires_at,
        });
        cluster.into_iter().chain(named).collect()
    }

    /// The id of the cluster, if it is one.
    pub fn cluster(&self) -> Option<&str> {
        fleet::identity::cluster_of(&self.name).filter(|_| self.role == Role::Cluster)
    }

    /// How far its writes may reach.
    pub fn reach(&self) -> Reach {
        let scope = self.identity.as_ref().and_then(|identity| identity.operator_scope());
        match (self.role, scope) {
            (Role::Operator, Some(scope)) => Reach::Within(Arc::new(scope.clone())),
            _ => Reach::Everything,
        }
    }
}

/// The time by the clock of this machine.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    Time::from_seconds(u32::try_from(seconds).unwrap_or(u32::MAX))
}
