//! One server process: started, stopped, killed and started again on the same address; watched through /proc.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bench::Result;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::client::{READ_TOKEN, Request, WRITE_TOKEN};
use crate::disturbance::Disturbance;

/// How long a start or an orderly end may take.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Crud,
    ReadOnly,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    /// Steady ones are never stopped: their memory can be compared over the whole run.
    pub(crate) steady: bool,
    pub(crate) addr: SocketAddr,
    pub(crate) down: Disturbance,
    launch: Launch,
    child: Mutex<Option<Child>>,
}

/// The settings that all processes of a site share.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) binary: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) url: String,
    /// Named tokens for reading, beside the one that the actors use.
    pub(crate) tokens: PathBuf,
}

/// The resources of a process, from /proc.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) resident: u64,
    pub(crate) files: usize,
}

impl Launch {
    /// A command of the server's binary, with these settings only.
    pub(crate) fn command(&self, log: &Path) -> Result<Command> {
        let seed = self.folder.join("seed.json");
        fs::write(&seed, "{}")?;
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(&self.binary);
        command
            .env_clear()
            .env("API_MODE", "crud")
            .env("AUTH_TOKEN", READ_TOKEN)
            .env("AUTH_TOKEN_FILE", &self.tokens)
            .env("CRUD_AUTH_TOKEN", WRITE_TOKEN)
            .env("DATABASE_URL", &self.url)
            .env("SEED_FILE", seed)
            // Compaction keeps revisions that the removal budget still counts: a short window lets it remove some.
            .env("REMOVAL_WINDOW", "1m")
            .env("RUST_LOG", "warn")
            .env("LOG_FORMAT", "json")
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        Ok(command)
    }
}

impl Process {
    pub(crate) async fn start(launch: &Launch, name: String, mode: Mode, steady: bool) -> Result<Process> {
        let process = Process {
            addr: TcpListener::bind("127.0.0.1:0")?.local_addr()?,
            name,
            mode,
            steady,
            down: Disturbance::default(),
            launch: launch.clone(),
            child: Mutex::new(None),
        };
        process.launch().await?;
        Ok(process)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.launch.folder.join(format!("{}.log", self.name))
    }

    /// Starts it, and waits until it is ready.
    pub(crate) async fn launch(&self) -> Result<()> {
        let mode = match self.mode {
            Mode::Crud => "crud",
            Mode::ReadOnly => "read-only",
        };
        let child = self
            .launch
            .command(&self.log())?
            .env("API_MODE", mode)
            .env("LISTEN_ADDR", self.addr.to_string())
            .spawn()?;
        *self.child.lock().expect("no panic while it is held") = Some(child);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.has_ended()? {
                return Err(format!("{} ended while it started: see {}", self.name, self.log().display()).into());
            }
            let ready = Request::new("GET", "/ready").send(self.addr, 0).await;
            if ready.is_ok_and(|reply| reply.status == 200) {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Err(format!("{} is not ready after {PATIENCE:?}", self.name).into())
    }

    fn has_ended(&self) -> Result<bool> {
        let mut child = self.child.lock().expect("no panic while it is held");
        Ok(match &mut *child {
            Some(child) => child.try_wait()?.is_some(),
            None => true,
        })
    }

    fn pid(&self) -> Option<u32> {
        self.child.lock().expect("no panic while it is held").as_ref()?.id()
    }

    /// Ends it with SIGTERM; true if it ended by itself with success.
    pub(crate) async fn terminate(&self) -> Result<bool> {
        if let Some(pid) = self.pid() {
            Command::new("kill").args(["-TERM", &pid.to_string()]).status().await?;
        }
        let child = self.child.lock().expect("no panic while it is held").take();
        let Some(mut child) = child else { return Ok(true) };
        match timeout(PATIENCE, child.wait()).await {
            Ok(status) => Ok(status?.success()),
            Err(_) => {
                child.kill().await?;
                Ok(false)
            }
        }
    }

    /// Ends it with SIGKILL.
    pub(crate) async fn kill(&self) -> Result<()> {
        let child = self.child.lock().expect("no panic while it is held").take();
        if let Some(mut child) = child {
            child.kill().await?;
        }
        Ok(())
    }

    /// None while it is down.
    pub(crate) fn usage(&self) -> Option<Usage> {
        let pid = self.pid()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
        Some(Usage {
            resident: kilobytes * 1024,
            files: fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count(),
        })
    }
}
