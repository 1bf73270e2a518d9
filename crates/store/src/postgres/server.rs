//! The server: its URL, connections, schema and errors.
//!
//! **Releases side by side.** During an upgrade, replicas of two releases work on one database. The row of
//! `flux_resourceset.store` has the last migration (`version`), and the lowest one that a release must know to work with the
//! schema (`compatible`). A migration that only adds something leaves `compatible` as it is: older releases go on, because every
//! statement names its columns. A migration that they would misread raises `compatible` to its own number. From then on older
//! releases get [`StoreError::Newer`], even those that are running, because every commit and every read of the head compares:
//! they serve what they have, and write nothing. A release never raises it above the last migration of the release before.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection, Row};

use crate::postgres::Access;
use crate::{StoreError, unreleased};

/// A file that creates or changes the schema. A released file is never edited: a change of the schema is a new file.
struct Migration {
    version: i64,
    /// The lowest version that a release must know to work with the schema.
    compatible: i64,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: FIRST,
        compatible: FIRST,
        sql: include_str!("schema.sql"),
    },
    // Builds that do not know undos compute other digests for them. No release has the version before.
    Migration {
        version: 3,
        compatible: 3,
        sql: include_str!("summaries.sql"),
    },
];

/// The first released version. Version 1 was a development build; its databases are refused.
const FIRST: i64 = 2;

/// The last version that this release knows.
pub(super) const KNOWN: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// The time limit of an answer, or of the next part of a long one.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The time limit of a new connection.
const CONNECT: Duration = Duration::from_secs(4);

/// "flux": the advisory lock of migrations.
const MIGRATING: i64 = 0x66_6c_75_78;

/// The purpose of a connection. It decides when the server ends statements and transactions that we abandoned.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Reading,
    Writing,
    /// Listening to notifications.
    Listening,
    /// A backup, or a migration.
    Long,
    /// A restore.
    Restoring,
}

/// The address of the store. Cheap to clone; its debug output has no credentials.
#[derive(Clone)]
pub(super) struct Server(Arc<Inner>);

struct Inner {
    options: PgConnectOptions,
    access: Access,
    listens: bool,
    place: String,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.0.place).finish()
    }
}

impl Server {
    pub(super) fn parse(url: &str, access: Access) -> Result<Self, StoreError> {
        // Errors do not show the URL: it may have a password, even in an unexpected place.
        let refuse = |detail: String| StoreError::Unusable {
            place: "the PostgreSQL database URL".to_owned(),
            detail,
        };
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(refuse("it does not begin with postgres://".to_owned()));
        }
        let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut listens, mut theirs) = (true, Vec::new());
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match (parameter, parameter.split('=').next().unwrap_or_default()) {
                ("listen=true", _) => listens = true,
                ("listen=false", _) => listens = false,
                (_, name) if PARAMETERS.contains(&name) || name.starts_with("options[") => theirs.push(parameter),
                (_, name) => {
                    let known = PARAMETERS.join(", ");
                    return Err(refuse(format!(
                        "unknown parameter {name:?}; known are listen=false, {known}"
                    )));
                }
            }
        }
        let url = format!("{address}?{}", theirs.join("&"));
        let options = PgConnectOptions::from_str(&url).map_err(|e| refuse(first_line(&e.to_string())))?;
        let host = match options.get_socket() {
            Some(folder) => folder.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let database = options.get_database().unwrap_or(options.get_username());
        let place = format!("PostgreSQL database {host}/{database}");
        let name = options.get_application_name().unwrap_or("flux-resourceset").to_owned();
        let options = options.application_name(&name).disable_statement_logging();
        Ok(Server(Arc::new(Inner {
            options,
            access,
            listens,
            place,
        })))
    }

    /// Whether notifications can be expected.
    pub(super) fn listens(&self) -> bool {
        self.0.listens
    }

    pub(super) fn access(&self) -> Access {
        self.0.access
    }

    pub(super) fn place(&self) -> &str {
        &self.0.place
    }

    pub(super) fn options(&self, purpose: Purpose) -> PgConnectOptions {
        // The server's limits end what we abandoned, or left behind in a crash: no lock is held forever, and none is waited for
        // longer than our own limit.
        let (statement, idle) = match purpose {
            Purpose::Reading | Purpose::Listening => ("30s", "30s"),
            Purpose::Writing => ("120s", "10s"),
            Purpose::Long | Purpose::Restoring => ("0", "300s"),
        };
        let options = self.0.options.clone().options([
            ("statement_timeout", statement),
            ("lock_timeout", "4s"),
            ("idle_in_transaction_session_timeout", idle),
        ]);
        match (purpose, self.0.access) {
            // Writers find their rows by key. Outdated statistics must not make the planner scan whole tables.
            (Purpose::Writing | Purpose::Restoring, _) => options.options([
                ("default_transaction_isolation", "read committed"),
                ("enable_seqscan", "off"),
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
                ("jit", "off"),
            ]),
            (_, Access::Read) => options.options([("default_transaction_read_only", "on")]),
            _ => options,
        }
    }

    pub(super) async fn connect(&self, purpose: Purpose) -> Result<PgConnection, StoreError> {
        let connected = within(CONNECT, self.options(purpose).connect()).await;
        connected.map_err(|e| self.error(&e))
    }

    /// Checks the schema, and creates or migrates it if we may write.
    pub(super) async fn prepare(&self) -> Result<(), StoreError> {
        let mut conn = self.connect(Purpose::Long).await?;
        let encoding: String = self
            .ask(sqlx::query_scalar("SHOW server_encoding").fetch_one(&mut conn))
            .await?;
        if encoding != "UTF8" {
            return Err(self.unusable(format!("its encoding is {encoding}; it must be UTF8")));
        }
        match (self.0.access, self.version(&mut conn).await?) {
            (_, Some(version)) if version >= KNOWN => {}
            (_, Some(version)) if version < FIRST => return Err(self.unusable(unreleased(version))),
            (Access::Read, None) => {
                return Err(self.not_ready("its schema does not exist yet; a replica that can write creates it"));
            }
            (Access::Read, Some(version)) => {
                return Err(self.not_ready(&format!(
                    "its schema version is {version}, and this release needs {KNOWN}; a replica of this release that can write migrates it"
                )));
            }
            (Access::Write, _) => self.migrate(&mut conn).await?,
        }
        if self.0.access == Access::Write {
            // A database that is not writable fails now, and not at the first write.
            let writable = "UPDATE flux_resourceset.store SET revision = revision WHERE false";
            self.ask(sqlx::query(writable).execute(&mut conn)).await?;
            let lax = "SELECT 'off' IN (current_setting('fsync'), current_setting('synchronous_commit'))";
            if self.ask(sqlx::query_scalar(lax).fetch_one(&mut conn)).await? {
                tracing::warn!(
                    "{} has fsync or synchronous_commit off: acknowledged commits may be lost in a crash",
                    self.0.place
                );
            }
        }
        let _ = within(PATIENCE, conn.close()).await;
        Ok(())
    }

    async fn migrate(&self, conn: &mut PgConnection) -> Result<(), StoreError> {
        // Another process may be migrating, or restoring a backup, and needs its time.
        const PATIENT: Duration = Duration::from_secs(120);
        let migrate = async {
            sqlx::raw_sql("BEGIN; SET LOCAL lock_timeout = '60s'")
                .execute(&mut *conn)
                .await?;
            sqlx::query("SELECT pg_advisory_xact_lock($1)")
                .bind(MIGRATING)
                .execute(&mut *conn)
                .await?;
            let there = "SELECT count(*) FROM pg_namespace WHERE nspname = 'flux_resourceset'";
            if sqlx::query_scalar::<_, i64>(there).fetch_one(&mut *conn).await? == 0 {
                sqlx::raw_sql("CREATE SCHEMA flux_resourceset")
                    .execute(&mut *conn)
                    .await?;
            }
            Ok(())
        };
        within(PATIENT, migrate).await.map_err(|e| self.error(&e))?;
        let version = match self.version(conn).await? {
            Some(version) => version,
            None => {
                let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'flux_resourceset'";
                let tables: i64 = self.ask(sqlx::query_scalar(tables).fetch_one(&mut *conn)).await?;
                if tables > 0 {
                    return Err(self.unusable(
                        "its schema flux_resourceset belongs to another program; name another database".to_owned(),
                    ));
                }
                0
            }
        };
        let migrate = async {
            for migration in MIGRATIONS.iter().filter(|migration| migration.version > version) {
                sqlx::raw_sql(migration.sql).execute(&mut *conn).await?;
                sqlx::query("UPDATE flux_resourceset.store SET version = $1, compatible = $2")
                    .bind(migration.version)
                    .bind(migration.compatible)
                    .execute(&mut *conn)
                    .await?;
            }
            sqlx::raw_sql("COMMIT").execute(&mut *conn).await
        };
        within(PATIENT, migrate).await.map_err(|e| self.error(&e))?;
        Ok(())
    }

    /// The version of the database's schema. None if it has none; an error if this release must not use it.
    async fn version(&self, conn: &mut PgConnection) -> Result<Option<i64>, StoreError> {
        // `to_regclass` fails without the right to use the schema.
        let there = self
            .ask(sqlx::query_scalar("SELECT to_regclass('flux_resourceset.store') IS NOT NULL").fetch_one(&mut *conn))
            .await;
        let sql = "SELECT version, compatible FROM flux_resourceset.store";
        let read = match there {
            Ok(false) => return Ok(None),
            Ok(true) => self.ask(sqlx::query(sql).fetch_one(conn)).await,
            Err(e) => Err(e),
        };
        let row = match (read, self.0.access) {
            // The right to read may be granted in a moment.
            (Err(StoreError::Unusable { detail, .. }), Access::Read) => return Err(self.not_ready(&detail)),
            (read, _) => read?,
        };
        let get = |column| row.try_get::<i64, _>(column).map_err(|e| self.error(&e));
        let (version, compatible) = (get(0)?, get(1)?);
        self.check(version, compatible)?;
        Ok(Some(version))
    }

    /// Checks that this release can work with a schema.
    pub(super) fn check(&self, version: i64, compatible: i64) -> Result<(), StoreError> {
        match compatible {
            ..=KNOWN => Ok(()),
            _ => Err(StoreError::Newer {
                place: self.0.place.clone(),
                found: version,
                known: KNOWN,
            }),
        }
    }

    async fn ask<T>(&self, answer: impl Future<Output = sqlx::Result<T>>) -> Result<T, StoreError> {
        within(PATIENCE, answer).await.map_err(|e| self.error(&e))
    }

    pub(super) fn unusable(&self, detail: String) -> StoreError {
        StoreError::Unusable {
            place: self.0.place.clone(),
            detail,
        }
    }

    pub(super) fn corrupt(&self, detail: String) -> StoreError {
        StoreError::Corrupt {
            place: self.0.place.clone(),
            detail,
        }
    }

    pub(super) fn unavailable(&self, detail: &str) -> StoreError {
        StoreError::Unavailable {
            place: self.0.place.clone(),
            detail: detail.to_owned(),
        }
    }

    fn not_ready(&self, detail: &str) -> StoreError {
        StoreError::NotReady {
            place: self.0.place.clone(),
            detail: detail.to_owned(),
        }
    }

    pub(super) fn error(&self, error: &sqlx::Error) -> StoreError {
        let state = error.as_database_error().and_then(|e| e.code()).unwrap_or_default();
        let message = match error {
            sqlx::Error::Database(e) => first_line(e.message()),
            // Seen with PgBouncer in transaction mode.
            sqlx::Error::Protocol(e) if e.contains("NotificationResponse") => {
                "a connection pooler delivers notifications to the wrong clients; set listen=false in the URL"
                    .to_owned()
            }
            sqlx::Error::Io(e) => first_line(&e.to_string()),
            e => first_line(&e.to_string()),
        };
        let hint = match &*state {
            "25006" => "it is read-only at the moment; is it a standby?",
            "53100" => "there is no space left",
            "55P03" => "another process holds its lock",
            "57014" => "it took too long",
            "3D000" => "it does not exist",
            "26000" | "42P05" => "a connection pooler mixes up prepared statements",
            _ => "",
        };
        let detail = if hint.is_empty() {
            message
        } else {
            format!("{hint} ({message})")
        };
        let place = self.0.place.clone();
        match (&*state, error) {
            // Missing rights, exceeded limits, statements that a pooler mixed up, and a missing database.
            ("26000" | "3D000" | "42501" | "42P05" | "54000", _) | (_, sqlx::Error::Configuration(_)) => {
                StoreError::Unusable { place, detail }
            }
            // Failed authentication: a retry does not help.
            (state, _) if state.starts_with("28") => StoreError::Unusable { place, detail },
            // Changed tables, values that we never write, damaged pages.
            (_, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::RowNotFound) => {
                StoreError::Corrupt { place, detail }
            }
            (state, _)
                if ["22", "23", "42", "XX001", "XX002"]
                    .iter()
                    .any(|class| state.starts_with(class)) =>
            {
                StoreError::Corrupt { place, detail }
            }
            _ => StoreError::Unavailable { place, detail },
        }
    }
}

/// The parameters of libpq that the driver supports.
const PARAMETERS: &[&str] = &[
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// The answer, or an error if it takes too long. Then the connection must not be used again.
pub(super) async fn within<T>(patience: Duration, answer: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    match tokio::time::timeout(patience, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            let late = format!("no answer within {} seconds", patience.as_secs());
            Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, late)))
        }
    }
}
