//! A file that has another name until it is complete, so that an interrupted write never damages the previous one.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// `NAME.partial`, removed unless it is finished. Only its owner may read it: it holds the whole fleet.
pub(super) struct PartialFile {
    pub(super) file: File,
    path: PathBuf,
    is_finished: bool,
}

impl PartialFile {
    pub(super) fn create(target: &Path) -> io::Result<PartialFile> {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let path = target.with_file_name(name);
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        Ok(PartialFile {
            file: options.open(&path)?,
            path,
            is_finished: false,
        })
    }

    /// Makes it durable, and moves it to its place.
    pub(super) fn finish(mut self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.path, target)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
