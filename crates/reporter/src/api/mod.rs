//! The API of the fleet, as this cluster calls it.

mod https;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use self::https::Https;
use crate::config::{Access, Config, Token, usable_token};
use crate::report::REPORTER;

/// How long a reply may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a long poll waits at the server.
const HOLD: Duration = Duration::from_secs(50);
/// A list of paths with digests, or a problem document.
const LARGEST_REPLY: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Api {
    /// The address of this cluster's paths.
    cluster: String,
    access: Access,
    https: Https,
    /// Whether the last call found the API away.
    away: AtomicBool,
    back: Notify,
}

/// What each path has for this cluster.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) since: String,
    pub(crate) paths: BTreeMap<String, String>,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// None: there was no reply.
    status: Option<StatusCode>,
    detail: String,
    pub(crate) retry_after: Option<Duration>,
}

impl Trouble {
    fn new(detail: impl Into<String>) -> Trouble {
        Trouble {
            status: None,
            detail: detail.into(),
            retry_after: None,
        }
    }

    /// Whether the server may have lost what it was told: not if it only asks to be called later.
    pub(crate) fn is_outage(&self) -> bool {
        self.status != Some(StatusCode::TOO_MANY_REQUESTS)
    }

    /// Whether nobody answers who could say when to call again.
    fn is_away(&self) -> bool {
        self.is_outage() && self.retry_after.is_none()
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{} {}", status.as_u16(), self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

impl Api {
    pub(crate) fn new(config: &Config) -> Result<Api, String> {
        Ok(Api {
            cluster: format!("{}/api/v2/flux/clusters/{}", config.url, config.dns),
            access: config.access.clone(),
            https: Https::new(&config.url, &config.access)?,
            away: AtomicBool::new(false),
            back: Notify::new(),
        })
    }

    /// Waits after a failure: for the pause, or until another call finds that the API is back.
    pub(crate) async fn wait(&self, pause: Duration, trouble: &Trouble) {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.back.notified(), if trouble.is_away() => {}
        }
    }

    pub(crate) async fn report(&self, body: String) -> Result<(), Trouble> {
        self.call(Method::POST, "report", body, ANSWER).await.map(drop)
    }

    /// Returns at once if the server has something else than `since`, or else when that changes or the time is up.
    pub(crate) async fn changed(&self, since: Option<&str>) -> Result<Changed, Trouble> {
        let hold = HOLD.as_secs();
        let path = match since {
            // It is opaque.
            Some(since) => {
                let since = utf8_percent_encode(since, NON_ALPHANUMERIC);
                format!("changed?since={since}&timeout={hold}")
            }
            None => "changed".to_owned(),
        };
        let body = self.call(Method::GET, &path, String::new(), HOLD + ANSWER).await?;
        serde_json::from_slice(&body)
            .map_err(|error| Trouble::new(format!("the reply of changed is not valid: {error}")))
    }

    async fn call(&self, method: Method, path: &str, body: String, within: Duration) -> Result<Bytes, Trouble> {
        let reply = self.reply(method, path, body, within).await;
        match &reply {
            Ok(_) if self.away.swap(false, Ordering::Relaxed) => self.back.notify_waiters(),
            Err(trouble) if trouble.is_away() => self.away.store(true, Ordering::Relaxed),
            _ => {}
        }
        reply
    }

    async fn reply(&self, method: Method, path: &str, body: String, within: Duration) -> Result<Bytes, Trouble> {
        let client = self.https.client();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/{path}", self.cluster))
            .header(USER_AGENT, REPORTER);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = self.token()? {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request
            .body(Full::from(body))
            .map_err(|error| Trouble::new(error.to_string()))?;
        let whole = async {
            let response = client
                .request(request)
                .await
                .map_err(|error| Trouble::new(root(&error)))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, LARGEST_REPLY).collect().await;
            let body = body.map_err(|error| Trouble::new(root(error.as_ref())))?;
            Ok((head, body.to_bytes()))
        };
        let (head, body) = match timeout(within, whole).await {
            Ok(reply) => reply?,
            Err(_) => return Err(Trouble::new(format!("no reply within {} s", within.as_secs()))),
        };
        match head.status.is_success() {
            true => Ok(body),
            // Redirects are not followed: they could leak the token.
            false => Err(Trouble {
                status: Some(head.status),
                detail: detail(head.status, &body),
                retry_after: retry_after(head.headers.get(RETRY_AFTER)),
            }),
        }
    }

    /// The value of `Authorization`. None: a certificate identifies the cluster.
    fn token(&self) -> Result<Option<HeaderValue>, Trouble> {
        let token = match &self.access.token {
            Token::Given(token) => token.clone(),
            Token::None => return Ok(None),
            Token::In(file) => {
                let place = file.path.display();
                match std::fs::read_to_string(&file.path) {
                    Ok(text) => usable_token(&text)
                        .map_err(|problem| Trouble::new(format!("the token in {place} {problem}")))?,
                    Err(_) if !file.required && self.https.has_certificate() => return Ok(None),
                    Err(error) => return Err(Trouble::new(format!("there is no token: {place}: {error}"))),
                }
            }
        };
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| Trouble::new("the token contains characters that a header cannot carry"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// The detail of a problem document, or the name of the status.
fn detail(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Problem {
        detail: String,
    }
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => problem.detail,
        Err(_) => status.canonical_reason().unwrap_or_default().to_owned(),
    }
}

/// In seconds, as our server sends it.
fn retry_after(value: Option<&HeaderValue>) -> Option<Duration> {
    let seconds = value?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The root cause of an error. The errors around it only name places in the libraries.
fn root(error: &dyn std::error::Error) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_may_ask_for_time() {
        let after = |text: &'static str| retry_after(Some(&HeaderValue::from_static(text)));
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after(" 0 "), Some(Duration::ZERO));
        assert_eq!(after("Mon, 16 Nov 2026 11:22:15 GMT"), None);
        assert_eq!(after("-1"), None);
        assert_eq!(retry_after(None), None);
    }
}
