//! Identities and their tokens, the token of a cluster, `GET /whoami`, how to log in, and `POST /register`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION};
use axum::response::{IntoResponse, Response};
use fleet::Fleet;
use fleet::identity::{CLUSTER_PREFIX, IDENTITIES, Reach, Registration, Role, TokenId, cluster_of, shown};
use fleet::operation::{Operation, Target, Verb};
use fleet::refusal::{Reason, Refusal, Violation, quote, segment};
use serde_json::{Value, json};

use super::body::{Writer, respond};
use super::caller::{Caller, WriteOptions};
use super::problem::Problem;
use super::request::{self, MOST_DOCUMENT, Page};
use super::respond::{self, Reply};
use super::write::{run, with_revision};
use crate::app::App;
use crate::app::engine::WriteRequest;
use crate::auth::NewToken;
use crate::config::values::duration;

/// `GET /identities`
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    let mut query = caller.query()?;
    let page = Page::take(&mut query)?;
    let role = query.take("role")?.map(|name| role_named(&name)).transpose()?;
    query.end("role, limit, offset")?;
    let list = move |app: &App, out: &mut Writer| respond::write_list(out, app.list_identities(role)?, page);
    respond(&app, caller.class(), list).await
}

fn role_named(name: &str) -> Result<Role, Problem> {
    let roles = || Role::ALL.map(Role::name).join(", ");
    Role::parse(name).ok_or_else(|| Problem::bad_request(format!("role=\"{}\" is not one of {}", quote(name), roles())))
}

/// `POST /identities`
pub async fn create(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Reply {
    let options = WriteOptions::of(&caller)?;
    let value = request::document(&caller.headers, body, MOST_DOCUMENT).await?;
    let operation = Operation::new(IDENTITIES, Verb::Create { id: None, value });
    run(&app, &caller, &options, operation, |written| {
        let id = &written.changes.first().ok_or_else(Problem::internal)?.id;
        let mut response = document(&written.fleet, id, StatusCode::CREATED)?;
        let location = HeaderValue::try_from(format!("/{IDENTITIES}/{id}")).map_err(|_| Problem::internal())?;
        response.headers_mut().insert(LOCATION, location);
        Ok(response)
    })
    .await
}

/// `GET /identities/{id}`
pub async fn get(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    app.identity(&id)?;
    let response = document(&app.fleet(), &id, StatusCode::OK)?;
    Ok(respond::unless_known(&caller.headers, response))
}

/// An identity without the digests of its tokens. Its version is that of the stored document.
fn document(fleet: &Fleet, id: &str, status: StatusCode) -> Result<Response, Problem> {
    let found = fleet.document(IDENTITIES, id).ok_or_else(Problem::internal)?;
    let mut response = respond::with_etag(
        respond::json_text(shown(&found.body).to_string()),
        &found.etag.to_string(),
    );
    *response.status_mut() = status;
    Ok(response)
}

/// `PUT /identities/{id}`
pub async fn replace(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller, body: Body) -> Reply {
    let options = WriteOptions::of(&caller)?;
    let value = request::document(&caller.headers, body, MOST_DOCUMENT).await?;
    let operation = Operation::new(IDENTITIES, Verb::Replace { id: id.clone(), value });
    change(&app, &caller, &options, &id, operation).await
}

/// `PATCH /identities/{id}`
pub async fn patch(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller, body: Body) -> Reply {
    let options = WriteOptions::of(&caller)?;
    let (form, value) = request::patch(&caller.headers, body).await?;
    let on = Target::Id(id.clone());
    let operation = Operation::new(IDENTITIES, Verb::Merge { on, form, value });
    change(&app, &caller, &options, &id, operation).await
}

async fn change(app: &Arc<App>, caller: &Caller, options: &WriteOptions, id: &str, operation: Operation) -> Reply {
    let operation = operation.when(request::if_match(&caller.headers)?);
    run(app, caller, options, operation, |written| {
        document(&written.fleet, id, StatusCode::OK)
    })
    .await
}

/// `DELETE /identities/{id}`
pub async fn delete(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller) -> Reply {
    let options = WriteOptions::of(&caller)?;
    super::resources::remove(&app, &caller, &options, IDENTITIES, id).await
}

/// `POST /identities/{id}/tokens`
pub async fn issue(State(app): State<Arc<App>>, Path(id): Path<String>, caller: Caller, body: Body) -> Reply {
    check_reach(&caller, &id)?;
    app.identity(&id)?;
    issue_token(&app, &caller, id, body).await
}

/// `POST /clusters/{id}/token`
pub async fn issue_for_cluster(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    caller: Caller,
    body: Body,
) -> Reply {
    issue_token(&app, &caller, format!("{CLUSTER_PREFIX}{id}"), body).await
}

/// Refuses an operator the identities that are not a cluster's, before they are looked up: which of them exist is nothing that it may know.
fn check_reach(caller: &Caller, id: &str) -> Result<(), Refusal> {
    if matches!(caller.reach(), Reach::Everything) || cluster_of(id).is_some() {
        return Ok(());
    }
    let detail = "an operator issues and revokes tokens of clusters only";
    let mut refusal = Refusal::new(Reason::OutOfScope, detail);
    refusal.resources = vec![format!("{IDENTITIES}/{}", quote(id))];
    Err(refusal)
}

async fn issue_token(app: &Arc<App>, caller: &Caller, id: String, body: Body) -> Reply {
    let options = WriteOptions::of(caller)?;
    let body = request::document_or_empty(&caller.headers, body, MOST_DOCUMENT).await?;
    let now = crate::auth::now();
    let lifetime = expires_in(body)?;
    let expires_at = lifetime.map(|span| now.after(span).ok_or_else(too_late)).transpose()?;
    let role = app
        .fleet()
        .identities()
        .get(&id)
        .map_or(Role::Cluster, |identity| identity.role);
    let new = NewToken::generate(role, now, expires_at).map_err(|_| Problem::internal())?;
    let token = new.stored.clone();
    let operation = Operation::new(IDENTITIES, Verb::IssueToken { id: id.clone(), token });
    run(app, caller, &options, operation, |_| Ok(issued(&id, &new))).await
}

fn issued(identity: &str, new: &NewToken) -> Response {
    let body = json!({
        "id": new.stored.id.to_string(),
        "identity": identity,
        "token": new.text,
        "expires_at": new.stored.expires_at,
    });
    (StatusCode::CREATED, axum::Json(body)).into_response()
}

/// The lifetime in the body of a request for a token.
fn expires_in(body: Value) -> Result<Option<std::time::Duration>, Problem> {
    let refuse = |pointer: String, detail: &str| Problem::invalid(vec![Violation::new(pointer, detail)]);
    let Value::Object(fields) = body else {
        return Err(refuse(String::new(), "must be an object"));
    };
    let mut lifetime = None;
    for (name, value) in fields {
        lifetime = match (name.as_str(), &value) {
            ("expires_in", Value::Null) => None,
            ("expires_in", Value::String(text)) => match duration(text) {
                Some(span) if !span.is_zero() => Some(span),
                _ => {
                    return Err(refuse(
                        "/expires_in".into(),
                        "must be a duration such as 30m, 12h or 90d",
                    ));
                }
            },
            ("expires_in", _) => return Err(refuse("/expires_in".into(), "must be a string such as 90d")),
            _ => return Err(refuse(segment(&name), "unknown field; known: expires_in")),
        };
    }
    Ok(lifetime)
}

fn too_late() -> Problem {
    let detail = "ends after the year 2106: leave it out for a token that does not expire";
    Problem::invalid(vec![Violation::new("/expires_in", detail)])
}

/// `DELETE /identities/{id}/tokens/{token}`
pub async fn revoke(State(app): State<Arc<App>>, Path((id, token)): Path<(String, String)>, caller: Caller) -> Reply {
    let options = WriteOptions::of(&caller)?;
    check_reach(&caller, &id)?;
    app.identity(&id)?;
    let unknown = || Problem::not_found(format!("\"{}\" has no token {}", quote(&id), quote(&token)));
    let token = TokenId::parse(&token).ok_or_else(unknown)?;
    let operation = Operation::new(IDENTITIES, Verb::RevokeToken { id: id.clone(), token });
    run(&app, &caller, &options, operation, |_| {
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await
}

/// `GET /whoami`
pub async fn whoami(caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    let actor = caller.actor();
    let identity = actor.identity.as_ref();
    let scope = identity.and_then(|identity| identity.scope.as_ref());
    let mut body = json!({
        "id": actor.name.to_string(),
        "role": actor.role,
        "scope": scope,
        "expires_at": actor.expires_at,
    });
    if let (Some(subject), Some(identity)) = (&actor.subject, identity) {
        body["id"] = (*identity.id).into();
        body["subject"] = (**subject).into();
    }
    Ok(axum::Json(body).into_response())
}

/// `GET /.well-known/flux-resourceset`: what `flux-resourceset-cli login` needs to know. It is public: who asks has no token yet.
pub async fn discovery(State(app): State<Arc<App>>) -> Response {
    let login = app.oidc.as_ref().map(|oidc| {
        let config = oidc.config();
        json!({"issuer": config.issuers[0], "client_id": config.client_id, "scopes": config.scopes})
    });
    axum::Json(json!({"login": login})).into_response()
}

/// `POST /register`
pub async fn register(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Reply {
    let mut query = caller.query()?;
    if query.flag("dry_run")? {
        return Err(Problem::bad_request(
            "a registration has no dry run: it would tell who has a name, and count as no use",
        ));
    }
    query.end("none")?;
    let body = request::document(&caller.headers, body, MOST_DOCUMENT).await?;
    let join = caller.actor().identity.clone().ok_or_else(Problem::internal)?;
    let scope = join.join_scope().ok_or_else(Problem::internal)?;
    let registration = Registration::read(body).map_err(Problem::invalid)?;
    let registration = registration.within(scope)?;
    let id = registration.cluster().to_owned();
    if registration.is_repeated(&app.fleet()) {
        return registered(&app.fleet(), &id, None, StatusCode::OK);
    }
    let now = crate::auth::now();
    let new = match registration.token_digest {
        Some(digest) => Err(fleet::identity::Token::new(digest, now, None)),
        None => Ok(NewToken::generate(Role::Cluster, now, None).map_err(|_| Problem::internal())?),
    };
    let stored = new.as_ref().map_or_else(Clone::clone, |new| new.stored.clone());
    let write = WriteRequest {
        operations: registration.operations(&join, stored),
        author: caller.author(None)?,
        ..WriteRequest::default()
    };
    let written = app.write(write).await?;
    let text = new.ok().map(|new| new.text);
    with_revision(
        registered(&written.fleet, &id, text, StatusCode::CREATED)?,
        written.revision,
    )
}

fn registered(fleet: &Fleet, id: &str, token: Option<String>, status: StatusCode) -> Reply {
    let cluster = fleet.cluster(id).ok_or_else(Problem::internal)?;
    let mut body = json!({"cluster": cluster.document().body.parse()});
    if let Some(token) = token {
        body["token"] = token.into();
    }
    Ok((status, axum::Json(body)).into_response())
}
