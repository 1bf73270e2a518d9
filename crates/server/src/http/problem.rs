//! The one table from what went wrong to what is answered: problem documents (RFC 9457).

use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use fleet::inputs::Breach;
use fleet::refusal::{MOST_DETAIL, Reason, Refusal, Removals, Violation, quote, shorten};
use fleet::selector::SelectorError;
use serde::Serialize;

use crate::app::engine::WriteError;
use crate::app::history::{BackError, PastError};
use crate::app::reads::{self, Stop};

/// What is answered when something is refused.
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    name: &'static str,
    detail: Box<str>,
    errors: Vec<Violation>,
    clusters: Box<[String]>,
    /// Rarely there, and boxed: a problem is the error of everything.
    more: Option<Box<More>>,
    /// One header that goes with the status.
    header: Option<(&'static str, &'static str)>,
}

/// What a response that is a problem says, for the log.
#[derive(Clone, Debug)]
pub struct Told {
    pub name: &'static str,
    pub detail: Box<str>,
}

/// What only some problems have.
#[derive(Clone, Debug)]
struct More {
    removals: Option<Removals>,
    resources: Vec<String>,
}

/// How long the lists of a problem may be, in bytes: errors, and clusters or resources that are in the way. Whatever was sent,
/// a problem stays small.
const MOST_ERRORS: usize = 32 << 10;
const MOST_NAMES: usize = 16 << 10;

/// As many items as fit, and at least one.
fn fitting<T>(items: &[T], most: usize, size: impl Fn(&T) -> usize) -> &[T] {
    let mut taken = 0;
    let fits = |item: &&T| {
        taken += size(*item);
        taken <= most
    };
    let count = items.iter().take_while(fits).count();
    &items[..count.max(1).min(items.len())]
}

/// The last segment of the `type` of a refusal.
pub fn name_of(reason: Reason) -> &'static str {
    match reason {
        Reason::Invalid => "invalid",
        Reason::NotFound => "not-found",
        Reason::Exists => "exists",
        Reason::InUse => "in-use",
        Reason::Contract => "contract",
        Reason::Protected => "protected",
        Reason::Stale => "stale",
        Reason::RemovalBudget => "removal-budget",
        Reason::PlanChanged => "plan-changed",
        Reason::Conflict => "conflict",
    }
}

impl Problem {
    fn new(status: StatusCode, name: &'static str, detail: impl Into<String>) -> Self {
        Problem {
            status,
            name,
            detail: shorten(detail.into(), MOST_DETAIL).into_boxed_str(),
            errors: Vec::new(),
            clusters: Box::default(),
            more: None,
            header: None,
        }
    }

    /// The request itself cannot be read.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    pub fn unauthorized(detail: &'static str) -> Self {
        let mut problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
        problem.header = Some(("www-authenticate", "Bearer"));
        problem
    }

    pub fn forbidden() -> Self {
        Problem::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "this token reads; writing takes the write token",
        )
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    pub fn method_not_allowed(method: &Method, allowed: &'static str) -> Self {
        let method = quote(method.as_str());
        let detail = format!("{method} means nothing here; allowed: {allowed}");
        let mut problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail);
        problem.header = Some(("allow", allowed));
        problem
    }

    pub fn conflict(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::CONFLICT, name_of(Reason::Conflict), detail)
    }

    pub fn timeout() -> Self {
        Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout",
            "the body did not arrive in time",
        )
    }

    pub fn too_large(limit: usize) -> Self {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            format!("the body is larger than {limit} bytes"),
        )
    }

    pub fn too_many_values() -> Self {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "the body has too many values to be held in memory: split it",
        )
    }

    pub fn unsupported_media_type(given: &str, known: &str) -> Self {
        let detail = format!("the content type \"{}\" is not one of {known}", quote(given));
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail)
    }

    pub fn unsupported_coding(given: &str) -> Self {
        let detail = format!(
            "the content encoding \"{}\" is not known: send the body as it is",
            quote(given)
        );
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail)
    }

    pub fn invalid(errors: Vec<Violation>) -> Self {
        Refusal::invalid(errors).into()
    }

    pub fn unavailable(detail: impl Into<String>) -> Self {
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        problem.header = Some(("retry-after", "5"));
        problem
    }

    /// The store is damaged, and the answer may depend on what is missing.
    pub fn damaged() -> Self {
        Problem::unavailable(
            "the store is damaged, and the answer may depend on what is missing; the operator runs flux-resourceset repair",
        )
    }

    pub fn internal() -> Self {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "an internal error; the log has more",
        )
    }

    /// What is stored for one cluster would break the contract: better no answer than a wrong one.
    pub fn broken_reply(breach: &Breach) -> Self {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "contract", breach.to_string())
    }

    /// A list that the caller can narrow.
    pub fn list_too_large(breach: &Breach) -> Self {
        let detail = format!("{breach}: narrow the list with environment, selector or shard=i/n");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "contract", detail)
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.reason {
            Reason::Invalid | Reason::Contract => StatusCode::UNPROCESSABLE_ENTITY,
            Reason::NotFound => StatusCode::NOT_FOUND,
            Reason::Exists | Reason::InUse | Reason::Protected | Reason::RemovalBudget | Reason::Conflict => {
                StatusCode::CONFLICT
            }
            Reason::Stale | Reason::PlanChanged => StatusCode::PRECONDITION_FAILED,
        };
        Problem {
            errors: refusal.errors,
            clusters: refusal.clusters.into(),
            more: (refusal.removals.is_some() || !refusal.resources.is_empty()).then(|| {
                Box::new(More {
                    removals: refusal.removals.map(|removals| *removals),
                    resources: refusal.resources,
                })
            }),
            ..Problem::new(status, name_of(refusal.reason), refusal.detail)
        }
    }
}

/// A selector that cannot be read is a bad request; one whose key means nothing is read, and wrong.
impl From<SelectorError> for Problem {
    fn from(error: SelectorError) -> Self {
        match error {
            SelectorError::UnknownKey(_) => Refusal::new(Reason::Invalid, error.to_string()).into(),
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
            // Nobody reads it.
            Stop::Gone => Problem::unavailable("the client is gone"),
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

impl From<PastError> for Problem {
    fn from(error: PastError) -> Self {
        match error {
            PastError::NotYet(revision) => Problem::not_found(format!("there is no revision {revision}")),
            PastError::Store(error) => error.into(),
            PastError::Stopped(stop) => stop.into(),
            PastError::Damaged => Problem::damaged(),
            PastError::Internal => Problem::internal(),
        }
    }
}

impl From<BackError> for Problem {
    fn from(error: BackError) -> Self {
        match error {
            BackError::Past(error) => error.into(),
            BackError::Write(error) => error.into(),
        }
    }
}

impl From<store::StoreError> for Problem {
    fn from(error: store::StoreError) -> Self {
        if let store::StoreError::Compacted(_) = error {
            return Problem::new(StatusCode::GONE, "compacted", error.to_string());
        }
        tracing::warn!(%error, "the store cannot be read");
        Problem::unavailable("the store cannot be read at the moment")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
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
            resources: &'a [String],
        }
        let wire = Wire {
            r#type: format!("/problems/{}", self.name),
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            detail: &self.detail,
            errors: fitting(&self.errors, MOST_ERRORS, |error| {
                error.pointer.len() + error.detail.len() + 32
            }),
            clusters: fitting(&self.clusters, MOST_NAMES, |name| name.len() + 3),
            removals: self.more.as_ref().and_then(|more| more.removals),
            resources: fitting(
                self.more.as_ref().map_or(&[][..], |more| &more.resources[..]),
                MOST_NAMES,
                |name| name.len() + 3,
            ),
        };
        let body = serde_json::to_vec(&wire).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some((name, value)) = self.header {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response.extensions_mut().insert(Told {
            name: self.name,
            detail: self.detail,
        });
        response
    }
}
