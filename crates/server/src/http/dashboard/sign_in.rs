//! Signing in to the dashboard with an issuer: what the dashboard asks, and how often strangers may.

use std::sync::Arc;

use ::dashboard::{Asked, Authorization, CALLBACK, Issuer, IssuerError, Redemption};
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::auth::oidc::{Failed, Oidc};
use crate::http::client_address::{Peer, client_address};
use crate::http::problem::Problem;

/// The issuer that people sign in with.
pub(super) fn issuer(oidc: Arc<Oidc>) -> Arc<dyn Issuer> {
    Arc::new(FirstIssuer::new(oidc))
}

/// An address with too many codes that the issuer refused does not reach the issuer.
pub(super) async fn limit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if request.uri().path() != CALLBACK {
        return next.run(request).await;
    }
    let address = client_address(Peer::of(request.extensions()), request.headers(), &app.trusted_proxies);
    if let Some(wait) = app.failures.wait_with_code(address) {
        return Problem::too_many_failures(wait).into_response();
    }
    let response = next.run(request).await;
    if response.status() == StatusCode::UNAUTHORIZED {
        app.failures.count_code(address);
    }
    response
}

#[derive(Debug)]
struct FirstIssuer {
    host: String,
    oidc: Arc<Oidc>,
}

impl FirstIssuer {
    fn new(oidc: Arc<Oidc>) -> FirstIssuer {
        let url = &oidc.config().issuers[0];
        let host = url.parse().ok().and_then(|url: Uri| url.host().map(str::to_owned));
        FirstIssuer {
            host: host.unwrap_or_else(|| url.clone()),
            oidc,
        }
    }
}

impl Issuer for FirstIssuer {
    fn name(&self) -> &str {
        &self.host
    }

    fn sign_in_page<'a>(&'a self, authorization: &'a Authorization) -> Asked<'a, String> {
        Box::pin(async move {
            let parameters = [
                ("redirect_uri", authorization.redirect.as_str()),
                ("state", &authorization.state),
                ("nonce", &authorization.nonce),
                ("code_challenge", &authorization.challenge),
                ("code_challenge_method", "S256"),
            ];
            self.oidc.sign_in_page(&parameters).await.map_err(converted)
        })
    }

    fn redeem<'a>(&'a self, redemption: &'a Redemption) -> Asked<'a, String> {
        let Redemption {
            code,
            redirect,
            verifier,
        } = redemption;
        Box::pin(async move { self.oidc.redeem(code, redirect, verifier).await.map_err(converted) })
    }
}

fn converted(failed: Failed) -> IssuerError {
    match failed {
        Failed::Unavailable => IssuerError::Unavailable,
        Failed::Unusable => IssuerError::Unusable,
        Failed::Refused(words) => IssuerError::Refused(words),
    }
}
