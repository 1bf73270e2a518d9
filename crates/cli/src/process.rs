//! Runs other programs for a limited time.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::plain;

/// Which output of a program is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Capture {
    Stdout,
    Stderr,
}

/// Runs a program without input, and returns how it ended and what it printed. The message of an error continues a sentence that
/// begins with the program's name. A program that does not end in time is killed.
pub(crate) fn run(command: &mut Command, capture: Capture, limit: Duration) -> Result<(ExitStatus, Vec<u8>), String> {
    let unusable = |error: std::io::Error| format!("cannot be run: {}", plain(&error));
    command.stdin(Stdio::null());
    match capture {
        Capture::Stdout => command.stdout(Stdio::piped()),
        Capture::Stderr => command.stdout(Stdio::null()).stderr(Stdio::piped()),
    };
    let mut child = command.spawn().map_err(unusable)?;
    let (sender, receiver) = mpsc::channel();
    if let Some(mut output) = output(&mut child, capture) {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = sender.send(output.read_to_end(&mut bytes).map(|_| bytes));
        });
    }
    let start = Instant::now();
    let bytes = receiver.recv_timeout(limit);
    // The program may close its output and keep running.
    while bytes.is_ok() && start.elapsed() < limit {
        match child.try_wait().map_err(unusable)? {
            Some(status) => {
                let bytes = bytes.map_err(|error| error.to_string())?.map_err(unusable)?;
                return Ok((status, bytes));
            }
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("did not end within {} seconds", limit.as_secs()))
}

fn output(child: &mut Child, capture: Capture) -> Option<Box<dyn Read + Send>> {
    match capture {
        Capture::Stdout => child.stdout.take().map(|output| Box::new(output) as _),
        Capture::Stderr => child.stderr.take().map(|output| Box::new(output) as _),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sh(line: &str, capture: Capture, limit: Duration) -> Result<(ExitStatus, Vec<u8>), String> {
        run(Command::new("sh").args(["-c", line]), capture, limit)
    }

    #[test]
    fn output_and_status_are_returned() {
        let limit = Duration::from_secs(60);
        let (status, bytes) = sh("echo out; exit 3", Capture::Stdout, limit).unwrap();
        assert_eq!((status.code(), bytes), (Some(3), b"out\n".to_vec()));
        let (_, bytes) = sh("echo out; echo err >&2", Capture::Stderr, limit).unwrap();
        assert_eq!(bytes, b"err\n");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        for line in ["exec sleep 600", "exec >&- 2>&-; exec sleep 600"] {
            let start = Instant::now();
            let error = sh(line, Capture::Stderr, Duration::from_secs(1)).unwrap_err();
            assert_eq!(error, "did not end within 1 seconds");
            assert!(start.elapsed() < Duration::from_secs(60), "{line}");
        }
    }

    #[test]
    fn a_program_that_is_missing_is_reported() {
        let error = run(
            &mut Command::new("no-such-program"),
            Capture::Stdout,
            Duration::from_secs(1),
        )
        .unwrap_err();
        assert_eq!(error, "cannot be run: no such file or directory");
    }
}
