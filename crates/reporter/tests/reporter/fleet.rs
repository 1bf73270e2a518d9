//! An imitation of the fleet's API: takes reports, and answers long polls.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) address: SocketAddr,
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    state: Mutex<Told>,
    calls: watch::Sender<usize>,
    paths: watch::Sender<BTreeMap<String, String>>,
}

/// What the API was told, and what it answers.
#[derive(Default)]
struct Told {
    reports: Vec<Call>,
    polls: Vec<Call>,
    /// Replies other than 202, in order, of the next reports.
    refusals: VecDeque<Refusal>,
    poll_refusals: VecDeque<Refusal>,
}

pub(crate) type Refusal = (u16, Option<u64>);

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) at: Instant,
    pub(crate) token: String,
    pub(crate) agent: String,
    pub(crate) body: Value,
    pub(crate) status: u16,
}

impl Call {
    pub(crate) fn objects(&self) -> &Vec<Value> {
        self.body["objects"].as_array().unwrap()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.body["full"] == true
    }

    pub(crate) fn object(&self, name: &str) -> Option<&Value> {
        self.objects().iter().find(|object| object["name"] == name)
    }
}

impl Fleet {
    pub(crate) async fn start() -> Fleet {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fleet = Fleet {
            address: listener.local_addr().unwrap(),
            shared: Arc::new(Shared::new()),
        };
        let router = fleet.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        fleet
    }

    pub(crate) fn router(&self) -> Router {
        Router::new()
            .route("/api/v2/flux/clusters/{dns}/report", post(report))
            .route("/api/v2/flux/clusters/{dns}/changed", get(changed))
            .with_state(self.shared.clone())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers the next reports with these statuses and Retry-After.
    pub(crate) fn refuse(&self, refusals: &[Refusal]) {
        self.shared.state.lock().unwrap().refusals.extend(refusals);
    }

    pub(crate) fn refuse_polls(&self, refusals: &[Refusal]) {
        self.shared.state.lock().unwrap().poll_refusals.extend(refusals);
    }

    /// The reply of a path changes.
    pub(crate) fn change(&self, path: &str, digest: &str) {
        self.shared
            .paths
            .send_modify(|paths| drop(paths.insert(path.to_owned(), digest.to_owned())));
    }

    /// Every report so far, refused ones too.
    pub(crate) fn reports(&self) -> Vec<Call> {
        self.shared.state.lock().unwrap().reports.clone()
    }

    pub(crate) fn polls(&self) -> Vec<Call> {
        self.shared.state.lock().unwrap().polls.clone()
    }

    /// Waits for a report after the first `n` that is as wanted, and returns it with how many there were with it.
    pub(crate) async fn report_after(&self, n: usize, wanted: impl Fn(&Call) -> bool) -> (usize, Call) {
        let mut calls = self.shared.calls.subscribe();
        crate::world::within(async {
            loop {
                calls.borrow_and_update();
                let reports = self.reports();
                let found = reports.iter().enumerate().skip(n).find(|(_, call)| wanted(call));
                if let Some((at, call)) = found {
                    return (at + 1, call.clone());
                }
                calls.changed().await.unwrap();
            }
        })
        .await
        .unwrap_or_else(|| panic!("no such report in {:#?}", self.reports()))
    }

    /// Waits until there were this many long polls.
    pub(crate) async fn polled(&self, times: usize) {
        let mut calls = self.shared.calls.subscribe();
        let polled = crate::world::within(calls.wait_for(|_| self.polls().len() >= times)).await;
        assert!(polled.is_some(), "{:#?}", self.polls());
    }
}

impl Shared {
    fn new() -> Shared {
        Shared {
            state: Mutex::default(),
            calls: watch::Sender::new(0),
            paths: watch::Sender::new([("namespaces".to_owned(), "1".to_owned())].into()),
        }
    }

    fn heard(&self) {
        self.calls.send_modify(|calls| *calls += 1);
    }
}

fn call(headers: &HeaderMap, body: Value, status: u16) -> Call {
    let text = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    Call {
        at: Instant::now(),
        token: text("authorization"),
        agent: text("user-agent"),
        body,
        status,
    }
}

fn refusal((status, after): Refusal) -> Response {
    let body = axum::Json(json!({"detail": "not now"}));
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    if let Some(after) = after {
        response.headers_mut().insert("retry-after", after.into());
    }
    response
}

async fn report(
    State(shared): State<Arc<Shared>>,
    Path(dns): Path<String>,
    headers: HeaderMap,
    axum::Json(body): axum::Json<Value>,
) -> Response {
    assert_eq!(dns, crate::world::DNS);
    let mut state = shared.state.lock().unwrap();
    let refused = state.refusals.pop_front();
    state
        .reports
        .push(call(&headers, body, refused.map_or(202, |refused| refused.0)));
    drop(state);
    shared.heard();
    match refused {
        None => StatusCode::ACCEPTED.into_response(),
        Some(refused) => refusal(refused),
    }
}

async fn changed(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let refused = {
        let mut state = shared.state.lock().unwrap();
        let refused = state.poll_refusals.pop_front();
        let status = refused.map_or(200, |refused| refused.0);
        state.polls.push(call(&headers, json!(query), status));
        refused
    };
    shared.heard();
    if let Some(refused) = refused {
        return refusal(refused);
    }
    let mut paths = shared.paths.subscribe();
    // The token is all of it, which no client may read anything into.
    let token = |paths: &BTreeMap<String, String>| format!("{paths:?}");
    let now = paths
        .wait_for(|paths| query.get("since") != Some(&token(paths)))
        .await
        .unwrap();
    axum::Json(json!({"since": token(&now), "paths": *now})).into_response()
}
