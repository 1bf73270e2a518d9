//! Fetches what is needed of an issuer: its configuration says where people sign in, and where its keys are.

use std::path::Path;

use axum::http::Uri;
use serde::Deserialize;

use super::ask::get;
use super::keys::Keys;
use crate::config::is_trustworthy;

/// What is needed of an issuer's configuration.
#[derive(Debug, Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
    #[serde(flatten)]
    addresses: Addresses,
}

/// Where people sign in. Issuers of CI jobs have no such place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Addresses {
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    /// How a client with a secret shows it. Without this list: by basic authentication.
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Vec<String>,
}

/// What an issuer has now.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) keys: Keys,
    pub(super) addresses: Addresses,
}

pub(super) async fn fetch(issuer: &str, ca_file: Option<&Path>) -> Result<Fetched, String> {
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let text = get(&url, ca_file).await?;
    let found: Discovery = serde_json::from_slice(&text)
        .map_err(|error| format!("{url}: is no configuration of OpenID Connect: {error}"))?;
    if found.issuer != issuer {
        let own = found.issuer;
        return Err(format!(
            "the issuer calls itself \"{own}\", and OIDC_ISSUER has \"{issuer}\": they must be equal"
        ));
    }
    if !is_safe(&found.jwks_uri) {
        return Err(format!("{url}: jwks_uri does not begin with https://"));
    }
    let text = get(&found.jwks_uri, ca_file).await?;
    Ok(Fetched {
        keys: Keys::read(&text).map_err(|error| format!("{}: {error}", found.jwks_uri))?,
        addresses: found.addresses,
    })
}

/// Whether an address is one that keys may be read from, and codes sent to.
pub(super) fn is_safe(address: &str) -> bool {
    let url: Option<Uri> = address.parse().ok();
    address.is_ascii() && url.as_ref().is_some_and(is_trustworthy)
}
