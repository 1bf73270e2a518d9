//! A shell on a SQLite database, as an administrator may have it open beside the server.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};

/// An open connection, which may hold locks until it is closed.
pub struct Shell {
    runtime: tokio::runtime::Runtime,
    connection: SqliteConnection,
}

/// Runs SQL, and leaves the connection open.
pub fn shell(file: &Path, sql: &'static str) -> Shell {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap();
    let connection = runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        connection
    });
    Shell { runtime, connection }
}

impl Shell {
    pub fn close(self) {
        self.runtime.block_on(sqlx::Connection::close(self.connection)).unwrap();
    }
}
