//! The HTTP layer. `routes.rs` has every route; handlers extract, call the application, and convert.

pub mod backup;
pub mod body;
pub mod caller;
pub mod changes;
pub mod client_address;
pub mod clusters;
mod connections;
pub mod dashboard;
pub mod evidence;
pub mod identities;
pub mod kinds;
pub mod listen;
pub mod name_records;
pub mod negotiate;
pub mod observe;
pub mod openapi;
pub mod peer_certificate;
mod peer_stream;
pub mod plan;
pub mod poll;
pub mod problem;
pub mod problem_type;
pub mod request;
pub mod resources;
pub mod respond;
pub mod revisions;
pub mod rollouts;
pub mod routes;
pub mod service;
pub mod status;
pub mod status_stream;
pub mod stream;
pub mod tls;
pub mod write;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::FromRef;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use axum::routing::get;
use futures_util::future::Either;
use tokio::sync::{Semaphore, watch};
use tower::Service;

use self::client_address::Peer;
use self::problem::Problem;
use self::request::Bodies;
use crate::app::App;

/// What handlers can reach: the application, and what only HTTP needs.
#[derive(Clone, Debug)]
pub struct Http {
    app: Arc<App>,
    bodies: Arc<Bodies>,
    openapi: Arc<openapi::Cache>,
}

impl FromRef<Http> for Arc<App> {
    fn from_ref(http: &Http) -> Self {
        http.app.clone()
    }
}

/// The service on the main address: polls are answered directly, all other requests by a router.
#[derive(Clone, Debug)]
pub struct Api {
    /// None while the fleet is being loaded.
    app: Option<Arc<App>>,
    rest: Router,
}

impl Api {
    pub fn new(app: Arc<App>) -> Api {
        let http = Http {
            app: app.clone(),
            bodies: Arc::default(),
            openapi: Arc::default(),
        };
        let rest = match app.ui {
            true => dashboard::router(&http).merge(routes::router(http)),
            false => routes::router(http),
        };
        Api { rest, app: Some(app) }
    }

    /// The service while the fleet is being loaded: alive, not ready. Other requests wait a moment for the real service, which is
    /// enough for small fleets. Connections are closed after each reply.
    pub fn starting(real: watch::Receiver<Option<Api>>) -> Api {
        let close = || [("connection", "close")];
        let unready = move || (close(), Problem::unavailable("the fleet is still being loaded")).into_response();
        let rest = Router::new()
            .route(
                "/health",
                get(move || async move { (close(), service::health().await) }),
            )
            .route("/ready", get(move || async move { unready() }))
            .fallback(move |request: axum::extract::Request| async move {
                // Few at a time: each keeps a connection, and probes need some, too.
                static WAITING: Semaphore = Semaphore::const_new(256);
                let Ok(_place) = WAITING.try_acquire() else {
                    return unready();
                };
                let real = tokio::time::timeout(PATIENCE, api(real)).await.ok().flatten();
                match real {
                    None => unready(),
                    Some(mut real) => match real.call(request).await {
                        Ok(response) => (close(), response).into_response(),
                        Err(never) => match never {},
                    },
                }
            });
        Api { app: None, rest }
    }
}

impl Api {
    /// The answer to a poll, which needs no wait. None: it is another request. `started`: when it arrived.
    fn poll<B>(&self, request: &Request<B>, peer: &Peer, started: Instant) -> Option<axum::http::Response<Bytes>> {
        let app = self.app.as_ref()?;
        poll::is_poll(request.uri().path()).then(|| poll::answer(app, request, peer, started))
    }
}

/// How long a request waits for the fleet to be loaded.
const PATIENCE: Duration = Duration::from_secs(5);

async fn api(mut real: watch::Receiver<Option<Api>>) -> Option<Api> {
    real.wait_for(Option::is_some).await.ok()?.clone()
}

impl<B> Service<Request<B>> for Api
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response, Infallible>>, RouteFuture<Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.poll(&request, Peer::of(request.extensions()), Instant::now()) {
            Some(response) => Either::Left(ready(Ok(response.map(Body::from)))),
            None => Either::Right(self.rest.call(request)),
        }
    }
}

/// The service on METRICS_ADDR: metrics without a token.
pub fn metrics(app: Arc<App>) -> Api {
    let rest = Router::new()
        .route("/metrics", get(service::metrics))
        .route("/health", get(service::health))
        .fallback(routes::nothing_here)
        .with_state(app);
    Api { app: None, rest }
}
