//! The real binary: started in a folder of its own, its log read as it comes, gone at the end of the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tempfile::TempDir;

use crate::client::{Client, PATIENCE};

pub const BINARY: &str = env!("CARGO_BIN_EXE_flux-resourceset");
pub const READ: &str = "read-token-c27f9";
pub const WRITE: &str = "write-token-9b4e";

/// The folder that processes share: their database, their seed, their tokens.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Folder(TempDir::new().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file with this text, in place at once: who reads it sees the old one or the new one.
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

    /// The command without any setting, in an environment where only ours count.
    pub fn bare(&self) -> Setup {
        let mut command = Command::new(BINARY);
        command.current_dir(self.0.path()).env_clear();
        // If a back trace can be had, it must not be there all the same.
        command.env("RUST_BACKTRACE", "1");
        Setup::from(command)
    }

    /// A server on this folder's database, with tokens, on an address that the system chooses.
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

    /// As an administrator with a database shell, who leaves it open until the end.
    pub fn shell(&self, file: &Path, sql: &'static str) -> Shell {
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
}

pub struct Shell {
    runtime: tokio::runtime::Runtime,
    connection: SqliteConnection,
}

impl Shell {
    pub fn close(self) {
        self.runtime.block_on(sqlx::Connection::close(self.connection)).unwrap();
    }
}

/// How a process is to be started.
pub struct Setup {
    command: Command,
    last_line: Option<&'static str>,
}

impl From<Command> for Setup {
    fn from(command: Command) -> Self {
        Setup {
            command,
            last_line: None,
        }
    }
}

impl Setup {
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    /// The same settings for the binary at the end of another command line, such as `unshare --fork`.
    pub fn under(self, wrapper: &[&str]) -> Self {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(BINARY).args(self.command.get_args());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (name, value) in self.command.get_envs() {
            value.map(|value| command.env(name, value));
        }
        command.current_dir(self.command.get_current_dir().unwrap());
        Setup::from(command)
    }

    /// Reads the log up to a line with this text, then closes the pipe.
    pub fn close_log_after(mut self, text: &'static str) -> Self {
        self.last_line = Some(text);
        self
    }

    pub fn spawn(self) -> Process {
        self.spawn_with_input(Vec::new())
    }

    fn spawn_with_input(mut self, input: Vec<u8>) -> Process {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::spawn(move || {
            let _gone = stdin.write_all(&input);
        });
        let mut stdout = child.stdout.take().unwrap();
        let stdout = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines() {
                let line = line.unwrap();
                let is_last = self.last_line.is_some_and(|text| line.contains(text));
                let _unwanted = sender.send(line);
                if is_last {
                    break;
                }
            }
        });
        Process {
            child,
            stdout: Some(stdout),
            log: Mutex::new(Log {
                lines,
                seen: Vec::new(),
            }),
        }
    }

    /// Runs a command that ends by itself.
    #[track_caller]
    pub fn run(self) -> Ended {
        self.spawn().end()
    }

    /// Runs what must fail, and gives what it says.
    #[track_caller]
    pub fn run_for_its_error(self) -> String {
        let ended = self.run();
        assert!(!ended.status.success(), "{}", ended.stderr);
        ended.stderr
    }

    #[track_caller]
    pub fn run_with_input(self, input: impl Into<Vec<u8>>) -> Ended {
        self.spawn_with_input(input.into()).end()
    }

    /// Starts a server and waits until it is ready.
    #[track_caller]
    pub fn start(self) -> Server {
        let process = self.spawn();
        let address = address_in(&process.line("listening"));
        let server = Server { process, address };
        server.anonymous().get("/ready").expect(200);
        server
    }
}

/// The address in a line of the log, whatever the format.
pub fn address_in(line: &str) -> SocketAddr {
    let from = line.find("127.0.0.1:").unwrap_or_else(|| panic!("no address: {line}"));
    let rest = &line[from..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
    rest[..end.unwrap_or(rest.len())].parse().unwrap()
}

struct Log {
    lines: Receiver<String>,
    seen: Vec<String>,
}

pub struct Process {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    log: Mutex<Log>,
}

/// A process after its end.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Process {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A line of `/proc/PID/status`, in bytes: `VmRSS` is the memory in use, `VmHWM` the most there ever was.
    pub fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()).unwrap();
        kilobytes.parse::<u64>().unwrap() << 10
    }

    /// Waits for the first line of the log with this text, among those that came already, too.
    #[track_caller]
    pub fn line(&self, wanted: &str) -> String {
        let mut log = self.log.lock().unwrap();
        if let Some(line) = log.seen.iter().find(|line| line.contains(wanted)) {
            return line.clone();
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match log.lines.recv_timeout(left) {
                Ok(line) => log.seen.push(line),
                Err(problem) => panic!("no \"{wanted}\" ({problem}) in the log:\n{}", log.seen.join("\n")),
            }
            if let Some(line) = log.seen.last().filter(|line| line.contains(wanted)) {
                return line.clone();
            }
        }
    }

    /// The log so far.
    pub fn log(&self) -> Vec<String> {
        let mut log = self.log.lock().unwrap();
        while let Ok(line) = log.lines.try_recv() {
            log.seen.push(line);
        }
        log.seen.clone()
    }

    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Waits for the end.
    #[track_caller]
    pub fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    #[track_caller]
    pub fn end_within(mut self, time: Duration) -> Ended {
        let deadline = Instant::now() + time;
        let log = self.log.get_mut().unwrap();
        loop {
            // The end of the log is the end of the process, or near it.
            match log
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => log.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it runs on:\n{}", log.seen.join("\n")),
            }
        }
        let stderr: String = log.seen.iter().map(|line| format!("{line}\n")).collect();
        assert!(!stderr.contains("panicked"), "{stderr}");
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it runs on:\n{stderr}");
            std::thread::sleep(Duration::from_millis(2));
        };
        Ended {
            status,
            stdout: self.stdout.take().unwrap().join().unwrap(),
            stderr,
        }
    }

    /// As a crash of the machine's power supply would, seen from the process.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

pub fn signal(process: u32, name: &str) {
    // The shell's own `kill`: std knows SIGKILL alone.
    let command = format!("kill -{name} {process}");
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(status.success(), "{command}");
}

pub struct Server {
    pub process: Process,
    pub address: SocketAddr,
}

impl Server {
    /// Somebody without a token.
    pub fn anonymous(&self) -> Client {
        Client::new(self.address, None)
    }

    pub fn with(&self, token: &str) -> Client {
        Client::new(self.address, Some(token))
    }

    pub fn reader(&self) -> Client {
        self.with(READ)
    }

    pub fn writer(&self) -> Client {
        self.with(WRITE)
    }

    /// Ends it as a supervisor does.
    #[track_caller]
    pub fn stop(self) -> Ended {
        self.process.signal("TERM");
        let ended = self.process.end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        ended
    }
}

/// A cluster that refers to nothing.
pub fn cluster(id: &str) -> Value {
    json!({"id": id, "cluster_name": id, "cluster_dns": dns(id), "environment": "dev"})
}

pub fn dns(id: &str) -> String {
    format!("{id}.k8s.example.com")
}

/// Where that cluster polls.
pub fn poll(id: &str) -> String {
    format!("/api/v2/flux/clusters/{}/namespaces", dns(id))
}

/// Asks until the answer is yes.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
