//! A visit: one request for a page, by a caller that is known and may read.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::api::{Client, Problem};
use crate::query::Query;
use crate::session::{self, Source};
use crate::{PREFIX, Ui, layout, reply};

/// The roles that may read, and so see pages.
const READERS: [&str; 3] = ["reader", "operator", "admin"];

/// Who visits.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Who {
    pub(crate) id: String,
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) scope: Value,
    /// The person, if an issuer says who it is.
    #[serde(default)]
    pub(crate) subject: Option<String>,
}

impl Who {
    /// As the log names it: the identity, and the person if an issuer says who that is.
    pub(crate) fn name(&self) -> String {
        match &self.subject {
            Some(subject) => format!("{}/{subject}", self.id),
            None => self.id.clone(),
        }
    }

    pub(crate) fn may_read(&self) -> bool {
        READERS.contains(&self.role.as_str())
    }

    /// What it may do, in a few words.
    pub(crate) fn reach(&self) -> String {
        match (self.role.as_str(), &self.scope) {
            ("operator", Value::Object(scope)) if !scope.is_empty() => {
                let kinds = scope.get("kinds").and_then(Value::as_array).into_iter().flatten();
                let kinds: Vec<&str> = kinds.filter_map(Value::as_str).collect();
                let clusters = self
                    .selector()
                    .map_or("all clusters".to_owned(), |text| format!("the clusters {text}"));
                match kinds.as_slice() {
                    [] => format!("operator of {clusters}"),
                    kinds => format!("operator of {clusters} and of {}", kinds.join(", ")),
                }
            }
            _ => self.role.clone(),
        }
    }

    /// Which clusters its scope has. None: all.
    fn selector(&self) -> Option<&str> {
        let clusters = self.scope.get("clusters").and_then(Value::as_str);
        clusters.filter(|selector| selector.trim() != "*")
    }

    /// Whether it may approve waves of rollouts.
    pub(crate) fn may_approve(&self) -> bool {
        self.is_unlimited() || self.scope["approve"] == true
    }

    /// Whether its scope, if it has one, has documents of a kind. Every scope has some clusters.
    fn reaches(&self, kind: &str) -> bool {
        let kinds = self.scope.get("kinds").and_then(Value::as_array);
        self.is_unlimited() || kind == "clusters" || kinds.is_some_and(|kinds| kinds.iter().any(|known| known == kind))
    }

    /// Whether it may change everything: no scope limits it.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.scope.is_null()
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.role == "admin"
    }
}

/// One request for a page.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) ui: Ui,
    pub(crate) client: Client,
    pub(crate) who: Who,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    /// When it began: what was known then, the page shows.
    pub(crate) at: Timestamp,
    uri: Uri,
    parameters: Vec<(String, String)>,
}

impl Visit {
    /// A part of the path.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// Whether the script reads the page again for what changed in it.
    pub(crate) fn is_again(&self) -> bool {
        self.headers.contains_key("x-live")
    }

    /// Whether this caller can change anything here.
    pub(crate) fn may_write(&self) -> bool {
        self.ui.writes && self.who.role != "reader"
    }

    /// Whether this caller can change documents of a kind here. Which clusters a change of them reaches, its plan says.
    pub(crate) fn may_change(&self, kind: &str) -> bool {
        match kind {
            "kinds" | "identities" | "guards" => self.may_administer(),
            "decommissions" | "released_names" => false,
            _ => self.may_write() && self.who.reaches(kind),
        }
    }

    /// Whether this caller can change a cluster here. The API knows which clusters a scope has.
    pub(crate) async fn may_change_cluster(&self, id: &str) -> bool {
        if !self.may_change("clusters") {
            return false;
        }
        let Some(scope) = self.who.selector() else {
            return true;
        };
        let wanted = Query::default()
            .with("selector", format!("{scope},id={id}"))
            .with_number("limit", 1);
        let found: Result<Vec<Value>, Problem> = self.client.get(&wanted.at("/clusters")).await;
        found.is_ok_and(|found| !found.is_empty())
    }

    /// Whether this caller can change kinds and identities here.
    fn may_administer(&self) -> bool {
        self.ui.writes && self.who.is_admin()
    }
}

impl FromRequestParts<Ui> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<Visit, Response> {
        let at = Timestamp::now();
        let parameters = RawPathParams::from_request_parts(parts, ui).await;
        let parameters = parameters.map_err(IntoResponse::into_response)?;
        let parameters = parameters
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let client = client(ui, parts);
        let from_cookie = !parts.headers.contains_key("authorization") && client.has_token();
        // A form of another site would be sent with our cookie, or with the client's certificate.
        let is_write = !matches!(parts.method, Method::GET | Method::HEAD);
        let source = Source::of(ui, &parts.headers);
        if is_write && (source == Source::Other || from_cookie && source != Source::Own) {
            let problem = Problem::new(
                StatusCode::FORBIDDEN,
                "the form was not sent from a page of this server (Origin)",
            );
            return Err(layout::bare_problem(&problem, &parts.headers));
        }
        let who = match client.get::<Who>("/whoami").await {
            Ok(who) => who,
            Err(problem) if problem.status == 401 => return Err(to_sign_in(parts)),
            Err(problem) => return Err(layout::bare_problem(&problem, &parts.headers)),
        };
        if !who.may_read() {
            let detail = format!("{} has the role {}, which may not read the fleet", who.id, who.role);
            return Err(layout::bare_problem(
                &Problem::new(StatusCode::FORBIDDEN, detail),
                &parts.headers,
            ));
        }
        Ok(Visit {
            ui: ui.clone(),
            who,
            client,
            query: Query::parse(parts.uri.query()),
            headers: parts.headers.clone(),
            at,
            uri: parts.uri.clone(),
            parameters: parameters.collect(),
        })
    }
}

/// A client with the credentials of a request: its `Authorization`, its cookies, or the certificate of its connection.
pub(crate) fn client(ui: &Ui, parts: &Parts) -> Client {
    let client = Client::new(ui.api.clone(), &parts.headers, (ui.carry)(&parts.extensions));
    if client.has_token() {
        return client;
    }
    let with_cookie = session::token(&parts.headers).and_then(|token| client.clone().with_token(&token));
    with_cookie.unwrap_or(client)
}

/// Leads to the form for signing in, and from there back to the page.
fn to_sign_in(parts: &Parts) -> Response {
    let wanted = parts.uri.path_and_query().map_or(PREFIX, |path| path.as_str());
    let is_page = parts.method == Method::GET && wanted != PREFIX;
    let query = match is_page {
        true => Query::default().with("next", wanted),
        false => Query::default(),
    };
    // The token of the cookies was good once: it has expired, or was revoked.
    let had_session = !parts.headers.contains_key("authorization") && session::token(&parts.headers).is_some();
    let query = match had_session {
        true => query.with("ended", "true"),
        false => query,
    };
    let mut response = Redirect::to(&query.at(&format!("{PREFIX}/login"))).into_response();
    reply::protect(response.headers_mut());
    response
}
