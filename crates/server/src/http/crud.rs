//! What operators and CI use: resources of every kind, batches, the log. Handlers extract, call, convert.

use std::sync::Arc;

use axum::Json as AxumJson;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use fleet::Fleet;
use fleet::document::Document;
use fleet::json::Json;
use fleet::judge::Confirmation;
use fleet::kind::{CLUSTERS, KINDS, Kind, name_record};
use fleet::log::{Author, Revision};
use fleet::operation::{Operation, Target, Verb};
use fleet::refusal::{Violation, quote, segment};
use fleet::selector::Selector;
use fleet::snapshot::Cluster;
use fleet::usage::Usage;
use fleet::write::Rules;
use fleet::yaml;
use serde::Serialize;
use serde_json::{Value, json};
use store::AuditQuery;

use super::body::{Writer, respond};
use super::observe::{self, RequestId};
use super::poll::names;
use super::problem::Problem;
use super::request::{self, MOST_DOCUMENT, Page, Query};
use super::{feed, history, plan, records, service};
use crate::app::engine::{WriteRequest, Written};
use crate::app::reads::{Class, Turn};
use crate::app::{App, manifests};
use crate::tokens::Actor;

pub(super) static REVISION: HeaderName = HeaderName::from_static("x-revision");
static TOTAL: HeaderName = HeaderName::from_static("x-total-count");

pub(super) type Reply = Result<Response, Problem>;

/// Who asks, and with what headers.
#[derive(Debug)]
pub struct Caller {
    actor: Actor,
    id: RequestId,
    pub(super) headers: HeaderMap,
    uri: Uri,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Both were put there on the way in; a route without them would be a route without authentication.
        let actor = parts.extensions.get::<Actor>().cloned().ok_or_else(Problem::internal)?;
        let id = parts
            .extensions
            .get::<RequestId>()
            .cloned()
            .ok_or_else(Problem::internal)?;
        Ok(Caller {
            actor,
            id,
            headers: std::mem::take(&mut parts.headers),
            uri: parts.uri.clone(),
        })
    }
}

impl Caller {
    pub(super) fn query(&self) -> Result<Query, Problem> {
        Query::new(&self.uri)
    }

    /// The places that its reads take.
    pub(super) fn class(&self) -> Class {
        Class::of(self.actor.right)
    }

    /// The same for reads of earlier revisions.
    pub(super) fn past_class(&self) -> Class {
        Class::of_past(self.actor.right)
    }

    pub(super) fn author(&self, reason: Option<String>) -> Result<Author, Problem> {
        observe::author(&self.headers, &self.actor, &self.id, reason)
    }
}

/// For how many clusters a plan renders objects: each takes milliseconds, twice.
const MOST_RENDERED: usize = 100;

/// What a write was asked to do besides being done.
pub(super) struct Options {
    pub(super) dry_run: bool,
    cascade: bool,
    /// Of the clusters in a plan.
    pub(super) page: Page,
    /// Whether a plan shows objects, too.
    pub(super) manifests: bool,
    pub(super) confirmation: Confirmation,
}

impl Options {
    pub(super) fn take(caller: &Caller, cascade_known: bool) -> Result<Options, Problem> {
        let mut query = caller.query()?;
        let dry_run = query.flag("dry_run")?;
        let manifests = dry_run && query.flag("manifests")?;
        let mut page = if dry_run { Page::take(&mut query)? } else { Page::ALL };
        if manifests {
            page.limit = page.limit.min(MOST_RENDERED);
        }
        let options = Options {
            dry_run,
            cascade: cascade_known && query.flag("cascade")?,
            page,
            manifests,
            confirmation: request::confirmation(&caller.headers)?,
        };
        let known = match (dry_run, cascade_known) {
            (false, false) => "dry_run",
            (false, true) => "dry_run, cascade",
            (true, false) => "dry_run, manifests, limit, offset",
            (true, true) => "dry_run, manifests, limit, offset, cascade",
        };
        query.end(known)?;
        Ok(options)
    }
}

impl Options {
    /// The part of a plan that is to show objects.
    pub(super) fn rendered(&self) -> Option<Page> {
        self.manifests.then_some(self.page)
    }
}

/// Does one operation, or says what it would do.
async fn run(
    app: &Arc<App>,
    caller: &Caller,
    options: &Options,
    operation: Operation,
    respond: impl FnOnce(Written) -> Reply,
) -> Reply {
    let write = WriteRequest {
        operations: vec![operation],
        rules: Rules::default(),
        author: caller.author(None)?,
        confirmation: options.confirmation,
        ..WriteRequest::default()
    };
    run_all(app, options, write, respond).await
}

async fn run_all(
    app: &Arc<App>,
    options: &Options,
    write: WriteRequest,
    respond: impl FnOnce(Written) -> Reply,
) -> Reply {
    if options.dry_run {
        let (rendered, page) = (options.rendered(), options.page);
        let show = move |app: &App, out: &mut Writer| plan::show(out, app.plan(&out.turn, write, rendered)?, page);
        return super::body::respond(app, Class::Plan, show).await;
    }
    let written = app.write(write).await?;
    let revision = HeaderValue::from(written.revision.0);
    let mut response = respond(written)?;
    response.headers_mut().insert(REVISION.clone(), revision);
    Ok(response)
}

/// The resource as a write left it.
fn resource(status: StatusCode, fleet: &Fleet, kind: &str, id: &str) -> Reply {
    let document = fleet.document(kind, id).ok_or_else(Problem::internal)?;
    let mut response = show(&document);
    *response.status_mut() = status;
    Ok(response)
}

fn show(document: &Document) -> Response {
    let mut response = json_text(document.body.as_str().to_owned());
    response.headers_mut().insert(ETAG, etag(&document.etag.to_string()));
    response
}

fn etag(text: &str) -> HeaderValue {
    HeaderValue::try_from(text).expect("hexadecimal digits")
}

pub(super) fn json_text(text: impl Into<Body>) -> Response {
    (
        [(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        text.into(),
    )
        .into_response()
}

/// The same, or 304 for who has it.
fn unless_known(headers: &HeaderMap, response: Response) -> Response {
    let known = response.headers().get(ETAG).cloned().filter(|tag| {
        let mut given = headers.get_all(IF_NONE_MATCH).iter();
        given.any(|value| names(value, tag))
    });
    match known {
        Some(tag) => (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response(),
        None => response,
    }
}

pub(super) fn kind_of(fleet: &Fleet, name: &str) -> Result<Arc<Kind>, Problem> {
    fleet
        .kinds()
        .get(name)
        .cloned()
        .ok_or_else(|| match fleet.is_damaged(KINDS) {
            true => Problem::damaged(),
            false => Problem::not_found(format!("there is no kind \"{}\"", quote(name))),
        })
}

/// `GET /{kind}`
pub async fn list(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller) -> Reply {
    let class = caller.class();
    let list = move |app: &App, out: &mut Writer| {
        let mut query = caller.query()?;
        let page = Page::take(&mut query)?;
        // What is held while it is sent is a pointer to each document, not the fleet.
        let items = listed(&app.fleet(), &name, query, &out.turn)?;
        out.headers.insert(TOTAL.clone(), items.len().into());
        write_list(out, items.into_iter().skip(page.offset).take(page.limit))
    };
    respond(&app, class, list).await
}

/// Writes documents as an array.
fn write_list(out: &mut Writer, items: impl Iterator<Item = Json>) -> Result<(), Problem> {
    out.text("[")?;
    for (n, item) in items.enumerate() {
        if n > 0 {
            out.text(",")?;
        }
        out.text(item.as_str())?;
    }
    out.text("]")
}

/// The documents of a kind that a query asks for.
fn listed(fleet: &Fleet, name: &str, mut query: Query, turn: &Turn) -> Result<Vec<Json>, Problem> {
    if fleet.is_damaged(name) {
        return Err(Problem::damaged());
    }
    if let Some(names) = fleet.name_records(name) {
        query.end("limit, offset")?;
        let all = names.values().map(|document| document.body.clone());
        return Ok(all.collect());
    }
    let kind = kind_of(fleet, name)?;
    let mut filters = Vec::new();
    for filter in &kind.filters {
        if let Some(value) = query.take(&filter.name)? {
            let options = kind.schema["properties"][&filter.name]["enum"].as_array();
            if options.is_some_and(|options| !options.iter().any(|option| plain(option) == value)) {
                return Err(Problem::bad_request(format!(
                    "{}=\"{}\" is not a value that {} have",
                    filter.name,
                    quote(&value),
                    kind.name
                )));
            }
            filters.push((filter.name.as_str(), value));
        }
    }
    let names = kind.filters.iter().map(|filter| filter.name.as_str());
    if name != CLUSTERS {
        query.end(
            &["limit", "offset"]
                .into_iter()
                .chain(names)
                .collect::<Vec<_>>()
                .join(", "),
        )?;
        let all = fleet.definitions(name).into_iter().flat_map(|all| all.iter());
        let all = all.filter(|one| {
            filters
                .iter()
                .all(|(field, value)| plain(&one.value()[*field]) == *value)
        });
        return Ok(all.map(|one| one.document.body.clone()).collect());
    }
    let selector = query.take("selector")?;
    query.end(
        &["limit", "offset", "selector"]
            .into_iter()
            .chain(names)
            .collect::<Vec<_>>()
            .join(", "),
    )?;
    let selector = selector.map(|text| Selector::for_fleet(&text, fleet)).transpose()?;
    let matcher = selector.as_ref().map(|selector| selector.on(&kind));
    let wanted = |cluster: &Arc<Cluster>| {
        let fits = |(field, value): &(&str, String)| field_is(cluster, field, value);
        filters.iter().all(fits) && matcher.as_ref().is_none_or(|matcher| matcher.matches(cluster))
    };
    let mut found = Vec::new();
    for cluster in turn.until_stopped(fleet.clusters().values()) {
        let cluster = cluster?;
        if wanted(cluster) {
            found.push(cluster.document().body.clone());
        }
    }
    Ok(found)
}

/// A value as a query string has it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What is at hand is compared without parsing the document.
fn field_is(cluster: &Cluster, field: &str, value: &str) -> bool {
    match field {
        "environment" => &*cluster.head().environment == value,
        "cluster_name" => &*cluster.head().name == value,
        "cluster_dns" => cluster.head().dns_key.eq_ignore_ascii_case(value),
        field => plain(&cluster.document().body.field(field).unwrap_or_default()) == value,
    }
}

/// `POST /{kind}`
pub async fn create(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller, body: Body) -> Reply {
    if name_record(&name).is_some() {
        return Err(Problem::method_not_allowed(&Method::POST, service::OF_NAME_RECORDS));
    }
    let options = Options::take(&caller, false)?;
    kind_of(&app.fleet(), &name)?;
    let value = request::document(&caller.headers, body, MOST_DOCUMENT).await?;
    let operation = Operation::new(&name, Verb::Create { id: None, value });
    run(&app, &caller, &options, operation, |written| {
        let change = written
            .changes
            .iter()
            .find(|change| *change.kind == *name)
            .ok_or_else(Problem::internal)?;
        let mut response = resource(StatusCode::CREATED, &written.fleet, &name, &change.id)?;
        response
            .headers_mut()
            .insert(LOCATION, etag(&format!("/{name}/{}", change.id)));
        Ok(response)
    })
    .await
}

/// `GET /{kind}/{id}`
pub async fn get(State(app): State<Arc<App>>, Path((name, id)): Path<(String, String)>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let revision = query.number("revision", 0)?.map(Revision);
    query.end("revision")?;
    let fleet = app.fleet();
    if let Some(revision) = revision {
        // Its kind may be gone since.
        let body = history::resource_at(&app, &name, &id, revision).await?;
        return Ok(history::document_at(&body, revision));
    }
    let document = find(&fleet, &name, &id)?;
    Ok(unless_known(&caller.headers, show(&document)))
}

fn find(fleet: &Fleet, kind: &str, id: &str) -> Result<Document, Problem> {
    let singular = match name_record(kind) {
        Some(singular) => singular.to_owned(),
        None => kind_of(fleet, kind)?.singular.clone(),
    };
    fleet.document(kind, id).ok_or_else(|| match fleet.is_damaged(kind) {
        true => Problem::damaged(),
        false => Problem::not_found(format!("there is no {singular} \"{}\"", quote(id))),
    })
}

/// `PUT /{kind}/{id}`
pub async fn replace(
    State(app): State<Arc<App>>,
    Path((name, id)): Path<(String, String)>,
    caller: Caller,
    body: Body,
) -> Reply {
    if name_record(&name).is_some() {
        return Err(Problem::method_not_allowed(&Method::PUT, service::OF_NAME_RECORD));
    }
    let options = Options::take(&caller, false)?;
    find(&app.fleet(), &name, &id)?;
    let value = request::document(&caller.headers, body, MOST_DOCUMENT).await?;
    let operation = Operation::new(&name, Verb::Replace { id: id.clone(), value });
    let operation = operation.when(request::if_match(&caller.headers)?);
    run(&app, &caller, &options, operation, |written| {
        resource(StatusCode::OK, &written.fleet, &name, &id)
    })
    .await
}

/// `PATCH /{kind}/{id}`
pub async fn patch(
    State(app): State<Arc<App>>,
    Path((name, id)): Path<(String, String)>,
    caller: Caller,
    body: Body,
) -> Reply {
    if name_record(&name).is_some() {
        return Err(Problem::method_not_allowed(&Method::PATCH, service::OF_NAME_RECORD));
    }
    let options = Options::take(&caller, false)?;
    find(&app.fleet(), &name, &id)?;
    let (form, value) = request::patch(&caller.headers, body).await?;
    let on = Target::Id(id.clone());
    let operation = Operation::new(&name, Verb::Merge { on, form, value }).when(request::if_match(&caller.headers)?);
    run(&app, &caller, &options, operation, |written| {
        resource(StatusCode::OK, &written.fleet, &name, &id)
    })
    .await
}

/// `DELETE /{kind}/{id}`
pub async fn delete(State(app): State<Arc<App>>, Path((name, id)): Path<(String, String)>, caller: Caller) -> Reply {
    let options = Options::take(&caller, name != CLUSTERS)?;
    let verb = Verb::Delete {
        id,
        cascade: options.cascade,
    };
    let operation = Operation::new(&name, verb).when(request::if_match(&caller.headers)?);
    run(&app, &caller, &options, operation, |_| {
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

/// `GET /{kind}/{id}/references`, `…/history`, and for clusters `…/diagnostics` and `…/manifests`
pub async fn view(
    State(app): State<Arc<App>>,
    Path((name, id, view)): Path<(String, String, String)>,
    caller: Caller,
) -> Reply {
    let class = caller.class();
    match (name.as_str(), view.as_str()) {
        (_, "history") => history::history(&app, name, id, &caller).await,
        (CLUSTERS, "manifests") => manifests(&app, id, caller).await,
        (CLUSTERS, "diagnostics") => {
            caller.query()?.end("none")?;
            respond(&app, class, move |app, out| diagnostics(out, app, &id)).await
        }
        (kind, "references") if kind != CLUSTERS && name_record(kind).is_none() => {
            let show = move |app: &App, out: &mut Writer| references(out, &app.fleet(), &name, &id, &caller);
            respond(&app, class, show).await
        }
        _ => Err(Problem::not_found("there is nothing at this path")),
    }
}

/// A cluster that must be there.
fn cluster_of<'a>(fleet: &'a Fleet, id: &str) -> Result<&'a Arc<Cluster>, Problem> {
    let unknown = || Problem::not_found(format!("there is no cluster \"{}\"", quote(id)));
    fleet.cluster(id).ok_or_else(unknown)
}

fn diagnostics(out: &mut Writer, app: &App, id: &str) -> Result<(), Problem> {
    let fleet = &*app.fleet();
    let cluster = cluster_of(fleet, id)?;
    let mut found = fleet.diagnose(cluster);
    found.extend(manifests::diagnose(
        fleet,
        &manifests::render(&app.templates, fleet, cluster),
    ));
    out.json(&found)
}

/// `GET /clusters/{id}/manifests`: the objects that a cluster makes of its inputs, now or at a revision.
async fn manifests(app: &Arc<App>, id: String, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let (revision, kind) = (query.number("revision", 0)?.map(Revision), query.take("kind")?);
    query.end("kind, revision")?;
    let class = match revision {
        Some(_) => caller.past_class(),
        None => caller.class(),
    };
    let show = move |app: &App, out: &mut Writer| {
        let fleet = match revision {
            Some(revision) => app.fleet_at(&out.turn, revision)?,
            None => app.fleet(),
        };
        let cluster = cluster_of(&fleet, &id)?;
        show_manifests(out, app, &fleet, cluster, kind, &caller.headers)
    };
    respond(app, class, show).await
}

/// YAML, unless JSON is asked for.
fn show_manifests(
    out: &mut Writer,
    app: &App,
    fleet: &Fleet,
    cluster: &Cluster,
    kind: Option<String>,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let wanted = kind.map(|name| {
        let mut kinds = fleet.kinds().definitions();
        let known = |kind: &&Arc<Kind>| {
            *kind.name == *name || kind.singular == name || kind.command == name || kind.path.as_deref() == Some(&name)
        };
        let kind = kinds.find(known).and_then(|kind| kind.path.clone());
        kind.ok_or_else(|| Problem::bad_request(format!("kind=\"{}\" is no kind that Flux asks for", quote(&name))))
    });
    let wanted = wanted.transpose()?;
    let mut objects = Vec::new();
    let mut errors = Vec::new();
    for rendered in manifests::render(&app.templates, fleet, cluster) {
        if wanted.as_deref().is_some_and(|path| !rendered.paths.contains(&path)) {
            continue;
        }
        match rendered.result {
            Ok(steps) => objects.extend(steps.into_iter().flat_map(|step| step.objects)),
            Err(error) => errors.push(Violation::new(segment(rendered.name), error.to_string())),
        }
    }
    if !errors.is_empty() {
        return Err(Problem::invalid(errors));
    }
    let accepts = |kind: &str| {
        let mut accepted = headers.get_all(ACCEPT).iter();
        accepted.any(|value| value.to_str().is_ok_and(|value| value.contains(kind)))
    };
    if accepts("json") && !accepts("yaml") {
        return out.json(&json!({"apiVersion": "v1", "kind": "List", "items": objects}));
    }
    out.headers
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
    for object in &objects {
        let object = resourceset::to_yaml(object);
        out.text("---\n")?;
        out.text(&object.map_err(|error| Problem::invalid(vec![Violation::new("", error.to_string())]))?)?;
    }
    Ok(())
}

/// The clusters that use a definition, each with what it effectively gets.
fn references(out: &mut Writer, fleet: &Fleet, name: &str, id: &str, caller: &Caller) -> Result<(), Problem> {
    let mut query = caller.query()?;
    let page = Page::take(&mut query)?;
    let selector = query.take("selector")?;
    query.end("limit, offset, selector")?;
    let selector = selector.map(|text| Selector::for_fleet(&text, fleet)).transpose()?;
    find(fleet, name, id)?;
    let kind = kind_of(fleet, name)?;
    let clusters = fleet.kinds().clusters().cloned().ok_or_else(Problem::internal)?;
    let definitions = fleet.definitions(name).ok_or_else(Problem::internal)?;
    let definition = definitions.get(id).ok_or_else(Problem::internal)?;
    let users = definitions.users(id).filter_map(|user| fleet.cluster(user));
    let matcher = selector.as_ref().map(|selector| selector.on(&clusters));
    let mut found = Vec::new();
    for cluster in out.turn.until_stopped(users) {
        let cluster = cluster?;
        if matcher.as_ref().is_none_or(|matcher| matcher.matches(cluster)) {
            found.push(cluster);
        }
    }
    out.headers.insert(TOTAL.clone(), found.len().into());
    let shown = found.into_iter().skip(page.offset).take(page.limit);
    out.text("[")?;
    out.list(shown.filter_map(|cluster| Usage::of(&kind, definition, cluster)))?;
    out.text("]")
}

/// A kind as `GET /kinds` lists it.
#[derive(Serialize)]
struct KindEntry<'a> {
    name: &'a str,
    singular: &'a str,
    command: &'a str,
    path: Option<&'a str>,
    references: Option<&'a str>,
    origin: &'a str,
    etag: String,
    document: &'a Json,
}

/// `GET /kinds`
pub async fn kinds(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    let text = app.read(caller.class(), |app, _| kinds_text(&app.fleet())).await??;
    let tag = fleet::document::Etag::of_bytes(text.as_bytes()).to_string();
    let mut response = json_text(text);
    response.headers_mut().insert(ETAG, etag(&tag));
    Ok(unless_known(&caller.headers, response))
}

fn kinds_text(fleet: &Fleet) -> Result<String, Problem> {
    if fleet.is_damaged(KINDS) {
        return Err(Problem::damaged());
    }
    let entries = fleet.kinds().iter().map(|kind| KindEntry {
        name: &kind.name,
        singular: &kind.singular,
        command: &kind.command,
        path: kind.path.as_deref(),
        references: kind.references.as_deref(),
        origin: kind
            .origin
            .as_deref()
            .map_or("api", |origin| origin.split(':').next().unwrap_or(origin)),
        etag: kind.etag.to_string(),
        document: &kind.document,
    });
    serde_json::to_string(&entries.collect::<Vec<_>>()).map_err(|_| Problem::internal())
}

/// `GET /kinds/{kind}`: the document as it was put.
pub async fn kind(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let revision = query.number("revision", 0)?.map(Revision);
    query.end("revision")?;
    if let Some(revision) = revision {
        let body = history::resource_at(&app, KINDS, &name, revision).await?;
        return Ok(history::document_at(&body, revision));
    }
    let kind = kind_of(&app.fleet(), &name)?;
    let accept = caller
        .headers
        .get("accept")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut response = match accept.contains("yaml") {
        true => {
            let document = kind.document.clone();
            let text = app.read(caller.class(), move |_, _| yaml::write(&document.parse()));
            let text = text.await?;
            ([(CONTENT_TYPE, HeaderValue::from_static("application/yaml"))], text).into_response()
        }
        false => json_text(kind.document.as_str().to_owned()),
    };
    response.headers_mut().insert(ETAG, etag(&kind.etag.to_string()));
    Ok(unless_known(&caller.headers, response))
}

/// `PUT /kinds/{kind}`
pub async fn put_kind(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller, body: Body) -> Reply {
    let options = Options::take(&caller, false)?;
    let value = request::kind(&caller.headers, body).await?;
    let operation = Operation::new(
        KINDS,
        Verb::Apply {
            id: Some(name.clone()),
            value,
        },
    );
    let operation = operation.when(request::if_match(&caller.headers)?);
    run(&app, &caller, &options, operation, |written| {
        let created = written
            .changes
            .iter()
            .any(|change| *change.kind == *KINDS && change.before.is_none());
        let status = if created { StatusCode::CREATED } else { StatusCode::OK };
        resource(status, &written.fleet, KINDS, &name)
    })
    .await
}

/// `DELETE /kinds/{kind}`
pub async fn delete_kind(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller) -> Reply {
    let options = Options::take(&caller, false)?;
    let operation = Operation::new(
        KINDS,
        Verb::Delete {
            id: name,
            cascade: false,
        },
    );
    let operation = operation.when(request::if_match(&caller.headers)?);
    run(&app, &caller, &options, operation, |_| {
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

/// `POST /batch`
pub async fn batch(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Reply {
    let options = Options::take(&caller, false)?;
    let batch = request::batch(&caller.headers, body).await?;
    let rules = Rules {
        batch: true,
        ..Rules::default()
    };
    let write = WriteRequest {
        operations: batch.operations,
        rules,
        author: caller.author(batch.reason.filter(|reason| !reason.trim().is_empty()))?,
        confirmation: options.confirmation,
        ..WriteRequest::default()
    };
    run_all(&app, &options, write, |written| Ok(changes_of(&written))).await
}

/// The revision that a write became, and what it changed.
pub(super) fn changes_of(written: &Written) -> Response {
    let changes = written.changes.iter().map(|change| {
        let document = written.fleet.document(&change.kind, &change.id);
        json!({"kind": change.kind, "id": change.id, "etag": document.map(|document| document.etag.to_string())})
    });
    let changes: Vec<_> = changes.collect();
    AxumJson(json!({"revision": written.revision, "changes": changes})).into_response()
}

/// `GET /changes`
pub async fn changes(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    const USUAL: u64 = 100;
    const MOST: u64 = 10_000;
    let mut query = caller.query()?;
    let limit = query.number("limit", 1)?;
    let wanted = AuditQuery {
        after: query.number("after", 0)?.map(Revision),
        limit: usize::try_from(limit.unwrap_or(USUAL).min(MOST)).unwrap_or_default(),
        kind: query.take("kind")?,
        id: query.take("id")?,
        actor: query.take("actor")?,
        ..AuditQuery::default()
    };
    query.end("after, limit, kind, id, actor")?;
    if feed::wants_lines(&caller.headers) {
        return feed::lines(app, wanted, limit).await;
    }
    let show = move |app: &App, out: &mut Writer| {
        out.headers.insert(REVISION.clone(), app.fleet().revision().0.into());
        records::write_page(out, &*app.store, wanted)
    };
    respond(&app, caller.class(), show).await
}
