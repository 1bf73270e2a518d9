//! Builds folders with the real kustomize: the program itself, or the one in kubectl.

use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use super::{Checked, Tree};
use crate::error::Failure;
use crate::process::{self, Capture};

/// How long the build of one folder may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How much of a message is shown.
const MOST_TEXT: usize = 1000;
/// Nothing listens on this address: requests that go through it fail at once.
const NO_PROXY: &str = "http://127.0.0.1:9";

/// A program that builds kustomizations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builder {
    Kustomize,
    Kubectl,
}

impl Builder {
    /// The first program that is on the PATH and works.
    pub(crate) fn find() -> Option<Builder> {
        let works = |builder: &Builder| {
            let mut command = builder.command();
            let ran = process::run(command.arg("--help").stderr(Stdio::null()), Capture::Stdout, LIMIT);
            ran.is_ok_and(|(status, _)| status.success())
        };
        [Builder::Kustomize, Builder::Kubectl].into_iter().find(works)
    }

    /// The program, for people.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Builder::Kustomize => "kustomize",
            Builder::Kubectl => "kubectl",
        }
    }

    /// The command that builds a folder.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Builder::Kustomize => "kustomize build",
            Builder::Kubectl => "kubectl kustomize",
        }
    }

    fn command(self) -> Command {
        let mut words = self.name().split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }

    /// Builds every folder that names nothing outside of the repository, and reports those that fail. Returns how many were
    /// built. Folders are built in parallel, one for each processor.
    pub(crate) fn build_all(self, tree: &Tree, checked: &mut Checked) -> Result<usize, Failure> {
        // A relative path could be taken for the address of a repository.
        let root = tree.root().canonicalize();
        let root = root.map_err(|error| Failure::file(tree.root(), &error))?;
        let folders: Vec<&str> = checked.kustomizations.buildable().collect();
        let (rest, failed) = (Mutex::new(folders.iter()), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
                scope.spawn(|| {
                    while let Some(folder) = next(&rest) {
                        if let Err(message) = self.build(&root, folder) {
                            let mut failed = failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                            failed.push(((*folder).to_owned(), message));
                        }
                    }
                });
            }
        });
        let built = folders.len();
        for (folder, message) in failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            checked.findings.problem(&folder, "", message);
        }
        Ok(built)
    }

    /// Builds one folder. The message of an error is kustomize's own.
    fn build(self, root: &Path, folder: &str) -> Result<(), String> {
        let mut command = self.command();
        command.arg(root.join(folder));
        // Remote paths are a problem already, and such folders are not built. These make sure that nothing is fetched.
        command.env("GIT_ALLOW_PROTOCOL", "none");
        for variable in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(variable, NO_PROXY);
        }
        command.env_remove("NO_PROXY").env_remove("no_proxy");
        let name = self.name();
        let (status, stderr) =
            process::run(&mut command, Capture::Stderr, LIMIT).map_err(|detail| format!("{name} {detail}"))?;
        if status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&stderr).replace(&format!("{}/", root.display()), "");
        let words: Vec<&str> = text.split_whitespace().collect();
        let text: String = words.join(" ").chars().take(MOST_TEXT).collect();
        Err(format!("{name} failed: {text}"))
    }
}

fn next<'a, T>(rest: &Mutex<std::slice::Iter<'a, T>>) -> Option<&'a T> {
    rest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next()
}
