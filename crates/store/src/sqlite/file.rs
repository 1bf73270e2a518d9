//! The database file: its URL, connections, schema and errors.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::{StoreError, unreleased};

/// What creates and changes the schema: the `user_version` that each file sets, in order. A released file is never edited: a
/// change of the schema is a new file.
const MIGRATIONS: &[(i64, &str)] = &[(FIRST, include_str!("schema.sql")), (6, include_str!("summaries.sql"))];

/// The first released version. The versions below were development builds; their files are refused.
const FIRST: i64 = 5;

/// The last version that this release knows.
const LAST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// "flux", as the schema sets it.
const APPLICATION_ID: i64 = 0x66_6c_75_78;

/// How long a connection waits for a lock that another process holds.
const PATIENCE: Duration = Duration::from_secs(5);

/// The size to which the write-ahead log is cut when it restarts. Up to this size its blocks are overwritten in place, which a disk
/// syncs in half the time of new blocks.
pub(super) const MAX_LOG: i64 = 64 << 20;

/// A commit writes the whole page of a changed row, so a small page writes less. Two documents of 2 KB fit.
const PAGE: u32 = 4096;

/// In KiB; SQLite expects a negative number for that. The pages of a revision of 1,000 documents fit, even if each touches another
/// index page. Pages that do not fit are written to the log more than once.
const CACHE: &str = "-32768";

/// The `nice` value of commits and checkpoints, so that polls come first.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

#[derive(Clone, Debug)]
pub(super) struct File {
    path: PathBuf,
    create: bool,
    /// The file that was opened first: device and inode.
    identity: Arc<OnceLock<(u64, u64)>>,
    pub(super) options: SqliteConnectOptions,
}

impl File {
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let refuse = |detail: &str| StoreError::Unusable {
            place: format!("database URL {url:?}"),
            detail: detail.to_owned(),
        };
        const IN_MEMORY: &str =
            "a SQLite database in memory is lost on exit; if you want that, set STORE_BACKEND=memory";

        let rest = url
            .strip_prefix("sqlite:")
            .ok_or_else(|| refuse("it does not begin with sqlite:"))?;
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let mut create = true;
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter {
                "mode=rwc" => create = true,
                "mode=rw" => create = false,
                "mode=ro" => return Err(refuse("the file must be writable, even for a reader; use mode=rwc")),
                "mode=memory" => return Err(refuse(IN_MEMORY)),
                _ => {
                    return Err(refuse(&format!(
                        "unknown parameter {parameter}; only mode=rwc and mode=rw are known"
                    )));
                }
            }
        }
        match path {
            "" => return Err(refuse("it names no file")),
            ":memory:" => return Err(refuse(IN_MEMORY)),
            _ => {}
        }
        // sqlx decodes %XX. An absolute path survives a change of the working directory, and is never read as a `file:` URI with
        // parameters.
        let options = SqliteConnectOptions::from_str(&format!("sqlite:{path}")).map_err(|e| refuse(&e.to_string()))?;
        let path = path::absolute(options.get_filename()).map_err(|e| refuse(&e.to_string()))?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(create)
            .busy_timeout(PATIENCE)
            .synchronous(SqliteSynchronous::Full)
            .page_size(PAGE)
            .pragma("cache_size", CACHE)
            .pragma("wal_autocheckpoint", "0")
            .pragma("journal_size_limit", MAX_LOG.to_string())
            .row_buffer_size(1024)
            .disable_statement_logging();
        Ok(File {
            path,
            create,
            identity: Arc::default(),
            options,
        })
    }

    /// The same, but never creates the file.
    pub(super) fn existing(mut self) -> Self {
        self.create = false;
        self.options = self.options.create_if_missing(false);
        self
    }

    /// Opens the file, creates it if it is missing, and migrates its schema.
    pub(super) async fn prepare(&self) -> Result<SqliteConnection, StoreError> {
        if let Some(folder) = self.path.parent().filter(|_| self.create) {
            std::fs::create_dir_all(folder).map_err(|e| StoreError::Unavailable {
                place: self.place(),
                detail: format!("its folder cannot be created ({e})"),
            })?;
        }
        let mut conn = self.connect().await?;
        // Checked before anything is written, because a file of another program must not change, and again under the lock, because
        // another process may be migrating.
        self.version(&mut conn).await?;
        self.use_wal(&mut conn).await?;
        // Even if there is nothing to migrate: a file that is not writable fails now, and not at the first write.
        self.run(&mut conn, "BEGIN IMMEDIATE").await?;
        let version = self.version(&mut conn).await?;
        for (_, migration) in MIGRATIONS.iter().filter(|(number, _)| *number > version) {
            self.run(&mut conn, migration).await?;
        }
        self.run(&mut conn, "COMMIT").await?;
        if let Ok(found) = identity(&self.path) {
            self.identity.get_or_init(|| found);
        }
        Ok(conn)
    }

    /// Checks that the file is still in place. A removed or replaced file can be written to while it is open, and everything
    /// would be lost when the process ends.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let Some(opened) = self.identity.get() else {
            return Ok(());
        };
        let detail = match identity(&self.path) {
            Ok(found) if found == *opened => return Ok(()),
            Ok(_) => {
                "another file has replaced it since it was opened: restart the process on the right file".to_owned()
            }
            Err(e) => format!("it no longer exists ({e}): put the file back, or restore a backup"),
        };
        Err(StoreError::Unavailable {
            place: self.place(),
            detail,
        })
    }

    /// Opens a connection that runs at a lower priority than polls. The driver starts one thread per connection, which inherits the
    /// priority of the thread that opens it.
    pub(super) async fn connect(&self) -> Result<SqliteConnection, StoreError> {
        let (options, runtime) = (self.options.clone(), Handle::current());
        let (reply, connected) = oneshot::channel();
        let open = move || {
            // On other systems this would change the whole process.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::nice(NICE);
            let _ = reply.send(runtime.block_on(options.connect()));
        };
        let thread = std::thread::Builder::new().name("sqlite-open".to_owned()).spawn(open);
        let connected = match thread {
            Ok(_) => connected.await.unwrap_or(Err(sqlx::Error::WorkerCrashed)),
            Err(e) => Err(sqlx::Error::Io(e)),
        };
        connected.map_err(|e| self.error(&e))
    }

    async fn run(&self, conn: &mut SqliteConnection, sql: &'static str) -> Result<(), StoreError> {
        sqlx::raw_sql(sql).execute(conn).await.map_err(|e| self.error(&e))?;
        Ok(())
    }

    /// The version of the file's schema; 0 if the file is new. An error if this release must not write to the file.
    async fn version(&self, conn: &mut SqliteConnection) -> Result<i64, StoreError> {
        const IDENTITY: &str = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) \
             FROM pragma_application_id, pragma_user_version";
        let (application, version, objects): (i64, i64, i64) = sqlx::query_as(IDENTITY)
            .fetch_one(conn)
            .await
            .map_err(|e| self.error(&e))?;
        let unusable = |detail: String| StoreError::Unusable {
            place: self.place(),
            detail,
        };
        match (application, version) {
            (0, 0) if objects == 0 => Ok(0),
            (APPLICATION_ID, FIRST..=LAST) => Ok(version),
            (APPLICATION_ID, ..FIRST) => Err(unusable(unreleased(version))),
            (APPLICATION_ID, _) => Err(StoreError::Newer {
                place: self.place(),
                found: version,
                known: LAST,
            }),
            _ => Err(unusable("it belongs to another program; name another file".to_owned())),
        }
    }

    async fn use_wal(&self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mode: Result<String, _> = sqlx::query_scalar("PRAGMA journal_mode = WAL")
                .fetch_one(&mut *conn)
                .await;
            match mode {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => {
                    return Err(StoreError::Unusable {
                        place: self.place(),
                        detail: format!("its journal mode stays {mode}; does the file system support shared memory?"),
                    });
                }
                // SQLite does not wait for this lock, and processes that start together all need it.
                Err(e) if code(&e) == Some(5) && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(e) => return Err(self.error(&e)),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn place(&self) -> String {
        format!("SQLite database {}", self.path.display())
    }

    pub(super) fn error(&self, error: &sqlx::Error) -> StoreError {
        let message = match error {
            sqlx::Error::Database(e) => e.message().to_owned(),
            e => e.to_string(),
        };
        let hint = match code(error) {
            Some(5 | 6) => "another process holds its lock",
            Some(8) => "it cannot be written; check the permissions of the file and its folder",
            Some(13) => "there is no space left",
            Some(14) => "it cannot be opened; check that it is a file, and the permissions of its folder",
            Some(26) => "it is not a SQLite database",
            _ => "",
        };
        let detail = if hint.is_empty() {
            message
        } else {
            format!("{hint} ({message})")
        };
        let place = self.place();
        match (code(error), error) {
            // Malformed pages, changed tables, values that we never write.
            (Some(1 | 11 | 19 | 26), _)
            | (_, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_)) => {
                StoreError::Corrupt { place, detail }
            }
            _ => StoreError::Unavailable { place, detail },
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// SQLite's primary result code, <https://www.sqlite.org/rescode.html>.
fn code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}
