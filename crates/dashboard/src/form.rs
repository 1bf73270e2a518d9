//! Forms that browsers send: read within limits of size, time and memory.

use std::time::Duration;

use axum::Form;
use axum::body::{Body, HttpBody as _};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts as _, Request};
use axum::http::StatusCode;
use axum::response::Response;
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::api::Problem;
use crate::visit::Visit;
use crate::{Ui, layout};

/// The largest form for signing in. It has a token and the address of a page.
const MOST_SIGN_IN: usize = 64 << 10;
/// The largest form of a change: a document of the largest size, encoded.
const MOST_CHANGE: usize = 4 << 20;
/// How long a form may take to arrive: as long as a body of the API.
const ARRIVAL: Duration = Duration::from_secs(30);
/// How long a form waits for room.
const WAITING: Duration = Duration::from_secs(20);

/// Room for the forms of changes that are in memory at a time. It is not the room that the API has for bodies: the call of a form needs some of that while
/// the form has its own, and the two would wait for each other.
static ROOM: Semaphore = Semaphore::const_new(4 * MOST_CHANGE);

/// The form for signing in, of a sender that is not known yet. It needs no room: it is as small as the head of a request, and connections are limited. With
/// room that strangers share, a few of them could keep everybody else from signing in.
pub(crate) async fn sign_in<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    read(request, MOST_SIGN_IN).await
}

/// The form of a change, and who sends it. As the API does, it finds out who that is before it reads anything.
pub(crate) struct Sent<T> {
    pub(crate) visit: Visit,
    pub(crate) form: T,
    /// Held until the request is answered.
    _room: SemaphorePermit<'static>,
}

impl<T: DeserializeOwned> FromRequest<Ui> for Sent<T> {
    type Rejection = Response;

    async fn from_request(request: Request, ui: &Ui) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let visit = Visit::from_request_parts(&mut parts, ui).await?;
        let request = Request::from_parts(parts, body);
        let refused = |problem| layout::page(&visit, Err(problem));
        if !visit.may_write() {
            let detail = format!(
                "{} has the role {}, which may not change anything",
                visit.who.id, visit.who.role
            );
            return Err(refused(Problem::new(StatusCode::FORBIDDEN, detail)));
        }
        let _room = reserve(request.body().size_hint().exact()).await.map_err(refused)?;
        let form = read(request, MOST_CHANGE).await.map_err(refused)?;
        Ok(Sent { visit, form, _room })
    }
}

/// Reserves room for a form of a length, or for the largest if it does not say.
async fn reserve(length: Option<u64>) -> Result<SemaphorePermit<'static>, Problem> {
    let room = length.map_or(MOST_CHANGE, |length| usize::try_from(length).unwrap_or(MOST_CHANGE));
    let room = u32::try_from(room.min(MOST_CHANGE)).unwrap_or(u32::MAX);
    match timeout(WAITING, ROOM.acquire_many(room)).await {
        Ok(Ok(reserved)) => Ok(reserved),
        _ => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "other large forms are in progress: try again in a moment",
        )),
    }
}

async fn read<T: DeserializeOwned>(request: Request, limit: usize) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let too_large = || {
        let detail = format!("the form is larger than {limit} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    // Checked before anything is read.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let late = |_| {
        let detail = format!("the form did not arrive within {} s", ARRIVAL.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
    };
    let bytes = timeout(ARRIVAL, Limited::new(body, limit).collect())
        .await
        .map_err(late)?;
    let bytes = bytes.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
        true => too_large(),
        false => Problem::new(StatusCode::BAD_REQUEST, "the form is incomplete"),
    })?;
    let mut request = Request::from_parts(parts, Body::from(bytes.to_bytes()));
    DefaultBodyLimit::disable().apply(&mut request);
    let form = Form::from_request(request, &()).await;
    let unread = |_| Problem::new(StatusCode::BAD_REQUEST, "the form cannot be read, or lacks a field");
    form.map(|Form(form)| form).map_err(unread)
}
