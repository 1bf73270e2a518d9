//! The yardstick: what axum can do at best when there is nothing to look up, authorise or count.

use std::io::Write;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::routing::get;
use flate2::{Compression, write::GzEncoder};
use tokio::net::TcpListener;

use crate::Result;

/// Serves a constant reply of about `size` bytes for every poll; prints the address it listens on.
pub(crate) async fn serve(size: usize) -> Result<()> {
    let body = body(size)?;
    let poll = move || {
        let body = body.clone();
        async move { ([(CONTENT_TYPE, "application/json"), (CONTENT_ENCODING, "gzip")], body) }
    };
    let app = Router::new().route("/api/v2/flux/clusters/{dns}/{path}", get(poll));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}

/// JSON in gzip, stored and not packed, so that its size can be chosen.
fn body(size: usize) -> Result<Bytes> {
    const WRAPPING: usize = 18 + 5;
    let frame = r#"{"inputs":[{"id":""}]}"#;
    let padding = "x".repeat(size.saturating_sub(WRAPPING + frame.len()));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(frame.replace(r#""""#, &format!(r#""{padding}""#)).as_bytes())?;
    Ok(gzip.finish()?.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_body_is_gzipped_json_of_the_size_asked_for() {
        for size in [600, 2_000, 20_000] {
            let body = body(size).expect("packs");
            assert!(body.len().abs_diff(size) < 16, "{} for {size}", body.len());
            let mut text = String::new();
            flate2::read::GzDecoder::new(&body[..])
                .read_to_string(&mut text)
                .expect("gzip");
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
        }
    }
}
