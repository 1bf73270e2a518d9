//! What operators and CI use: resources of every kind, batches, the log. Handlers extract, call, convert.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json as AxumJson;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use fleet::Fleet;
use fleet::budget::Confirmation;
use fleet::document::Document;
use fleet::json::Json;
use fleet::kind::{CLUSTERS, KINDS, Kind, name_record};
use fleet::log::{Author, Revision};
use fleet::operation::{Operation, Target, Verb};
use fleet::refusal::{Violation, segment};
use fleet::selector::Selector;
use fleet::snapshot::Cluster;
use fleet::usage::Usage;
use fleet::write::Rules;
use fleet::yaml;
use futures_util::stream;
use serde::Serialize;
use serde_json::{Value, json};
use store::AuditQuery;

use super::observe::{self, RequestId};
use super::poll::names;
use super::problem::Problem;
use super::request::{self, MOST_DOCUMENT, Page, Query};
use super::{feed, history, plan, service};
use crate::app::engine::{WriteRequest, Written};
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
        return Ok(plan::show(app.plan(write, options.rendered()).await?, options.page));
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
        .ok_or_else(|| Problem::not_found(format!("there is no kind \"{name}\"")))
}

/// `GET /{kind}`
pub async fn list(State(app): State<Arc<App>>, Path(name): Path<String>, caller: Caller) -> Reply {
    let found = app.read(move |app| list_now(&app.fleet(), &name, &caller)).await;
    found.ok_or_else(Problem::internal)?
}

fn list_now(fleet: &Fleet, name: &str, caller: &Caller) -> Reply {
    let mut query = caller.query()?;
    let page = Page::take(&mut query)?;
    if let Some(names) = fleet.name_records(name) {
        query.end("limit, offset")?;
        let all = names.values().map(|document| document.body.clone());
        return Ok(stream_list(all.collect(), page));
    }
    let kind = kind_of(fleet, name)?;
    let mut filters = Vec::new();
    for filter in &kind.filters {
        if let Some(value) = query.take(&filter.name)? {
            let options = kind.schema["properties"][&filter.name]["enum"].as_array();
            if options.is_some_and(|options| !options.iter().any(|option| plain(option) == value)) {
                return Err(Problem::bad_request(format!(
                    "{}=\"{value}\" is not a value that {} have",
                    filter.name, kind.name
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
        return Ok(stream_list(all.map(|one| one.document.body.clone()).collect(), page));
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
    let wanted = |cluster: &&Arc<Cluster>| {
        let fits = |(field, value): &(&str, String)| field_is(cluster, field, value);
        filters.iter().all(fits)
            && selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&kind, cluster))
    };
    let clusters = fleet
        .clusters()
        .values()
        .filter(wanted)
        .map(|cluster| cluster.document().body.clone());
    Ok(stream_list(clusters.collect(), page))
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
        field => plain(&cluster.document().body.parse()[field]) == value,
    }
}

/// An array, sent in pieces: what is held is a pointer to each document, never the whole text.
fn stream_list(items: Vec<Json>, page: Page) -> Response {
    let total = items.len();
    let items = items.into_iter().skip(page.offset).take(page.limit);
    let mut response = stream("[".into(), items.map(Shared), "]".into());
    response.headers_mut().insert(TOTAL.clone(), total.into());
    response
}

/// A document's text, wherever it is.
struct Shared(Json);

impl AsRef<str> for Shared {
    fn as_ref(&self) -> &str {
        self.0.as_str()
    }
}

/// Items with commas between them, and what stands before and after, each made when it is its turn.
pub(super) fn stream<T: AsRef<str> + Send + 'static>(
    opening: String,
    items: impl Iterator<Item = T> + Send + 'static,
    ending: String,
) -> Response {
    const PIECE: usize = 64 << 10;
    let mut items = items.peekable();
    let (mut opening, mut ending) = (Some(opening), Some(ending));
    let pieces = std::iter::from_fn(move || {
        let mut text = opening.take().unwrap_or_default();
        while text.len() < PIECE
            && let Some(item) = items.next()
        {
            text.push_str(item.as_ref());
            if items.peek().is_some() {
                text.push(',');
            }
        }
        if items.peek().is_none() {
            text.push_str(&ending.take()?);
        }
        Some(Ok::<_, Infallible>(Bytes::from(text)))
    });
    json_text(Body::from_stream(stream::iter(pieces)))
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
    fleet
        .document(kind, id)
        .ok_or_else(|| Problem::not_found(format!("there is no {singular} \"{id}\"")))
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
    match (name.as_str(), view.as_str()) {
        (_, "history") => return history::history(&app, &name, &id, &caller).await,
        (CLUSTERS, "manifests") => return manifests(&app, id, caller).await,
        _ => {}
    }
    let found = app.read(move |app| view_now(app, &name, &id, &view, &caller)).await;
    found.ok_or_else(Problem::internal)?
}

fn view_now(app: &App, name: &str, id: &str, view: &str, caller: &Caller) -> Reply {
    let fleet = &*app.fleet();
    let cluster = || {
        let unknown = || Problem::not_found(format!("there is no cluster \"{id}\""));
        fleet.cluster(id).ok_or_else(unknown)
    };
    match (name, view) {
        (CLUSTERS, "diagnostics") => {
            caller.query()?.end("none")?;
            let cluster = cluster()?;
            let mut found = fleet.diagnose(cluster);
            found.extend(manifests::diagnose(
                fleet,
                &manifests::render(&app.templates, fleet, cluster),
            ));
            Ok(AxumJson(found).into_response())
        }
        (name, "references") if name != CLUSTERS && name_record(name).is_none() => references(fleet, name, id, caller),
        _ => Err(Problem::not_found("there is nothing at this path")),
    }
}

/// `GET /clusters/{id}/manifests`: the objects that a cluster makes of its inputs, now or at a revision.
async fn manifests(app: &Arc<App>, id: String, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let (revision, kind) = (query.number("revision", 0)?.map(Revision), query.take("kind")?);
    query.end("kind, revision")?;
    let fleet = match revision {
        Some(revision) => app.fleet_at(revision).await?,
        None => app.fleet(),
    };
    let shown = app.read(move |app| {
        let unknown = || Problem::not_found(format!("there is no cluster \"{id}\""));
        show_manifests(
            app,
            &fleet,
            fleet.cluster(&id).ok_or_else(unknown)?,
            kind,
            &caller.headers,
        )
    });
    shown.await.ok_or_else(Problem::internal)?
}

/// YAML, unless JSON is asked for.
fn show_manifests(app: &App, fleet: &Fleet, cluster: &Cluster, kind: Option<String>, headers: &HeaderMap) -> Reply {
    let wanted = kind.map(|name| {
        let mut kinds = fleet.kinds().definitions();
        let known = |kind: &&Arc<Kind>| {
            *kind.name == *name || kind.singular == name || kind.command == name || kind.path.as_deref() == Some(&name)
        };
        let kind = kinds.find(known).and_then(|kind| kind.path.clone());
        kind.ok_or_else(|| Problem::bad_request(format!("kind=\"{name}\" is no kind that Flux asks for")))
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
        return Ok(AxumJson(json!({"apiVersion": "v1", "kind": "List", "items": objects})).into_response());
    }
    let mut text = String::new();
    for object in &objects {
        let object = resourceset::to_yaml(object);
        text.push_str("---\n");
        text.push_str(&object.map_err(|error| Problem::invalid(vec![Violation::new("", error.to_string())]))?);
    }
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/yaml"))], text).into_response())
}

/// The clusters that use a definition, each with what it effectively gets.
fn references(fleet: &Fleet, name: &str, id: &str, caller: &Caller) -> Reply {
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
    let users = users.filter(|cluster| {
        selector
            .as_ref()
            .is_none_or(|selector| selector.matches(&clusters, cluster))
    });
    let users: Vec<_> = users.collect();
    let shown = users.iter().skip(page.offset).take(page.limit);
    let usages: Vec<_> = shown
        .filter_map(|cluster| Usage::of(&kind, definition, cluster))
        .collect();
    let mut response = AxumJson(usages).into_response();
    response.headers_mut().insert(TOTAL.clone(), users.len().into());
    Ok(response)
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
    let fleet = app.fleet();
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
    let text = serde_json::to_string(&entries.collect::<Vec<_>>()).map_err(|_| Problem::internal())?;
    let tag = fleet::document::Etag::of_bytes(text.as_bytes()).to_string();
    let mut response = json_text(text);
    response.headers_mut().insert(ETAG, etag(&tag));
    Ok(unless_known(&caller.headers, response))
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
            let text = yaml::write(&kind.document.parse());
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
    };
    query.end("after, limit, kind, id, actor")?;
    if feed::wants_lines(&caller.headers) {
        return feed::lines(app, wanted, limit).await;
    }
    let _place = app.heavy().await;
    let records = app.store.audit(&wanted).await?;
    let records: Vec<_> = records.iter().map(store::AuditRecord::record).collect();
    let mut response = AxumJson(records).into_response();
    response
        .headers_mut()
        .insert(REVISION.clone(), app.fleet().revision().0.into());
    Ok(response)
}
