//! A real Prometheus.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::{Folder, eventually};

/// Scrapes this often, so that there are rates after a few seconds.
pub const INTERVAL: &str = "1s";

pub struct Prometheus {
    process: Child,
    client: Client,
    _folder: Folder,
}

impl Prometheus {
    pub fn start(scrape: &Value) -> Prometheus {
        let folder = Folder::new();
        let config = folder.write("prometheus.yml", json!({ "scrape_configs": [scrape] }).to_string());
        let address: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus: run `make alerts`, which installs it");
        let prometheus = Prometheus {
            process,
            client: Client::new(address, None),
            _folder: folder,
        };
        eventually("Prometheus is ready", || {
            let reply = prometheus.client.try_send("GET", "/-/ready", &[], &[]);
            reply.is_ok_and(|reply| reply.status == 200)
        });
        prometheus
    }

    fn get(&self, path: &str, parameter: &str, value: &str) -> Result<Value, String> {
        let encoded = value.bytes().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "%{byte:02X}");
            text
        });
        let reply = self.client.get(&format!("/api/v1/{path}?{parameter}={encoded}"));
        let mut body = reply.json();
        match reply.status {
            200 => Ok(body["data"].take()),
            status => Err(format!("{status} {}", body["error"])),
        }
    }

    /// The samples that a query finds now.
    pub fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let mut data = self.get("query", "query", query)?;
        match data["result"].take() {
            Value::Array(samples) => Ok(samples),
            other => Err(format!("no samples: {other}")),
        }
    }

    /// The label sets of all series that match.
    pub fn series(&self, matcher: &str) -> Vec<Value> {
        self.get("series", "match[]", matcher)
            .unwrap()
            .as_array()
            .unwrap()
            .clone()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
