//! Polls of Flux. A poll looks up bytes in the snapshot, and nearly all traffic is polls, so they do not go through the
//! router: one function answers them, from the token to the log line.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, USER_AGENT, VARY,
};
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use fleet::Fleet;
use fleet::inputs::{Form, Reply};
use fleet::refusal::quote;
use fleet::snapshot::{Cluster, Named, Poll};
use percent_encoding::percent_decode_str;

use super::client_address::client_address;
use super::negotiate::{names_tag, tag, wants_gzip};
use super::observe::{self, REQUEST_ID};
use super::problem::Problem;
use super::request::Query;
use crate::app::App;
use crate::app::cluster_list::ClusterQuery;
use crate::app::status::{self, PollSeen};
use crate::auth::{Actor, Right};
use crate::metrics::{PollLabels, ReasonLabels};

/// The paths of polls.
pub const PREFIX: &str = "/api/v2/flux/clusters/";
/// With more connections than this, those of Flux are closed after the reply: it opens one per poll and leaves it idle.
const CROWDED: i64 = 1024;

/// What clusters send, or wait for, under the same prefix. No kind may have these paths.
pub const EVIDENCE: [&str; 3] = ["events", "report", "changed"];

/// Whether a path is that of a poll.
pub fn is_poll(path: &str) -> bool {
    let last = || path.rsplit('/').next().unwrap_or_default();
    path.starts_with(PREFIX) && !EVIDENCE.contains(&last())
}

/// Answers everything under [`PREFIX`], but what clusters send.
pub fn answer<B>(app: &App, request: &Request<B>) -> Response {
    let started = Instant::now();
    let headers = request.headers();
    let actor = observe::authorize(app, headers, request.extensions(), Right::Poll);
    let (kind, outcome) = match (&actor, request.method()) {
        (Err(problem), _) => (Cow::Borrowed("none"), Err(problem.clone())),
        (Ok(actor), &Method::GET | &Method::HEAD) => find(app, actor, request),
        (Ok(_), method) => (
            Cow::Borrowed("none"),
            Err(Problem::method_not_allowed(method, "GET, HEAD")),
        ),
    };
    // Only a refused poll gets a new id: an accepted one is logged at debug level.
    let refused = outcome.is_err().then(|| observe::request_id(headers));
    let mut response = outcome.map_or_else(Problem::into_response, |found| reply(headers, &found));
    if let Some(id) = &refused {
        response.headers_mut().insert(REQUEST_ID.clone(), id.clone());
    }
    if app.metrics.connections.get() > CROWDED && is_flux(headers) {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let actor: &dyn Display = match &actor {
        Ok(actor) => &actor.name,
        Err(problem) => &problem.actor().unwrap_or("-"),
    };
    let client = || client_address(request.extensions(), headers, &app.trusted_proxies);
    let refused = refused.map(|id| (id, client()));
    log(request, response.status(), started.elapsed(), refused, actor);
    count(app, kind.into_owned(), response.status(), started.elapsed());
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
fn find<'a, B>(app: &App, actor: &Actor, request: &'a Request<B>) -> (Cow<'a, str>, Result<Reply, Problem>) {
    let uri = request.uri();
    let unknown = || {
        (
            Cow::Borrowed("none"),
            Err(Problem::not_found(format!("there is nothing at {}", quote(uri.path())))),
        )
    };
    let segments = uri.path().strip_prefix(PREFIX).and_then(|rest| rest.split_once('/'));
    let Some((dns, path)) = segments.filter(|(_, path)| !path.contains('/')) else {
        return unknown();
    };
    let (Ok(dns), Ok(path)) = (
        percent_decode_str(dns).decode_utf8(),
        percent_decode_str(path).decode_utf8(),
    ) else {
        return (
            Cow::Borrowed("none"),
            Err(Problem::bad_request("the path is not UTF-8")),
        );
    };
    let fleet = app.engine.peek();
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
    match named.poll(&path, form) {
        Poll::Reply(reply) => {
            note(app, actor, request, &fleet, named.cluster(), &path, &reply);
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

fn is_flux(headers: &HeaderMap) -> bool {
    let agent = headers.get(USER_AGENT);
    agent.is_some_and(|agent| agent.as_bytes().starts_with(b"flux-operator/"))
}

/// Notes what a cluster was told, if the cluster itself polled: by its token, or as Flux does where tokens are shared.
fn note<B>(
    app: &App,
    actor: &Actor,
    request: &Request<B>,
    fleet: &Fleet,
    cluster: Option<&Arc<Cluster>>,
    path: &str,
    reply: &Reply,
) {
    let headers = request.headers();
    let is_its_own = actor.cluster().is_some() || is_flux(headers);
    if let Some(cluster) = cluster.filter(|_| is_its_own && request.method() == Method::GET) {
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        let poll = PollSeen {
            path,
            digest: reply.plain,
            revision: fleet.revision(),
            at: status::now(),
            agent: agent.unwrap_or_default(),
        };
        app.evidence.poll(&cluster.document().id, poll);
    }
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
fn may_poll(app: &App, named: &Named<'_>, actor: &Actor) -> Result<(), Problem> {
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
pub async fn clusters(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let started = Instant::now();
    let response = match list(&app, &uri).await {
        Ok(found) => reply(&headers, &found),
        Err(problem) => problem.into_response(),
    };
    count(&app, "clusters".to_owned(), response.status(), started.elapsed());
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

fn count(app: &App, kind: String, status: StatusCode, elapsed: Duration) {
    let status = status.as_u16();
    app.metrics.polls.get_or_create(&PollLabels { kind, status }).inc();
    app.metrics.poll_seconds.observe(elapsed.as_secs_f64());
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
fn reply(headers: &HeaderMap, reply: &Reply) -> Response {
    let gzip = wants_gzip(headers);
    let tag = tag(reply.etag, gzip);
    let known = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .any(|value| names_tag(value, &tag));
    let mut response = match (known, gzip) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => Response::new(Body::from(reply.gzip.clone())),
        (false, false) => Response::new(Body::from(reply.identity())),
    };
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
