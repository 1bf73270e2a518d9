//! The states of clusters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use fleet::document::Etag;
use fleet::log::Revision;
use fleet::refusal::quote;
use fleet::status::{ClusterStatus, InputStatus, KindStatus, Moment, Observation, State as Condition};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::body::{Writer, respond};
use super::caller::Caller;
use super::problem::Problem;
use super::request::{Page, Query};
use super::respond::{REVISION, Reply, TOTAL};
use crate::app::App;
use crate::app::status::{
    Cause, Counts, ENVIRONMENT, MapQuery, Missing, Place, RevisionQuery, Row, Shortened, StatusQuery, Summary, now,
};
use crate::app::versions::{HolderQuery, VersionQuery};

/// How many clusters a page has by default.
pub const USUAL: u64 = 100;

/// `GET /status`
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let limit = query.number("limit", 0)?.unwrap_or(USUAL);
    let offset = query.number("offset", 0)?.unwrap_or_default();
    let wanted = StatusQuery {
        selector: query.take("selector")?,
        search: query.take("search")?,
        states: states(&mut query)?,
        kind: query.take("kind")?,
        component: query.take("component")?,
        reason: query.take("reason")?,
        version: query.take("version")?,
        page: Page {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
        },
    };
    query.end("selector, search, state, kind, component, reason, version, limit, offset")?;
    let asked = Instant::now();
    let show = move |app: &App, out: &mut Writer| {
        let overview = app.overview(&out.turn, &wanted, asked)?;
        out.headers.insert(REVISION.clone(), overview.summary.revision.0.into());
        out.headers.insert(TOTAL.clone(), overview.total.into());
        let opening = serde_json::to_string(&WireSummary::of(&overview.summary)).map_err(|_| Problem::internal())?;
        out.text(opening.strip_suffix('}').unwrap_or_default())?;
        out.text(&format!(r#","total":{},"clusters":["#, overview.total))?;
        out.list(overview.rows.iter().map(row))?;
        out.text("]}")
    };
    respond(&app, caller.class(), show).await
}

/// `state=failing,silent`
fn states(query: &mut Query) -> Result<Vec<Condition>, Problem> {
    let Some(text) = query.take("state")? else {
        return Ok(Vec::new());
    };
    let states = text.split(',').map(|name| {
        Condition::parse(name).ok_or_else(|| {
            let known = Condition::ALL.map(Condition::name).join(", ");
            Problem::bad_request(format!("state=\"{}\": must be of {known}", quote(name)))
        })
    });
    states.collect()
}

/// Counts, as they are sent.
#[derive(Debug, Serialize)]
pub struct WireSummary<'a> {
    at: String,
    revision: Revision,
    counts: Counts,
    by_environment: &'a BTreeMap<Arc<str>, Counts>,
}

impl<'a> WireSummary<'a> {
    pub fn of(summary: &'a Summary) -> Self {
        WireSummary {
            at: summary.at.to_string(),
            revision: summary.revision,
            counts: summary.counts,
            by_environment: &summary.by_environment,
        }
    }
}

fn row(row: &Row) -> Value {
    let head = row.cluster.head();
    let mut shown = json!({
        "id": row.cluster.document().id, "dns": head.dns, "environment": head.environment, "state": row.state,
        "since": time(row.since), "last_poll": time(row.last_poll), "told": row.told.as_ref().map(|told| told.revision),
        "agent": row.told.as_ref().map(|told| &*told.agent),
    });
    if let Some(status) = &row.input {
        shown["input"] = input(status);
    }
    shown
}

pub fn time(moment: Option<Moment>) -> Option<String> {
    moment.map(|moment| moment.to_string())
}

fn digest(etag: Etag) -> String {
    format!("{:032x}", etag.0)
}

/// `GET /clusters/{id}/status`
pub async fn cluster(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let events = query.number("events", 1)?;
    query.end("events")?;
    let show = move |app: &App, out: &mut Writer| {
        let (cluster, status) = app.cluster_status(&id)?;
        let head = cluster.head();
        let evidence = app.evidence.get(&app.fleet(), &cluster);
        let mut shown = json!({
            "at": now().to_string(), "id": cluster.document().id, "dns": head.dns, "environment": head.environment, "state": status.state,
            "since": time(status.since), "last_poll": time(status.last_poll), "heard": time(evidence.heard()),
            "reporter": evidence.reporter(), "kinds": kinds(&status),
            "objects": status.objects.iter().map(observation).collect::<Vec<_>>(),
        });
        if let Some(most) = events {
            let newest = evidence.newest(usize::try_from(most).unwrap_or(usize::MAX));
            shown["events"] = newest.into_iter().map(event).collect();
        }
        out.json(&shown)
    };
    respond(&app, caller.class(), show).await
}

fn kinds(status: &ClusterStatus) -> Map<String, Value> {
    let kinds = status.kinds.iter();
    kinds.map(|status| (status.path.to_string(), kind(status))).collect()
}

fn kind(status: &KindStatus) -> Value {
    let told = status.told.as_ref().map(|told| {
        json!({
            "digest": digest(told.digest), "revision": told.revision, "at": told.at.to_string(),
            "since": told.since.to_string(), "agent": told.agent,
        })
    });
    json!({
        "state": status.state, "current": digest(status.current), "told": told,
        "inputs": status.inputs.iter().map(input).collect::<Vec<_>>(),
    })
}

fn input(status: &InputStatus) -> Value {
    let seen = status.seen.as_ref();
    let text = |text: fn(&Observation) -> &str| seen.map(text).filter(|text| !text.is_empty());
    json!({
        "id": status.id, "state": status.state, "digest": status.digest.to_string(), "enabled": status.enabled,
        "since": time(status.since), "object": seen.map(|seen| seen.object.to_string()),
        "version": text(|seen| &seen.version), "reason": text(|seen| &seen.reason),
        "message": text(|seen| &seen.message),
        "evidence": seen.map_or("poll", |seen| seen.source.name()), "at": time(seen.map(|seen| seen.at)),
    })
}

fn observation(seen: &Observation) -> Value {
    json!({
        "object": seen.object.to_string(), "version": seen.version, "reason": seen.reason, "message": seen.message,
        "evidence": seen.source.name(), "at": seen.at.to_string(), "since": seen.since.to_string(),
    })
}

/// What an event or a report said, with the input that it is about.
fn event(seen: &Observation) -> Value {
    let mut shown = observation(seen);
    shown["input"] = seen.input.as_ref().map(ToString::to_string).into();
    shown["health"] = seen.health.name().into();
    shown
}

/// `GET /revisions/{revision}/status`
pub async fn revision(State(app): State<Arc<App>>, Path(revision): Path<String>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let selector = query.take("selector")?;
    let limit = query.number("limit", 0)?.unwrap_or_default();
    query.end("selector, limit")?;
    let wanted = RevisionQuery {
        selector,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
    };
    let number = revision
        .parse::<u64>()
        .ok()
        .filter(|number| *number <= super::request::MOST_NUMBER);
    let number = number.ok_or_else(|| Problem::not_found(format!("there is no revision {}", quote(&revision))))?;
    let show = move |app: &App, out: &mut Writer| {
        let progress = app.revision_status(&out.turn, Revision(number), &wanted)?;
        let mut answer = serde_json::to_value(progress.status).map_err(|_| Problem::internal())?;
        if wanted.limit > 0 {
            answer["clusters"] = progress.missing.iter().map(missing).collect();
        }
        out.json(&answer)
    };
    respond(&app, caller.past_class(), show).await
}

fn missing(missing: &Missing) -> Value {
    let head = missing.cluster.head();
    let mut shown = json!({
        "id": missing.cluster.document().id, "dns": head.dns, "environment": head.environment,
        "state": missing.state, "told": missing.told,
    });
    if let Some((path, status)) = &missing.input {
        shown["path"] = (&**path).into();
        shown["input"] = input(status);
    }
    shown
}

/// `GET /status/map`
pub async fn map(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let wanted = MapQuery {
        selector: query.take("selector")?,
        search: query.take("search")?,
        by: query.take("by")?.unwrap_or_else(|| ENVIRONMENT.to_owned()),
    };
    let (group, at) = (query.take("group")?, query.number("place", 0)?);
    let revision = query.number("revision", 0)?.map(Revision);
    query.end("selector, search, by, group, place, revision")?;
    let place = match (group, at) {
        (None, None) if revision.is_none() => None,
        (group, Some(at)) => Some(Place {
            group,
            at: usize::try_from(at).unwrap_or(usize::MAX),
            revision,
        }),
        (_, None) => {
            return Err(Problem::bad_request(
                "group and revision need place: that of a cluster in the group",
            ));
        }
    };
    let asked = Instant::now();
    let show = move |app: &App, out: &mut Writer| match &place {
        Some(place) => {
            let found = app.at_place(&out.turn, &wanted, place)?;
            let head = found.head();
            out.json(&json!({"id": found.document().id, "dns": head.dns, "environment": head.environment}))
        }
        None => {
            let map = app.map(&out.turn, &wanted, asked)?;
            out.headers.insert(REVISION.clone(), map.revision.0.into());
            out.json(&*map)
        }
    };
    respond(&app, caller.class(), show).await
}

/// `GET /status/versions`
pub async fn versions(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let of = VersionQuery {
        kind: query.take("kind")?,
        selector: query.take("selector")?,
        search: query.take("search")?,
    };
    let (component, version) = (query.take("component")?, query.take("version")?);
    let limit = query.number("limit", 0)?;
    let offset = query.number("offset", 0)?;
    query.end("kind, selector, search, component, version, limit, offset")?;
    let Some(component) = component else {
        if version.is_some() || limit.is_some() || offset.is_some() {
            return Err(Problem::bad_request(
                "version, limit and offset need component: the id of a definition",
            ));
        }
        let show = move |app: &App, out: &mut Writer| {
            let versions = app.versions(&out.turn, &of)?;
            out.headers.insert(REVISION.clone(), versions.revision.0.into());
            out.json(&*versions)
        };
        return respond(&app, caller.class(), show).await;
    };
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let wanted = HolderQuery {
        of,
        component,
        version,
        page: Page {
            limit: size(limit.unwrap_or(USUAL)),
            offset: size(offset.unwrap_or_default()),
        },
    };
    let show = move |app: &App, out: &mut Writer| {
        let (total, rows) = app.holders(&out.turn, &wanted)?;
        out.headers.insert(TOTAL.clone(), total.into());
        out.json(&json!({"total": total, "clusters": rows}))
    };
    respond(&app, caller.class(), show).await
}

/// `GET /status/labels`
pub async fn labels(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    respond(&app, caller.class(), |app, out| {
        out.json(&json!({"labels": app.labels()}))
    })
    .await
}

/// `GET /status/causes`
pub async fn causes(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let selector = query.take("selector")?;
    let most = |number: Option<u64>| number.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let (limit, own) = (most(query.number("limit", 1)?), most(query.number("own", 0)?));
    query.end("selector, limit, own")?;
    let asked = Instant::now();
    let show = move |app: &App, out: &mut Writer| {
        let causes = app.causes(&out.turn, &selector, asked)?;
        let short = Shortened::of(&causes, limit, own);
        out.text(r#"{"causes":["#)?;
        out.list(short.causes.iter().map(|known| cause(known)))?;
        let clusters = short.clusters.iter();
        let clusters: Vec<Value> = clusters
            .map(|(id, number)| json!({"id": id, "causes": number}))
            .collect();
        let own = json!({"causes": short.own, "clusters": clusters});
        out.text(&format!(r#"],"total":{},"own":{own}}}"#, causes.len()))
    };
    respond(&app, caller.class(), show).await
}

fn cause(cause: &Cause) -> Value {
    let (path, component) = cause.input.as_ref().map(|(path, id)| (path, id)).unzip();
    json!({
        "reason": cause.reason, "path": path, "component": component, "version": cause.version,
        "clusters": cause.clusters, "examples": cause.examples, "since": cause.since.to_string(),
        "joined": cause.joined.to_string(), "message": cause.message,
    })
}
