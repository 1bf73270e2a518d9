//! The yardstick: what axum can do at best when there is nothing to look up, authorise or count.

use std::io::Write;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::routing::get;
use flate2::{Compression, write::GzEncoder};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::Result;
use crate::certificates::Certificates;

/// Serves a constant reply of about `size` bytes for every poll, over TLS if there is a certificate; prints the address it listens on.
pub(crate) async fn serve(size: usize, certificates: Option<&Certificates>) -> Result<()> {
    let body = body(size)?;
    let poll = move || {
        let body = body.clone();
        async move { ([(CONTENT_TYPE, "application/json"), (CONTENT_ENCODING, "gzip")], body) }
    };
    let app = Router::new().route("/api/v2/flux/clusters/{dns}/{path}", get(poll));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    match certificates {
        None => Ok(axum::serve(listener, app).await?),
        Some(certificates) => serve_tls(listener, app, certificates.server()?).await,
    }
}

/// rustls as it comes, and axum on top.
async fn serve_tls(listener: TcpListener, app: Router, config: ServerConfig) -> Result<()> {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(app.clone()));
        tokio::spawn(async move {
            // A client that leaves is not an error.
            if let Ok(stream) = acceptor.accept(stream).await {
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        });
    }
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
