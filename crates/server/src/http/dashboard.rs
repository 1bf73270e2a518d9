//! Where the dashboard is: at `/ui`, as a client of the API in this process.

mod sign_in;

use std::sync::LazyLock;

use ::dashboard::{ApiService, Settings};
use axum::Router;
use axum::extract::Request;
use axum::http::Extensions;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tower::util::BoxCloneSyncService;

use super::client_address::Peer;
use super::problem::Problem;
use super::{Http, observe, routes};
use crate::app::reads::lowest_priority;
use crate::config::Mode;

pub fn router(http: &Http) -> Router {
    let app = &http.app;
    let settings = Settings {
        api: ApiService(BoxCloneSyncService::new(routes::for_dashboard(http.clone()))),
        carry,
        has_tls: app.has_tls,
        writes: app.mode == Mode::Crud,
        issuer: app.oidc.clone().map(sign_in::issuer),
        url: app.ui_url.clone(),
    };
    ::dashboard::router(settings)
        .layer(from_fn(on_threads_of_pages))
        .layer(from_fn_with_state(app.clone(), sign_in::limit))
        .layer(from_fn_with_state(app.clone(), observe::observe))
}

/// The threads that make pages: their own, with the lowest priority, so that however many pages are open, polls do not wait for them. None if they
/// cannot be started.
static PAGES: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let mut threads = Builder::new_multi_thread();
    threads
        .worker_threads(THREADS)
        .thread_name("pages")
        .on_thread_start(lowest_priority)
        .enable_all();
    let started = threads.build();
    started
        .inspect_err(|error| tracing::error!(%error, "cannot start the threads of pages"))
        .ok()
});

const THREADS: usize = 2;

/// Makes a page on those threads. Who hangs up gets none.
async fn on_threads_of_pages(request: Request, next: Next) -> Response {
    let Some(threads) = &*PAGES else {
        return next.run(request).await;
    };
    let mut page = Page(threads.spawn(next.run(request)));
    (&mut page.0)
        .await
        .unwrap_or_else(|_| Problem::internal().into_response())
}

/// A page that is being made.
struct Page(JoinHandle<Response>);

impl Drop for Page {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a connection tells about its client.
fn carry(received: &Extensions) -> Extensions {
    let mut carried = Extensions::new();
    carried.insert(Peer::of(received).clone());
    carried
}
