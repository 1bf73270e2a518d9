//! Who makes a request, and what they may do.
//!
//! A caller shows a token, as a bearer or as the password of basic authentication: one of the environment ([`Environment`]), one of
//! an identity in the snapshot, or a JWT of an issuer ([`oidc`]), whose claims are those of an identity. Without a token, the DNS names of
//! its client certificate count.

mod environment;
mod failures;
mod new_token;
pub mod oidc;
mod right;
mod source;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use fleet::Fleet;
use fleet::identity::{CLUSTER_PREFIX, Claimed, Holder, Identity, Reach, Role, Time, Token};

pub use self::environment::Environment;
use self::environment::Found;
pub use self::failures::Failures;
pub use self::new_token::NewToken;
use self::oidc::{Oidc, Refused, Verified};
pub use self::right::Right;
use fleet::identity::is_mistyped;

/// Who makes a request.
#[derive(Clone, Debug)]
pub struct Actor {
    /// Its name in the log.
    pub name: Name,
    pub role: Role,
    /// The identity, unless the token is one of the environment.
    pub identity: Option<Arc<Identity>>,
    /// When its token, or its identity, stops being valid.
    pub expires_at: Option<Time>,
    /// Whom its JWT names.
    pub subject: Option<Arc<str>>,
}

/// Who makes a request, borrowed from where it was found: all that a poll needs.
#[derive(Debug)]
pub enum Known<'a> {
    /// A token of the environment.
    Shared(Found),
    Cluster {
        /// Its id.
        cluster: &'a Arc<str>,
        expires_at: Option<Time>,
    },
    Other(Actor),
}

/// The name of a caller in the log. Most calls are polls of clusters: their names are put together only where they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// As it is.
    Plain(Arc<str>),
    /// The id of a cluster.
    Cluster(Arc<str>),
}

/// The name in the log.
impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Known::Shared(owner) => f.write_str(&owner.name),
            Known::Cluster { cluster, .. } => write!(f, "{CLUSTER_PREFIX}{cluster}"),
            Known::Other(actor) => actor.name.fmt(f),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Plain(name) => f.write_str(name),
            Name::Cluster(id) => write!(f, "{CLUSTER_PREFIX}{id}"),
        }
    }
}

/// Why a caller is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    Missing,
    Invalid,
    Mistyped,
    Expired,
    /// The client certificate has expired since its connection began, or its authority is not trusted any more.
    Outdated,
    /// The client certificate has no name of an identity.
    Unnamed,
    /// It has the names of two.
    Ambiguous,
    /// The token is a JWT that is not accepted.
    Jwt(Refused),
    /// The claims of the JWT are those of an identity that has expired.
    Ended(Arc<str>),
    /// No identity has the claims of this subject's JWT.
    Unclaimed(String),
    /// Several have, equally many. Their ids.
    Tied(Vec<Arc<str>>),
}

impl Unknown {
    /// The value of the metric label.
    pub const fn label(&self) -> &'static str {
        match self {
            Unknown::Missing => "missing",
            Unknown::Invalid | Unknown::Mistyped => "unknown",
            Unknown::Expired | Unknown::Ended(_) => "expired",
            Unknown::Outdated | Unknown::Unnamed | Unknown::Ambiguous => "certificate",
            Unknown::Jwt(refused) => refused.label(),
            Unknown::Unclaimed(_) | Unknown::Tied(_) => "claims",
        }
    }

    pub fn detail(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Unknown::Missing => "a bearer token is required",
            Unknown::Invalid => "the token is not valid",
            Unknown::Mistyped => {
                "the token is not valid: its checksum does not match, so a part of it is missing or changed"
            }
            Unknown::Expired => "the token has expired",
            Unknown::Outdated => {
                "the client certificate has expired, or its authority is not trusted any more: connect again with another one"
            }
            Unknown::Unnamed => "no cluster and no identity has a DNS name of the client certificate",
            Unknown::Ambiguous => "the client certificate has DNS names of two identities",
            Unknown::Jwt(refused) => return refused.to_string().into(),
            Unknown::Ended(id) => return format!("the identity \"{id}\" has expired").into(),
            Unknown::Unclaimed(subject) => {
                return format!("the token of \"{subject}\" is valid, and no identity has its claims").into();
            }
            Unknown::Tied(ids) => {
                let ids = ids.join(", ");
                return format!("the claims of the token match several identities equally: {ids}").into();
            }
        })
    }

    /// Whether the caller proved who it is: it is known, but may do nothing.
    pub const fn is_authentic(&self) -> bool {
        matches!(self, Unknown::Unclaimed(_) | Unknown::Tied(_))
    }

    /// Whether the key of a JWT is not known, so that fetching the keys of its issuer may help.
    pub const fn needs_keys(&self) -> bool {
        matches!(self, Unknown::Jwt(Refused::NoKeys | Refused::UnknownKey(_)))
    }
}

impl<'a> Known<'a> {
    /// Who has this token. Whether it is a JWT counts last, so that other tokens do not pay for it.
    pub fn of_token(
        environment: &Environment,
        oidc: Option<&Oidc>,
        fleet: &'a Fleet,
        token: &[u8],
    ) -> Result<Known<'a>, Unknown> {
        let digest = Token::digest_of(token);
        if let Some(owner) = environment.owner(&digest) {
            return Ok(Known::Shared(owner));
        }
        let known = match fleet.identities().holder(&digest) {
            None if is_mistyped(token) => return Err(Unknown::Mistyped),
            None => match oidc.map(|oidc| oidc.verify(token, &digest, now())) {
                None if oidc::has_form(token) => return Err(Unknown::Jwt(Refused::NoIssuer)),
                None | Some(None) => return Err(Unknown::Invalid),
                Some(Some(Err(refused))) => return Err(Unknown::Jwt(refused)),
                Some(Some(Ok(verified))) => Known::Other(Actor::of_claims(fleet, &verified)?),
            },
            Some(Holder::Cluster { cluster, expires_at }) => Known::Cluster { cluster, expires_at },
            Some(Holder::Named { identity, expires_at }) => Known::Other(Actor {
                name: Name::Plain(identity.id.clone()),
                role: identity.role,
                identity: Some(identity.clone()),
                expires_at: [expires_at, identity.expires_at].into_iter().flatten().min(),
                subject: None,
            }),
        };
        match known.expires_at().is_some_and(|end| end <= now()) {
            true => Err(Unknown::Expired),
            false => Ok(known),
        }
    }

    pub fn role(&self) -> Role {
        match self {
            Known::Shared(owner) => owner.role,
            Known::Cluster { .. } => Role::Cluster,
            Known::Other(actor) => actor.role,
        }
    }

    /// The id of the cluster, if it is one.
    pub fn cluster(&self) -> Option<&Arc<str>> {
        match self {
            Known::Shared(_) => None,
            Known::Cluster { cluster, .. } => Some(cluster),
            Known::Other(actor) => actor.cluster(),
        }
    }

    fn expires_at(&self) -> Option<Time> {
        match self {
            Known::Shared(_) => None,
            Known::Cluster { expires_at, .. } => *expires_at,
            Known::Other(actor) => actor.expires_at,
        }
    }

    pub fn into_actor(self) -> Actor {
        let (role, expires_at) = (self.role(), self.expires_at());
        let name = match self {
            Known::Other(actor) => return actor,
            Known::Shared(owner) => Name::Plain(owner.name.clone()),
            Known::Cluster { cluster, .. } => Name::Cluster(cluster.clone()),
        };
        Actor {
            name,
            role,
            identity: None,
            expires_at,
            subject: None,
        }
    }
}

impl Actor {
    /// Who has these claims. An identity that has expired is found, too: another one with fewer claims must not take its place.
    fn of_claims(fleet: &Fleet, verified: &Verified) -> Result<Actor, Unknown> {
        let name = &verified.name;
        match fleet.identities().claimed(&verified.claims, verified.of_first_issuer) {
            Claimed::By(identity) if identity.expires_at.is_some_and(|end| end <= now()) => {
                Err(Unknown::Ended(identity.id.clone()))
            }
            Claimed::By(identity) => Ok(Actor {
                name: Name::Plain(format!("{}/{name}", identity.id).into()),
                role: identity.role,
                identity: Some(identity.clone()),
                expires_at: identity.expires_at.into_iter().chain([verified.expires_at()]).min(),
                subject: Some(name.as_str().into()),
            }),
            Claimed::Nobody => Err(Unknown::Unclaimed(name.clone())),
            Claimed::Tied(ids) => Err(Unknown::Tied(ids)),
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
        // An earlier cluster of the same id is not the cluster: its tokens were revoked, too.
        let earlier = || {
            fleet
                .decommissioned_cluster(dns)
                .filter(|id| fleet.cluster(id).is_none())
        };
        let cluster = cluster.or_else(earlier);
        let cluster = cluster.map(|cluster| Actor {
            name: Name::Cluster(cluster),
            role: Role::Cluster,
            identity: None,
            expires_at: None,
            subject: None,
        });
        let named = fleet.identities().with_certificate(dns).map(|identity| Actor {
            name: Name::Plain(identity.id.clone()),
            role: identity.role,
            identity: Some(identity.clone()),
            expires_at: identity.expires_at,
            subject: None,
        });
        cluster.into_iter().chain(named).collect()
    }

    /// The id of the cluster, if it is one.
    pub fn cluster(&self) -> Option<&Arc<str>> {
        match &self.name {
            Name::Cluster(id) => Some(id),
            Name::Plain(_) => None,
        }
    }

    /// How far its writes may reach.
    pub fn reach(&self) -> Reach {
        let scope = self.identity.as_ref().and_then(|identity| identity.operator_scope());
        match self.role {
            // Without a scope, nothing is in it.
            Role::Operator => Reach::Within(Arc::new(scope.cloned().unwrap_or_default())),
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
