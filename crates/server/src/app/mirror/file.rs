//! A mirror that follows a backup file, for sites without a network.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::task::{Task, Trouble};
use crate::app::backup::Opened;

const EVERY: Duration = Duration::from_millis(500);

/// Tells a file from its replacement, and from itself while it is still being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Identity {
    /// None: the file does not exist.
    fn of(path: &Path) -> Option<Identity> {
        let found = std::fs::metadata(path).ok()?;
        Some(Identity {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
}

impl Task {
    /// Loads the file, and again whenever it is replaced.
    pub(super) async fn follow_file(mut self, path: PathBuf) {
        let mut seen = Identity::of(&path);
        // The last file that was tried: each file is tried once.
        let mut tried = None;
        loop {
            let now = Identity::of(&path);
            // A file that changed since the last look is still being written.
            if now == seen && tried != Some(now) {
                tried = Some(now);
                let loaded = match now {
                    Some(_) => self.load_file(&path).await,
                    None => Err(Trouble::Unavailable(format!(
                        "{}: the file does not exist",
                        path.display()
                    ))),
                };
                if let Err(trouble) = loaded {
                    if let Trouble::Store(_) = trouble {
                        tried = None;
                    }
                    self.report(trouble).await;
                }
            }
            seen = now;
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn load_file(&mut self, path: &Path) -> Result<(), Trouble> {
        let backup = Opened::file(path).await?;
        let written = backup.at().parse().unwrap_or_else(|_| Timestamp::now());
        self.load(backup, written).await
    }
}
