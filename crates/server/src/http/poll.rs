//! Polls of Flux. A poll looks up bytes in the snapshot, and nearly all traffic is polls, so they do not go through the
//! router: one function answers them, from the token to the log line.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, USER_AGENT, VARY,
};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use fleet::Fleet;
use fleet::inputs::{Form, Reply};
use fleet::refusal::quote;
use fleet::snapshot::{Named, Poll, Visit};
use percent_encoding::percent_decode_str;

use super::client_address::{Peer, client_address};
use super::negotiate::{names_tag, tag, wants_gzip};
use super::observe::{self, REQUEST_ID};
use super::problem::Problem;
use super::request::Query;
use crate::app::App;
use crate::app::cluster_list::ClusterQuery;
use crate::app::status::{self, PollSeen};
use crate::auth::{Known, Right};
use crate::metrics::ReasonLabels;

/// The paths of polls.
pub const PREFIX: &str = "/api/v2/flux/clusters/";
/// With more connections than this, those of Flux are closed after the reply: it opens one per poll and leaves it idle. A thousand open pages, with
/// two connections each, are no reason.
const CROWDED: i64 = 4096;

/// What clusters send, or wait for, under the same prefix. No kind may have these paths.
pub const EVIDENCE: [&str; 3] = ["events", "report", "changed"];

/// Whether a path is that of a poll.
pub fn is_poll(path: &str) -> bool {
    let is_last = |name: &&str| path.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'));
    path.starts_with(PREFIX) && !EVIDENCE.iter().any(is_last)
}

/// Answers everything under [`PREFIX`], but what clusters send. `started`: when the request arrived.
pub fn answer<B>(app: &App, request: &Request<B>, peer: &Peer, started: Instant) -> Response<Bytes> {
    let headers = request.headers();
    // One snapshot for the token and the reply.
    let fleet = app.engine.peek();
    let actor = observe::authorize_by(app, &fleet, headers, peer, Right::Poll);
    let (kind, outcome) = match (&actor, request.method()) {
        (Err(problem), _) => (Cow::Borrowed("none"), Err(problem.clone())),
        (Ok(actor), &Method::GET | &Method::HEAD) => find(app, &fleet, actor, request),
        (Ok(_), method) => (
            Cow::Borrowed("none"),
            Err(Problem::method_not_allowed(method, "GET, HEAD")),
        ),
    };
    // Only a refused poll gets a new id: an accepted one is logged at debug level.
    let refused = outcome.is_err().then(|| observe::request_id(headers));
    let mut response = outcome.map_or_else(Problem::response, |found| reply(headers, found));
    if let Some(id) = &refused {
        response.headers_mut().insert(REQUEST_ID.clone(), id.clone());
    }
    if app.metrics.connections.get() > CROWDED && headers.get(USER_AGENT).is_some_and(is_flux) {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let actor: &dyn Display = match &actor {
        Ok(actor) => actor,
        Err(problem) => &problem.actor().unwrap_or("-"),
    };
    let client = || client_address(peer, headers, &app.trusted_proxies);
    let refused = refused.map(|id| (id, client()));
    let elapsed = started.elapsed();
    log(request, response.status(), elapsed, refused, actor);
    app.metrics.polls.count(&kind, response.status(), elapsed);
    response
}

/// `refused`: the id of the request and the address of the client, if there is no reply for Flux.
fn log<B>(
    request: &Request<B>,
    status: StatusCode,
    elapsed: Duration,
    refused: Option<(HeaderValue, Option<IpAddr>)>,
    actor: &dyn Display,
) {
    let (method, path, status) = (request.method(), request.uri().path(), status.as_u16());
    let milliseconds = elapsed.as_secs_f64() * 1e3;
    if let Some((id, client)) = refused {
        let (id, client) = (id.to_str().unwrap_or_default(), client.map(tracing::field::display));
        tracing::info!(%method, path, status, milliseconds, request_id = id, actor = actor.to_string(), client, "poll refused");
    } else {
        let id = || request.headers().get(&REQUEST_ID).and_then(|id| id.to_str().ok());
        tracing::debug!(%method, path, status, milliseconds, request_id = id(), actor = actor.to_string(), "poll");
    }
}

/// Finds the reply, and the metric label of its path. Unknown paths share one label, so that callers cannot create new ones.
fn find<'a, B>(
    app: &App,
    fleet: &Fleet,
    actor: &Known<'_>,
    request: &'a Request<B>,
) -> (Cow<'a, str>, Result<Reply, Problem>) {
    let uri = request.uri();
    let unknown = || {
        (
            Cow::Borrowed("none"),
            Err(Problem::not_found(format!("there is nothing at {}", quote(uri.path())))),
        )
    };
    let segments = uri.path().strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('/'));
    let Some((dns, path)) = segments.filter(|(dns, _)| !has(dns, b'/')) else {
        return unknown();
    };
    let (Some(dns), Some(path)) = (decoded(dns), decoded(path)) else {
        return (
            Cow::Borrowed("none"),
            Err(Problem::bad_request("the path is not UTF-8")),
        );
    };
    let named = fleet.named(&dns);
    if let Err(problem) = may_poll(app, &named, actor) {
        let labels = ReasonLabels { reason: "forbidden" };
        app.metrics.authentication_failures.get_or_create(&labels).inc();
        return (Cow::Borrowed("none"), Err(problem));
    }
    let form = match form(uri.query()) {
        Ok(form) => form,
        Err(problem) => return (Cow::Borrowed("none"), Err(problem)),
    };
    let agent = own_agent(actor, request);
    let visit = agent.map(|agent| Visit {
        by: app.evidence.visitor(agent),
        at: status::now(),
        revision: fleet.revision(),
    });
    let (poll, is_noted) = named.visit(&path, form, visit);
    match poll {
        Poll::Reply(reply) => {
            if let (Some(agent), Some(visit), Some(cluster), false) = (agent, visit, named.cluster(), is_noted) {
                let poll = PollSeen {
                    path: &path,
                    digest: reply.plain,
                    revision: visit.revision,
                    at: visit.at,
                    agent,
                };
                app.evidence.poll(cluster, poll);
            }
            (path, Ok(reply))
        }
        Poll::UnknownCluster => (
            path,
            Err(Problem::not_found(format!(
                "no cluster has the DNS name \"{}\"",
                quote(&dns)
            ))),
        ),
        Poll::UnknownKind => (
            Cow::Borrowed("none"),
            Err(Problem::not_found(format!("no kind has the path \"{}\"", quote(&path)))),
        ),
        Poll::Breach(breach) => (path, Err(Problem::broken_reply(&breach))),
        Poll::Damaged => (Cow::Borrowed("none"), Err(Problem::damaged())),
    }
}

/// A segment of a path without its escapes. None: it is not UTF-8.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    match has(segment, b'%') {
        true => percent_decode_str(segment).decode_utf8().ok(),
        false => Some(Cow::Borrowed(segment)),
    }
}

/// Whether a byte is in a text. Counts, because that is done many bytes at a time.
fn has(text: &str, wanted: u8) -> bool {
    text.bytes().filter(|byte| *byte == wanted).count() > 0
}

fn is_flux(agent: &HeaderValue) -> bool {
    agent.as_bytes().starts_with(b"flux-operator/")
}

/// The program that polls, if the cluster itself does: by its token, or as Flux does where tokens are shared.
fn own_agent<'a, B>(actor: &Known<'_>, request: &'a Request<B>) -> Option<&'a str> {
    let agent = request.headers().get(USER_AGENT);
    let is_its_own = actor.cluster().is_some() || agent.is_some_and(is_flux);
    let text = || agent.and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    (is_its_own && request.method() == Method::GET).then(text)
}

/// The form that a query asks for, by `marked`. Other parameters are ignored.
fn form(query: Option<&str>) -> Result<Form, Problem> {
    // Borrows, unless there is an escape.
    let decoded = |text| Cow::from(percent_decode_str(text));
    let mut form = None;
    for pair in query.into_iter().flat_map(|query| query.split('&')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if &*decoded(name) != b"marked" {
            continue;
        }
        let asked = match &*decoded(value) {
            b"true" => Form::Marked,
            b"false" => Form::Plain,
            other => {
                let other = String::from_utf8_lossy(other);
                let detail = format!("marked=\"{}\": must be true or false", quote(&other));
                return Err(Problem::bad_request(detail));
            }
        };
        if form.replace(asked).is_some() {
            return Err(Problem::bad_request("the parameter \"marked\" is given twice"));
        }
    }
    Ok(form.unwrap_or(Form::Plain))
}

/// A cluster polls its own paths, under the DNS name that it has or was decommissioned with. Others poll unless SHARED_POLLS is off.
fn may_poll(app: &App, named: &Named<'_>, actor: &Known<'_>) -> Result<(), Problem> {
    match actor.cluster() {
        Some(own) if named.is_of(own) => Ok(()),
        Some(_) => Err(Problem::not_its_cluster("a cluster may poll its own paths only")),
        None if app.shared_polls => Ok(()),
        None => Err(Problem::not_its_cluster(
            "only the cluster itself may poll its paths: SHARED_POLLS is off",
        )),
    }
}

/// `GET /api/v2/flux/clusters`: the list of clusters, for provisioners.
pub async fn clusters(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> axum::response::Response {
    let started = Instant::now();
    let response = match list(&app, &uri).await {
        Ok(found) => reply(&headers, found).map(Body::from),
        Err(problem) => problem.into_response(),
    };
    app.metrics
        .polls
        .count("clusters", response.status(), started.elapsed());
    response
}

async fn list(app: &Arc<App>, uri: &Uri) -> Result<Reply, Problem> {
    let mut query = Query::new(uri)?;
    let wanted = ClusterQuery {
        environment: query.take("environment")?,
        selector: query.take("selector")?,
        shard: query.take("shard")?.map(|text| shard(&text)).transpose()?,
    };
    query.end("environment, selector, shard")?;
    Ok(app.cluster_list(wanted).await?)
}

/// `i/n`: part `i` of `n`, counted from 0.
fn shard(text: &str) -> Result<(u32, u32), Problem> {
    let parsed = text
        .split_once('/')
        .and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    parsed.filter(|(part, parts)| part < parts).ok_or_else(|| {
        let text = quote(text);
        Problem::bad_request(format!("shard=\"{text}\": must be i/n, with i from 0 to n-1"))
    })
}

/// A reply in an encoding that the client accepts, or 304 if it has this version.
fn reply(headers: &HeaderMap, reply: Reply) -> Response<Bytes> {
    let gzip = wants_gzip(headers);
    let tag = tag(reply.etag, gzip);
    let known = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .any(|value| names_tag(value, &tag));
    let mut response = Response::new(match (known, gzip) {
        (true, _) => Bytes::new(),
        (false, true) => reply.gzip,
        (false, false) => reply.identity(),
    });
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let out = response.headers_mut();
    if !known {
        out.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if gzip {
            out.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    out.insert(VARY, HeaderValue::from_static("accept-encoding"));
    out.insert(ETAG, tag);
    response
}
