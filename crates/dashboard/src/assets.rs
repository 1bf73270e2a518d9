//! The files of the pages. Each has its digest in its address, so that browsers keep it for good.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

use crate::{PREFIX, reply};

/// A file of the pages.
#[derive(Debug)]
pub(crate) struct Asset {
    extension: &'static str,
    content_type: &'static str,
    content: &'static str,
    digest: LazyLock<String>,
}

macro_rules! asset {
    ($file:literal, $extension:literal, $content_type:literal) => {
        Asset {
            extension: $extension,
            content_type: $content_type,
            content: include_str!(concat!("../assets/", $file)),
            digest: LazyLock::new(|| digest(include_str!(concat!("../assets/", $file)))),
        }
    };
}

pub(crate) static STYLE: Asset = asset!("style.css", "css", "text/css; charset=utf-8");
pub(crate) static SCRIPT: Asset = asset!("script.js", "js", "text/javascript; charset=utf-8");
pub(crate) static LOGO: Asset = asset!("logo.svg", "svg", "image/svg+xml");

fn digest(content: &str) -> String {
    let digest = Sha256::digest(content);
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Asset {
    pub(crate) fn address(&self) -> String {
        format!("{PREFIX}/assets/{}.{}", *self.digest, self.extension)
    }
}

/// `GET /ui/assets/{name}`
pub(crate) async fn get(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let all = [&STYLE, &SCRIPT, &LOGO];
    let Some(asset) = all
        .into_iter()
        .find(|asset| asset.address().ends_with(&format!("/{name}")))
    else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut response = reply::packed(asset.content.as_bytes().to_vec(), &headers);
    let out = response.headers_mut();
    out.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    out.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=31536000, immutable"),
    );
    reply::protect(out);
    response
}
