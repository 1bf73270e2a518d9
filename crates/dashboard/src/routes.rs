//! The addresses of the pages.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};

use crate::api::Problem;
use crate::layout::{self, Content};
use crate::visit::Visit;
use crate::{CALLBACK, PREFIX, Settings, Ui, assets, call, oidc, pages, reply, sign_in};

/// Every page of the dashboard.
pub fn router(settings: Settings) -> Router {
    let ui = Ui::new(settings);
    let mut router = Router::new()
        .route("/ui", page(pages::fleet::show))
        .route("/ui/", get(|| async { Redirect::permanent(PREFIX) }))
        .route("/ui/map", get(pages::fleet::map))
        .route("/ui/map/cluster", get(pages::fleet::cluster_of_map))
        .route("/ui/problems", page(pages::problems::show))
        .route("/ui/versions", page(pages::versions::show))
        .route("/ui/clusters/{id}", page(pages::cluster::show))
        .route("/ui/rollouts", page(pages::rollouts::list))
        .route("/ui/rollouts/{id}", page(pages::rollouts::show))
        .route("/ui/revisions", page(pages::revisions::list))
        .route("/ui/revisions/{revision}", page(pages::revisions::show))
        .route("/ui/documents", page(pages::documents::kinds))
        .route("/ui/documents/{kind}", page(pages::documents::list))
        .route("/ui/documents/{kind}/{id}", page(pages::documents::show))
        .route("/ui/guards", page(pages::documents::guards))
        .route("/ui/identities", page(pages::documents::identities))
        .route("/ui/stream", get(stream))
        .route("/ui/login", get(sign_in::show).post(sign_in::submit))
        .route("/ui/login/oidc", get(oidc::begin))
        .route(CALLBACK, get(oidc::finish))
        .route("/ui/logout", post(sign_in::sign_out))
        .route("/ui/assets/{name}", get(assets::get));
    if ui.writes {
        router = router
            .route("/ui/plan", post(call::plan))
            .route("/ui/check", post(call::check))
            .route("/ui/apply", post(call::apply));
    }
    router.route("/ui/{*rest}", page(nothing_here)).with_state(ui)
}

/// A page that a function of the visit makes.
fn page<F, Fut>(make: F) -> MethodRouter<Ui>
where
    F: Fn(Visit) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Content, Problem>> + Send + 'static,
{
    get(move |visit: Visit| {
        let make = make.clone();
        async move {
            let content = make(visit.clone()).await;
            layout::page(&visit, content)
        }
    })
}

async fn nothing_here(visit: Visit) -> Result<Content, Problem> {
    let detail = format!("there is no page {}", visit.path());
    Err(Problem::new(StatusCode::NOT_FOUND, detail))
}

/// `GET /ui/stream`: what a page listens to, to know when to look again. It is the API's stream of counts: at most a few small events a second,
/// whatever happens in the fleet.
async fn stream(State(_): State<Ui>, visit: Visit) -> Response {
    let path = "/status/stream?clusters=false";
    let opened = visit
        .client
        .open(Method::GET, path, HeaderMap::new(), Body::empty())
        .await;
    let mut response = match opened {
        Ok(response) => response,
        Err(problem) => return problem.code().into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if response.status().is_success() {
        let out = response.headers_mut();
        out.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        out.insert(
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        );
    }
    reply::protect(response.headers_mut());
    response
}
