//! `GET /backup`: what `flux-resourceset backup` writes, compressed if the client accepts gzip.

use std::io::{self, Write};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;

use super::caller::Caller;
use super::changes::LINES;
use super::negotiate::wants_gzip;
use super::problem::Problem;
use super::respond::{REVISION, Reply};
use crate::app::App;
use crate::app::backup::{BackupError, ServedBackup};

/// `GET /backup`
pub async fn backup(State(app): State<Arc<App>>, caller: Caller) -> Reply {
    caller.query()?.end("none")?;
    let source = app.begin_backup().await?;
    let revision = source.backup.head().revision;
    let gzip = wants_gzip(&caller.headers);
    let download = Download {
        source,
        encoder: gzip.then(|| Encoder::new(Vec::new(), Compression::fast())),
        ended: false,
    };
    let pieces = stream::try_unfold(download, |mut download| async move {
        let piece = download.next().await;
        let piece = piece.inspect_err(|error| tracing::warn!(%error, "a backup is incomplete"))?;
        Ok::<_, BackupError>(piece.map(|piece| (Bytes::from(piece), download)))
    });
    let name = format!("attachment; filename=\"flux-resourceset-{revision}.jsonl\"");
    let name = HeaderValue::try_from(name).map_err(|_| Problem::internal())?;
    let headers = [
        (CONTENT_TYPE, LINES),
        (CONTENT_DISPOSITION, name),
        (VARY, HeaderValue::from_static("accept-encoding")),
        (REVISION.clone(), revision.0.into()),
    ];
    let mut response: Response = (headers, Body::from_stream(pieces)).into_response();
    if gzip {
        let gzip = HeaderValue::from_static("gzip");
        response.headers_mut().insert(CONTENT_ENCODING, gzip);
    }
    Ok(response)
}

/// Compresses into memory.
type Encoder = GzEncoder<Vec<u8>>;

/// A backup on its way to the client.
struct Download {
    source: ServedBackup,
    /// None: sent without compression.
    encoder: Option<Encoder>,
    ended: bool,
}

impl Download {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, BackupError> {
        while !self.ended {
            let lines = self.source.backup.next().await?;
            self.ended = lines.is_none();
            let Some(encoder) = self.encoder.take() else {
                return Ok(lines);
            };
            // A megabyte takes a while: keep it off the threads that answer polls.
            let compress = tokio::task::spawn_blocking(move || compress(encoder, lines));
            let compressed = compress.await.map_err(io::Error::other).flatten();
            let (piece, encoder) = compressed.map_err(|error| BackupError::Write {
                file: "gzip".to_owned(),
                error,
            })?;
            self.encoder = encoder;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

/// Adds lines, or the end, and returns the bytes that are ready.
fn compress(mut encoder: Encoder, lines: Option<Vec<u8>>) -> io::Result<(Vec<u8>, Option<Encoder>)> {
    let Some(lines) = lines else {
        return Ok((encoder.finish()?, None));
    };
    encoder.write_all(&lines)?;
    Ok((std::mem::take(encoder.get_mut()), Some(encoder)))
}
