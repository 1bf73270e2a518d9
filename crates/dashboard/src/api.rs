//! The client of the API: requests of one caller, in the same process.

use std::convert::Infallible;
use std::fmt;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, AUTHORIZATION, ETAG, HeaderName, HeaderValue};
use axum::http::{Extensions, HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

/// What answers the requests.
#[derive(Clone)]
pub struct ApiService(pub BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>);

impl fmt::Debug for ApiService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiService")
    }
}

/// Headers of the browser's request that the API gets, too: who asks, and from where.
const PASSED_ON: [HeaderName; 3] = [
    AUTHORIZATION,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-request-id"),
];

/// The most of a reply that a page is made from.
const MOST_REPLY: usize = 16 << 20;

/// A client of the API with the credentials of one caller.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    service: ApiService,
    headers: HeaderMap,
    extensions: Extensions,
}

/// Why the API did not do what it was asked for: a problem of RFC 9457.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Problem {
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) detail: String,
    #[serde(default)]
    pub(crate) errors: Vec<FieldProblem>,
}

/// What is wrong with one field.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct FieldProblem {
    #[serde(default)]
    pub(crate) pointer: String,
    #[serde(default)]
    pub(crate) detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem {
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            ..Problem::default()
        }
    }

    /// Whether a reply has more than a page is made from.
    pub(crate) fn is_of_size(&self) -> bool {
        self.status == 502
    }

    /// Whether it is about the parameters of a read, such as a selector that is not valid.
    pub(crate) fn is_of_search(&self) -> bool {
        self.status == 400 || self.status == 422
    }

    pub(crate) fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// A reply that is not a problem.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let unexpected = |error: serde_json::Error| {
            let detail = format!("the API's reply has another form than this page expects: {error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
        };
        serde_json::from_slice(&self.body).map_err(unexpected)
    }

    /// The version of the document.
    pub(crate) fn etag(&self) -> Option<String> {
        self.headers.get(ETAG)?.to_str().ok().map(str::to_owned)
    }

    /// A number in a header, such as `X-Total-Count`.
    pub(crate) fn number(&self, header: &str) -> Option<u64> {
        self.headers.get(header)?.to_str().ok()?.parse().ok()
    }
}

impl Client {
    /// A client for whoever sent these headers on this connection.
    pub(crate) fn new(service: ApiService, received: &HeaderMap, extensions: Extensions) -> Client {
        let passed_on = PASSED_ON.into_iter().flat_map(|name| {
            let values = received.get_all(&name).iter().cloned().collect::<Vec<_>>();
            values.into_iter().map(move |value| (name.clone(), value))
        });
        Client {
            service,
            headers: passed_on.collect(),
            extensions,
        }
    }

    /// The same with a token. None if no request can have that token.
    pub(crate) fn with_token(mut self, token: &str) -> Option<Client> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        self.headers.insert(AUTHORIZATION, value);
        Some(self)
    }

    pub(crate) fn has_token(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION)
    }

    /// What a route shows.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        self.answer(path).await?.json()
    }

    /// The same, with its headers.
    pub(crate) async fn answer(&self, path: &str) -> Result<Answer, Problem> {
        self.send(Method::GET, path, HeaderMap::new(), Body::empty()).await
    }

    /// A text, such as YAML.
    pub(crate) async fn text(&self, path: &str, accept: &'static str) -> Result<String, Problem> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        let answer = self.send(Method::GET, path, headers, Body::empty()).await?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: impl Into<Body>,
    ) -> Result<Answer, Problem> {
        let response = self.open(method, path, headers, body).await?;
        Self::received(response).await
    }

    /// Makes a call, and does not read what it answers: the reply to a large change names each document. The headers of the reply.
    pub(crate) async fn make(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: impl Into<Body>,
    ) -> Result<HeaderMap, Problem> {
        let response = self.open(method, path, headers, body).await?;
        match response.status().is_success() {
            true => Ok(response.into_parts().0.headers),
            false => Self::received(response).await.map(|answer| answer.headers),
        }
    }

    /// The whole reply.
    async fn received(response: Response<Body>) -> Result<Answer, Problem> {
        let (parts, body) = response.into_parts();
        let too_much = |_| {
            let detail = "the API's reply broke off, or is too large for a page";
            Problem::new(StatusCode::BAD_GATEWAY, detail)
        };
        let body = http_body_util::Limited::new(body, MOST_REPLY).collect().await;
        let body = body.map_err(too_much)?.to_bytes();
        if parts.status.is_success() {
            return Ok(Answer {
                headers: parts.headers,
                body,
            });
        }
        let mut problem: Problem = serde_json::from_slice(&body).unwrap_or_default();
        problem.status = parts.status.as_u16();
        Err(problem)
    }

    /// The reply, before its body is read.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: impl Into<Body>,
    ) -> Result<Response<Body>, Problem> {
        let mut request = Request::new(body.into());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| {
            let detail = format!("there is nothing at {path:?}");
            Problem::new(StatusCode::NOT_FOUND, detail)
        })?;
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().extend(headers);
        *request.extensions_mut() = self.extensions.clone();
        match self.service.0.clone().oneshot(request).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }
}
