//! The temporary folder that processes share: their database, seed and tokens.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::setup::Setup;

/// The tokens of every server that this kit starts.
pub const READ: &str = "read-token-c27f9";
pub const WRITE: &str = "write-token-9b4e";

#[derive(Debug)]
pub struct Folder(TempDir);

impl Default for Folder {
    fn default() -> Self {
        Folder::new()
    }
}

impl Folder {
    pub fn new() -> Self {
        Folder(TempDir::new().unwrap())
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and replaces an existing one atomically: a reader sees the old text or the new one.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let (path, draft) = (self.path(name), self.path(&format!("{name}.new")));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(&draft, &path).unwrap();
        path
    }

    pub fn database(&self) -> PathBuf {
        self.path("fleet.db")
    }

    pub fn seed(&self, seed: &Value) -> PathBuf {
        self.write("seed.json", seed.to_string())
    }

    /// The server's binary in this folder, without any setting.
    pub fn bare(&self) -> Setup {
        // Errors must not contain a backtrace, even where one is available.
        Setup::new(self.root()).env("RUST_BACKTRACE", "1")
    }

    /// A server on this folder's database, with tokens, on a port that the system chooses.
    pub fn setup(&self) -> Setup {
        self.bare()
            .env("AUTH_TOKEN", READ)
            .env("CRUD_AUTH_TOKEN", WRITE)
            .env("LISTEN_ADDR", "127.0.0.1:0")
            .env("DATABASE_URL", format!("sqlite://{}", self.database().display()))
    }

    pub fn crud(&self) -> Setup {
        self.setup().env("API_MODE", "crud")
    }

    pub fn read_only(&self) -> Setup {
        self.setup().env("API_MODE", "read-only")
    }
}
