//! Our side: the server as it is deployed (one process that Flux polls over TLS, one that operators write to, on one database) and
//! the command line that operators use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;

use crate::certificates::Certificates;
use crate::process::{Process, free_address};
use crate::{Args, Result, wait};

pub(crate) const READ_TOKEN: &str = "what-clusters-read-with";
const WRITE_TOKEN: &str = "what-operators-write-with";

/// After how long without a poll a cluster is silent. By default it is 20 minutes, which a test need not wait for.
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(20);

/// The exit code of a command, its stdout and its stderr.
type Ran = (i32, String, String);

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
    certificates: Certificates,
    authority_file: PathBuf,
    /// The certificate and the key of the process that clusters poll.
    server_files: (PathBuf, PathBuf),
    agent: Agent,
}

impl Fleet {
    /// Knows where everything will be; nothing is started yet.
    pub(crate) fn new(args: &Args, seed: &Value, work: &Path, logs: &Path) -> Result<Fleet> {
        let work = work.join("fleet");
        fs::create_dir_all(&work)?;
        fs::write(work.join("seed.json"), seed.to_string())?;
        let certificates = Certificates::new(&work.join("certificates"))?;
        let server_files = certificates.sign("127.0.0.1")?;
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
            authority_file: certificates.authority_file(),
            certificates,
            server_files,
            agent: Agent::config_builder()
                .timeout_global(Some(Duration::from_secs(10)))
                .build()
                .new_agent(),
        })
    }

    /// Where clusters phone home.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.read_address)
    }

    /// Where operators write.
    pub(crate) fn write_url(&self) -> String {
        format!("http://{}", self.write_address)
    }

    pub(crate) fn certificates(&self) -> &Certificates {
        &self.certificates
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
            .env("SILENT_AFTER", format!("{}s", SILENT_AFTER.as_secs()))
            .env("RUST_LOG", "info,flux_resourceset=debug");
        if mode == "read-only" {
            command.envs(self.tls());
        }
        let process = Process::start(name, &mut command, &self.logs)?;
        wait::until(name, || self.healthy(mode, address))?;
        Ok(process)
    }

    /// Only the process that clusters poll has TLS: operators write to the other one on a network of their own.
    fn tls(&self) -> [(&'static str, &Path); 3] {
        let (certificate, key) = &self.server_files;
        [
            ("TLS_CERT_FILE", certificate),
            ("TLS_KEY_FILE", key),
            ("TLS_CLIENT_CA_FILE", &self.authority_file),
        ]
    }

    /// Succeeds when the server is ready, as the probe of a pod would ask it.
    fn healthy(&self, mode: &str, address: &str) -> Result<()> {
        let mut command = Command::new(&self.server);
        command.arg("healthcheck").env_clear().env("LISTEN_ADDR", address);
        if mode == "read-only" {
            command.envs(self.tls());
        }
        let output = command.output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into()),
        }
    }

    /// What the command line needs to know.
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("FLUX_API_URL", self.write_url()),
            ("FLUX_API_TOKEN", READ_TOKEN.to_owned()),
            ("FLUX_API_WRITE_TOKEN", WRITE_TOKEN.to_owned()),
        ]
    }

    fn command(&self, arguments: &[&str]) -> Result<Ran> {
        self.command_with(&self.environment(), arguments)
    }

    /// Runs a command with another token, against the process that clusters poll.
    pub(crate) fn with_token(&self, token: &str, arguments: &[&str]) -> Result<Ran> {
        let authority = self.authority_file.display().to_string();
        let environment = [
            ("FLUX_API_URL", self.url()),
            ("FLUX_API_TOKEN", token.to_owned()),
            ("FLUX_API_CA_FILE", authority),
        ];
        self.command_with(&environment, arguments)
    }

    /// The same without trust in our authority.
    pub(crate) fn without_authority(&self, token: &str, arguments: &[&str]) -> Result<Ran> {
        let environment = [("FLUX_API_URL", self.url()), ("FLUX_API_TOKEN", token.to_owned())];
        self.command_with(&environment, arguments)
    }

    /// Runs a command in another environment.
    pub(crate) fn command_with(&self, environment: &[(&'static str, String)], arguments: &[&str]) -> Result<Ran> {
        let output = Command::new(&self.cli)
            .args(arguments)
            .current_dir(&self.work)
            .env_clear()
            .env("HOME", &self.work)
            .env("PATH", &self.tools)
            .envs(environment.iter().map(|(name, value)| (*name, value)))
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

    /// What the process for operators answers.
    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        let mut reply = self
            .agent
            .get(format!("{}{path}", self.write_url()))
            .header("Authorization", format!("Bearer {READ_TOKEN}"))
            .call()
            .map_err(|error| format!("GET {path}: {error}"))?;
        Ok(serde_json::from_str(&reply.body_mut().read_to_string()?)?)
    }

    /// Polls as the Flux of a cluster that is only simulated does.
    pub(crate) fn poll(&self, dns: &str, path: &str) -> Result<Value> {
        let path = format!("/api/v2/flux/clusters/{dns}/{path}?marked=true");
        let mut reply = self
            .agent
            .get(format!("{}{path}", self.write_url()))
            .header("Authorization", format!("Bearer {READ_TOKEN}"))
            .header("User-Agent", "flux-operator/simulated")
            .call()
            .map_err(|error| format!("GET {path}: {error}"))?;
        Ok(serde_json::from_str(&reply.body_mut().read_to_string()?)?)
    }

    /// Sends something as an operator.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<()> {
        self.confirmed(path, body, None)
    }

    /// The same, with the number of clusters that may lose something.
    pub(crate) fn confirmed(&self, path: &str, body: &Value, removals: Option<usize>) -> Result<()> {
        let mut request = self
            .agent
            .post(format!("{}{path}", self.write_url()))
            .header("Authorization", format!("Bearer {WRITE_TOKEN}"))
            .header("Content-Type", "application/json");
        if let Some(count) = removals {
            request = request.header("X-Confirm-Removals", count.to_string());
        }
        request
            .send(body.to_string())
            .map_err(|error| format!("POST {path}: {error}"))?;
        Ok(())
    }

    /// A file for a command to read, which runs in the same folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.work.join(name), text)?)
    }
}
