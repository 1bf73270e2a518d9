//! The last answer to `GET /kinds`, one file for each address. Losing it costs one request, so errors are ignored.

use std::fs;
use std::path::PathBuf;

use fleet::document::Etag;
use serde::{Deserialize, Serialize};

use crate::config;

#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) etag: String,
    pub(super) body: String,
}

/// The file of an address; none if there is no home folder.
pub(super) struct Cache(Option<PathBuf>);

impl Cache {
    pub(super) fn of(url: &str) -> Cache {
        let name = format!("kinds-{:032x}.json", Etag::of_bytes(url.as_bytes()).0);
        Cache(config::cache_folder().map(|folder| folder.join(name)))
    }

    pub(super) fn read(&self) -> Option<Kept> {
        serde_json::from_slice(&fs::read(self.0.as_ref()?).ok()?).ok()
    }

    pub(super) fn write(&self, kept: &Kept) {
        if let Some(path) = &self.0
            && let Some(folder) = path.parent()
            && let Ok(bytes) = serde_json::to_vec(kept)
        {
            let _ = config::replace(path, folder, &bytes);
        }
    }
}
