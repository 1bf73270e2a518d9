//! Who makes a request, and what a write was asked to do besides the change itself.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use fleet::identity::{Reach, Role};
use fleet::judge::Confirmation;
use fleet::log::Author;

use super::client_address::Peer;
use super::observe::{self, RequestId};
use super::peer_certificate::PeerCertificate;
use super::plan::Listed;
use super::problem::Problem;
use super::request::{self, Page, Query};
use crate::app::App;
use crate::app::engine::WriteRequest;
use crate::app::reads::Class;
use crate::auth::{Actor, Right};

/// The authenticated caller, with the headers and the query string of the request.
#[derive(Debug)]
pub struct Caller {
    actor: Actor,
    id: RequestId,
    pub headers: HeaderMap,
    uri: Uri,
    certificate: Option<PeerCertificate>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The middleware adds both. A route without them would be one without authentication.
        let actor = parts.extensions.get::<Actor>().cloned();
        let id = parts.extensions.get::<RequestId>().cloned();
        Ok(Caller {
            actor: actor.ok_or_else(Problem::internal)?,
            id: id.ok_or_else(Problem::internal)?,
            headers: std::mem::take(&mut parts.headers),
            uri: parts.uri.clone(),
            certificate: Peer::of(&parts.extensions).certificate.clone(),
        })
    }
}

impl Caller {
    pub fn query(&self) -> Result<Query, Problem> {
        Query::new(&self.uri)
    }

    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Who the caller is now, if it still has a right that it had when it called. A long reply asks again: tokens expire and are revoked,
    /// and what they may do changes.
    pub fn with_right(&self, app: &App, right: Right) -> Option<Actor> {
        self.authorize_again(app, right).ok()
    }

    /// The same, with the reason if not.
    pub fn authorize_again(&self, app: &App, right: Right) -> Result<Actor, Problem> {
        let peer = Peer {
            certificate: self.certificate.clone(),
            ..Peer::UNKNOWN
        };
        observe::authorize(app, &self.headers, &peer, right)
    }

    /// How far its writes may reach.
    pub fn reach(&self) -> Reach {
        self.actor.reach()
    }

    /// The class of its reads.
    pub fn class(&self) -> Class {
        Class::of(self.actor.role)
    }

    /// The class of its reads of earlier revisions.
    pub fn past_class(&self) -> Class {
        Class::of_past(self.actor.role)
    }

    /// The author of a change. The reason is the one of the body, or X-Change-Reason.
    pub fn author(&self, reason: Option<String>) -> Result<Author, Problem> {
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        observe::author(&self.headers, &self.actor, &self.id, reason)
    }
}

impl Caller {
    /// A write of this caller, without its operations. The reason is the one of the body, or X-Change-Reason.
    pub fn write(&self, options: &WriteOptions, reason: Option<String>) -> Result<WriteRequest, Problem> {
        let author = self.author(reason)?;
        if !options.overrides.is_empty() && !options.dry_run && author.reason.is_none() {
            return Err(Problem::bad_request(
                "X-Override-Guard needs a reason, which is kept in the log: send it as X-Change-Reason",
            ));
        }
        Ok(WriteRequest {
            author,
            reach: self.reach(),
            confirmation: options.confirmation,
            overrides: options.overrides.clone(),
            ..WriteRequest::default()
        })
    }

    /// The guards that the request overrides. Only an admin may.
    fn overrides(&self) -> Result<Vec<String>, Problem> {
        let overrides = request::overridden_guards(&self.headers)?;
        match self.actor.role {
            Role::Admin => Ok(overrides),
            _ if overrides.is_empty() => Ok(overrides),
            role => Err(Problem::may_not_override(role)),
        }
    }
}

/// The most clusters that a plan renders objects for: each takes milliseconds, twice.
const MOST_RENDERED: usize = 100;

/// The parameters and headers of every write.
#[derive(Debug)]
pub struct WriteOptions {
    pub dry_run: bool,
    /// Whether a delete also removes the references to the definition.
    pub cascade: bool,
    /// What a plan lists.
    pub listed: Listed,
    /// Whether a plan also shows Kubernetes objects.
    pub manifests: bool,
    pub confirmation: Confirmation,
    /// The ids of guards that the request overrides.
    pub overrides: Vec<String>,
}

impl WriteOptions {
    pub fn of(caller: &Caller) -> Result<Self, Problem> {
        Self::parse(caller, false)
    }

    /// The options of a delete that knows `cascade`.
    pub fn with_cascade(caller: &Caller) -> Result<Self, Problem> {
        Self::parse(caller, true)
    }

    fn parse(caller: &Caller, cascade_known: bool) -> Result<Self, Problem> {
        let mut query = caller.query()?;
        let dry_run = query.flag("dry_run")?;
        let manifests = dry_run && query.flag("manifests")?;
        let mut listed = if dry_run {
            Listed::take(&mut query)?
        } else {
            Listed::ALL
        };
        if manifests {
            listed.clusters.limit = listed.clusters.limit.min(MOST_RENDERED);
        }
        let options = WriteOptions {
            dry_run,
            cascade: cascade_known && query.flag("cascade")?,
            listed,
            manifests,
            confirmation: request::confirmation(&caller.headers)?,
            overrides: caller.overrides()?,
        };
        // A write that ignored `limit` could be mistaken for one of so many clusters.
        let known = match (dry_run, cascade_known) {
            (false, false) => "dry_run",
            (false, true) => "dry_run, cascade",
            (true, false) => "dry_run, manifests, changes, limit, offset",
            (true, true) => "dry_run, manifests, changes, limit, offset, cascade",
        };
        query.end(known)?;
        Ok(options)
    }

    /// The clusters that a plan renders objects for.
    pub fn rendered(&self) -> Option<Page> {
        self.manifests.then_some(self.listed.clusters)
    }
}
