//! A reporter between the two.

use std::path::Path;
use std::time::Duration;

use flux_resourceset_reporter::config::{Access, Config, LogFormat, Token};
use flux_resourceset_reporter::{Pace, run};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::fleet::Fleet;
use crate::kubernetes::Kubernetes;

pub(crate) const DNS: &str = "a.example.com";
/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);

/// None if it takes too long.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> Option<T> {
    timeout(PATIENCE, future).await.ok()
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let waited = within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_some(), "never happened: {what}");
}

pub(crate) struct World {
    pub(crate) kubernetes: Kubernetes,
    pub(crate) fleet: Fleet,
    pub(crate) config: Config,
    pub(crate) pace: Pace,
    reporter: Option<JoinHandle<String>>,
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(reporter) = &self.reporter {
            reporter.abort();
        }
    }
}

impl World {
    /// Both APIs, before the reporter starts.
    pub(crate) async fn new() -> World {
        let fleet = Fleet::start().await;
        let config = Config {
            url: fleet.url(),
            dns: DNS.to_owned(),
            access: Access {
                token: Token::Given("secret".to_owned()),
                ..Access::default()
            },
            namespaces: vec!["flux-system".to_owned()],
            nudge: false,
            full_every: Duration::from_secs(600),
            log_format: LogFormat::Text,
            log_filter: "info".to_owned(),
        };
        World {
            kubernetes: Kubernetes::start().await,
            fleet,
            config,
            pace: Pace {
                quiet: Duration::from_millis(50),
                first_retry: Duration::from_millis(20),
                longest_retry: Duration::from_millis(100),
                look_again: Duration::from_millis(50),
                between_polls: Duration::from_millis(5),
                ..Pace::default()
            },
            reporter: None,
        }
    }

    pub(crate) async fn start(&mut self) {
        // kube asks for the one of the process; another test may have set it.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let uri = format!("http://{}", self.kubernetes.address).parse().unwrap();
        let client = kube::Client::try_from(kube::Config::new(uri)).unwrap();
        let (config, pace) = (self.config.clone(), self.pace);
        self.reporter = Some(tokio::spawn(async move { run(&config, client, pace).await }));
    }

    /// Our provider of a path.
    pub(crate) fn provider(&self, path: &str) -> Value {
        let url = format!("{}/api/v2/flux/clusters/{DNS}/{path}?marked=true", self.fleet.url());
        let spec = json!({"type": "ExternalService", "url": url});
        let mut provider = ready("ResourceSetInputProvider", path, "True");
        provider["metadata"]["annotations"] = json!({"fluxcd.controlplane.io/reconcileEvery": "5m"});
        provider["spec"] = spec;
        provider
    }

    /// A kubeconfig for the imitation.
    pub(crate) fn kubeconfig(&self, folder: &Path) -> std::path::PathBuf {
        let path = folder.join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": format!("http://{}", self.kubernetes.address)}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "flux-system"}}],
            "users": [{"name": "a", "user": {}}],
        });
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }
}

/// An object with a Ready condition.
pub(crate) fn ready(kind: &str, name: &str, status: &str) -> Value {
    json!({
        "apiVersion": "any/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "flux-system", "uid": format!("uid-{name}"), "generation": 2, "annotations": {}},
        "status": {
            "observedGeneration": 2,
            "conditions": [{
                "type": "Ready", "status": status, "reason": "Because", "message": "of it", "observedGeneration": 2,
                "lastTransitionTime": "2026-11-16T10:00:00Z",
            }],
        },
    })
}

/// A release that came of an input.
pub(crate) fn release(id: &str, status: &str) -> Value {
    let mut release = ready("HelmRelease", &format!("platform-{id}"), status);
    release["metadata"]["annotations"] = json!({
        "event.toolkit.fluxcd.io/input": format!("platform-components/{id}"),
        "event.toolkit.fluxcd.io/desired": "00000000000000ff",
    });
    release["status"]["history"] = json!([{"chartVersion": "6.7.1"}]);
    release
}
