//! Changes: a call of the API is planned (a dry run), shown, and made once the plan is confirmed.

mod plan;

use axum::Form;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::plan::Plan;
use crate::api::{Answer, Problem};
use crate::layout::{self, Content};
use crate::sign_in::page_of_ours;
use crate::visit::Visit;
use crate::{PREFIX, reply};

/// The most clusters that a plan lists.
const LISTED: usize = 50;

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
        self.content_type = "application/yaml".to_owned();
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
    pub(crate) async fn plan(&self, visit: &Visit, limit: usize) -> Result<Plan, Problem> {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        let path = format!("{}{separator}dry_run=true&limit={limit}", self.path);
        let answer = visit
            .client
            .send(self.checked_method()?, &path, self.headers()?, self.body.clone())
            .await?;
        answer.json()
    }

    /// Makes the call, if its plan is still the one that was confirmed.
    async fn make(&self, visit: &Visit, confirmed: &Confirmed) -> Result<Answer, Problem> {
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
            .send(self.checked_method()?, &self.path, headers, self.body.clone())
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

/// `POST /ui/plan`: shows what a call would do.
pub(crate) async fn plan(visit: Visit, Form(call): Form<Call>) -> Response {
    layout::page(&visit, planned(&visit, &call, None).await)
}

async fn planned(visit: &Visit, call: &Call, problem: Option<&Problem>) -> Result<Content, Problem> {
    let plan = match call.plan(visit, LISTED).await {
        Ok(plan) => plan,
        // Where the call cannot even be planned, the page says why, and leads back.
        Err(refused) => {
            let main = html! {
                (layout::problem(&refused))
                p { a href=(call.back_address()) { "Back" } }
            };
            return match problem {
                None if refused.status < 500 => Ok(Content::new("The change is refused", main)),
                _ => Err(refused),
            };
        }
    };
    let title = if call.title.is_empty() { "Plan" } else { &call.title };
    let main = html! {
        h1 { (title) }
        @if let Some(problem) = problem { (layout::problem(problem)) }
        p.faint { code { (call.method) " " (call.path) } }
        div.planned {
            div { (plan.show()) }
            (confirmation(visit, call, &plan))
        }
    };
    Ok(Content::new(title, main))
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
pub(crate) async fn apply(visit: Visit, Form(fields): Form<Vec<(String, String)>>) -> Response {
    let object: serde_json::Map<String, Value> = fields.into_iter().map(|(name, value)| (name, value.into())).collect();
    let object = Value::Object(object);
    let (call, confirmed) = match (Call::deserialize(&object), Confirmed::deserialize(&object)) {
        (Ok(call), Ok(confirmed)) => (call, confirmed),
        _ => {
            let problem = Problem::new(StatusCode::BAD_REQUEST, "the form names no call of the API");
            return layout::page(&visit, Err(problem));
        }
    };
    if confirmed.plan.is_empty() {
        let problem = Problem::new(
            StatusCode::BAD_REQUEST,
            "a change is made from its plan: look at the plan first",
        );
        return layout::page(&visit, Err(problem));
    }
    match call.make(&visit, &confirmed).await {
        Ok(answer) => {
            let back = call.back_address();
            let separator = if back.contains('?') { '&' } else { '?' };
            let revision = answer
                .number("x-revision")
                .map_or(String::new(), |revision| revision.to_string());
            let mut response = Redirect::to(&format!("{back}{separator}done={revision}")).into_response();
            reply::protect(response.headers_mut());
            response
        }
        Err(problem) => {
            let content = planned(&visit, &call, Some(&problem)).await;
            let mut response = layout::page(&visit, content);
            *response.status_mut() = problem.code();
            response
        }
    }
}

/// `POST /ui/check`: the plan of a call in brief, for the editor, while somebody types.
pub(crate) async fn check(visit: Visit, Form(call): Form<Call>) -> Response {
    let markup = match call.plan(&visit, 5).await {
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
