//! One request to an issuer, within limits of time and size.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::timeout;

use crate::config::{ConfigError, OIDC_CA_FILE};
use crate::outbound;

/// How long a reply may take, and how long it may be.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST: usize = 1 << 20;

/// What a form and a query string cannot hold as it is.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The document at an address.
pub(super) async fn get(url: &str, ca_file: Option<&Path>) -> Result<Bytes, String> {
    let request = Request::get(url).body(Full::default());
    let request = request.map_err(|error| format!("{url}: {error}"))?;
    match send(url, request, ca_file).await? {
        (StatusCode::OK, text) => Ok(text),
        (status, _) => Err(format!("{url}: {status}")),
    }
}

/// What is answered to a form. Redirects are not followed: they would take the form to another server.
pub(super) async fn post(
    url: &str,
    form: &[(&str, &str)],
    authorization: Option<HeaderValue>,
    ca_file: Option<&Path>,
) -> Result<(StatusCode, Bytes), String> {
    let request = Request::post(url)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Full::from(encoded(form)));
    let mut request = request.map_err(|error| format!("{url}: {error}"))?;
    if let Some(authorization) = authorization {
        request.headers_mut().insert(AUTHORIZATION, authorization);
    }
    send(url, request, ca_file).await
}

/// Pairs as a form, or a query string.
pub(super) fn encoded(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={}", escaped(value)));
    pairs.collect::<Vec<_>>().join("&")
}

pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

async fn send(url: &str, request: Request<Full<Bytes>>, ca_file: Option<&Path>) -> Result<(StatusCode, Bytes), String> {
    let failed = |detail: String| format!("{url}: {detail}");
    match timeout(PATIENCE, send_patiently(url, request, ca_file)).await {
        Ok(reply) => reply.map_err(failed),
        Err(_) => Err(failed("no reply in time".to_owned())),
    }
}

async fn send_patiently(
    url: &str,
    mut request: Request<Full<Bytes>>,
    ca_file: Option<&Path>,
) -> Result<(StatusCode, Bytes), String> {
    // On a blocking thread: certificates are many files, which may be on a mount that hangs.
    let (place, ca_file) = (url.to_owned(), ca_file.map(Path::to_owned));
    let tls = tokio::task::spawn_blocking(move || configure(&place, ca_file.as_deref()));
    let tls = tls.await.map_err(|error| error.to_string())??;
    let client = Client::builder(TokioExecutor::new()).build(outbound::connector(url, tls));
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let agent = concat!("flux-resourceset/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    let response = client.request(request).await.map_err(|error| outbound::plain(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MOST).collect().await;
    Ok((status, body.map_err(|error| outbound::plain(&*error))?.to_bytes()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_keep_every_character() {
        let form = [("scope", "openid groups"), ("code", "a+b/c=&d~é")];
        assert_eq!(encoded(&form), "scope=openid%20groups&code=a%2Bb%2Fc%3D%26d~%C3%A9");
    }
}
