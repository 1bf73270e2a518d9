//! Errors as clients get them: problem documents (RFC 9457). Each error of the application becomes one here.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Method, Response, StatusCode};
use axum::response::IntoResponse;
use fleet::guard::GuardLimit;
use fleet::identity::Role;
use fleet::inputs::Breach;
use fleet::refusal::{MOST_DETAIL, Reason, Refusal, Removals, Violation, quote, shorten};
use fleet::selector::SelectorError;
use serde::Serialize;
use serde_json::{Value, json};
use store::StoreError;

use super::problem_type::ProblemType;
use crate::app::cluster_list::ClusterListError;
use crate::app::engine::WriteError;
use crate::app::errors::{ReadError, RollbackError};
use crate::app::reads::{self, Stop};
use crate::auth::{Actor, Right};

/// An error response.
#[derive(Clone, Debug)]
pub struct Problem {
    kind: ProblemType,
    status: StatusCode,
    detail: Box<str>,
    errors: Vec<Violation>,
    clusters: Box<[String]>,
    /// Boxed because it is rare, and a problem is the error type of every handler.
    more: Option<Box<More>>,
    /// One header that belongs to the status.
    header: Option<(&'static str, Cow<'static, str>)>,
}

/// The type and detail of a problem, and who was refused, for the log line of its request.
#[derive(Clone, Debug)]
pub struct Reported {
    pub name: &'static str,
    pub detail: Box<str>,
    pub actor: Option<Arc<str>>,
}

/// Fields that few problems have.
#[derive(Clone, Debug, Default)]
struct More {
    removals: Option<Removals>,
    guards: Vec<GuardLimit>,
    resources: Vec<String>,
    /// Who was refused, for the log.
    actor: Option<Arc<str>>,
}

/// The most bytes in the lists of a problem: errors, and the names of clusters or resources. A problem stays small, whatever
/// was sent.
const MOST_ERRORS: usize = 32 << 10;
const MOST_NAMES: usize = 16 << 10;

/// As many items as fit into `most` bytes, and at least one.
fn fitting<T>(items: &[T], most: usize, size: impl Fn(&T) -> usize) -> &[T] {
    let mut taken = 0;
    let fits = |item: &&T| {
        taken += size(*item);
        taken <= most
    };
    let count = items.iter().take_while(fits).count();
    &items[..count.max(1).min(items.len())]
}

impl Problem {
    fn new(kind: ProblemType, detail: impl Into<String>) -> Self {
        Problem {
            kind,
            status: kind.status(),
            detail: shorten(detail.into(), MOST_DETAIL).into_boxed_str(),
            errors: Vec::new(),
            clusters: Box::default(),
            more: None,
            header: None,
        }
    }

    fn with_header(self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        Problem {
            header: Some((name, value.into())),
            ..self
        }
    }

    /// The request cannot be parsed.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(ProblemType::BadRequest, detail)
    }

    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Problem::new(ProblemType::Unauthorized, detail).with_header("www-authenticate", "Bearer")
    }

    /// Too many requests of this address, or with this token, had no valid token.
    pub fn too_many_failures(wait: Duration) -> Self {
        let detail = "too many requests without a valid token: wait before the next try";
        let seconds = wait.as_secs() + 1;
        Problem::new(ProblemType::TooManyFailures, detail).with_header("retry-after", seconds.to_string())
    }

    /// Too many clusters wait.
    pub fn crowded(detail: &'static str, seconds: u64) -> Self {
        Problem::new(ProblemType::Crowded, detail).with_header("retry-after", seconds.to_string())
    }

    /// Names who was refused, for the log.
    #[must_use]
    pub fn of(mut self, actor: &Actor) -> Self {
        self.more.get_or_insert_default().actor = Some(actor.name.to_string().into());
        self
    }

    pub fn actor(&self) -> Option<&str> {
        self.more.as_ref()?.actor.as_deref()
    }

    /// The role of the caller does not have the right.
    pub fn forbidden(role: Role, needed: Right) -> Self {
        let roles: Vec<&str> = needed.roles().iter().map(|role| role.name()).collect();
        let detail = match (role, needed) {
            (Role::Reader, Right::Write) => "this token can only read; use a token that can write".to_owned(),
            _ => format!(
                "a token of the role {} may not do this; it needs one of: {}",
                role.name(),
                roles.join(", ")
            ),
        };
        Problem::new(ProblemType::Forbidden, detail)
    }

    /// Overriding a guard is for admins.
    pub fn may_not_override(role: Role) -> Self {
        let detail = format!(
            "a token of the role {} may not override guards: only an admin may",
            role.name()
        );
        Problem::new(ProblemType::Forbidden, detail)
    }

    pub fn may_not_approve() -> Self {
        let detail = "the scope of this caller does not include approving rollouts";
        Problem::new(ProblemType::Forbidden, detail)
    }

    /// The caller has a valid JWT, and its claims are not those of one identity.
    pub fn unclaimed(detail: impl Into<String>) -> Self {
        Problem::new(ProblemType::Forbidden, detail)
    }

    /// The join identity, or its token, has expired.
    pub fn ended() -> Self {
        Problem::new(
            ProblemType::Forbidden,
            "the join identity, or its token, has expired: no cluster can register with it",
        )
    }

    /// A poll of the paths of one cluster by a caller that may not.
    pub fn not_its_cluster(detail: &'static str) -> Self {
        Problem::new(ProblemType::Forbidden, detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Problem::new(ProblemType::NotFound, detail)
    }

    /// `allowed` as the `Allow` header has it.
    pub fn method_not_allowed(method: &Method, allowed: impl Into<Cow<'static, str>>) -> Self {
        let (method, allowed) = (quote(method.as_str()), allowed.into());
        let detail = format!("{method} is not allowed here; allowed: {allowed}");
        Problem::new(ProblemType::MethodNotAllowed, detail).with_header("allow", allowed)
    }

    pub fn timeout() -> Self {
        Problem::new(ProblemType::Timeout, "the body did not arrive in time")
    }

    pub fn too_large(limit: usize) -> Self {
        Problem::new(ProblemType::TooLarge, format!("the body is larger than {limit} bytes"))
    }

    pub fn too_many_values() -> Self {
        Problem::new(
            ProblemType::TooLarge,
            "the body has too many values to be held in memory: split it",
        )
    }

    pub fn unsupported_media_type(given: &str, known: &str) -> Self {
        let detail = format!("the content type \"{}\" is not one of {known}", quote(given));
        Problem::new(ProblemType::UnsupportedMediaType, detail)
    }

    pub fn unsupported_coding(given: &str) -> Self {
        let given = quote(given);
        let detail = format!("the content encoding \"{given}\" is not supported: send the body without one");
        Problem::new(ProblemType::UnsupportedMediaType, detail)
    }

    pub fn invalid(errors: Vec<Violation>) -> Self {
        Refusal::invalid(errors).into()
    }

    pub fn unavailable(detail: impl Into<String>) -> Self {
        Problem::new(ProblemType::Unavailable, detail).with_header("retry-after", "5")
    }

    /// The response may depend on rows of the store that are damaged.
    pub fn damaged() -> Self {
        Problem::unavailable(
            "the store is damaged, and the response may depend on the damaged rows: run flux-resourceset repair",
        )
    }

    pub fn internal() -> Self {
        Problem::new(
            ProblemType::Internal,
            "internal error; the log of the server has details",
        )
    }

    /// What is stored for a cluster breaks the contract with Flux. No reply is better than a wrong one.
    pub fn broken_reply(breach: &Breach) -> Self {
        Problem {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            ..Problem::new(ProblemType::Contract, breach.to_string())
        }
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The OpenAPI schema of a problem. It describes [`Wire`].
    pub fn schema() -> Value {
        let names = |description| json!({"type": "array", "description": description, "items": {"type": "string"}});
        let detail = "\"Team_Sandbox\" does not match \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\"";
        json!({
            "type": "object",
            "description": "An error (RFC 9457).",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"type": "string", "example": "/problems/invalid"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string"},
                "errors": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["pointer", "detail"],
                        "properties": {
                            "pointer": {"type": "string", "description": "A JSON pointer into the body of the request."},
                            "detail": {"type": "string"},
                        },
                    },
                },
                "clusters": names("The clusters that prevent the change."),
                "resources": names("The resources that prevent the change, as kind/id."),
                "documents": names("The documents outside of the caller's scope, as kind/id."),
                "removals": {"$ref": "#/components/schemas/removals"},
                "guards": {
                    "type": "array",
                    "description": "The limits of guards that the write exceeds.",
                    "items": {"$ref": "#/components/schemas/guard_limit"},
                },
            },
            "example": {
                "type": "/problems/invalid",
                "title": "Unprocessable Entity",
                "status": 422,
                "detail": format!("/id: {detail}"),
                "errors": [{"pointer": "/id", "detail": detail}],
            },
        })
    }
}

/// A problem as it is sent. [`Problem::schema`] describes it.
#[derive(Serialize)]
struct Wire<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Violation],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    clusters: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    removals: Option<Removals>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    guards: &'a [GuardLimit],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    resources: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    documents: &'a [String],
}

impl<'a> Wire<'a> {
    fn of(problem: &'a Problem) -> Self {
        let more = problem.more.as_deref();
        let named = more.map_or(&[][..], |more| &more.resources[..]);
        let (resources, documents) = match problem.kind {
            ProblemType::OutOfScope => (&[][..], named),
            _ => (named, &[][..]),
        };
        let size_of_error = |error: &Violation| error.pointer.len() + error.detail.len() + 32;
        let size_of_name = |name: &String| name.len() + 3;
        let size_of_guard = |guard: &GuardLimit| guard.reason.len() + guard.selector.len() + 256;
        Wire {
            r#type: format!("/problems/{}", problem.kind.name()),
            title: problem.status.canonical_reason().unwrap_or_default(),
            status: problem.status.as_u16(),
            detail: &problem.detail,
            errors: fitting(&problem.errors, MOST_ERRORS, size_of_error),
            clusters: fitting(&problem.clusters, MOST_NAMES, size_of_name),
            removals: more.and_then(|more| more.removals),
            guards: more.map_or(&[][..], |more| fitting(&more.guards, MOST_ERRORS, size_of_guard)),
            resources: fitting(resources, MOST_NAMES, size_of_name),
            documents: fitting(documents, MOST_NAMES, size_of_name),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.response().map(Body::from)
    }
}

impl Problem {
    pub fn response(self) -> Response<Bytes> {
        let body = serde_json::to_vec(&Wire::of(&self)).unwrap_or_default();
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some((name, value)) = self.header
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            headers.insert(name, value);
        }
        response.extensions_mut().insert(Reported {
            name: self.kind.name(),
            detail: self.detail,
            actor: self.more.and_then(|more| more.actor),
        });
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let has_more = refusal.removals.is_some() || refusal.exceeded.is_some() || !refusal.resources.is_empty();
        let more = has_more.then(|| {
            Box::new(More {
                removals: refusal.removals.map(|removals| *removals),
                guards: refusal.exceeded.map(|exceeded| exceeded.guards).unwrap_or_default(),
                resources: refusal.resources,
                actor: None,
            })
        });
        Problem {
            errors: refusal.errors,
            clusters: refusal.clusters.into(),
            more,
            ..Problem::new(refusal.reason.into(), refusal.detail)
        }
    }
}

/// A selector that does not parse is a bad request. One with an unknown key parses, and is invalid.
impl From<SelectorError> for Problem {
    fn from(error: SelectorError) -> Self {
        match error {
            SelectorError::UnknownKey { .. } => Refusal::new(Reason::Invalid, error.to_string()).into(),
            _ => Problem::bad_request(error.to_string()),
        }
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(refusal) => refusal.into(),
            WriteError::Unavailable(detail) => Problem::unavailable(detail),
            WriteError::Stopped(stop) => stop.into(),
            WriteError::Internal => Problem::internal(),
        }
    }
}

impl From<Stop> for Problem {
    fn from(stop: Stop) -> Self {
        match stop {
            // Not seen by anyone: the connection is closed.
            Stop::Gone => Problem::unavailable("the client disconnected"),
            Stop::Late => {
                let seconds = reads::DEADLINE.as_secs();
                Problem::unavailable(format!(
                    "the read took longer than {seconds} s: other reads are running, or it asks for too much; \
                     try again, or ask for less by limit or selector"
                ))
            }
            Stop::Panicked => Problem::internal(),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound(detail) => Problem::not_found(detail),
            ReadError::BadParameter(detail) => Problem::bad_request(detail),
            ReadError::Selector(error) => error.into(),
            ReadError::Invalid(errors) => Problem::invalid(errors),
            ReadError::Breach(breach) => Problem::broken_reply(&breach),
            ReadError::OtherHistory(detail) => Problem::new(ProblemType::Conflict, detail),
            ReadError::Busy(detail) => Problem::unavailable(detail),
            ReadError::Store(error) => error.into(),
            ReadError::Stopped(stop) => stop.into(),
            ReadError::Damaged => Problem::damaged(),
            ReadError::Internal => Problem::internal(),
        }
    }
}

impl From<RollbackError> for Problem {
    fn from(error: RollbackError) -> Self {
        match error {
            RollbackError::Read(error) => error.into(),
            RollbackError::Write(error) => error.into(),
        }
    }
}

impl From<ClusterListError> for Problem {
    fn from(error: ClusterListError) -> Self {
        match error {
            ClusterListError::UnknownEnvironment(name) => {
                Problem::bad_request(format!("\"{name}\" is not an environment of this fleet"))
            }
            ClusterListError::Selector(error) => Problem::bad_request(error.to_string()),
            ClusterListError::Breach(breach) => {
                let detail = format!("{breach}: narrow the list with environment, selector or shard=i/n");
                Problem::new(ProblemType::Contract, detail)
            }
            ClusterListError::NoFleet => Problem::not_found("this fleet never had a cluster"),
            ClusterListError::Damaged => Problem::damaged(),
            ClusterListError::Stopped(stop) => stop.into(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if let StoreError::Compacted(_) = error {
            return Problem::new(ProblemType::Compacted, error.to_string());
        }
        tracing::warn!(%error, "the store cannot be read");
        Problem::unavailable("the store cannot be read at the moment")
    }
}
