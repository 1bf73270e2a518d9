//! A chapter's shell: one bash for all its blocks, in a folder like the repository's, beside a server of its own.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use regex::Regex;

use super::ROOT;
use super::markdown::Block;
use crate::fixture::World;

/// Where `make run` serves, and so the book.
const DOCUMENTED: &str = "127.0.0.1:8080";

/// The PostgreSQL server of the book: where it is, and who may do everything there.
const DATABASE: &str = "@db.internal/flux";
const ADMIN: &str = "postgres://admin:secret@db.internal/flux";

/// The longest that a chapter may take, in seconds.
const PATIENCE: &str = "120";

/// What became of a block.
pub(super) struct Ran {
    /// None: it was never finished.
    pub(super) code: Option<i32>,
    /// What a person would have seen.
    pub(super) output: String,
}

/// What the examples are written with.
pub(super) fn missing_tools() -> Vec<String> {
    let there = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
    let missing = ["bash", "timeout", "curl", "sed", "awk"]
        .into_iter()
        .filter(|tool| !there(tool));
    missing
        .map(|tool| format!("{tool} is missing, and the book's examples use it"))
        .collect()
}

/// Runs blocks one after the other, after the prelude, and stops at the first that fails and should not.
pub(super) fn run(prelude: &str, blocks: &[&Block]) -> Vec<Ran> {
    let world = World::book();
    let work = world.work();
    for folder in ["k8s", "resources", "examples", "deploy", "docs"] {
        let target = Path::new(ROOT).canonicalize().unwrap().join(folder);
        if target.exists() {
            symlink(target, work.join(folder)).unwrap();
        }
    }
    fs::copy(format!("{ROOT}/data/seed.json"), work.join("data/seed.json")).unwrap();

    let scripts = world.home.path().join("blocks");
    fs::create_dir(&scripts).unwrap();
    let mut ports = Ports::new(&world.url);
    let database = blocks.iter().any(|block| block.text.contains(DATABASE));
    let database = database.then(Database::start);
    let mapped = |ports: &mut Ports, text: &str| {
        let text = ports.mapped(text);
        database
            .as_ref()
            .map_or(text.clone(), |database| database.mapped(&text))
    };
    fs::write(scripts.join("prelude"), ports.mapped(prelude)).unwrap();
    // What a block starts in the background ends with the chapter.
    let mut driver = String::from("set -Eeo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    driver.push_str("source ../blocks/prelude\n");
    if database.is_some() {
        driver.push_str(&format!("PATH={}:$PATH\n", pgtest::bin().display()));
    }
    for (n, block) in blocks.iter().enumerate() {
        fs::write(scripts.join(format!("{n}.sh")), mapped(&mut ports, &block.text)).unwrap();
        let run = format!("source ../blocks/{n}.sh >../blocks/{n}.out 2>&1 </dev/null");
        if block.is("fails") {
            driver.push_str(&format!("set +e\n{run}\necho $? >../blocks/{n}.code\nset -e\n"));
        } else {
            driver.push_str(&format!("{run}\necho 0 >../blocks/{n}.code\n"));
        }
    }
    world.file("driver", &driver);
    let line = format!("mv driver ../driver && exec timeout {PATIENCE} bash ../driver");
    world
        .command(&line)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();

    (0..blocks.len())
        .map(|n| Ran {
            code: fs::read_to_string(scripts.join(format!("{n}.code")))
                .ok()
                .map(|code| code.trim().parse().unwrap()),
            output: {
                let output = fs::read(scripts.join(format!("{n}.out"))).unwrap_or_default();
                let output = String::from_utf8_lossy(&output).replace(&work.display().to_string(), ".");
                let output = database
                    .as_ref()
                    .map_or(output.clone(), |database| database.restored(&output));
                ports.restored(&output)
            },
        })
        .collect()
}

/// A real server in the place of the book's.
struct Database(pgtest::Server);

impl Database {
    fn start() -> Self {
        let server = pgtest::Server::start(&[]);
        server.sql("postgres", "CREATE DATABASE flux");
        Database(server)
    }

    fn place(&self) -> String {
        format!("127.0.0.1:{}", self.0.port())
    }

    fn mapped(&self, text: &str) -> String {
        text.replace(ADMIN, &self.0.url("flux"))
            .replace(DATABASE, &format!("@{}/flux", self.place()))
    }

    fn restored(&self, text: &str) -> String {
        text.replace(&self.place(), "db.internal:5432")
    }
}

/// The addresses of the book, and those of this run.
struct Ports {
    actual: HashMap<String, String>,
}

impl Ports {
    fn new(url: &str) -> Ports {
        let actual = url.trim_start_matches("http://").to_owned();
        Ports {
            actual: HashMap::from([(DOCUMENTED.to_owned(), actual)]),
        }
    }

    fn mapped(&mut self, text: &str) -> String {
        let address = Regex::new(r"127\.0\.0\.1:\d+").unwrap();
        let replaced = address.replace_all(text, |found: &regex::Captures<'_>| {
            let free = || {
                TcpListener::bind("127.0.0.1:0")
                    .unwrap()
                    .local_addr()
                    .unwrap()
                    .to_string()
            };
            self.actual.entry(found[0].to_owned()).or_insert_with(free).clone()
        });
        replaced.into_owned() + "\n"
    }

    fn restored(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (documented, actual) in &self.actual {
            text = text.replace(actual, documented);
        }
        text
    }
}
