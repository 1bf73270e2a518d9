//! Signing in with an issuer: the code flow of OpenID Connect, with PKCE. What the end must know of the beginning is in a cookie of the browser, so
//! that any replica can finish what another one began.

use axum::extract::{Request, State};
use axum::http::header::{HeaderValue, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::api::{Client, Problem};
use crate::issuer::{Authorization, Issuer, IssuerError, Redemption};
use crate::query::Query;
use crate::{CALLBACK, PREFIX, Ui, session, sign_in};

/// The cookie of a sign-in that has begun, and the seconds that a person may take.
const COOKIE: &str = "flux-resourceset-sign-in";
const PATIENCE: u32 = 600;
/// The longest page that is returned to: the cookie must hold it.
const MOST_NEXT: usize = 1500;
/// The most of an issuer's words that are shown.
const MOST_WORDS: usize = 300;

/// The address that begins a sign-in, and leads to a page of ours in the end.
pub(crate) fn address(next: Option<&str>) -> String {
    let query = next.map_or_else(Query::default, |next| Query::default().with("next", next));
    query.at(&format!("{PREFIX}/login/oidc"))
}

/// A sign-in that has begun.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Attempt {
    state: String,
    nonce: String,
    verifier: String,
    next: Option<String>,
}

impl Attempt {
    fn new(next: Option<&str>) -> Option<Attempt> {
        Some(Attempt {
            state: random()?,
            nonce: random()?,
            verifier: random()?,
            next: next.filter(|next| next.len() <= MOST_NEXT).map(str::to_owned),
        })
    }

    fn challenge(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }

    fn cookie(&self, is_secure: bool) -> Option<HeaderValue> {
        let text = serde_json::to_string(self).ok()?;
        session::set(COOKIE, &BASE64_URL_SAFE_NO_PAD.encode(text), is_secure, Some(PATIENCE))
    }

    /// The one that a browser began.
    fn of(headers: &HeaderMap) -> Option<Attempt> {
        let text = BASE64_URL_SAFE_NO_PAD.decode(session::cookie(headers, COOKIE)?).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// 256 random bits as text.
fn random() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn are_equal(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// `GET /ui/login/oidc`: leads to the issuer.
pub(crate) async fn begin(State(ui): State<Ui>, headers: HeaderMap, uri: Uri) -> Response {
    let query = Query::parse(uri.query());
    let next = query.get("next");
    match begin_at_issuer(&ui, &headers, next).await {
        Ok(response) => response,
        Err(problem) => sign_in::refused(&ui, &problem, next, &headers),
    }
}

async fn begin_at_issuer(ui: &Ui, headers: &HeaderMap, next: Option<&str>) -> Result<Response, Problem> {
    let issuer = issuer(ui)?;
    let unavailable = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server has no random numbers");
    let attempt = Attempt::new(next).ok_or_else(unavailable)?;
    let authorization = Authorization {
        redirect: callback(ui, headers)?,
        state: attempt.state.clone(),
        nonce: attempt.nonce.clone(),
        challenge: attempt.challenge(),
    };
    let page = issuer.sign_in_page(&authorization).await;
    let page = page.map_err(|error| failed(issuer, error))?;
    Ok(sign_in::redirect(
        &page,
        attempt.cookie(session::is_secure(ui, headers)),
    ))
}

/// `GET /ui/login/callback`: where the issuer leads back to, with a code.
pub(crate) async fn finish(State(ui): State<Ui>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let query = Query::parse(parts.uri.query());
    let state = query.get("state").unwrap_or_default();
    let attempt = Attempt::of(&parts.headers).filter(|attempt| are_equal(&attempt.state, state));
    // The cookie of another attempt stays: whoever made up this address does not end it.
    let Some(attempt) = attempt else {
        let problem = Problem::new(
            StatusCode::BAD_REQUEST,
            "This sign-in was not begun in this browser, or more than 10 minutes ago, or another one was begun since. Sign in again.",
        );
        return sign_in::refused(&ui, &problem, None, &parts.headers);
    };
    let (next, secure) = (attempt.next.as_deref(), session::is_secure(&ui, &parts.headers));
    let mut response = match token(&ui, &parts, &query, &attempt).await {
        Ok(token) => sign_in::keep(&ui, &token, next, secure, &parts.headers),
        Err(problem) => sign_in::refused(&ui, &problem, next, &parts.headers),
    };
    if let Some(cookie) = session::set(COOKIE, "", secure, Some(0)) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// The ID token that the issuer gives for the code of an address, if the API knows whose it is.
async fn token(ui: &Ui, parts: &Parts, query: &Query, attempt: &Attempt) -> Result<String, Problem> {
    let issuer = issuer(ui)?;
    if let Some(error) = query.get("error") {
        let words = match query.get("error_description") {
            Some(description) => format!("{description} ({error})"),
            None => error.to_owned(),
        };
        return Err(failed(issuer, IssuerError::Refused(words)));
    }
    let Some(code) = query.get("code") else {
        return Err(failed(issuer, IssuerError::Unusable));
    };
    let redemption = Redemption {
        code: code.to_owned(),
        redirect: callback(ui, &parts.headers)?,
        verifier: attempt.verifier.clone(),
    };
    let token = issuer.redeem(&redemption).await;
    let token = token.map_err(|error| failed(issuer, error))?;
    if !nonce(&token).is_some_and(|nonce| are_equal(&nonce, &attempt.nonce)) {
        let detail = format!(
            "The token of {} is not for this sign-in (nonce). Sign in again.",
            issuer.name()
        );
        return Err(Problem::new(StatusCode::UNAUTHORIZED, detail));
    }
    let client = Client::new(ui.api.clone(), &parts.headers, (ui.carry)(&parts.extensions));
    sign_in::check(client, &token).await?;
    Ok(token)
}

/// What an ID token has as its nonce. That it is authentic is found out by the API, as of every token.
fn nonce(token: &str) -> Option<String> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims["nonce"].as_str().map(str::to_owned)
}

fn issuer(ui: &Ui) -> Result<&dyn Issuer, Problem> {
    let none = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "this server has no issuer to sign in with (OIDC_ISSUER)",
        )
    };
    ui.issuer.as_deref().ok_or_else(none)
}

/// Where the issuer leads back to.
fn callback(ui: &Ui, headers: &HeaderMap) -> Result<String, Problem> {
    if let Some(url) = &ui.url {
        let path = CALLBACK.strip_prefix(PREFIX).unwrap_or_default();
        return Ok(format!("{url}{path}"));
    }
    let unnamed = || Problem::new(StatusCode::BAD_REQUEST, "the request does not name this server (Host)");
    let host = session::host(headers).ok_or_else(unnamed)?;
    let scheme = if session::is_secure(ui, headers) {
        "https"
    } else {
        "http"
    };
    Ok(format!("{scheme}://{host}{CALLBACK}"))
}

/// What a person is told about an issuer that gave no token.
fn failed(issuer: &dyn Issuer, error: IssuerError) -> Problem {
    let name = issuer.name();
    let (status, detail) = match error {
        IssuerError::Unavailable => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{name} cannot be reached now. Try again in a moment, or sign in with a token."),
        ),
        IssuerError::Unusable => (
            StatusCode::BAD_GATEWAY,
            format!("{name} did not answer as an issuer of OpenID Connect does. The log of this server says more."),
        ),
        IssuerError::Refused(words) => {
            let words: String = words.chars().filter(|c| !c.is_control()).take(MOST_WORDS).collect();
            (StatusCode::UNAUTHORIZED, format!("{name} refuses: {words}"))
        }
    };
    Problem::new(status, detail)
}
