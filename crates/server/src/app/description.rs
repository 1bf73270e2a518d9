//! The OpenAPI document, which anybody may ask for, as often as they like.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use fleet::document::Etag;
use fleet::kind::Kinds;
use tokio::sync::Mutex;

use super::App;
use super::reads::{Stop, on_a_thread};
use crate::http::openapi;

/// The last one that was made, and for which kinds. Whoever needs another one waits for the lock: it is made once.
pub type Described = Mutex<Option<(Arc<Kinds>, Arc<Description>)>>;

/// A document in both forms that it is sent in.
#[derive(Debug)]
pub struct Description {
    pub plain: Bytes,
    pub gzip: Bytes,
    pub etag: Etag,
}

impl Description {
    fn new(plain: Bytes) -> Self {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        let packed = packer.write_all(&plain).and_then(|()| packer.finish());
        Description {
            gzip: packed.expect("memory takes everything").into(),
            etag: Etag::of_bytes(&plain),
            plain,
        }
    }
}

impl App {
    /// The document of the kinds that are served, made once for each state of the kinds.
    pub async fn description(self: &Arc<Self>) -> Result<Arc<Description>, Stop> {
        let app = self.clone();
        // In a task, so that the work is not lost when the client hangs up: the next one would repeat it.
        let found = tokio::spawn(async move {
            let mut kept = app.described.lock().await;
            let kinds = app.fleet().kinds().clone();
            if let Some((of, description)) = &*kept
                && Arc::ptr_eq(of, &kinds)
            {
                return Ok(description.clone());
            }
            let (reply, made) = tokio::sync::oneshot::channel();
            let (file, mode, of) = (app.openapi_file.clone(), app.mode, kinds.clone());
            on_a_thread(move || {
                let text = file.unwrap_or_else(|| fleet::yaml::write(&openapi::document(&of, mode)).into());
                let _gone = reply.send(Arc::new(Description::new(text)));
            })?;
            let made = made.await.map_err(|_| Stop::Panicked)?;
            *kept = Some((kinds, made.clone()));
            Ok::<_, Stop>(made)
        });
        found.await.map_err(|_| Stop::Panicked)?
    }
}
