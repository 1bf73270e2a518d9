//! Our side: the server as it is deployed (one process that Flux polls, one that operators write to, on one database) and the
//! command line that operators use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::{Process, free_address};
use crate::{Args, Result, wait};

pub(crate) const READ_TOKEN: &str = "what-clusters-read-with";
const WRITE_TOKEN: &str = "what-operators-write-with";

#[derive(Debug)]
pub(crate) struct Fleet {
    server: PathBuf,
    cli: PathBuf,
    /// The folder of kubectl, which the command line builds kustomizations with.
    tools: PathBuf,
    work: PathBuf,
    logs: PathBuf,
    read: Option<Process>,
    write: Option<Process>,
    read_address: String,
    write_address: String,
}

impl Fleet {
    /// Knows where everything will be; nothing is started yet.
    pub(crate) fn new(args: &Args, seed: &Value, work: &Path, logs: &Path) -> Result<Fleet> {
        let work = work.join("fleet");
        fs::create_dir_all(&work)?;
        fs::write(work.join("seed.json"), seed.to_string())?;
        Ok(Fleet {
            server: args.server.clone(),
            cli: args.cli.clone(),
            tools: args.kubectl.parent().unwrap_or(Path::new("")).to_owned(),
            work,
            logs: logs.to_owned(),
            read: None,
            write: None,
            read_address: free_address()?,
            write_address: free_address()?,
        })
    }

    /// Where clusters phone home.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.read_address)
    }

    pub(crate) fn start(&mut self) -> Result<()> {
        self.write = Some(self.serve("fleet-write", "crud", &self.write_address)?);
        self.start_reads()
    }

    /// Starts the process that clusters poll.
    pub(crate) fn start_reads(&mut self) -> Result<()> {
        self.read = Some(self.serve("fleet-read", "read-only", &self.read_address)?);
        Ok(())
    }

    pub(crate) fn stop_reads(&mut self) -> Result<()> {
        self.read.take().map_or(Ok(()), Process::stop)
    }

    pub(crate) fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        [&mut self.read, &mut self.write].into_iter().flatten()
    }

    fn serve(&self, name: &str, mode: &str, address: &str) -> Result<Process> {
        let mut command = Command::new(&self.server);
        command
            .current_dir(&self.work)
            .env_clear()
            .env("API_MODE", mode)
            .env("LISTEN_ADDR", address)
            .env("STORE_BACKEND", "sqlite")
            .env(
                "DATABASE_URL",
                format!("sqlite://{}?mode=rwc", self.work.join("fleet.db").display()),
            )
            .env("SEED_FILE", self.work.join("seed.json"))
            .env("AUTH_TOKEN", READ_TOKEN)
            .env("CRUD_AUTH_TOKEN", WRITE_TOKEN)
            .env("RUST_LOG", "info,flux_resourceset=debug");
        let process = Process::start(name, &mut command, &self.logs)?;
        let url = format!("http://{address}/ready");
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(5)))
            .build()
            .new_agent();
        wait::until(name, || {
            agent.get(&url).call()?;
            Ok(())
        })?;
        Ok(process)
    }

    /// What the command line needs to know.
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("FLUX_API_URL", format!("http://{}", self.write_address)),
            ("FLUX_API_TOKEN", READ_TOKEN.to_owned()),
            ("FLUX_API_WRITE_TOKEN", WRITE_TOKEN.to_owned()),
        ]
    }

    fn command(&self, arguments: &[&str]) -> Result<(i32, String, String)> {
        let output = Command::new(&self.cli)
            .args(arguments)
            .current_dir(&self.work)
            .env_clear()
            .env("HOME", &self.work)
            .env("PATH", &self.tools)
            .envs(self.environment())
            .output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Ok((
            output.status.code().unwrap_or(-1),
            text(&output.stdout),
            text(&output.stderr),
        ))
    }

    /// Runs a command that must succeed, and gives what it prints.
    pub(crate) fn cli(&self, arguments: &[&str]) -> Result<Value> {
        match self.command(arguments)? {
            (0, stdout, _) => Ok(serde_json::from_str(&stdout).unwrap_or(Value::String(stdout))),
            (code, stdout, stderr) => Err(format!(
                "flux-resourceset-cli {} exits with {code}: {stderr}{stdout}",
                arguments.join(" ")
            )
            .into()),
        }
    }

    /// Runs a command that the server must refuse, and gives the reason.
    pub(crate) fn refused(&self, arguments: &[&str]) -> Result<String> {
        match self.command(arguments)? {
            (1, _, stderr) => Ok(stderr),
            (code, stdout, stderr) => Err(format!(
                "flux-resourceset-cli {} should be refused, but exits with {code}: {stderr}{stdout}",
                arguments.join(" ")
            )
            .into()),
        }
    }

    /// A file for a command to read, which runs in the same folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.work.join(name), text)?)
    }
}
