//! Reading requests: bodies within limits, query strings without surprises, headers that mean something.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, IF_MATCH};
use axum::http::{HeaderMap, Uri};
use fleet::budget::Confirmation;
use fleet::log::Digest;
use fleet::operation::IfMatch;
use fleet::patch::Form;
use fleet::yaml;
use serde_json::Value;

use super::problem::Problem;
pub use crate::app::Page;

/// The largest document, and the largest batch.
pub const MOST_DOCUMENT: usize = 1 << 20;
pub const MOST_BATCH: usize = 32 << 20;
const BODY_TIME: Duration = Duration::from_secs(30);

/// The body of a write, parsed by its content type.
pub async fn document(headers: &HeaderMap, body: Body, limit: usize) -> Result<Value, Problem> {
    parse(&media_type(headers), &read(headers, body, limit).await?)
}

/// The body of a kind, which is a file of YAML more often than not: without a content type it may be that, too.
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

fn json(bytes: &[u8]) -> Result<Value, Problem> {
    fleet::json::parse(bytes).map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))
}

async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<bytes::Bytes, Problem> {
    if let Some(coding) = headers.get(CONTENT_ENCODING).filter(|coding| *coding != "identity") {
        let coding = coding.to_str().unwrap_or_default();
        return Err(Problem::unsupported_coding(coding));
    }
    // Before anything is read: who asks with `Expect: 100-continue` need not send it.
    if body.size_hint().lower() > limit as u64 {
        return Err(Problem::too_large(limit));
    }
    match tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let source = std::error::Error::source(&error);
            match source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) {
                true => Err(Problem::too_large(limit)),
                false => Err(Problem::bad_request("the body broke off")),
            }
        }
        Err(_) => Err(Problem::timeout()),
    }
}

/// What a write says of what it will do: `If-Plan-Match` and `X-Confirm-Removals`.
pub fn confirmation(headers: &HeaderMap) -> Result<Confirmation, Problem> {
    let one = |name: &'static str| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().map(|value| value.to_str().unwrap_or("\u{fffd}").trim());
        match values.next() {
            Some(_) => Err(Problem::bad_request(format!("{name} is there twice"))),
            None => Ok(value),
        }
    };
    let plan = one("if-plan-match")?.map(|text| {
        let digest = Digest::parse(text.trim_matches('"'));
        digest.ok_or_else(|| Problem::bad_request("If-Plan-Match is the `plan` of a dry run: 64 hexadecimal digits"))
    });
    let removals = one("x-confirm-removals")?.map(|text| {
        let number = text.parse::<usize>();
        number.map_err(|_| Problem::bad_request("X-Confirm-Removals is a number of clusters"))
    });
    Ok(Confirmation {
        removals: removals.transpose()?,
        plan: plan.transpose()?,
        base: None,
    })
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

/// The parameters of a request. Each is taken once; what nobody takes is an error, since a parameter that is misspelt would
/// otherwise quietly mean something else.
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
            true => Err(Problem::bad_request(format!("the parameter \"{name}\" is there twice"))),
            false => Ok(Some(value)),
        }
    }

    pub fn number(&mut self, name: &str, least: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.take(name)? else { return Ok(None) };
        let number = text.parse::<u64>().ok().filter(|number| *number >= least);
        let problem = || Problem::bad_request(format!("{name}=\"{text}\": a whole number from {least} is expected"));
        number.map(Some).ok_or_else(problem)
    }

    pub fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        match self.take(name)?.as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(other) => Err(Problem::bad_request(format!(
                "{name}=\"{other}\": true or false is expected"
            ))),
        }
    }

    /// Refuses what nobody took.
    pub fn end(self, known: &str) -> Result<(), Problem> {
        match self.pairs.first() {
            None => Ok(()),
            Some((name, _)) => Err(Problem::bad_request(format!(
                "the parameter \"{name}\" is not known here; known: {known}"
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
