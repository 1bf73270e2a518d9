//! A running process, and its log. It is killed when it is dropped.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::PATIENCE;

#[derive(Debug)]
pub struct Process {
    child: Mutex<Child>,
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
    pub(crate) fn new(child: Child, stdout: Option<JoinHandle<String>>, log: Log) -> Self {
        Process {
            child: Mutex::new(child),
            stdout,
            log: Mutex::new(log),
        }
    }

    pub fn id(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    /// A line of `/proc/PID/status`, in bytes: `VmRSS` is the memory in use, `VmHWM` the most so far.
    pub fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()).unwrap();
        kilobytes.parse::<u64>().unwrap() << 10
    }

    /// Waits for the first line of the log with this text. Lines that were read before count, too.
    #[track_caller]
    pub fn line(&self, wanted: &str) -> String {
        self.line_within(wanted, PATIENCE)
    }

    #[track_caller]
    pub fn line_within(&self, wanted: &str, time: Duration) -> String {
        let mut log = self.log.lock().unwrap();
        let deadline = Instant::now() + time;
        let mut searched = 0;
        loop {
            if let Some(line) = log.seen[searched..].iter().find(|line| line.contains(wanted)) {
                return line.clone();
            }
            searched = log.seen.len();
            let ended = !self.is_running();
            if let Err(problem) = log.wait(deadline, ended) {
                panic!("no \"{wanted}\" ({problem}) in the log:\n{}", log.seen.join("\n"));
            }
        }
    }

    /// The log so far.
    pub fn log(&self) -> Vec<String> {
        let mut log = self.log.lock().unwrap();
        log.read();
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
        let status = loop {
            if let Some(status) = self.child.lock().unwrap().try_wait().unwrap() {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "it is still running:\n{}",
                self.log().join("\n")
            );
            std::thread::sleep(Duration::from_millis(2));
        };
        // The end of the pipe, which may come a moment after the end of the process.
        let log = self.log.get_mut().unwrap();
        while log.wait(deadline, true).is_ok() {}
        let stderr: String = log.seen.iter().map(|line| format!("{line}\n")).collect();
        assert!(!stderr.contains("panicked"), "{stderr}");
        let stdout = self.stdout.take().map(|stdout| stdout.join().unwrap());
        Ended {
            status,
            stdout: stdout.unwrap_or_default(),
            stderr,
        }
    }

    /// Kills it, as a power failure would.
    pub fn kill(self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn is_running(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It may have ended already.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Sends a signal by its name.
pub fn signal(process: u32, name: &str) {
    // By the shell's `kill`: std can send SIGKILL alone.
    let command = format!("kill -{name} {process}");
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(status.success(), "{command}");
}

#[derive(Debug)]
pub(crate) struct Log {
    source: Source,
    seen: Vec<String>,
}

#[derive(Debug)]
enum Source {
    Pipe(Receiver<String>),
    File(PathBuf),
}

impl Log {
    pub(crate) fn pipe(lines: Receiver<String>) -> Self {
        Log {
            source: Source::Pipe(lines),
            seen: Vec::new(),
        }
    }

    pub(crate) fn file(path: PathBuf) -> Self {
        Log {
            source: Source::File(path),
            seen: Vec::new(),
        }
    }

    /// Reads the lines that are there.
    fn read(&mut self) {
        match &self.source {
            Source::Pipe(lines) => self.seen.extend(lines.try_iter()),
            Source::File(path) => {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
                self.seen = whole.map(str::to_owned).collect();
            }
        }
    }

    /// Waits for more lines. Fails at the deadline, and at the end of the log.
    fn wait(&mut self, deadline: Instant, ended: bool) -> Result<(), RecvTimeoutError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if let Source::Pipe(lines) = &self.source {
            self.seen.push(lines.recv_timeout(left)?);
            return Ok(());
        }
        let before = self.seen.len();
        self.read();
        match self.seen.len() > before {
            true => Ok(()),
            false if ended => Err(RecvTimeoutError::Disconnected),
            false if left.is_zero() => Err(RecvTimeoutError::Timeout),
            false => {
                std::thread::sleep(Duration::from_millis(5));
                Ok(())
            }
        }
    }
}
