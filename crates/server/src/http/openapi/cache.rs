//! The OpenAPI document as it is served. Anyone may request it, as often as they like, so it is made once for each state of the
//! kinds.

use std::io::Write;
use std::sync::Arc;

use axum::body::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use fleet::document::Etag;
use fleet::kind::Kinds;
use tokio::sync::{Mutex, oneshot};

use crate::app::App;
use crate::app::reads::{Stop, on_a_thread};

/// The last document that was made, and the kinds that it describes. A request that needs another one waits for the lock.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Option<(Arc<Kinds>, Arc<Served>)>>);

/// A document in both encodings.
#[derive(Debug)]
pub struct Served {
    pub plain: Bytes,
    pub gzip: Bytes,
    pub etag: Etag,
}

impl Served {
    fn new(plain: Bytes) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let gzip = encoder.write_all(&plain).and_then(|()| encoder.finish());
        Served {
            gzip: gzip.expect("writing to memory does not fail").into(),
            etag: Etag::of_bytes(&plain),
            plain,
        }
    }
}

impl Cache {
    /// The document of the current kinds.
    pub async fn get(self: &Arc<Self>, app: &Arc<App>) -> Result<Arc<Served>, Stop> {
        let (cache, app) = (self.clone(), app.clone());
        // In a task, so that the work is not lost when the client disconnects: the next one would repeat it.
        let found = tokio::spawn(async move { cache.make(&app).await });
        found.await.map_err(|_| Stop::Panicked)?
    }

    async fn make(&self, app: &App) -> Result<Arc<Served>, Stop> {
        let mut kept = self.0.lock().await;
        let kinds = app.fleet().kinds().clone();
        if let Some((of, served)) = &*kept
            && Arc::ptr_eq(of, &kinds)
        {
            return Ok(served.clone());
        }
        let (reply, made) = oneshot::channel();
        let (file, mode, of) = (app.openapi_file.clone(), app.mode, kinds.clone());
        on_a_thread(move || {
            let text = file.unwrap_or_else(|| super::text(&of, mode).into());
            let _ = reply.send(Arc::new(Served::new(text)));
        })?;
        let made = made.await.map_err(|_| Stop::Panicked)?;
        *kept = Some((kinds, made.clone()));
        Ok(made)
    }
}
