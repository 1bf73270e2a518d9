//! The processes of the test. None outlives it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::{Result, wait};

/// The processes that should be running, with their names.
static RUNNING: Mutex<Vec<(Pid, String)>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<(Pid, String)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails when a process has ended unexpectedly, so that waits end at once.
pub(crate) fn all_alive() -> Result<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match running()
        .iter()
        .find(|(pid, _)| !matches!(waitid(WaitId::Pid(*pid), options), Ok(None)))
    {
        Some((_, name)) => Err(format!("{name} has ended").into()),
        None => Ok(()),
    }
}

/// A process with its own log. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// Where its part of the log begins.
    begins: u64,
}

impl Process {
    /// Starts a program in a new process group, so that Ctrl-C reaches only the test, which then stops it.
    pub(crate) fn start(name: &str, command: &mut Command, logs: &Path) -> Result<Process> {
        let log = logs.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        let begins = file.metadata()?.len();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{name} ({}): {error}", command.get_program().display()))?;
        running().push((Pid::from_child(&child), name.to_owned()));
        Ok(Process {
            name: name.to_owned(),
            child,
            log,
            begins,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Succeeds when a line of its log has this text, of those that it wrote since it was started the last time.
    pub(crate) fn logged(&self, text: &str) -> Result<()> {
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.begins))?;
        let mut log = String::new();
        file.read_to_string(&mut log)?;
        match log.lines().any(|line| line.contains(text)) {
            true => Ok(()),
            false => Err(format!("{} has not logged: {text}", self.name).into()),
        }
    }

    /// How the process has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("it has ended ({status})"))
    }

    /// Asks the process to end, and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.expect_end();
        self.signal(Signal::TERM);
        let what = format!("{} to end", self.name);
        wait::until_within(Duration::from_secs(40), &what, || match self.child.try_wait()? {
            Some(_) => Ok(()),
            None => Err("it is still running".into()),
        })
    }

    fn expect_end(&self) {
        let ended = Pid::from_child(&self.child);
        running().retain(|(pid, _)| *pid != ended);
    }

    fn signal(&self, signal: Signal) {
        // The one way to fail is that the group is gone already.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// The end of its log: the last errors and warnings if there are any, otherwise the last lines.
    pub(crate) fn tail(&self, lines: usize) -> Result<String> {
        const ENOUGH: u64 = 256 * 1024;
        const COMPLAINTS: [&str; 5] = [r#""level":"error""#, "ERROR", "WARN", "panic", "Error:"];
        let mut file = File::open(&self.log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(ENOUGH)))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let last = |found: Vec<&str>| found[found.len().saturating_sub(lines)..].join("\n");
        let complaint = |line: &&str| {
            // Expected: there is no FluxInstance here.
            COMPLAINTS.iter().any(|complaint| line.contains(complaint)) && !line.contains("no flux instances found")
        };
        let complaints: Vec<&str> = text.lines().filter(complaint).collect();
        Ok(last(if complaints.is_empty() {
            text.lines().collect()
        } else {
            complaints
        }))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.expect_end();
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// An address on loopback that was free a moment ago.
pub(crate) fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
