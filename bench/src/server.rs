//! The processes that are measured: started, watched through /proc, and killed when dropped.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ClientConfig;
use testkit::Setup;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::block_in_place;
use tokio::time::timeout;

use crate::Result;
use crate::certificates::Certificates;
use crate::http::Client;

pub(crate) const READ_TOKEN: &str = "bench-read-token";
pub(crate) const WRITE_TOKEN: &str = "bench-write-token";
/// How long a server may take to load a large fleet.
const PATIENCE: Duration = Duration::from_secs(120);
/// The unit of utime and stime in /proc/PID/stat. Linux shows it to programs whatever the kernel's own unit is.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    /// How clients speak to it. None: plain HTTP.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pid: u32,
    _running: Running,
}

/// Killed when it is dropped.
#[derive(Debug)]
enum Running {
    Product { _server: testkit::Server },
    Process { _process: testkit::Process },
    Yardstick { _child: Child },
}

/// The resident memory of a process, in bytes.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// Calls of fsync and fdatasync, told apart by what they are for.
#[derive(Debug, PartialEq)]
pub(crate) struct Syncs {
    pub(crate) commits: usize,
    pub(crate) checkpoints: usize,
}

impl Server {
    /// Starts the bare axum server: this same program under another name.
    pub(crate) async fn yardstick(size: usize, certificates: Option<&Certificates>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["yardstick", "--size", &size.to_string()])
            .stdout(Stdio::piped());
        if let Some(Certificates { certificate, key }) = certificates {
            command.arg("--certificate").arg(certificate).arg("--key").arg(key);
        }
        let mut child = command.stdin(Stdio::null()).kill_on_drop(true).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no stdout")?)
            .read_line(&mut line)
            .await?;
        let pid = child.id().ok_or("the yardstick ended")?;
        Ok(Self {
            addr: line.trim().parse()?,
            tls: certificates.map(Certificates::client).transpose()?,
            pid,
            _running: Running::Yardstick { _child: child },
        })
    }

    /// Loads a fleet into a new SQLite database in `dir` and starts the server on it, as a user would.
    pub(crate) async fn product(binary: &Path, dir: &Path, fleet: &Path) -> Result<Self> {
        let url = Self::import(binary, dir, fleet).await?;
        Self::started(binary, dir, &url, "crud").await
    }

    /// Only loads it. Returns the URL of the database.
    pub(crate) async fn import(binary: &Path, dir: &Path, fleet: &Path) -> Result<String> {
        let url = format!("sqlite://{}?mode=rwc", dir.join(DATABASE).display());
        Self::import_into(binary, dir, fleet, &url).await?;
        Ok(url)
    }

    /// The same as [`Self::product`] with any database that is empty yet.
    pub(crate) async fn filled(binary: &Path, dir: &Path, fleet: &Path, url: &str) -> Result<Self> {
        Self::import_into(binary, dir, fleet, url).await?;
        Self::started(binary, dir, url, "crud").await
    }

    async fn import_into(binary: &Path, dir: &Path, fleet: &Path, url: &str) -> Result<()> {
        let log = dir.join("import.log");
        let setup = product(binary, dir, url)?.log_to(&log).arg("import").arg(fleet);
        let status = Command::from(setup.into_command()).kill_on_drop(true).status().await?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("import: {status}\n{}", tail(&log)).into()),
        }
    }

    /// One more that reads a database.
    pub(crate) async fn replica(binary: &Path, dir: &Path, url: &str) -> Result<Self> {
        Self::started(binary, dir, url, "read-only").await
    }

    pub(crate) async fn started(binary: &Path, dir: &Path, url: &str, mode: &str) -> Result<Self> {
        let setup = Self::setup(binary, dir, url, mode)?;
        let server = block_in_place(|| setup.start_within(PATIENCE));
        Ok(Self {
            addr: server.address,
            tls: None,
            pid: server.process.id(),
            _running: Running::Product { _server: server },
        })
    }

    /// The same over TLS.
    pub(crate) async fn started_with_tls(
        binary: &Path,
        dir: &Path,
        url: &str,
        certificates: &Certificates,
    ) -> Result<Self> {
        let setup = Self::setup(binary, dir, url, "crud")?
            .env("TLS_CERT_FILE", &certificates.certificate)
            .env("TLS_KEY_FILE", &certificates.key);
        let process = block_in_place(|| {
            let process = setup.spawn();
            process.line_within("listening", PATIENCE);
            process
        });
        Ok(Self {
            addr: testkit::address_in(&process.line("listening")),
            tls: Some(certificates.client()?),
            pid: process.id(),
            _running: Running::Process { _process: process },
        })
    }

    fn setup(binary: &Path, dir: &Path, url: &str, mode: &str) -> Result<Setup> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let log = format!("server-{}.log", STARTED.fetch_add(1, Ordering::Relaxed));
        Ok(product(binary, dir, url)?
            .env("API_MODE", mode)
            .env("LISTEN_ADDR", "127.0.0.1:0")
            .log_to(&dir.join(log)))
    }

    /// A client of it.
    pub(crate) fn client(&self, number: usize) -> Client {
        Client::new(self.addr, number).over_tls(self.tls.clone())
    }

    /// The CPU time that the process has used so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        process_cpu_seconds(&self.pid.to_string())
    }

    pub(crate) fn memory(&self) -> Result<Memory> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let bytes = |name: &str| -> Result<u64> {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .ok_or("no memory figure")?;
            Ok(line
                .trim_start_matches(':')
                .trim()
                .trim_end_matches(" kB")
                .parse::<u64>()?
                * 1024)
        };
        Ok(Memory {
            now: bytes("VmRSS")?,
            peak: bytes("VmHWM")?,
        })
    }

    /// Attaches strace, which counts the syncs of this process from here on. `Err` when it cannot.
    pub(crate) async fn trace_syncs(&self, dir: &Path) -> Result<Trace> {
        let log = dir.join("strace.log");
        let mut strace = Command::new("strace")
            .args([
                "-f",
                "-y",
                "-e",
                "trace=fsync,fdatasync",
                "-p",
                &self.pid.to_string(),
                "-o",
            ])
            .arg(&log)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("strace: {error}"))?;
        let mut stderr = strace.stderr.take().ok_or("no stderr")?;
        let mut said = [0; 256];
        let read = timeout(Duration::from_secs(10), stderr.read(&mut said))
            .await
            .map_err(|_| "strace does not attach")??;
        let said = String::from_utf8_lossy(&said[..read]);
        if !said.contains("attached") {
            return Err(said.trim().to_owned().into());
        }
        // It reports each thread; unread, the pipe would fill up.
        tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
        Ok(Trace { strace, log })
    }
}

/// The CPU time used so far by all that is neither this server nor this bench.
pub(crate) fn other_cpu_seconds(server: &Server) -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let fields: Vec<f64> = stat.split_whitespace().skip(1).take(8).flat_map(str::parse).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = fields[..] else {
        return Err("/proc/stat is not as expected".into());
    };
    let all = (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND;
    Ok(all - server.cpu_seconds()? - process_cpu_seconds("self")?)
}

fn process_cpu_seconds(pid: &str) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold blanks. After it comes the state, field 3; utime and stime are 14 and 15.
    let fields = stat.rsplit_once(')').ok_or("no name in stat")?.1.split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).flat_map(str::parse).collect();
    Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
}

/// A strace at work.
#[derive(Debug)]
pub(crate) struct Trace {
    strace: Child,
    log: PathBuf,
}

impl Trace {
    pub(crate) async fn finish(mut self) -> Result<Syncs> {
        // Interrupted and not killed: it has to detach, and to write what it holds back.
        let pid = self.strace.id().ok_or("strace ended early")?;
        Command::new("kill").args(["-INT", &pid.to_string()]).status().await?;
        self.strace.wait().await?;
        Ok(count_syncs(&fs::read_to_string(&self.log)?))
    }
}

/// Commits are what the busiest thread syncs; whatever else syncs is a checkpointer, which syncs the log before it copies it
/// and the database after it has copied all of it.
fn count_syncs(log: &str) -> Syncs {
    let mut threads: BTreeMap<&str, usize> = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains("sync(")) {
        if let Some(thread) = line.split_whitespace().next() {
            *threads.entry(thread).or_default() += 1;
        }
    }
    let commits = threads.values().copied().max().unwrap_or_default();
    Syncs {
        commits,
        checkpoints: threads.values().sum::<usize>() - commits,
    }
}

pub(crate) const DATABASE: &str = "fleet.db";

/// The product with these settings only: variables of the caller's shell must not change the figures.
fn product(binary: &Path, dir: &Path, url: &str) -> Result<Setup> {
    let seed = dir.join("seed.json");
    fs::write(&seed, "{}")?;
    Ok(Setup::of(binary, dir)
        .env("API_MODE", "crud")
        .env("AUTH_TOKEN", READ_TOKEN)
        .env("CRUD_AUTH_TOKEN", WRITE_TOKEN)
        .env("DATABASE_URL", url)
        .env("SEED_FILE", seed))
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_thread_commits_and_the_others_checkpoint() {
        let log = "11 fdatasync(9</t/fleet.db-wal>) = 0\n\
                   12 fdatasync(8</t/fleet.db-wal> <unfinished ...>\n\
                   11 fdatasync(9</t/fleet.db-wal>) = 0\n\
                   12 <... fdatasync resumed>) = 0\n\
                   11 fdatasync(9</t/fleet.db-wal>) = 0\n\
                   12 fsync(7</t/fleet.db>) = 0\n";
        let expected = Syncs {
            commits: 3,
            checkpoints: 2,
        };
        assert_eq!(count_syncs(log), expected);
    }

    #[test]
    fn a_checkpoint_on_the_committing_thread_counts_against_the_commits() {
        let log = "11 fdatasync(9</t/fleet.db-wal>) = 0\n11 fdatasync(9</t/fleet.db>) = 0\n";
        let expected = Syncs {
            commits: 2,
            checkpoints: 0,
        };
        assert_eq!(count_syncs(log), expected);
    }
}
