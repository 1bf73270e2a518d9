//! How a process of the server is started: its settings, its arguments, and where its log goes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::process::{Ended, Log, Process};
use crate::server::Server;
use crate::{PATIENCE, server_binary};

#[derive(Debug)]
pub struct Setup {
    command: Command,
    last_line: Option<&'static str>,
    log_file: Option<PathBuf>,
}

impl From<Command> for Setup {
    fn from(command: Command) -> Self {
        Setup {
            command,
            last_line: None,
            log_file: None,
        }
    }
}

impl Setup {
    /// The server's binary in a folder, in an environment where only the settings of this setup count.
    pub fn new(folder: &Path) -> Self {
        Setup::of(server_binary(), folder)
    }

    /// The same with another build of the server.
    pub fn of(binary: &Path, folder: &Path) -> Self {
        let mut command = Command::new(binary);
        command.current_dir(folder).env_clear();
        Setup::from(command)
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
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

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// The same settings for the binary at the end of another command line, such as `unshare --fork`.
    pub fn under(self, wrapper: &[&str]) -> Self {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(self.command.get_program());
        command.args(self.command.get_args());
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

    /// Writes the log to a file: a reader in this process would take part in what a benchmark measures.
    pub fn log_to(mut self, file: &Path) -> Self {
        self.log_file = Some(file.to_owned());
        self
    }

    pub fn spawn(self) -> Process {
        self.spawn_with_input(Vec::new())
    }

    /// Runs a command that ends by itself.
    #[track_caller]
    pub fn run(self) -> Ended {
        self.spawn().end()
    }

    /// Runs a command that must fail, and returns its standard error.
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
        self.start_within(PATIENCE)
    }

    #[track_caller]
    pub fn start_within(self, time: Duration) -> Server {
        Server::of(self.spawn(), time)
    }

    /// The command itself, for callers that run it in another way.
    pub fn into_command(mut self) -> Command {
        self.connect();
        self.command
    }

    /// Connects the output to the log file, or to pipes.
    fn connect(&mut self) {
        let (stdout, stderr) = match &self.log_file {
            None => (Stdio::piped(), Stdio::piped()),
            Some(path) => {
                let file = File::create(path).unwrap();
                (file.try_clone().unwrap().into(), file.into())
            }
        };
        self.command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    }

    fn spawn_with_input(mut self, input: Vec<u8>) -> Process {
        self.connect();
        let mut child = self.command.stdin(Stdio::piped()).spawn().unwrap_or_else(|error| {
            let program = self.command.get_program();
            panic!("{}: {error}", program.display())
        });
        let mut stdin = child.stdin.take().unwrap();
        std::thread::spawn(move || {
            // The process may end before it has read everything.
            let _ = stdin.write_all(&input);
        });
        let stdout = child.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut text = String::new();
                stdout.read_to_string(&mut text).unwrap();
                text
            })
        });
        let log = match self.log_file {
            Some(path) => Log::file(path),
            None => read_log(&mut child, self.last_line),
        };
        Process::new(child, stdout, log)
    }
}

/// Reads the log as it is written, so that the process never waits for a reader.
fn read_log(child: &mut Child, last_line: Option<&'static str>) -> Log {
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in stderr.lines() {
            let line = line.unwrap();
            let is_last = last_line.is_some_and(|text| line.contains(text));
            // The lines are kept only while the process is.
            let _ = sender.send(line);
            if is_last {
                break;
            }
        }
    });
    Log::pipe(lines)
}
