//! The HTTP side: routes, who may use them, and how errors look.

pub mod body;
mod connections;
pub mod crud;
pub mod feed;
pub mod history;
pub mod listen;
pub mod observe;
pub mod openapi;
pub mod plan;
pub mod poll;
pub mod problem;
pub mod records;
pub mod request;
pub mod service;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::http::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use axum::routing::{get, post};
use futures_util::future::Either;
use tokio::sync::{Semaphore, watch};
use tower::Service;

use self::problem::Problem;
use crate::app::App;
use crate::config::Mode;

/// Everything that is served on the main address: polls on their own, the rest through a router.
#[derive(Clone, Debug)]
pub struct Api {
    /// None while the fleet is being read.
    app: Option<Arc<App>>,
    rest: Router,
}

impl Api {
    pub fn new(app: Arc<App>) -> Api {
        Api {
            rest: routes(app.clone()),
            app: Some(app),
        }
    }

    /// What is served while the fleet is being read: alive, not ready. Whoever takes the one for the other and asks right away
    /// waits a moment for the real thing, which small fleets need no longer for. Connections are not kept.
    pub fn starting(real: watch::Receiver<Option<Api>>) -> Api {
        let close = || [("connection", "close")];
        let unready = move || (close(), Problem::unavailable("the fleet is still being read")).into_response();
        let rest = Router::new()
            .route(
                "/health",
                get(move || async move { (close(), service::health().await) }),
            )
            .route("/ready", get(move || async move { unready() }))
            .fallback(move |request: axum::extract::Request| async move {
                // Few at a time: who waits has a connection, and probes need some, too.
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

/// How long a request waits for the fleet to be read.
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
        match &self.app {
            Some(app) if request.uri().path().starts_with(poll::PREFIX) => {
                Either::Left(ready(Ok(poll::answer(app, &request))))
            }
            _ => Either::Right(self.rest.call(request)),
        }
    }
}

fn routes(app: Arc<App>) -> Router {
    let mut protected = Router::new()
        .route("/api/v2/flux/clusters", get(poll::clusters).fallback(service::only_get))
        .route("/metrics", get(service::metrics).fallback(service::only_get));
    if app.mode == Mode::Crud {
        protected = protected
            .route("/kinds", get(crud::kinds).fallback(service::only_get))
            .route(
                "/kinds/{kind}",
                get(crud::kind)
                    .put(crud::put_kind)
                    .delete(crud::delete_kind)
                    .fallback(service::only_kind),
            )
            .route(
                "/kinds/{kind}/history",
                get(history::kind_history).fallback(service::only_get),
            )
            .route("/rollback", post(history::rollback).fallback(service::only_post))
            .route("/diff", get(history::diff).fallback(service::only_get))
            .route("/batch", post(crud::batch).fallback(service::only_post))
            .route("/changes", get(crud::changes).fallback(service::only_get))
            .route("/changes/stream", get(feed::stream).fallback(service::only_get))
            .route("/backup", get(feed::backup).fallback(service::only_get))
            .route(
                "/{kind}",
                get(crud::list).post(crud::create).fallback(service::only_list),
            )
            .route(
                "/{kind}/{id}",
                get(crud::get)
                    .put(crud::replace)
                    .patch(crud::patch)
                    .delete(crud::delete)
                    .fallback(service::only_resource),
            )
            .route("/{kind}/{id}/{view}", get(crud::view).fallback(service::only_get))
            .route(
                "/{kind}/{id}/{view}/{path}",
                get(history::inputs).fallback(service::only_get),
            );
    }
    let public = Router::new()
        .route("/health", get(service::health).fallback(service::only_get))
        .route("/ready", get(service::ready).fallback(service::only_get))
        .route("/openapi.yaml", get(service::openapi_yaml).fallback(service::only_get));
    protected
        .route_layer(from_fn_with_state(app.clone(), observe::authenticate))
        .merge(public)
        .fallback(service::nothing_here)
        .layer(from_fn(tidy_rejections))
        .layer(from_fn_with_state(app.clone(), observe::observe))
        .with_state(app)
}

/// What is served on METRICS_ADDR, to whoever can reach it.
pub fn metrics(app: Arc<App>) -> Api {
    let rest = Router::new()
        .route("/metrics", get(service::metrics))
        .route("/health", get(service::health))
        .fallback(service::nothing_here)
        .with_state(app);
    Api { app: None, rest }
}

/// Extractors of the framework refuse in plain text (a path that is not UTF-8, say): every error of ours is a problem.
async fn tidy_rejections(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    let response = next.run(request).await;
    let status = response.status();
    let is_problem = response
        .headers()
        .get("content-type")
        .is_some_and(|kind| kind == "application/problem+json");
    match status.is_client_error() && !is_problem {
        true => Problem::bad_request("the path or the query string cannot be read").into_response(),
        false => response,
    }
}
