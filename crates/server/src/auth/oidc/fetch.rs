//! Fetches the keys of an issuer: its configuration says where they are.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{ACCEPT, USER_AGENT};
use axum::http::{Request, StatusCode, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use tokio::time::timeout;

use super::keys::Keys;
use crate::config::{ConfigError, OIDC_CA_FILE, is_trustworthy};
use crate::outbound;

/// How long a reply may take, and how long it may be.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST: usize = 1 << 20;

/// What is needed of an issuer's configuration.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// The keys that an issuer has now.
pub(super) async fn keys(issuer: &str, ca_file: Option<&Path>) -> Result<Keys, String> {
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
    let place: Option<Uri> = found.jwks_uri.parse().ok();
    if !place.as_ref().is_some_and(is_trustworthy) {
        return Err(format!("{url}: jwks_uri does not begin with https://"));
    }
    let text = get(&found.jwks_uri, ca_file).await?;
    Keys::read(&text).map_err(|error| format!("{}: {error}", found.jwks_uri))
}

async fn get(url: &str, ca_file: Option<&Path>) -> Result<Bytes, String> {
    let failed = |detail: String| format!("{url}: {detail}");
    match timeout(PATIENCE, get_patiently(url, ca_file)).await {
        Ok(text) => text.map_err(failed),
        Err(_) => Err(failed("no reply in time".to_owned())),
    }
}

async fn get_patiently(url: &str, ca_file: Option<&Path>) -> Result<Bytes, String> {
    // On a blocking thread: certificates are many files, which may be on a mount that hangs.
    let (place, ca_file) = (url.to_owned(), ca_file.map(Path::to_owned));
    let tls = tokio::task::spawn_blocking(move || configure(&place, ca_file.as_deref()));
    let tls = tls.await.map_err(|error| error.to_string())??;
    let client = Client::builder(TokioExecutor::new()).build(outbound::connector(url, tls));
    let request = Request::get(url)
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("flux-resourceset/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let response = client.request(request).await.map_err(|error| outbound::plain(&error))?;
    if response.status() != StatusCode::OK {
        return Err(response.status().to_string());
    }
    let body = Limited::new(response.into_body(), MOST).collect().await;
    Ok(body.map_err(|error| outbound::plain(&*error))?.to_bytes())
}

fn configure(url: &str, ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let ca = ca_file
        .map(certificates)
        .transpose()
        .map_err(|error| error.to_string())?;
    let roots = outbound::trusted(url, &ca.unwrap_or_default()).map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The certificates of OIDC_CA_FILE.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let problem = |detail: String| ConfigError::new(OIDC_CA_FILE, format!("{}: {detail}", path.display()));
    let text = std::fs::read(path).map_err(|error| problem(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| problem(format!("is not PEM: {error}")))?;
    match found.is_empty() {
        true => Err(problem("contains no certificate".to_owned())),
        false => Ok(found),
    }
}
