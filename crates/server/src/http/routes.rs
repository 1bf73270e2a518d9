//! The table of routes. The router, the `Allow` header, the rights and the OpenAPI document are made from it.

use axum::Router;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{Method, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use fleet::kind::{KINDS, Kind, Kinds, has_own_routes, name_record};
use fleet::refusal::quote;

use super::client_address::Peer;
use super::openapi::describe::{self, Operation};
use super::problem::Problem;
use super::{
    Http, backup, changes, clusters, evidence, identities, kinds, name_records, observe, poll, resources, revisions,
    rollouts, service, status, status_stream, stream, write,
};
use crate::auth::Right;
use crate::config::Mode;

/// One method of one path.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: Verb,
    /// As the router has it: `{name}` stands for a segment.
    pub path: &'static str,
    /// The right that it needs. None: it is public.
    pub right: Option<Right>,
    /// Whether only a server in `crud` mode has it.
    pub crud: bool,
    /// None: answered before the router (`poll.rs`).
    handler: Option<fn(MethodFilter) -> MethodRouter<Http>>,
    describe: Describe,
}

/// The methods that routes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Verb {
    pub fn method(self) -> Method {
        match self {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
            Verb::Put => Method::PUT,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
            Verb::Put => MethodFilter::PUT,
            Verb::Patch => MethodFilter::PATCH,
            Verb::Delete => MethodFilter::DELETE,
        }
    }

    /// As `Allow` lists it. The router answers HEAD where it answers GET.
    fn allow(self) -> &'static str {
        match self {
            Verb::Get => "GET, HEAD",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
        }
    }
}

/// How a route is described: once, or once for each kind that it serves.
#[derive(Clone, Copy, Debug)]
enum Describe {
    Once(fn(&Kinds) -> Operation),
    /// `{kind}` is the name of each kind.
    EachKind(fn(&Kind) -> Operation),
    /// The same, without clusters.
    EachDefinition(fn(&Kind) -> Operation),
    /// `{path}` is the Flux path of each kind that has one.
    EachPath(fn(&Kind) -> Operation),
}

use Describe::{EachDefinition, EachKind, EachPath, Once};
use Verb::{Delete, Get, Patch, Post, Put};

/// Records of names have a history here, too.
const HISTORY: &str = "/{kind}/{id}/history";

const PUBLIC: Option<Right> = None;
const KNOWN: Option<Right> = Some(Right::Known);
const POLL: Option<Right> = Some(Right::Poll);
const TELL: Option<Right> = Some(Right::Tell);
const READ: Option<Right> = Some(Right::Read);
const WRITE: Option<Right> = Some(Right::Write);
const ADMIN: Option<Right> = Some(Right::Administer);
const FOLLOW: Option<Right> = Some(Right::Follow);
const COPY: Option<Right> = Some(Right::Copy);
const REGISTER: Option<Right> = Some(Right::Register);

/// A route of every server.
const fn every(
    method: Verb,
    path: &'static str,
    right: Option<Right>,
    handler: fn(MethodFilter) -> MethodRouter<Http>,
    describe: Describe,
) -> Route {
    let crud = false;
    let handler = Some(handler);
    Route {
        method,
        path,
        right,
        crud,
        handler,
        describe,
    }
}

/// A route of servers in `crud` mode.
const fn crud(
    method: Verb,
    path: &'static str,
    right: Option<Right>,
    handler: fn(MethodFilter) -> MethodRouter<Http>,
    describe: Describe,
) -> Route {
    Route {
        crud: true,
        ..every(method, path, right, handler, describe)
    }
}

/// Every route. The methods of a path are in the order in which `Allow` lists them.
#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    every(Get, "/health", PUBLIC, |m| on(m, service::health), Once(describe::service::health)),
    every(Get, "/ready", PUBLIC, |m| on(m, service::ready), Once(describe::service::ready)),
    every(Get, "/openapi.yaml", PUBLIC, |m| on(m, service::openapi_yaml), Once(describe::service::openapi)),
    every(Get, "/metrics", READ, |m| on(m, service::metrics), Once(describe::service::metrics)),

    every(Get, "/api/v2/flux/clusters", READ, |m| on(m, poll::clusters), Once(describe::flux::flux_clusters)),
    Route {
        method: Get, path: "/api/v2/flux/clusters/{cluster_dns}/{path}", right: POLL, crud: false,
        handler: None, describe: EachPath(describe::flux::flux_inputs),
    },
    every(Post, "/api/v2/flux/clusters/{cluster_dns}/events", TELL, |m| on(m, evidence::event), Once(describe::evidence::event)),
    every(Post, "/api/v2/flux/clusters/{cluster_dns}/report", TELL, |m| on(m, evidence::report), Once(describe::evidence::report)),
    every(Get, "/api/v2/flux/clusters/{cluster_dns}/changed", TELL, |m| on(m, evidence::changed), Once(describe::evidence::changed)),

    every(Get, "/status", READ, |m| on(m, status::list), Once(describe::status::list)),
    every(Get, "/status/stream", READ, |m| on(m, status_stream::stream), Once(describe::status::stream)),
    every(Get, "/status/map", READ, |m| on(m, status::map), Once(describe::status::map)),
    every(Get, "/status/versions", READ, |m| on(m, status::versions), Once(describe::status::versions)),
    every(Get, "/status/labels", READ, |m| on(m, status::labels), Once(describe::status::labels)),
    every(Get, "/status/causes", READ, |m| on(m, status::causes), Once(describe::status::causes)),
    crud(Get, "/clusters/{id}/status", READ, |m| on(m, status::cluster), Once(describe::status::cluster)),
    crud(Get, "/revisions/{revision}/status", READ, |m| on(m, status::revision), Once(describe::status::revision)),

    crud(Get, "/{kind}", READ, |m| on(m, resources::list), EachKind(describe::resources::list)),
    crud(Post, "/{kind}", WRITE, |m| on(m, resources::create), EachKind(describe::resources::create)),
    crud(Get, "/{kind}/{id}", READ, |m| on(m, resources::get), EachKind(describe::resources::get)),
    crud(Put, "/{kind}/{id}", WRITE, |m| on(m, resources::replace), EachKind(describe::resources::replace)),
    crud(Patch, "/{kind}/{id}", WRITE, |m| on(m, resources::patch), EachKind(describe::resources::patch)),
    crud(Delete, "/{kind}/{id}", WRITE, |m| on(m, resources::delete), EachKind(describe::resources::delete)),
    crud(Get, HISTORY, READ, |m| on(m, changes::history), EachKind(describe::resources::history)),
    crud(Get, "/{kind}/{id}/references", READ, |m| on(m, resources::references), EachDefinition(describe::resources::references)),

    crud(Get, "/clusters/{id}/inputs/{path}", READ, |m| on(m, clusters::inputs), Once(describe::clusters::cluster_inputs)),
    crud(Get, "/clusters/{id}/effective", READ, |m| on(m, clusters::effective), Once(describe::clusters::cluster_effective)),
    crud(Get, "/clusters/{id}/explain", READ, |m| on(m, clusters::explain), Once(describe::clusters::explain_cluster)),
    crud(Get, "/clusters/{id}/explain/{path}", READ, |m| on(m, clusters::explain_path), Once(describe::clusters::explain_path)),
    crud(Get, "/clusters/{id}/explain/{path}/{input}", READ, |m| on(m, clusters::explain_input), Once(describe::clusters::explain_input)),
    crud(Get, "/clusters/{id}/manifests", READ, |m| on(m, clusters::manifests), Once(describe::clusters::cluster_manifests)),
    crud(Get, "/clusters/{id}/resourcesets", READ, |m| on(m, clusters::resource_sets), Once(describe::clusters::cluster_resource_sets)),
    crud(Get, "/clusters/{id}/diagnostics", READ, |m| on(m, clusters::diagnostics), Once(describe::clusters::cluster_diagnostics)),

    crud(Get, "/rollouts/{id}/status", READ, |m| on(m, rollouts::status), Once(describe::rollouts::status)),
    crud(Post, "/rollouts/{id}/approve", WRITE, |m| on(m, rollouts::approve), Once(describe::rollouts::approve)),
    crud(Post, "/rollouts/{id}/pause", WRITE, |m| on(m, rollouts::pause), Once(describe::rollouts::pause)),
    crud(Post, "/rollouts/{id}/resume", WRITE, |m| on(m, rollouts::resume), Once(describe::rollouts::resume)),
    crud(Post, "/rollouts/{id}/promote", WRITE, |m| on(m, rollouts::promote), Once(describe::rollouts::promote)),
    crud(Post, "/rollouts/{id}/revert", WRITE, |m| on(m, rollouts::revert), Once(describe::rollouts::revert)),
    crud(Post, "/rollouts/{id}/complete", WRITE, |m| on(m, rollouts::complete), Once(describe::rollouts::complete)),
    crud(Post, "/rollouts/{id}/abort", WRITE, |m| on(m, rollouts::abort), Once(describe::rollouts::abort)),

    crud(Get, "/decommissions", READ, |m| on(m, name_records::list), Once(describe::name_records::list_decommissions)),
    crud(Get, "/decommissions/{id}", READ, |m| on(m, name_records::get), Once(describe::name_records::get_decommission)),
    crud(Delete, "/decommissions/{id}", WRITE, |m| on(m, name_records::delete), Once(describe::name_records::delete_decommission)),
    crud(Get, "/released_names", READ, |m| on(m, name_records::list), Once(describe::name_records::list_released_names)),
    crud(Get, "/released_names/{id}", READ, |m| on(m, name_records::get), Once(describe::name_records::get_released_name)),
    crud(Delete, "/released_names/{id}", WRITE, |m| on(m, name_records::delete), Once(describe::name_records::delete_released_name)),

    crud(Get, "/kinds", READ, |m| on(m, kinds::list), Once(describe::kinds::list_kinds)),
    crud(Get, "/kinds/{kind}", READ, |m| on(m, kinds::get), Once(describe::kinds::get_kind)),
    crud(Put, "/kinds/{kind}", ADMIN, |m| on(m, kinds::put), Once(describe::kinds::put_kind)),
    crud(Delete, "/kinds/{kind}", ADMIN, |m| on(m, kinds::delete), Once(describe::kinds::delete_kind)),
    crud(Get, "/kinds/{kind}/history", READ, |m| on(m, changes::kind_history), Once(describe::kinds::history_kind)),

    every(Get, "/whoami", KNOWN, |m| on(m, identities::whoami), Once(describe::identities::whoami)),
    crud(Get, "/.well-known/flux-resourceset", PUBLIC, |m| on(m, identities::discovery), Once(describe::identities::discovery)),
    crud(Get, "/identities", ADMIN, |m| on(m, identities::list), Once(describe::identities::list_identities)),
    crud(Post, "/identities", ADMIN, |m| on(m, identities::create), Once(describe::identities::create_identity)),
    crud(Get, "/identities/{id}", ADMIN, |m| on(m, identities::get), Once(describe::identities::get_identity)),
    crud(Put, "/identities/{id}", ADMIN, |m| on(m, identities::replace), Once(describe::identities::replace_identity)),
    crud(Patch, "/identities/{id}", ADMIN, |m| on(m, identities::patch), Once(describe::identities::patch_identity)),
    crud(Delete, "/identities/{id}", ADMIN, |m| on(m, identities::delete), Once(describe::identities::delete_identity)),
    crud(Get, "/identities/{id}/history", ADMIN, |m| on(m, changes::identity_history), Once(describe::identities::history_identity)),
    crud(Post, "/identities/{id}/tokens", WRITE, |m| on(m, identities::issue), Once(describe::identities::issue_token)),
    crud(Delete, "/identities/{id}/tokens/{token}", WRITE, |m| on(m, identities::revoke), Once(describe::identities::revoke_token)),
    crud(Post, "/clusters/{id}/token", WRITE, |m| on(m, identities::issue_for_cluster), Once(describe::identities::issue_cluster_token)),
    crud(Post, "/register", REGISTER, |m| on(m, identities::register), Once(describe::identities::register)),

    crud(Post, "/batch", WRITE, |m| on(m, write::batch), Once(describe::changes::batch)),
    crud(Post, "/rollback", WRITE, |m| on(m, write::rollback), Once(describe::changes::rollback)),
    crud(Get, "/diff", READ, |m| on(m, changes::diff), Once(describe::changes::diff)),
    crud(Get, "/revisions", READ, |m| on(m, revisions::list), Once(describe::changes::revisions)),
    crud(Get, "/changes", READ, |m| on(m, changes::list), Once(describe::changes::changes)),
    crud(Get, "/changes/stream", FOLLOW, |m| on(m, stream::stream), Once(describe::changes::stream_changes)),
    crud(Get, "/backup", COPY, |m| on(m, backup::backup), Once(describe::changes::backup)),
];

/// The routes of a server in this mode.
pub fn served(mode: Mode) -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().filter(move |route| !route.crud || mode == Mode::Crud)
}

impl Route {
    /// Whether it serves the resources of every kind.
    fn is_for_kinds(&self) -> bool {
        self.path.starts_with("/{kind}")
    }

    /// The paths of the OpenAPI document that this route serves, each with its description.
    pub fn described(&self, kinds: &Kinds) -> Vec<(String, Operation)> {
        let named = |kind: &Kind| self.path.replace("{kind}", &kind.name);
        match self.describe {
            Once(describe) => vec![(self.path.to_owned(), describe(kinds))],
            EachKind(describe) => kinds.iter().map(|kind| (named(kind), describe(kind))).collect(),
            EachDefinition(describe) => kinds.definitions().map(|kind| (named(kind), describe(kind))).collect(),
            EachPath(describe) => {
                let at = |kind: &Kind| Some(self.path.replace("{path}", kind.path.as_deref()?));
                let all = kinds.definitions();
                all.filter_map(|kind| Some((at(kind)?, describe(kind)))).collect()
            }
        }
    }
}

/// Everything but polls.
pub fn router(http: Http) -> Router {
    let routes = served(http.app.mode);
    router_of(http, routes)
}

/// The API that the dashboard is a client of: on a read-only server, all that readers may read, which its own routes do not show. Nobody
/// administers there, whatever their token may do elsewhere.
pub fn for_dashboard(http: Http) -> Router {
    let is_read =
        |route: &Route| matches!(route.right, None | Some(Right::Known | Right::Read)) && route.method == Verb::Get;
    let reads_only = http.app.mode == Mode::ReadOnly;
    let routes = ROUTES.iter().filter(move |route| !reads_only || is_read(route));
    router_of(http, routes)
}

fn router_of(http: Http, routes: impl Iterator<Item = &'static Route>) -> Router {
    let (mut public, mut protected) = (Router::new(), Router::new());
    for route in routes {
        let Some(handler) = route.handler else { continue };
        let mut methods = handler(route.method.filter());
        if route.path == HISTORY {
            methods = methods.route_layer(from_fn(only_kinds_and_names));
        } else if route.is_for_kinds() {
            methods = methods.route_layer(from_fn(only_kinds));
        }
        match route.right {
            None => public = public.route(route.path, methods),
            Some(_) => protected = protected.route(route.path, methods),
        }
    }
    protected
        .method_not_allowed_fallback(not_allowed)
        .route_layer(from_fn_with_state(http.clone(), observe::authenticate))
        .merge(public.method_not_allowed_fallback(not_allowed))
        .fallback(unknown_path)
        .layer(from_fn(rejections_as_problems))
        .layer(from_fn_with_state(http.app.clone(), observe::observe))
        .with_state(http)
}

/// The right that a request needs. A method that the path does not have needs what its like needs elsewhere.
pub fn right(path: &str, method: &Method) -> Right {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let wanted = if reads { &Method::GET } else { method };
    let route = ROUTES
        .iter()
        .find(|route| route.path == path && route.method.method() == *wanted);
    match (route.and_then(|route| route.right), reads) {
        (Some(right), _) => right,
        (None, true) => Right::Read,
        (None, false) => Right::Write,
    }
}

/// Refuses names of what is no kind but is stored like one. Its own routes have other rights, and the router does not find them where a
/// letter of the name is escaped (`/%69dentities/ann`), or where they are left out.
async fn only_kinds(parameters: RawPathParams, uri: Uri, request: Request, next: Next) -> Response {
    match names_kind(&parameters, |kind| kind == KINDS || has_own_routes(kind)) {
        true => nothing_here(uri).await.into_response(),
        false => next.run(request).await,
    }
}

/// The same for the history, which records of names have here.
async fn only_kinds_and_names(parameters: RawPathParams, uri: Uri, request: Request, next: Next) -> Response {
    let is_other = |kind: &str| kind == KINDS || has_own_routes(kind) && name_record(kind).is_none();
    match names_kind(&parameters, is_other) {
        true => nothing_here(uri).await.into_response(),
        false => next.run(request).await,
    }
}

fn names_kind(parameters: &RawPathParams, is_wanted: impl Fn(&str) -> bool) -> bool {
    let mut kinds = parameters.iter().filter(|(name, _)| *name == "kind");
    kinds.any(|(_, kind)| is_wanted(kind))
}

/// The methods of a path, as `Allow` lists them.
fn allowed(path: &str) -> String {
    let methods = ROUTES.iter().filter(|route| route.path == path);
    let methods: Vec<_> = methods.map(|route| route.method.allow()).collect();
    methods.join(", ")
}

/// For a method that a path does not have. A path of an unknown kind does not exist.
async fn not_allowed(
    State(http): State<Http>,
    matched: MatchedPath,
    parameters: RawPathParams,
    method: Method,
    uri: Uri,
) -> Problem {
    let is_known = |kind: &str| http.app.fleet().kinds().get(kind).is_some() || name_record(kind).is_some();
    let kind = parameters.iter().find(|(name, _)| *name == "kind");
    let path = matched.as_str();
    match kind {
        Some((_, kind)) if path.starts_with("/{kind}") && !is_known(kind) => nothing_here(uri).await,
        _ => Problem::method_not_allowed(&method, allowed(path)),
    }
}

/// For a path without a route. A kind may add it any time, so it needs a token like the routes of kinds.
async fn unknown_path(State(http): State<Http>, request: Request) -> Problem {
    let refused = match http.app.mode {
        Mode::Crud => {
            let (headers, peer) = (request.headers(), Peer::of(request.extensions()));
            let actor = observe::authorize_patiently(&http.app, headers, peer, Right::Read);
            actor.await.err()
        }
        Mode::ReadOnly => None,
    };
    match refused {
        Some(problem) => problem,
        None => nothing_here(request.uri().clone()).await,
    }
}

pub async fn nothing_here(uri: Uri) -> Problem {
    Problem::not_found(format!("there is nothing at {}", quote(uri.path())))
}

/// Extractors of the framework refuse in plain text, a path that is not UTF-8 for example. Every error is a problem.
async fn rejections_as_problems(request: axum::extract::Request, next: Next) -> Response {
    let response = next.run(request).await;
    let content_type = response.headers().get("content-type");
    let is_problem = content_type.is_some_and(|kind| kind == "application/problem+json");
    match response.status().is_client_error() && !is_problem {
        true => Problem::bad_request("the path or the query string cannot be parsed").into_response(),
        false => response,
    }
}
