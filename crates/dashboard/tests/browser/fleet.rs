//! A server with a fleet: clusters in four environments, which poll and report when a test says so.

use serde_json::{Value, json};
use testkit::client::{Client, Reply};
use testkit::{Folder, Server, Setup};

const AGENT: &str = "flux-operator/v0.58.1";
const PATHS: [&str; 3] = ["platform-components", "namespaces", "rolebindings"];
/// How many clusters of eight are in which environment, and what their regions are.
const ENVIRONMENTS: [&str; 8] = ["prod", "dev", "prod", "uat", "prod", "qa", "prod", "dev"];
const REGIONS: [&str; 4] = ["eu-west", "us-east", "ap-south", "eu-north"];
/// Components with their versions. The first ones are on every cluster, the others on those of the tier gold.
const COMPONENTS: [(&str, &str); 6] = [
    ("cert-manager", "1.16.2"),
    ("traefik", "33.2.1"),
    ("podinfo", "6.7.0"),
    ("external-dns", "1.15.0"),
    ("kyverno", "3.3.4"),
    ("loki", "6.24.0"),
];
const ON_ALL: usize = 3;

pub(crate) struct Fleet {
    pub(crate) server: Server,
    _folder: Folder,
}

/// What came of a cluster's inputs.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    Ready,
    /// This component fails, for a reason and with a message.
    Fails(&'static str, &'static str, &'static str),
}

impl Fleet {
    /// A fleet of a dozen clusters.
    pub(crate) fn small() -> Fleet {
        Fleet::of(12)
    }

    pub(crate) fn of(clusters: usize) -> Fleet {
        Fleet::with(clusters, |setup| setup)
    }

    pub(crate) fn with(clusters: usize, change: impl FnOnce(Setup) -> Setup) -> Fleet {
        let folder = Folder::new();
        let seed = folder.seed(&seed(clusters));
        let server = change(folder.crud().env("SEED_FILE", seed)).start();
        Fleet::on(server, folder)
    }

    /// The fleet of a server that was started otherwise, on a seed of this module.
    pub(crate) fn on(server: Server, folder: Folder) -> Fleet {
        Fleet {
            server,
            _folder: folder,
        }
    }

    pub(crate) fn admin(&self) -> Client {
        self.server.writer()
    }

    /// Changes fields of a document, as somebody else does meanwhile.
    pub(crate) fn patch(&self, path: &str, fields: &Value) -> Reply {
        let headers = [("content-type", "application/json"), ("x-change-reason", "by the API")];
        let body = fields.to_string();
        self.admin().send("PATCH", path, &headers, body.as_bytes()).expect(200)
    }

    /// A new identity with one token: the token and its id.
    pub(crate) fn identity(&self, identity: &Value) -> (String, String) {
        self.admin().post("/identities", identity).expect(201);
        let path = format!("/identities/{}/tokens", identity["id"].as_str().unwrap());
        let issued = self.admin().post(&path, &json!({})).expect(201).json();
        let text = |field: &str| issued[field].as_str().unwrap().to_owned();
        (text("token"), text("id"))
    }

    /// A cluster polls everything, as Flux does.
    pub(crate) fn poll(&self, id: &str) -> Value {
        let [components, ..] = PATHS.map(|path| {
            let path = format!("/api/v2/flux/clusters/{}/{path}?marked=true", dns(id));
            let headers = [("user-agent", AGENT)];
            self.server.reader().send("GET", &path, &headers, &[]).expect(200)
        });
        components.json()
    }

    /// A cluster polls, and its reporter tells what came of it.
    pub(crate) fn report(&self, id: &str, outcome: Outcome) {
        let inputs = self.poll(id);
        let objects: Vec<Value> = inputs["inputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|input| observed(input, outcome))
            .collect();
        let body = json!({
            "at": now(), "reporter": "flux-resourceset-reporter/0.1.0", "full": true, "objects": objects,
            "providers": [{"name": "platform-components", "ready": true}],
        });
        let path = format!("/api/v2/flux/clusters/{}/report", dns(id));
        self.admin().post(&path, &body).expect(202);
    }

    /// Every cluster has everything.
    pub(crate) fn converge(&self) {
        for id in self.admin().ids("clusters") {
            self.report(&id, Outcome::Ready);
        }
    }
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn observed(input: &Value, outcome: Outcome) -> Value {
    let name = input["id"].as_str().unwrap();
    let (ready, reason, message) = match outcome {
        Outcome::Fails(component, reason, message) if component == name => (false, reason, message),
        _ => (true, "UpgradeSucceeded", "Helm upgrade succeeded"),
    };
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": "flux-system", "name": name,
        "uid": format!("uid-{name}"), "resourceVersion": "7", "ready": ready, "reason": reason, "message": message,
        "version": input["source"]["oci_tag"], "input": format!("platform-components/{name}"),
        "desired": input["desired"]["input"], "at": now(),
    })
}

pub(crate) fn dns(id: &str) -> String {
    format!("{id}.k8s.example.com")
}

pub(crate) fn seed(clusters: usize) -> Value {
    let components: Vec<Value> = COMPONENTS
        .iter()
        .map(|(id, version)| {
            json!({
                "id": id, "component_path": id, "component_version": version, "cluster_env_enabled": false,
                "oci_url": format!("https://charts.example.com/{id}"), "oci_tag": version, "depends_on": [],
            })
        })
        .collect();
    let namespaces: Vec<Value> = ["ingress", "monitoring"]
        .iter()
        .map(|id| json!({"id": id, "labels": {"team": "platform"}, "annotations": {}}))
        .collect();
    let subjects = json!([{"kind": "Group", "name": "platform", "apiGroup": "rbac.authorization.k8s.io"}]);
    json!({
        "platform_components": components,
        "namespaces": namespaces,
        "rolebindings": [{"id": "platform-admins", "role": "cluster-admin", "subjects": subjects}],
        "clusters": (0..clusters).map(cluster).collect::<Vec<_>>(),
    })
}

/// The id of a cluster, such as `prod-eu-west-000`.
pub(crate) fn id(n: usize) -> String {
    format!("{}-{}-{n:03}", ENVIRONMENTS[n % 8], REGIONS[n / 8 % 4])
}

fn cluster(n: usize) -> Value {
    let is_gold = n.is_multiple_of(4);
    let references = if is_gold { COMPONENTS.len() } else { ON_ALL };
    let references: Vec<Value> = COMPONENTS[..references]
        .iter()
        .map(|(component, _)| match *component {
            // Some are not where the catalog is.
            "traefik" if n % 16 == 5 => json!({"id": component, "oci_tag": "32.1.0"}),
            _ => json!({"id": component}),
        })
        .collect();
    json!({
        "id": id(n), "cluster_name": id(n), "cluster_dns": dns(&id(n)), "environment": ENVIRONMENTS[n % 8],
        "labels": {
            "region": REGIONS[n / 8 % 4], "tier": if is_gold { "gold" } else { "silver" }, "ring": if n % 12 < 2 { "canary" } else { "main" },
        },
        "platform_components": references, "namespaces": [{"id": "ingress"}, {"id": "monitoring"}],
        "rolebindings": [{"id": "platform-admins"}],
    })
}
