//! Parsing requests: bodies within limits, query strings without unknown parameters, headers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, IF_MATCH};
use axum::http::{HeaderMap, Method, Uri};
use fleet::guard::parse_time;
use fleet::judge::Confirmation;
use fleet::log::Digest;
use fleet::operation::{BatchRequest, IfMatch};
use fleet::patch::Form;
use fleet::refusal::quote;
use fleet::yaml;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::poll::PREFIX;
use super::problem::Problem;
pub use crate::app::Page;

/// The largest document, and the largest batch.
pub const MOST_DOCUMENT: usize = 1 << 20;
pub const MOST_BATCH: usize = 32 << 20;
/// The largest event of Flux, and the largest report of a cluster.
pub const MOST_EVENT: usize = 64 << 10;
pub const MOST_REPORT: usize = 4 << 20;
/// The largest number in a query string or a body: all databases and languages have integers of 64 bits with a sign.
pub const MOST_NUMBER: u64 = i64::MAX as u64;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);
/// The largest body that is parsed on the thread that reads it.
pub const QUICK: usize = 64 << 10;

/// Bounds how much of the bodies of requests is in memory at a time. A parsed body takes about ten times its text until it is
/// answered: several large batches at once would take gigabytes. Small bodies do not wait for large ones.
#[derive(Debug)]
pub struct Bodies {
    documents: Arc<Semaphore>,
    batches: Arc<Semaphore>,
}

/// How long a request waits for room.
const BODIES_TIME: Duration = Duration::from_secs(20);

impl Default for Bodies {
    fn default() -> Self {
        Bodies {
            documents: Arc::new(Semaphore::new(32 * MOST_DOCUMENT)),
            batches: Arc::new(Semaphore::new(MOST_BATCH)),
        }
    }
}

impl Bodies {
    /// Reserves room for the body of a request: its length, or the most that is allowed if it does not say. None: it has no
    /// body, or one that is refused for its size. Nothing is read before, so a client with `Expect: 100-continue` need not send it.
    pub fn reserve(
        &self,
        request: &Request,
    ) -> impl Future<Output = Result<Option<OwnedSemaphorePermit>, Problem>> + use<> {
        let room = self.room(request);
        async move {
            let Some((room, size)) = room else { return Ok(None) };
            match tokio::time::timeout(BODIES_TIME, room.acquire_many_owned(size)).await {
                Ok(reserved) => Ok(reserved.ok()),
                Err(_) => Err(Problem::unavailable(
                    "other large requests are in progress: try again later, or send less at a time",
                )),
            }
        }
    }

    /// Where the body of a request needs room, and how much.
    fn room(&self, request: &Request) -> Option<(Arc<Semaphore>, u32)> {
        let limit = match request.uri().path() {
            "/batch" => MOST_BATCH,
            path if path.starts_with(PREFIX) => MOST_REPORT,
            _ => MOST_DOCUMENT,
        };
        let size = request.body().size_hint().exact().unwrap_or(limit as u64);
        if matches!(*request.method(), Method::GET | Method::HEAD) || size == 0 || size > limit as u64 {
            return None;
        }
        let room = if size > MOST_DOCUMENT as u64 {
            &self.batches
        } else {
            &self.documents
        };
        Some((room.clone(), u32::try_from(size).ok()?))
    }
}

/// The body of a write, parsed by its content type.
pub async fn document(headers: &HeaderMap, body: Body, limit: usize) -> Result<Value, Problem> {
    let (kind, bytes) = (media_type(headers), read(headers, body, limit).await?);
    match bytes.len() > QUICK {
        true => apart(move || parse(&kind, &bytes)).await,
        false => parse(&kind, &bytes),
    }
}

/// The body of a write that may be left out: an empty object then.
pub async fn document_or_empty(headers: &HeaderMap, body: Body, limit: usize) -> Result<Value, Problem> {
    let (kind, bytes) = (media_type(headers), read(headers, body, limit).await?);
    match bytes.trim_ascii().is_empty() {
        true => Ok(Value::Object(Map::new())),
        false => parse(&kind, &bytes),
    }
}

/// The body of `POST /batch`.
pub async fn batch(headers: &HeaderMap, body: Body) -> Result<BatchRequest, Problem> {
    let (kind, bytes) = (media_type(headers), read(headers, body, MOST_BATCH).await?);
    let parse = move || {
        let body = parse(&kind, &bytes)?;
        // The text is no longer needed, and the operations are several times as large.
        drop(bytes);
        BatchRequest::parse(body).map_err(Problem::invalid)
    };
    apart(parse).await
}

/// Parses a large body off the threads that answer polls.
pub async fn apart<T: Send + 'static>(
    parse: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let parsed = tokio::task::spawn_blocking(parse).await;
    parsed.unwrap_or_else(|_| Err(Problem::internal()))
}

/// The body of a kind. Most are YAML files, so that a body without a content type may be YAML, too.
pub async fn kind(headers: &HeaderMap, body: Body) -> Result<Value, Problem> {
    let (kind, bytes) = (media_type(headers), read(headers, body, MOST_DOCUMENT).await?);
    let is_yaml = kind.is_empty() && !bytes.trim_ascii_start().starts_with(b"{");
    parse(if is_yaml { "application/yaml" } else { &kind }, &bytes)
}

fn parse(kind: &str, bytes: &[u8]) -> Result<Value, Problem> {
    match kind {
        "" | "application/json" => json(bytes),
        "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => {
            let text = std::str::from_utf8(bytes).map_err(|_| Problem::bad_request("the body is not UTF-8"))?;
            yaml::parse(text).map_err(|error| Problem::bad_request(format!("the body is not YAML: {error}")))
        }
        other => Err(Problem::unsupported_media_type(
            other,
            "application/json, application/yaml",
        )),
    }
}

/// The body of a PATCH, and which of the three forms it has.
pub async fn patch(headers: &HeaderMap, body: Body) -> Result<(Form, Value), Problem> {
    let form = match media_type(headers).as_str() {
        "" | "application/json" => Form::Merge,
        "application/merge-patch+json" => Form::MergePatch,
        "application/json-patch+json" => Form::JsonPatch,
        other => {
            let known = "application/json, application/merge-patch+json, application/json-patch+json";
            return Err(Problem::unsupported_media_type(other, known));
        }
    };
    Ok((form, json(&read(headers, body, MOST_DOCUMENT).await?)?))
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The most memory that a parsed body may take.
const MOST_PARSED: usize = 1 << 30;

/// Estimates the memory that a JSON text takes once it is parsed: even a small object takes hundreds of bytes.
fn parsed_size(bytes: &[u8]) -> usize {
    const OBJECT: usize = 640;
    const VALUE: usize = 32;
    let mut size = bytes.len();
    let (mut in_string, mut escaped) = (false, false);
    for byte in bytes {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{') => size += OBJECT,
            (false, b'[' | b',') => size += VALUE,
            _ => {}
        }
    }
    size
}

fn json(bytes: &[u8]) -> Result<Value, Problem> {
    if bytes.len() > MOST_DOCUMENT && parsed_size(bytes) > MOST_PARSED {
        return Err(Problem::too_many_values());
    }
    fleet::json::parse(bytes).map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))
}

/// The bytes of a body.
pub async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<bytes::Bytes, Problem> {
    if let Some(coding) = headers.get(CONTENT_ENCODING).filter(|coding| *coding != "identity") {
        let coding = coding.to_str().unwrap_or_default();
        return Err(Problem::unsupported_coding(coding));
    }
    // Checked before anything is read: a client with `Expect: 100-continue` need not send it.
    if body.size_hint().lower() > limit as u64 {
        return Err(Problem::too_large(limit));
    }
    match tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let source = std::error::Error::source(&error);
            match source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) {
                true => Err(Problem::too_large(limit)),
                false => Err(Problem::bad_request("the body is incomplete")),
            }
        }
        Err(_) => Err(Problem::timeout()),
    }
}

/// What the client expects of a write: `If-Plan-Match`, `X-Confirm-Removals` and `X-Confirm-Demotions`.
pub fn confirmation(headers: &HeaderMap) -> Result<Confirmation, Problem> {
    let one = |name: &'static str| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().map(|value| value.to_str().unwrap_or("\u{fffd}").trim());
        match values.next() {
            Some(_) => Err(Problem::bad_request(format!("{name} is given twice"))),
            None => Ok(value),
        }
    };
    let plan = one("if-plan-match")?.map(|text| {
        let digest = Digest::parse(text.trim_matches('"'));
        digest
            .ok_or_else(|| Problem::bad_request("If-Plan-Match must be the `plan` of a dry run: 64 hexadecimal digits"))
    });
    let count = |header: &'static str, name: &str| -> Result<Option<usize>, Problem> {
        let Some(text) = one(header)? else { return Ok(None) };
        let number = text.parse::<u64>().ok().filter(|number| *number <= MOST_NUMBER);
        let number = number.and_then(|number| usize::try_from(number).ok());
        let bad = || Problem::bad_request(format!("{name} must be a number of clusters"));
        number.ok_or_else(bad).map(Some)
    };
    Ok(Confirmation {
        removals: count("x-confirm-removals", "X-Confirm-Removals")?,
        demotions: count("x-confirm-demotions", "X-Confirm-Demotions")?,
        plan: plan.transpose()?,
    })
}

/// The guards that `X-Override-Guard` names: one, several with commas, or in several headers.
pub fn overridden_guards(headers: &HeaderMap) -> Result<Vec<String>, Problem> {
    let mut ids = Vec::new();
    for value in headers.get_all("x-override-guard") {
        let text = value
            .to_str()
            .map_err(|_| Problem::bad_request("X-Override-Guard is not ASCII"))?;
        ids.extend(text.split(',').map(|id| id.trim().to_owned()));
    }
    match ids.iter().any(String::is_empty) {
        true => Err(Problem::bad_request(
            "X-Override-Guard must be the id of a guard, or several with commas",
        )),
        false => Ok(ids),
    }
}

pub fn if_match(headers: &HeaderMap) -> Result<Option<IfMatch>, Problem> {
    let mut all = Vec::new();
    for value in headers.get_all(IF_MATCH) {
        all.push(
            value
                .to_str()
                .map_err(|_| Problem::bad_request("If-Match is not ASCII"))?,
        );
    }
    Ok((!all.is_empty()).then(|| IfMatch::parse(&all.join(","))))
}

/// The parameters of a request. Each is taken once. A parameter that is left is an error: a misspelt one must not be ignored.
#[derive(Debug)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub fn new(uri: &Uri) -> Result<Query, Problem> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Problem::bad_request(format!("the query string cannot be read: {error}")))?;
        Ok(Query { pairs: pairs.0 })
    }

    pub fn take(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let Some(at) = self.pairs.iter().position(|(key, _)| key == name) else {
            return Ok(None);
        };
        let (_, value) = self.pairs.remove(at);
        match self.pairs.iter().any(|(key, _)| key == name) {
            true => Err(Problem::bad_request(format!("the parameter \"{name}\" is given twice"))),
            false => Ok(Some(value)),
        }
    }

    pub fn number(&mut self, name: &str, least: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.take(name)? else { return Ok(None) };
        let number = text.parse::<u64>().ok();
        let number = number.filter(|number| (least..=MOST_NUMBER).contains(number));
        let problem = || {
            Problem::bad_request(format!(
                "{name}=\"{}\": must be a whole number from {least} to {MOST_NUMBER}",
                quote(&text)
            ))
        };
        number.map(Some).ok_or_else(problem)
    }

    pub fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        self.choice(name).map(Option::unwrap_or_default)
    }

    /// A flag that may be left open.
    pub fn choice(&mut self, name: &str) -> Result<Option<bool>, Problem> {
        match self.take(name)?.as_deref() {
            None => Ok(None),
            Some("false" | "0") => Ok(Some(false)),
            Some("" | "true" | "1") => Ok(Some(true)),
            Some(other) => Err(Problem::bad_request(format!(
                "{name}=\"{}\": must be true or false",
                quote(other)
            ))),
        }
    }

    /// A time, or `now`.
    pub fn time(&mut self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let Some(text) = self.take(name)? else { return Ok(None) };
        let time = match text.as_str() {
            "now" => Some(Timestamp::now()),
            text => parse_time(text),
        };
        let problem = || {
            Problem::bad_request(format!(
                "{name}=\"{}\": must be a time such as 2026-12-20T00:00:00Z, or now",
                quote(&text)
            ))
        };
        time.map(Some).ok_or_else(problem)
    }

    /// Refuses the parameters that were not taken.
    pub fn end(self, known: &str) -> Result<(), Problem> {
        match self.pairs.first() {
            None => Ok(()),
            Some((name, _)) => Err(Problem::bad_request(format!(
                "unknown parameter \"{}\"; known: {known}",
                quote(name)
            ))),
        }
    }
}

impl Page {
    /// Everything.
    pub const ALL: Page = Page {
        offset: 0,
        limit: usize::MAX,
    };

    pub fn take(query: &mut Query) -> Result<Page, Problem> {
        let whole = |number: Option<u64>, missing| number.map_or(missing, |n| usize::try_from(n).unwrap_or(usize::MAX));
        Ok(Page {
            limit: whole(query.number("limit", 1)?, usize::MAX),
            offset: whole(query.number("offset", 0)?, 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_objects_count_for_what_they_take() {
        let empty = parsed_size(br#"{"a": "{[,\\\"{,", "b": [1, 2, 3]}"#);
        assert!((700..900).contains(&empty), "{empty}");
        let small = br#"{"":0},"#.repeat(1000);
        assert!(parsed_size(&small) > 640_000);
        let objects = [&b"["[..], &br#"{"":0},"#.repeat(MOST_BATCH / 8), b"0]"].concat();
        assert!(json(&objects).is_err_and(|problem| problem.status() == 413));
        let numbers = [&b"["[..], &b"0,".repeat(MOST_BATCH / 4), b"0]"].concat();
        assert!(json(&numbers).is_ok());
    }

    fn request(path: &str, length: Option<usize>) -> Request {
        let body = match length {
            Some(length) => Body::from(vec![b'x'; length]),
            None => Body::from_stream(futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>()),
        };
        Request::post(path).body(body).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_wait_for_each_other_and_small_ones_do_not() {
        let bodies = Bodies::default();
        let large = bodies.reserve(&request("/batch", Some(MOST_BATCH))).await.unwrap();
        let refused = bodies.reserve(&request("/batch", Some(2 << 20))).await.unwrap_err();
        assert_eq!(refused.status(), 503);
        assert!(
            bodies.reserve(&request("/batch", None)).await.is_err(),
            "may have any length"
        );
        for length in [1, MOST_DOCUMENT] {
            assert!(
                bodies
                    .reserve(&request("/clusters", Some(length)))
                    .await
                    .unwrap()
                    .is_some()
            );
        }
        assert!(bodies.reserve(&request("/clusters", None)).await.unwrap().is_some());
        for (path, length) in [
            ("/batch", 0),
            ("/batch", MOST_BATCH + 1),
            ("/clusters", MOST_DOCUMENT + 1),
        ] {
            assert!(bodies.reserve(&request(path, Some(length))).await.unwrap().is_none());
        }
        drop(large);
        assert!(bodies.reserve(&request("/batch", None)).await.unwrap().is_some());
    }
}
