//! Replies: HTML, packed for browsers that unpack it, and the headers that keep pages safe.

use std::io::Write as _;

use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::Markup;

/// Scripts and styles are files of ours, forms are sent to us, and no site shows us in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The shortest text that is packed.
const WORTH_PACKING: usize = 1024;

/// A page. It shows the state of the fleet to one caller, so nobody keeps it.
pub(crate) fn html(status: StatusCode, markup: Markup, request: &HeaderMap) -> Response {
    let mut response = packed(markup.into_string().into_bytes(), request);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    protect(headers);
    response
}

/// What every reply has.
pub(crate) fn protect(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    headers.insert(opener, HeaderValue::from_static("same-origin"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}

/// A body, packed if the browser can unpack it.
pub(crate) fn packed(body: Vec<u8>, request: &HeaderMap) -> Response {
    let accepted = request.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let unpacks = accepted.is_some_and(|accepted| accepted.contains("gzip"));
    let gzip = (unpacks && body.len() >= WORTH_PACKING).then(|| gzip(&body)).flatten();
    let mut response = match gzip {
        Some(gzip) => ([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))], gzip).into_response(),
        None => body.into_response(),
    };
    response
        .headers_mut()
        .insert(VARY, HeaderValue::from_static("accept-encoding"));
    response
}

fn gzip(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}
