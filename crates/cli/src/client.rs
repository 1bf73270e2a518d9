//! The client of the API.

use std::cell::OnceCell;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use ureq::http::{HeaderValue, Response};
use ureq::typestate::{WithBody, WithoutBody};
use ureq::{Agent, RequestBuilder};

use crate::config::{Access, REDACTED, redacted, user_info};
use crate::error::{ApiError, Failure, Problem};
use crate::plan::whole::{self, Objects};
use crate::scheme::{WrongScheme, tls_error};

/// A document and its version.
#[derive(Clone, Debug)]
pub(crate) struct Versioned {
    pub(crate) value: Value,
    pub(crate) etag: String,
}

/// The reply to a `GET`.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) etag: Option<String>,
    /// The name of our token at the server.
    pub(crate) actor: Option<String>,
    /// The revision of the fleet, if the server sent it.
    pub(crate) revision: Option<u64>,
    /// The number of items on all pages of a list.
    pub(crate) total: Option<u64>,
    pub(crate) body: Vec<u8>,
}

/// The conditions of a write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// Only plan it.
    pub(crate) dry_run: bool,
    /// Plan it with the Kubernetes objects that change.
    pub(crate) objects: Objects,
    /// The digest of the plan: the write fails if its effect is another one.
    pub(crate) plan: Option<String>,
    /// From how many clusters something may be removed.
    pub(crate) removals: Option<u64>,
    /// How many clusters may leave a wave that a rollout has promoted.
    pub(crate) demotions: Option<u64>,
    /// The guards to override.
    pub(crate) overrides: Vec<String>,
}

impl Conditions {
    pub(crate) fn dry_run(objects: Objects) -> Self {
        Conditions {
            dry_run: true,
            objects,
            ..Conditions::default()
        }
    }

    fn headers(&self, mut request: RequestBuilder<WithBody>) -> RequestBuilder<WithBody> {
        if let Some(plan) = &self.plan {
            request = request.header("If-Plan-Match", plan);
        }
        if let Some(count) = self.removals {
            request = request.header("X-Confirm-Removals", count.to_string());
        }
        if let Some(count) = self.demotions {
            request = request.header("X-Confirm-Demotions", count.to_string());
        }
        if !self.overrides.is_empty() {
            request = request.header("X-Override-Guard", self.overrides.join(","));
        }
        request
    }
}

/// One operation of a batch, and its label in messages.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) body: Value,
    pub(crate) label: String,
}

impl Operation {
    pub(crate) fn new(label: impl Into<String>, body: Value) -> Self {
        Operation {
            body,
            label: label.into(),
        }
    }
}

/// A write to a route of its own: that of an identity or of a token.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
    /// The version that it is meant for.
    pub(crate) if_match: Option<String>,
    pub(crate) reason: Option<String>,
}

impl Change {
    pub(crate) fn new(method: Method, path: String, reason: Option<&str>) -> Change {
        Change {
            method,
            path,
            body: None,
            if_match: None,
            reason: reason.map(str::to_owned),
        }
    }

    #[must_use]
    pub(crate) fn with_body(mut self, body: Value) -> Change {
        self.body = Some(body);
        self
    }

    fn headers(&self, mut request: RequestBuilder<WithBody>) -> RequestBuilder<WithBody> {
        if let Some(etag) = &self.if_match {
            request = request.header("If-Match", etag);
        }
        // A header is one line; it may have every other character.
        let line = |reason: &String| reason.replace(|c: char| c.is_control(), " ");
        let reason = self.reason.as_ref().map(line);
        match reason.and_then(|reason| HeaderValue::from_bytes(reason.as_bytes()).ok()) {
            Some(reason) => request.header("X-Change-Reason", reason),
            None => request,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Post,
    Patch,
    Delete,
}

/// Which of the two tokens a request is sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Read,
    Write,
}

#[derive(Debug)]
pub(crate) struct Client {
    access: Access,
    agent: OnceCell<Agent>,
}

impl Client {
    pub(crate) fn new(access: Access) -> Client {
        Client {
            access,
            agent: OnceCell::new(),
        }
    }

    /// The address as it may be shown.
    pub(crate) fn shown_url(&self) -> String {
        redacted(self.access.url().unwrap_or_default())
    }

    fn agent(&self, url: &str) -> Result<&Agent, ApiError> {
        if let Some(agent) = self.agent.get() {
            return Ok(agent);
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirect would send the token to another server.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .user_agent(concat!("flux-resourceset-cli/", env!("CARGO_PKG_VERSION")));
        let tls = self.access.tls();
        let agent = match url.starts_with("https:") {
            true => {
                let files = tls.load().map_err(ApiError::Unconfigured)?;
                config.tls_config(files).build().new_agent()
            }
            false if tls.certificate.is_some() => {
                let failure = Failure::usage(format!(
                    "a client certificate needs an https:// address, not {}",
                    redacted(url)
                ));
                return Err(ApiError::Unconfigured(failure));
            }
            false => config.build().new_agent(),
        };
        Ok(self.agent.get_or_init(|| agent))
    }

    /// Sends a request with the token for reading or for writing, if there is one.
    fn send<B>(
        &self,
        right: Right,
        build: impl FnOnce(&Agent, &str) -> RequestBuilder<B>,
        send: impl FnOnce(RequestBuilder<B>) -> Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<Reply, ApiError> {
        let url = self.url()?;
        let (token, source) = match right {
            Right::Read => (self.access.read_token(), self.access.read_source()),
            Right::Write => (self.access.write_token(), self.access.write_source()),
        };
        let token = token.map_err(ApiError::Unconfigured)?;
        let mut request = build(self.agent(url)?, url);
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let has_certificate = self.access.tls().certificate.is_some();
        finish(url, has_certificate, send(request)).map_err(|error| error.with_token(source))
    }

    fn send_get(&self, right: Right, path: &str, known: Option<&str>) -> Result<Reply, ApiError> {
        let build = |agent: &Agent, url: &str| {
            let request = agent.get(format!("{url}{path}")).header("Accept", "application/json");
            match known {
                Some(etag) => request.header("If-None-Match", etag),
                None => request,
            }
        };
        self.send(right, build, RequestBuilder::<WithoutBody>::call)
    }

    pub(crate) fn url(&self) -> Result<&str, ApiError> {
        self.access.url().map_err(ApiError::Unconfigured)
    }

    /// `GET` with the token for reading; of identities, which readers do not see, with the one for writing. `known` is the version
    /// that the caller already has.
    pub(crate) fn get_raw(&self, path: &str, known: Option<&str>) -> Result<Reply, ApiError> {
        let right = match path.starts_with("/identities") {
            true => Right::Write,
            false => Right::Read,
        };
        self.send_get(right, path, known)
    }

    /// Who the token for reading or for writing belongs to.
    pub(crate) fn whoami(&self, right: Right) -> Result<Value, ApiError> {
        self.json(&self.send_get(right, "/whoami", None)?)
    }

    /// How to log in. Needs no token, and sends none.
    pub(crate) fn discovery(&self) -> Result<Value, ApiError> {
        let url = self.url()?;
        let has_certificate = self.access.tls().certificate.is_some();
        let request = self.agent(url)?.get(format!("{url}/.well-known/flux-resourceset"));
        self.json(&finish(url, has_certificate, request.call())?)
    }

    /// The name of our write token in the log, and the revision of the server.
    pub(crate) fn writer(&self) -> Result<(Option<String>, u64), ApiError> {
        // No revision is after this one, so the reply has no records.
        let reply = self.send_get(Right::Write, &format!("/changes?limit=1&after={}", i64::MAX), None)?;
        Ok((reply.actor, reply.revision.unwrap_or_default()))
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.json(&self.get_raw(path, None)?)
    }

    /// `GET` of a stream of server-sent events: its lines, as they come.
    pub(crate) fn events(&self, path: &str) -> Result<Box<dyn BufRead>, ApiError> {
        let url = self.url()?;
        let token = self.access.read_token().map_err(ApiError::Unconfigured)?;
        let request = self.agent(url)?.get(format!("{url}{path}"));
        let mut request = request.header("Accept", "text/event-stream");
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        match request.call() {
            Ok(response) if response.status() == 200 => {
                Ok(Box::new(BufReader::new(response.into_body().into_reader())))
            }
            other => {
                let has_certificate = self.access.tls().certificate.is_some();
                let reply = finish(url, has_certificate, other);
                let reply = reply.map_err(|error| error.with_token(self.access.read_source()))?;
                Err(ApiError::Foreign {
                    url: self.shown_url(),
                    detail: format!("it answered {} in place of a stream", reply.status),
                })
            }
        }
    }

    pub(crate) fn json(&self, reply: &Reply) -> Result<Value, ApiError> {
        serde_json::from_slice(&reply.body).map_err(|error| ApiError::Foreign {
            url: self.shown_url(),
            detail: format!("the reply is not JSON: {error}"),
        })
    }

    /// A resource and its version.
    pub(crate) fn resource(&self, kind: &str, id: &str) -> Result<Versioned, ApiError> {
        let reply = self.get_raw(&format!("/{kind}/{}", encode(id)), None)?;
        Ok(Versioned {
            value: self.json(&reply)?,
            etag: reply.etag.unwrap_or_default(),
        })
    }

    /// A resource and its version; none if it does not exist.
    pub(crate) fn find(&self, kind: &str, id: &str) -> Result<Option<Versioned>, ApiError> {
        match self.resource(kind, id) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How many resources of a kind there are.
    pub(crate) fn count(&self, kind: &str) -> Result<u64, ApiError> {
        Ok(self
            .get_raw(&format!("/{kind}?limit=1"), None)?
            .total
            .unwrap_or_default())
    }

    /// The current revision.
    pub(crate) fn revision(&self) -> Result<u64, ApiError> {
        Ok(self.get_raw("/changes?limit=1", None)?.revision.unwrap_or_default())
    }

    /// Sends all operations as one revision.
    pub(crate) fn batch(
        &self,
        operations: &[Operation],
        reason: Option<&str>,
        conditions: &Conditions,
    ) -> Result<Value, ApiError> {
        let operations: Vec<&Value> = operations.iter().map(|operation| &operation.body).collect();
        self.write("/batch", json!({ "operations": operations }), reason, conditions)
    }

    /// Sends a rollback or an undo.
    pub(crate) fn rollback(
        &self,
        back: &Value,
        reason: Option<&str>,
        conditions: &Conditions,
    ) -> Result<Value, ApiError> {
        self.write("/rollback", back.clone(), reason, conditions)
    }

    fn write(
        &self,
        path: &str,
        mut body: Value,
        reason: Option<&str>,
        conditions: &Conditions,
    ) -> Result<Value, ApiError> {
        if let Some(reason) = reason {
            body["reason"] = reason.into();
        }
        let body = body.to_string();
        let send = |query: &str| self.post(&format!("{path}?{query}"), &body, conditions);
        match conditions.dry_run {
            true => whole::read(conditions.objects, send),
            false => self.post(path, &body, conditions),
        }
    }

    /// Sends an action on a resource. The reply is shown like that of a batch.
    pub(crate) fn act(
        &self,
        kind: &str,
        id: &str,
        action: &str,
        mut body: Value,
        reason: Option<&str>,
        conditions: &Conditions,
    ) -> Result<Value, ApiError> {
        let path = format!("/{kind}/{}/{action}", encode(id));
        if conditions.dry_run {
            return self.write(&path, body, reason, conditions);
        }
        if let Some(reason) = reason {
            body["reason"] = reason.into();
        }
        let reply = self.send_post(&path, &body.to_string(), conditions)?;
        let change = json!({"action": "update", "kind": kind, "id": id, "etag": reply.etag});
        Ok(json!({"revision": reply.revision, "changes": [change]}))
    }

    fn post(&self, path: &str, body: &str, conditions: &Conditions) -> Result<Value, ApiError> {
        self.json(&self.send_post(path, body, conditions)?)
    }

    fn send_post(&self, path: &str, body: &str, conditions: &Conditions) -> Result<Reply, ApiError> {
        let build = |agent: &Agent, url: &str| {
            let request = agent.post(format!("{url}{path}"));
            conditions.headers(request.header("Content-Type", "application/json"))
        };
        self.send(Right::Write, build, |request| request.send(body))
    }

    /// Sends a write that has a route of its own, or plans it. The reply of a `DELETE` has no body.
    pub(crate) fn change(&self, change: &Change, conditions: &Conditions) -> Result<Reply, ApiError> {
        let path = match conditions.dry_run {
            true => format!("{}?dry_run=true", change.path),
            false => change.path.clone(),
        };
        let build = |agent: &Agent, url: &str| {
            let address = format!("{url}{path}");
            let request = match change.method {
                Method::Post => agent.post(address),
                Method::Patch => agent.patch(address),
                // A body of length zero is none.
                Method::Delete => agent.delete(address).force_send_body(),
            };
            conditions.headers(change.headers(request))
        };
        self.send(Right::Write, build, |request| match &change.body {
            Some(body) => request
                .header("Content-Type", "application/json")
                .send(body.to_string()),
            None => request.send_empty(),
        })
    }
}

const UNTRUSTED: &str =
    "the system does not trust this certificate; name a file with its authority: --certificate-authority FILE";
const REFUSED: &str =
    "the client certificate must be signed by an authority that the server trusts (its TLS_CLIENT_CA_FILE)";

fn finish(
    url: &str,
    has_certificate: bool,
    result: Result<Response<ureq::Body>, ureq::Error>,
) -> Result<Reply, ApiError> {
    let unreachable = |error: &ureq::Error| match WrongScheme::find(url, error) {
        Some(wrong) => wrong_scheme(url, &wrong),
        None => ApiError::Unreachable {
            url: redacted(url),
            detail: describe(url, has_certificate, error),
            hint: match (is_untrusted(error), has_certificate && is_alert(error)) {
                (true, _) => Some(UNTRUSTED),
                (_, true) => Some(REFUSED),
                _ => None,
            },
            instead: None,
        },
    };
    let mut response = result.map_err(|error| unreachable(&error))?;
    let header = |name: &str| {
        response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    let (etag, actor) = (header("etag"), header("x-actor"));
    let number = |name: &str| header(name).and_then(|text| text.parse().ok());
    let (revision, total) = (number("x-revision"), number("x-total-count"));
    let status = response.status().as_u16();
    let body = response
        .body_mut()
        .with_config()
        .limit(u64::MAX)
        .read_to_vec()
        .map_err(|error| unreachable(&error))?;
    match status {
        200..=299 | 304 => Ok(Reply {
            status,
            etag,
            actor,
            revision,
            total,
            body,
        }),
        300..=399 => Err(ApiError::Foreign {
            url: redacted(url),
            detail: format!("it redirects ({status}), and tokens are not sent to another address"),
        }),
        _ => Err(match WrongScheme::in_answer(url, status, &body) {
            Some(wrong) => wrong_scheme(url, &wrong),
            None => ApiError::Problem(Box::new(Problem::read(status, &body))),
        }),
    }
}

fn wrong_scheme(url: &str, wrong: &WrongScheme) -> ApiError {
    ApiError::Unreachable {
        url: redacted(url),
        detail: wrong.detail.to_owned(),
        hint: None,
        instead: Some(redacted(&wrong.address)),
    }
}

/// Whether the certificate of the server is from an unknown authority. Other errors of certificates explain themselves.
fn is_untrusted(error: &ureq::Error) -> bool {
    let unknown = rustls::CertificateError::UnknownIssuer;
    matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(error)) if *error == unknown)
}

/// Whether the server ended the handshake.
fn is_alert(error: &ureq::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::AlertReceived(_)))
}

fn describe(url: &str, has_certificate: bool, error: &ureq::Error) -> String {
    let detail = match error {
        error if has_certificate && is_alert(error) => {
            let detail = tls_error(error).map(ToString::to_string).unwrap_or_default();
            format!("the server does not accept the client certificate ({detail})")
        }
        ureq::Error::Io(error) => crate::error::plain(error),
        ureq::Error::HostNotFound => "the host name cannot be resolved".to_owned(),
        ureq::Error::Timeout(_) => "the server did not answer in time".to_owned(),
        other => other.to_string(),
    };
    match user_info(url) {
        Some(secret) => detail.replace(secret, REDACTED),
        None => detail,
    }
}

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a segment of a path, or a value of a query string.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A path with a query string; parameters without a value are left out.
pub(crate) fn with_query<'a>(path: &str, parameters: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let mut out = path.to_owned();
    let mut separator = '?';
    for (name, value) in parameters {
        if let Some(value) = value {
            out.push(separator);
            out.push_str(&encode(name));
            out.push('=');
            out.push_str(&encode(&value));
            separator = '&';
        }
    }
    out
}
