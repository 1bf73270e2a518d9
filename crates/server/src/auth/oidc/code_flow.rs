//! The code flow of the dashboard: where people sign in, and what the issuer gives for a code. The first issuer is the one.

use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::HeaderValue;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use tokio::time::timeout;
use tracing::warn;

use super::Oidc;
use super::ask::{self, encoded, escaped};
use super::fetch::{Addresses, is_safe};
use super::issuer::Issuer;

/// How many codes are redeemed at a time, and how long another one waits. Anybody can make up codes.
pub(super) const PLACES: usize = 8;
const PATIENCE: Duration = Duration::from_secs(5);

/// The scope for refresh tokens, which the dashboard has no use for.
const OFFLINE: &str = "offline_access";

/// Why there is no page, or no token. What is not the caller's business is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The issuer cannot be reached, or not now.
    Unavailable,
    /// Its answers are not those of OpenID Connect, or it needs other settings.
    Unusable,
    /// It refuses, in its own words.
    Refused(String),
}

/// What an issuer answers to a code.
#[derive(Default, Deserialize)]
struct Answer {
    id_token: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

impl Oidc {
    /// The address of the page where a person signs in. `parameters` are those of this sign-in.
    pub async fn sign_in_page(&self, parameters: &[(&str, &str)]) -> Result<String, Failed> {
        let issuer = &self.issuers[0];
        let addresses = addresses(issuer).await?;
        let page = usable(
            issuer,
            "authorization_endpoint",
            addresses.authorization_endpoint.as_deref(),
        )?;
        let wanted = self.config.scopes.split_whitespace().filter(|scope| *scope != OFFLINE);
        let scopes = wanted.collect::<Vec<_>>().join(" ");
        let mut all = vec![
            ("response_type", "code"),
            ("client_id", self.config.ui_client_id.as_str()),
            ("scope", scopes.as_str()),
        ];
        all.extend(parameters);
        let separator = if page.contains('?') { '&' } else { '?' };
        Ok(format!("{page}{separator}{}", encoded(&all)))
    }

    /// The ID token for a code.
    pub async fn redeem(&self, code: &str, redirect: &str, verifier: &str) -> Result<String, Failed> {
        let issuer = &self.issuers[0];
        let Ok(Ok(_place)) = timeout(PATIENCE, self.redeeming.acquire()).await else {
            return Err(Failed::Unavailable);
        };
        let addresses = addresses(issuer).await?;
        let url = usable(issuer, "token_endpoint", addresses.token_endpoint.as_deref())?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
        ];
        let client = self.config.ui_client_id.as_str();
        let secret = self.client_secret().await?;
        let mut authorization = None;
        match &secret {
            Some(secret) if uses_basic(&addresses) => authorization = basic(client, secret),
            Some(secret) => form.extend([("client_id", client), ("client_secret", secret)]),
            None => form.push(("client_id", client)),
        }
        let answered = ask::post(url, &form, authorization, issuer.ca_file()).await;
        let (status, text) = answered.map_err(|error| {
            warn!(issuer = issuer.url, %error, "cannot reach the OIDC issuer for a sign-in");
            Failed::Unavailable
        })?;
        let answer: Answer = serde_json::from_slice(&text).unwrap_or_default();
        read(status, answer).inspect_err(|failed| {
            warn!(issuer = issuer.url, %status, ?failed, "the OIDC issuer gave no ID token for a sign-in");
        })
    }

    /// The secret of the client, if it has one. A file is read each time, so that a changed one counts.
    async fn client_secret(&self) -> Result<Option<String>, Failed> {
        let Some(secret) = self.config.client_secret.clone() else {
            return Ok(None);
        };
        // On a blocking thread: the file may be on a mount that hangs.
        let read = tokio::task::spawn_blocking(move || secret.read()).await;
        match read {
            Ok(Ok(secret)) => Ok(Some(secret)),
            Ok(Err(error)) => {
                warn!(%error, "cannot read the secret for signing in");
                Err(Failed::Unusable)
            }
            Err(_) => Err(Failed::Unavailable),
        }
    }
}

/// The addresses of an issuer that is there.
async fn addresses(issuer: &Issuer) -> Result<std::sync::Arc<Addresses>, Failed> {
    if !issuer.is_current() || issuer.addresses().is_none() {
        issuer.wait_for_keys().await;
    }
    let known = issuer.addresses().filter(|_| issuer.is_current());
    known.ok_or(Failed::Unavailable)
}

/// An address that is safe to use. A code is worth a token, so it is encrypted, or does not leave this machine.
fn usable<'a>(issuer: &Issuer, name: &str, address: Option<&'a str>) -> Result<&'a str, Failed> {
    address.filter(|address| is_safe(address)).ok_or_else(|| {
        warn!(
            issuer = issuer.url,
            "the configuration of the OIDC issuer has no {name} that begins with https://"
        );
        Failed::Unusable
    })
}

fn uses_basic(addresses: &Addresses) -> bool {
    let methods = &addresses.token_endpoint_auth_methods_supported;
    let has = |name: &str| methods.iter().any(|method| method == name);
    has("client_secret_basic") || !has("client_secret_post")
}

/// Both are escaped before they are joined (RFC 6749, section 2.3.1).
fn basic(client: &str, secret: &str) -> Option<HeaderValue> {
    let pair = BASE64_STANDARD.encode(format!("{}:{}", escaped(client), escaped(secret)));
    let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn read(status: StatusCode, answer: Answer) -> Result<String, Failed> {
    match answer {
        Answer {
            id_token: Some(token), ..
        } if status.is_success() => Ok(token),
        _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => Err(Failed::Unavailable),
        Answer {
            error: Some(code),
            error_description,
            ..
        } => Err(Failed::Refused(match error_description {
            Some(description) => format!("{description} ({code})"),
            None => code,
        })),
        _ => Err(Failed::Unusable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_an_issuer_has_a_meaning() {
        let read = |status: u16, text: &str| {
            let answer = serde_json::from_str(text).unwrap_or_default();
            read(StatusCode::from_u16(status).unwrap(), answer)
        };
        assert_eq!(
            read(200, r#"{"id_token": "a.b.c", "token_type": "Bearer"}"#),
            Ok("a.b.c".to_owned())
        );
        let refused = |words: &str| Err(Failed::Refused(words.to_owned()));
        assert_eq!(read(400, r#"{"error": "invalid_grant"}"#), refused("invalid_grant"));
        let described = r#"{"error": "invalid_client", "error_description": "no such client"}"#;
        assert_eq!(read(401, described), refused("no such client (invalid_client)"));
        for (status, text) in [(200, "{}"), (200, "<html>"), (302, ""), (404, "not found"), (400, "[]")] {
            assert_eq!(read(status, text), Err(Failed::Unusable), "{status} {text}");
        }
        for (status, text) in [(500, ""), (503, r#"{"error": "server_error"}"#), (429, "")] {
            assert_eq!(read(status, text), Err(Failed::Unavailable), "{status} {text}");
        }
        // A token that comes with a failure is none.
        assert_eq!(read(400, r#"{"id_token": "a.b.c"}"#), Err(Failed::Unusable));
    }

    #[test]
    fn a_secret_is_shown_as_the_issuer_wants_it() {
        let of = |methods: &[&str]| Addresses {
            token_endpoint_auth_methods_supported: methods.iter().map(|&method| method.to_owned()).collect(),
            ..Addresses::default()
        };
        assert!(uses_basic(&of(&[])));
        assert!(uses_basic(&of(&["client_secret_post", "client_secret_basic"])));
        assert!(!uses_basic(&of(&["none", "client_secret_post"])));
        let header = basic("fleet web", "a:b").unwrap();
        assert_eq!(header, format!("Basic {}", BASE64_STANDARD.encode("fleet%20web:a%3Ab")));
    }
}
