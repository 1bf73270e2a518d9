//! A real PostgreSQL server for tests, in a temporary folder on a free port, and what can happen to one.
//!
//! Every function blocks, and panics with what went wrong: it is for tests only. The server ends with the process that
//! started it, also when that is killed.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

/// The superuser of every server, whom TCP connections need a password for.
pub const USER: &str = "admin";
pub const PASSWORD: &str = "s3cret-of-the-test";

/// Waits until whoever holds the other end of its input is gone, in whatever way, and leaves nothing behind. Signals that a
/// terminal sends to everyone are not for it.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP QUIT
cat >/dev/null
if read -r postmaster 2>/dev/null <"$1/data/postmaster.pid"; then
  family="$postmaster $(cat "/proc/$postmaster/task/"*/children 2>/dev/null)"
  kill -CONT $family 2>/dev/null
  "$2/pg_ctl" --pgdata "$1/data" --mode immediate --silent --timeout 10 stop || kill -KILL $family
fi
cd / && rm -rf "$1"
"#;

/// A server. Dropped, it is gone.
#[derive(Debug)]
pub struct Server {
    bin: PathBuf,
    user: User,
    port: u16,
    watchdog: Option<(Child, ChildStdin)>,
    // The last to go.
    folder: TempDir,
}

impl Server {
    /// The one of this process, for tests that do it no harm. Each takes a [`Server::database`] of its own.
    pub fn shared() -> &'static Server {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Server::start(&[]))
    }

    /// One of the caller's own, with settings as `postgresql.conf` has them. What is committed is on the disk, as in
    /// production, unless they say `("fsync", "off")`.
    pub fn start(settings: &[(&str, &str)]) -> Server {
        let bin = bin();
        let user = User::unprivileged();
        let folder = tempfile::Builder::new()
            .prefix("pgtest-")
            .tempdir()
            .expect("a temporary folder");
        if let Some((uid, gid)) = user.0 {
            chown(folder.path(), Some(uid), Some(gid)).expect("the folder is handed over");
        }
        // Free now, and most likely still so in a moment.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let mut server = Server {
            bin,
            user,
            port: port.expect("a free port").port(),
            watchdog: None,
            folder,
        };
        let mut watchdog = server.command("sh");
        watchdog
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(server.folder.path())
            .arg(&server.bin);
        let mut watchdog = watchdog.stdin(Stdio::piped()).spawn().expect("the watchdog starts");
        let leash = watchdog.stdin.take().expect("its input is a pipe");
        server.watchdog = Some((watchdog, leash));

        let password = server.folder.path().join("password");
        fs::write(&password, PASSWORD).expect("the password is written");
        server.hand_over(&password);
        let mut initdb = server.tool("initdb");
        initdb
            .args(["--no-sync", "--no-instructions", "--encoding=UTF8", "--no-locale"])
            .args([
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                "--username",
                USER,
                "--pwfile",
            ])
            .arg(&password);
        run(&mut initdb);
        let here = [
            ("listen_addresses", "'127.0.0.1'".to_owned()),
            ("port", server.port.to_string()),
            (
                "unix_socket_directories",
                format!("'{}'", server.folder.path().display()),
            ),
            ("max_connections", "200".to_owned()),
        ];
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(server.data().join("postgresql.conf"))
            .expect("the configuration is there");
        for (name, value) in here
            .iter()
            .map(|(name, value)| (*name, &**value))
            .chain(settings.iter().copied())
        {
            writeln!(file, "{name} = {value}").expect("the configuration is written");
        }
        server.up();
        server
    }

    /// The URL of a new, empty database.
    pub fn database(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// The superuser's, over TCP.
    pub fn url(&self, database: &str) -> String {
        self.url_of(USER, PASSWORD, database)
    }

    pub fn url_of(&self, user: &str, password: &str, database: &str) -> String {
        format!("postgres://{user}:{password}@127.0.0.1:{}/{database}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// For more files, such as certificates; [`Server::hand_over`] what the server is to read.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Gives the server's user a file, which nobody else reads from then on.
    pub fn hand_over(&self, file: &Path) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("its permissions are set");
        if let Some((uid, gid)) = self.user.0 {
            chown(file, Some(uid), Some(gid)).expect("it is handed over");
        }
    }

    /// What `sql` prints, run as the superuser. `database` may also be a URL of [`Server::database`].
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let database = database.rsplit('/').next().unwrap_or(database);
        let mut psql = self.tool("psql");
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--set=ON_ERROR_STOP=1",
        ]);
        psql.arg("--host").arg(self.folder.path());
        psql.args(["--port", &self.port.to_string(), "--username", USER]);
        run(psql.args(["--dbname", database, "--command", sql]))
            .trim_end()
            .to_owned()
    }

    /// Starts it again after [`Server::down`].
    pub fn up(&self) {
        let log = self.folder.path().join("log");
        let mut start = self.tool("pg_ctl");
        start
            .args(["--silent", "--wait", "--timeout=60", "--log"])
            .arg(&log)
            .arg("start");
        let started = start
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("pg_ctl runs");
        assert!(started.success(), "{}", fs::read_to_string(&log).unwrap_or_default());
    }

    /// Stops it as a crash does: nobody is told, and what is committed is there afterwards.
    pub fn down(&self) {
        run(self
            .tool("pg_ctl")
            .args(["--silent", "--wait", "--mode=immediate", "stop"]));
    }

    /// Ends every connection to a database (a name or a URL) whose `application_name` is like `pattern`; says how many.
    pub fn kill_connections(&self, database: &str, pattern: &str) -> usize {
        let name = database.rsplit('/').next().unwrap_or(database);
        let killed = self.sql(
            "postgres",
            &format!(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE datname = '{name}' AND application_name LIKE '{pattern}' AND pid <> pg_backend_pid()"
            ),
        );
        killed.parse().expect("a number")
    }

    /// Stops the server and all that works for it in the middle of whatever they do, until [`Server::resume`]. Connections
    /// stay, and new ones are taken by the system, but nobody answers.
    pub fn pause(&self) {
        // The postmaster first: from then on the family does not grow.
        let postmaster = self.postmaster();
        signal("-STOP", std::slice::from_ref(&postmaster));
        signal("-STOP", &children(&postmaster));
    }

    pub fn resume(&self) {
        let postmaster = self.postmaster();
        signal("-CONT", &children(&postmaster));
        signal("-CONT", &[postmaster]);
    }

    /// A copy of all it holds, made while it is down for a moment.
    pub fn save(&self) -> Saved {
        let number = fs::read_dir(self.folder.path()).map_or(0, Iterator::count);
        let saved = Saved(self.folder.path().join(format!("saved-{number}")));
        self.down();
        run(self.command("cp").arg("-a").arg(self.data()).arg(&saved.0));
        self.up();
        saved
    }

    /// Comes back as it was then, like a standby that had not heard of what came after.
    pub fn go_back(&self, to: &Saved) {
        self.down();
        fs::remove_dir_all(self.data()).expect("the data goes");
        run(self.command("cp").arg("-a").arg(&to.0).arg(self.data()));
        self.up();
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn postmaster(&self) -> String {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).expect("the server is up");
        file.lines().next().unwrap_or_default().to_owned()
    }

    /// One of PostgreSQL's programs, as the server's user.
    fn tool(&self, name: &str) -> Command {
        let mut command = self.command(self.bin.join(name));
        command.env("PGDATA", self.data());
        command
    }

    fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = self.user.command(program.into());
        // Nothing of the caller's environment is meant for it, such as PGHOST or a locale.
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", path)
            .env("LC_ALL", "C")
            .env("HOME", self.folder.path());
        command.current_dir(self.folder.path());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((mut watchdog, leash)) = self.watchdog.take() {
            drop(leash);
            let _gone = watchdog.wait();
        }
    }
}

/// What a server held at one moment.
#[derive(Debug)]
pub struct Saved(PathBuf);

/// Whom to run the server as: PostgreSQL refuses root, whom containers like to use.
#[derive(Debug)]
struct User(Option<(u32, u32)>);

impl User {
    fn unprivileged() -> Self {
        let me = fs::metadata("/proc/self").expect("there is a /proc").uid();
        let id = |option: &str| -> u32 {
            let id = run(Command::new("id").args([option, "nobody"]));
            id.trim().parse().expect("a number")
        };
        User((me == 0).then(|| (id("-u"), id("-g"))))
    }

    fn command(&self, program: OsString) -> Command {
        let Some((uid, gid)) = self.0 else {
            return Command::new(program);
        };
        let mut command = Command::new("setpriv");
        command.args([
            format!("--reuid={uid}"),
            format!("--regid={gid}"),
            "--clear-groups".to_owned(),
        ]);
        command.arg("--").arg(program);
        command
    }
}

/// Where PostgreSQL's programs are: where `PG_BIN` says, in the path, or where Debian puts them, out of the path.
pub fn bin() -> PathBuf {
    let named = std::env::var_os("PG_BIN").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<_> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|version| Some(version.ok()?.path()))
        .collect();
    debian.sort_by_key(|folder| folder.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let debian = debian.into_iter().rev().map(|version| version.join("bin"));
    let mut folders = named.into_iter().chain(std::env::split_paths(&path)).chain(debian);
    folders
        .find(|folder| {
            ["initdb", "postgres", "pg_ctl", "psql"]
                .iter()
                .all(|name| folder.join(name).exists())
        })
        .expect("there is no PostgreSQL server on this machine: run scripts/postgres.sh")
}

fn children(process: &str) -> Vec<String> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let children = children.expect("the process is there");
    children.split_whitespace().map(str::to_owned).collect()
}

/// A process that has ended meanwhile is no failure.
fn signal(signal: &str, processes: &[String]) {
    let _gone = Command::new("kill")
        .arg(signal)
        .args(processes)
        .stderr(Stdio::null())
        .status();
}

/// What it prints; a panic with what it complains of if it fails.
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}
