//! Changes: a call of the API is planned (a dry run), shown, and made once the plan is confirmed.

mod plan;

use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::plan::{Plan, document_diff};
use crate::api::Problem;
use crate::form::Sent;
use crate::layout::{self, Content};
use crate::sign_in::page_of_ours;
use crate::visit::Visit;
use crate::{PREFIX, editor, reply};

/// The most documents and clusters that a plan lists, and how many if they are too large for a page.
const LISTED: [usize; 3] = [50, 5, 0];

/// What a document is that somebody types.
const YAML: &str = "application/yaml";

/// A call of the API, as the fields of a form.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Call {
    /// What it does, in words: the title of its plan.
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) method: String,
    /// With its query.
    #[serde(default)]
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) body: String,
    /// What the body is.
    #[serde(default, rename = "type")]
    pub(crate) content_type: String,
    /// The version of the document that the caller saw.
    #[serde(default)]
    pub(crate) if_match: String,
    /// The page to go back to.
    #[serde(default)]
    pub(crate) back: String,
}

impl Call {
    pub(crate) fn new(title: impl Into<String>, method: &str, path: impl Into<String>) -> Call {
        Call {
            title: title.into(),
            method: method.to_owned(),
            path: path.into(),
            ..Call::default()
        }
    }

    pub(crate) fn json(mut self, body: &Value) -> Call {
        self.body = body.to_string();
        self.content_type = "application/json".to_owned();
        self
    }

    pub(crate) fn yaml(mut self, body: impl Into<String>) -> Call {
        self.body = body.into();
        self.content_type = YAML.to_owned();
        self
    }

    pub(crate) fn back(mut self, address: &str) -> Call {
        self.back = address.to_owned();
        self
    }

    pub(crate) fn if_match(mut self, etag: Option<&str>) -> Call {
        self.if_match = etag.unwrap_or_default().to_owned();
        self
    }

    /// Whether its body is a document that somebody typed.
    pub(crate) fn has_document(&self) -> bool {
        self.content_type == YAML
    }

    /// Its fields, for a form.
    pub(crate) fn fields(&self) -> Markup {
        html! {
            @for (name, value) in [
                ("title", &self.title), ("method", &self.method), ("path", &self.path), ("body", &self.body),
                ("type", &self.content_type), ("if_match", &self.if_match), ("back", &self.back),
            ] {
                @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
            }
        }
    }

    /// The method, if the call is a write: every one of these routes has a plan. What clusters tell is none.
    fn checked_method(&self) -> Result<Method, Problem> {
        match self.method.as_str() {
            _ if self.is_elsewhere() => Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "the form names no write of the API",
            )),
            "POST" => Ok(Method::POST),
            "PUT" => Ok(Method::PUT),
            "PATCH" => Ok(Method::PATCH),
            "DELETE" => Ok(Method::DELETE),
            _ => Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "the form names no call of the API",
            )),
        }
    }

    /// Whether its path is none of a write. A fragment would be cut off, and the wish for a dry run behind it.
    fn is_elsewhere(&self) -> bool {
        self.path.starts_with("/api/") || !self.path.starts_with('/') || self.path.contains('#')
    }

    fn headers(&self) -> Result<HeaderMap, Problem> {
        let mut headers = HeaderMap::new();
        for (name, text) in [(CONTENT_TYPE, &self.content_type), (IF_MATCH, &self.if_match)] {
            if !text.is_empty() {
                headers.insert(name, value(text)?);
            }
        }
        Ok(headers)
    }

    /// The plan of the call. Only what can be planned can be called from here.
    pub(crate) async fn plan(&self, visit: &Visit) -> Result<Plan, Problem> {
        let mut planned = Err(Problem::default());
        for listed in LISTED {
            planned = self.plan_with(visit, listed).await;
            if !planned.as_ref().is_err_and(Problem::is_of_size) {
                break;
            }
        }
        planned
    }

    /// The plan without most of its lists.
    async fn brief_plan(&self, visit: &Visit) -> Result<Plan, Problem> {
        self.plan_with(visit, 5).await
    }

    async fn plan_with(&self, visit: &Visit, listed: usize) -> Result<Plan, Problem> {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        let clusters = listed.max(1);
        let path = format!("{}{separator}dry_run=true&changes={listed}&limit={clusters}", self.path);
        let answer = visit
            .client
            .send(self.checked_method()?, &path, self.headers()?, self.body.clone())
            .await?;
        answer.json()
    }

    /// Makes the call, if its plan is still the one that was confirmed.
    async fn make(&self, visit: &Visit, confirmed: &Confirmed) -> Result<HeaderMap, Problem> {
        let mut headers = self.headers()?;
        let mut add = |name: &'static str, text: &str| -> Result<(), Problem> {
            if !text.trim().is_empty() {
                headers.insert(HeaderName::from_static(name), value(text.trim())?);
            }
            Ok(())
        };
        add("if-plan-match", &confirmed.plan)?;
        add("x-change-reason", &confirmed.reason)?;
        add("x-confirm-removals", &confirmed.removals)?;
        add("x-confirm-demotions", &confirmed.demotions)?;
        add("x-override-guard", &confirmed.overrides)?;
        visit
            .client
            .make(self.checked_method()?, &self.path, headers, self.body.clone())
            .await
    }

    /// The page to go back to: one of ours, whatever the form says.
    fn back_address(&self) -> &str {
        page_of_ours(Some(&self.back))
    }
}

fn value(text: &str) -> Result<HeaderValue, Problem> {
    let bad = |_| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "a field of the form has characters that it cannot have",
        )
    };
    HeaderValue::from_bytes(text.as_bytes()).map_err(bad)
}

/// What the caller confirmed. Names are those of the form.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Confirmed {
    #[serde(default)]
    plan: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    removals: String,
    #[serde(default)]
    demotions: String,
    #[serde(default)]
    overrides: String,
}

/// A call whose plan was confirmed.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Applied {
    #[serde(flatten)]
    call: Call,
    #[serde(flatten)]
    confirmed: Confirmed,
}

/// `POST /ui/plan`: shows what a call would do.
pub(crate) async fn plan(sent: Sent<Call>) -> Response {
    let Sent { visit, form: call, .. } = &sent;
    planned(visit, call, None).await
}

/// The plan of a call, after a problem with making it, if there was one.
async fn planned(visit: &Visit, call: &Call, problem: Option<&Problem>) -> Response {
    let (status, content) = match call.plan(visit).await {
        Ok(plan) => (StatusCode::OK, confirmed_by(visit, call, &plan, problem)),
        Err(refused) => {
            let status = if refused.status < 500 {
                StatusCode::OK
            } else {
                refused.code()
            };
            (status, refused_as(visit, call, &refused, problem).await)
        }
    };
    let mut response = layout::page(visit, Ok(content));
    *response.status_mut() = problem.map_or(status, Problem::code);
    response
}

fn confirmed_by(visit: &Visit, call: &Call, plan: &Plan, problem: Option<&Problem>) -> Content {
    let title = if call.title.is_empty() { "Plan" } else { &call.title };
    let main = html! {
        h1 { (title) }
        @if let Some(problem) = problem { (layout::problem(problem)) }
        p.faint { code { (call.method) " " (call.path) } }
        div.planned {
            div { (plan.show()) }
            (confirmation(visit, call, plan))
        }
    };
    Content::new(title, main)
}

/// A call that cannot even be planned: why, the text that somebody typed, and the way back.
async fn refused_as(visit: &Visit, call: &Call, refused: &Problem, problem: Option<&Problem>) -> Content {
    let another = problem.filter(|problem| problem.detail != refused.detail);
    let main = html! {
        @if let Some(problem) = another { (layout::problem(problem)) }
        (layout::problem(refused))
        (editor::again(visit, call, refused).await)
        p { a href=(call.back_address()) { "Back" } }
    };
    Content::new("The change is refused", main)
}

/// The form that confirms a plan. What is dangerous must be typed.
fn confirmation(visit: &Visit, call: &Call, plan: &Plan) -> Markup {
    let exceeded: Vec<&str> = plan.exceeded().collect();
    let may_override = visit.who.is_admin();
    let removals = plan.removals_to_confirm();
    html! {
        form.stack.confirm method="post" action=(format!("{PREFIX}/apply")) {
            (call.fields())
            input type="hidden" name="plan" value=(plan.plan);
            @if plan.is_empty() {
                p { "This changes nothing." }
            } @else {
                label for="reason" { "Reason, for the log" @if !exceeded.is_empty() { " (required)" } }
                input #reason type="text" name="reason" maxlength="1024" required[!exceeded.is_empty()];
                @if let Some(count) = removals {
                    label for="removals" { "Type " strong { (count) } ", the number of clusters that lose something" }
                    input #removals type="text" name="removals" inputmode="numeric" pattern=(count) required autocomplete="off";
                }
                @if plan.demotions.count > 0 {
                    label for="demotions" { "Type " strong { (plan.demotions.count) } ", the number of clusters that leave a promoted wave" }
                    input #demotions type="text" name="demotions" inputmode="numeric" pattern=(plan.demotions.count) required autocomplete="off";
                }
                @if !exceeded.is_empty() && may_override {
                    label {
                        input type="checkbox" name="overrides" value=(exceeded.join(",")) required;
                        " Override the guard " strong { (exceeded.join(", ")) } ": the log says that you did"
                    }
                }
                @if !exceeded.is_empty() && !may_override {
                    p.error { "A guard refuses this change. An admin can override it." }
                }
            }
            div.buttons {
                @if !plan.is_empty() && (exceeded.is_empty() || may_override) {
                    button.primary type="submit" { "Make this change" }
                }
                a.button href=(call.back_address()) { "Cancel" }
            }
        }
    }
}

/// `POST /ui/apply`: makes a call whose plan was confirmed.
pub(crate) async fn apply(sent: Sent<Applied>) -> Response {
    let Sent { visit, form, .. } = &sent;
    let Applied { call, confirmed } = form;
    if confirmed.plan.is_empty() {
        let problem = Problem::new(
            StatusCode::BAD_REQUEST,
            "a change is made from its plan: look at the plan first",
        );
        return layout::page(visit, Err(problem));
    }
    match call.make(visit, confirmed).await {
        Ok(headers) => {
            let back = call.back_address();
            let separator = if back.contains('?') { '&' } else { '?' };
            let revision = headers.get("x-revision").and_then(|revision| revision.to_str().ok());
            let revision = revision.unwrap_or_default();
            let mut response = Redirect::to(&format!("{back}{separator}done={revision}")).into_response();
            reply::protect(response.headers_mut());
            response
        }
        Err(problem) => planned(visit, call, Some(&problem)).await,
    }
}

/// `POST /ui/check`: the plan of a call in brief, for the editor, while somebody types.
pub(crate) async fn check(sent: Sent<Call>) -> Response {
    let Sent { visit, form: call, .. } = &sent;
    let markup = match call.brief_plan(visit).await {
        Ok(plan) => plan.brief(),
        Err(problem) => layout::problem(&problem),
    };
    reply::html(StatusCode::OK, markup, &visit.headers)
}

/// What a page says after a change was made from it.
pub(crate) fn done(visit: &Visit) -> Markup {
    let revision = visit.query.number("done");
    html! {
        @if let Some(revision) = revision {
            p.done role="status" {
                "The change is made: revision " (crate::parts::revision_link(revision)) ". "
                a href=(format!("{PREFIX}/revisions/{revision}")) { "See who has it" } ", or undo it there."
            }
        }
    }
}
