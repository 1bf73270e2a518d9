//! A server and a home folder for each test, and transcripts of commands with their output.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use regex::Regex;
use tempfile::TempDir;
use testkit::{Server, Setup, server_binary};

pub(crate) const CLI: &str = env!("CARGO_BIN_EXE_flux-resourceset-cli");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A running server, its store in memory, with the demo fleet unless said otherwise; and a home folder with nothing in it.
pub(crate) struct World {
    /// Stops when the world is dropped.
    _server: Server,
    pub(crate) url: String,
    pub(crate) home: TempDir,
    environment: Vec<(String, String)>,
}

impl World {
    pub(crate) fn demo() -> World {
        World::serving(&[("API_MODE", "crud")])
    }

    /// Four clusters in three tiers, each with what the demo has.
    pub(crate) fn fleet() -> World {
        World::demo().grown()
    }

    /// The same, where something may be removed from so many clusters.
    pub(crate) fn fleet_with_budget(clusters: &str) -> World {
        World::serving(&[("API_MODE", "crud"), ("REMOVAL_BUDGET", clusters)]).grown()
    }

    /// The demo, where each writer has a name: lines of `name:token`.
    pub(crate) fn with_writers(tokens: &str) -> World {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("writers"), tokens).unwrap();
        World::serving_in(home, &[("API_MODE", "crud"), ("CRUD_AUTH_TOKEN_FILE", "writers")])
    }

    /// The demo, where the server accepts the JWTs of an issuer.
    pub(crate) fn trusting(issuer: &str, audience: &str) -> World {
        World::serving(&[
            ("API_MODE", "crud"),
            ("OIDC_ISSUER", issuer),
            ("OIDC_AUDIENCE", audience),
        ])
    }

    /// The demo, where the server has these templates in place of the shipped ones.
    pub(crate) fn with_templates(text: &str) -> World {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("templates")).unwrap();
        fs::write(home.path().join("templates/all.yaml"), text).unwrap();
        World::serving_in(home, &[("API_MODE", "crud"), ("TEMPLATES_DIR", "templates")])
    }

    /// What `make run` starts, for the chapters of the book: a database in the folder where commands run, both programs on the
    /// path, and no variables set.
    pub(crate) fn book() -> World {
        let home = tempfile::tempdir().unwrap();
        let database = format!(
            "sqlite://{}/work/data/flux-resourceset.db?mode=rwc",
            home.path().display()
        );
        let settings = [
            ("API_MODE", "crud"),
            ("STORE_BACKEND", "sqlite"),
            ("DATABASE_URL", database.as_str()),
            ("AUTH_TOKEN", "demo-read-token"),
            ("CRUD_AUTH_TOKEN", "demo-write-token"),
        ];
        let world = World::serving_in(home, &settings);
        std::os::unix::fs::symlink(server_binary(), world.home.path().join("bin/flux-resourceset")).unwrap();
        world
            .without("FLUX_API_URL")
            .without("FLUX_API_TOKEN")
            .without("FLUX_API_WRITE_TOKEN")
            .with("NO_COLOR", "1")
    }

    fn grown(self) -> World {
        let world = self;
        let mut documents = String::new();
        for (id, tier, team) in [
            ("dev-1", "dev", "a"),
            ("dev-2", "dev", "b"),
            ("qa-1", "qa", "a"),
            ("prod-1", "prod", "b"),
        ] {
            documents.push_str(&format!(
                "---\nkind: clusters\nid: {id}\ncluster_name: {id}\ncluster_dns: {id}.example.com\nenvironment: {tier}\nlabels: {{team: {team}}}\n\
                 platform_components: [{{id: cert-manager}}, {{id: traefik}}, {{id: podinfo}}]\n"
            ));
        }
        world.file("fleet.yaml", &documents);
        let added = world.sh("flux-resourceset-cli apply -f fleet.yaml && rm fleet.yaml");
        assert_eq!(added.code, 0, "{}", added.stderr);
        world
    }

    pub(crate) fn read_only() -> World {
        World::serving(&[("API_MODE", "read-only")])
    }

    fn serving(settings: &[(&str, &str)]) -> World {
        World::serving_in(tempfile::tempdir().unwrap(), settings)
    }

    fn serving_in(home: TempDir, settings: &[(&str, &str)]) -> World {
        let setup = Setup::new(home.path())
            .env("STORE_BACKEND", "memory")
            .env("SEED_FILE", format!("{ROOT}/data/seed.json"))
            .env("LISTEN_ADDR", "127.0.0.1:0")
            .env("AUTH_TOKEN", "read-token")
            .env("CRUD_AUTH_TOKEN", "write-token")
            .env("NO_COLOR", "1");
        let setup = settings
            .iter()
            .fold(setup, |setup, (name, value)| setup.env(name, value));
        let server = setup.start();
        let work = home.path().join("work");
        fs::create_dir_all(work.join("target/debug")).unwrap();
        fs::create_dir_all(home.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(CLI, work.join("target/debug/flux-resourceset-cli")).unwrap();
        std::os::unix::fs::symlink(CLI, home.path().join("bin/flux-resourceset-cli")).unwrap();
        let url = server.url();
        let path = format!("{}/bin:{}", home.path().display(), std::env::var("PATH").unwrap());
        let environment = [
            ("PATH", path.as_str()),
            ("HOME", home.path().to_str().unwrap()),
            ("TMPDIR", home.path().to_str().unwrap()),
            ("FLUX_API_URL", &url),
            ("FLUX_API_TOKEN", "read-token"),
            ("FLUX_API_WRITE_TOKEN", "write-token"),
        ];
        let environment = environment
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        World {
            _server: server,
            url,
            home,
            environment,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> World {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> World {
        self.environment.retain(|(known, _)| known != name);
        self
    }

    /// A file in the folder that commands are run in.
    pub(crate) fn file(&self, name: &str, text: &str) {
        fs::write(self.work().join(name), text).unwrap();
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(line)
            .env_clear()
            .current_dir(self.work())
            .stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a line as a shell does.
    pub(crate) fn sh(&self, line: &str) -> Ran {
        let output = self.command(line).output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs lines one after the other, and gives what a person would have seen; stdout and stderr are told apart.
    pub(crate) fn transcript(&self, lines: &[&str]) -> String {
        let mut out = String::new();
        for line in lines {
            let ran = self.sh(line);
            out.push_str(&format!("$ {line}\n{}", ran.stdout));
            if !ran.stderr.is_empty() {
                out.push_str("--- stderr\n");
                out.push_str(&ran.stderr);
            }
            out.push_str(&format!("--- exit {}\n\n", ran.code));
        }
        self.tidy(&out)
    }

    /// What differs from run to run, by what it is.
    pub(crate) fn tidy(&self, text: &str) -> String {
        let mut text = text
            .replace(&self.url, "http://API")
            .replace(self.home.path().to_str().unwrap(), "HOME");
        for (pattern, name) in [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
            (r"[0-9a-f]{32}", "VERSION"),
            (r#"("request_id": ?)"[^"]*""#, "$1\"REQUEST\""),
            (r"HOME/flux-resourceset-edit-\w+", "KEPT"),
        ] {
            text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
        }
        text
    }

    /// Runs a command at a terminal, which `script` makes; `typing` is the shell that types.
    pub(crate) fn at_a_terminal(&self, line: &str, typing: &str) -> Ran {
        let _ = fs::remove_file(self.work().join("seen"));
        self.file("line", &format!("exec flux-resourceset-cli {line} >stdout\n"));
        self.file(
            "typing",
            &format!("asked() {{ n=0; until [ \"$(grep -c 'y/N' seen)\" -ge \"$1\" ] || [ $n -ge 400 ]; do n=$((n+1)); sleep 0.05; done; }}\n{typing}\n"),
        );
        let script = "script --quiet --flush --return --command 'sh line' seen >/dev/null";
        let mut ran = self.sh(&format!(
            "touch seen; sh typing | timeout 60 {script}; code=$?; cat stdout; exit $code"
        ));
        // What was on the terminal, without what `script` adds and what was typed.
        let seen = fs::read_to_string(self.work().join("seen")).unwrap();
        let seen = seen.replace("\r\n", "\n");
        ran.stderr = seen
            .lines()
            .filter(|line| !line.starts_with("Script "))
            .map(|line| format!("{line}\n"))
            .collect();
        ran
    }

    /// Runs lines at a terminal one after the other, each with the shell that types, and gives what a person would have seen.
    pub(crate) fn terminal_transcript(&self, lines: &[(&str, &str)]) -> String {
        let mut out = String::new();
        for (line, typing) in lines {
            let ran = self.at_a_terminal(line, typing);
            out.push_str(&format!(
                "$ {line}   # {typing}\n{}--- terminal\n{}--- exit {}\n\n",
                ran.stdout, ran.stderr, ran.code
            ));
        }
        self.tidy(&out)
    }

    /// Starts a command that goes on, and gives its lines as they come.
    pub(crate) fn follow(&self, line: &str) -> Following {
        let mut child = self
            .command(&format!("exec {line}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Following { child, lines }
    }
}

pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

pub(crate) struct Following {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Following {
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Ends the command; whatever it had still to say is thrown away.
    pub(crate) fn stop(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut rest = String::new();
        let _ = self.lines.read_to_string(&mut rest);
    }
}

/// A transcript held against what is known.
#[macro_export]
macro_rules! transcript {
    ($world:expr, $($line:expr),+ $(,)?) => {
        insta::with_settings!({omit_expression => true}, {
            insta::assert_snapshot!($world.transcript(&[$($line),+]))
        })
    };
}
