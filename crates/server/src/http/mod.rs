//! The HTTP side: routes, who may use them, and how errors look.

pub mod crud;
pub mod listen;
pub mod observe;
pub mod openapi;
pub mod poll;
pub mod problem;
pub mod request;
pub mod service;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::app::App;
use crate::config::Mode;

/// Everything that is served on the main address.
pub fn router(app: Arc<App>) -> Router {
    let mut protected = Router::new()
        .route("/api/v2/flux/clusters", get(poll::clusters).fallback(service::only_get))
        .route(
            "/api/v2/flux/clusters/{dns}/{path}",
            get(poll::inputs).fallback(service::only_get),
        )
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
            .route("/batch", post(crud::batch).fallback(service::only_post))
            .route("/changes", get(crud::changes).fallback(service::only_get))
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
            .route("/{kind}/{id}/{view}", get(crud::view).fallback(service::only_get));
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
pub fn metrics_router(app: Arc<App>) -> Router {
    Router::new()
        .route("/metrics", get(service::metrics))
        .route("/health", get(service::health))
        .fallback(service::nothing_here)
        .with_state(app)
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
        true => problem::Problem::bad_request("the path or the query string cannot be read").into_response(),
        false => response,
    }
}
