//! A thin client of the Kubernetes API: JSON in, JSON out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;
use ureq::tls::{Certificate, PemItem, TlsConfig, parse_pem};

use crate::{Result, wait};

/// A kind of object, by where the API has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// `api/v1`, or `apis/` with group and version.
    api: &'static str,
    plural: &'static str,
}

const fn kind(api: &'static str, plural: &'static str) -> Kind {
    Kind { api, plural }
}

pub(crate) const CONFIG_MAP: Kind = kind("api/v1", "configmaps");
pub(crate) const SECRET: Kind = kind("api/v1", "secrets");
pub(crate) const NAMESPACE: Kind = kind("api/v1", "namespaces");
pub(crate) const CLUSTER_ROLE_BINDING: Kind = kind("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings");
pub(crate) const DEPLOYMENT: Kind = kind("apis/apps/v1", "deployments");
pub(crate) const NETWORK_POLICY: Kind = kind("apis/networking.k8s.io/v1", "networkpolicies");
pub(crate) const CRD: Kind = kind("apis/apiextensions.k8s.io/v1", "customresourcedefinitions");
pub(crate) const PROVIDER: Kind = kind("apis/fluxcd.controlplane.io/v1", "resourcesetinputproviders");
pub(crate) const RESOURCE_SET: Kind = kind("apis/fluxcd.controlplane.io/v1", "resourcesets");
pub(crate) const HELM_RELEASE: Kind = kind("apis/helm.toolkit.fluxcd.io/v2", "helmreleases");
pub(crate) const HELM_REPOSITORY: Kind = kind("apis/source.toolkit.fluxcd.io/v1", "helmrepositories");
pub(crate) const HELM_CHART: Kind = kind("apis/source.toolkit.fluxcd.io/v1", "helmcharts");
pub(crate) const OCI_REPOSITORY: Kind = kind("apis/source.toolkit.fluxcd.io/v1", "ocirepositories");
pub(crate) const KUSTOMIZATION: Kind = kind("apis/kustomize.toolkit.fluxcd.io/v1", "kustomizations");

impl Kind {
    pub(crate) fn plural(self) -> &'static str {
        self.plural
    }
}

/// Asks for a reconciliation now.
const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// Every object of a cluster by kind, namespace and name, each with the text of its desired state.
pub(crate) type Inventory = BTreeMap<String, String>;

/// The API of one cluster, as its administrator.
#[derive(Debug)]
pub(crate) struct Kube {
    agent: Agent,
    url: String,
    token: String,
}

/// A resource that discovery names.
#[derive(Debug)]
pub(crate) struct Resource {
    api: String,
    plural: String,
    kind: String,
    namespaced: bool,
    listed: bool,
}

impl Kube {
    /// `certificates` is the file that the API server wrote: its certificate and the one that signed it.
    pub(crate) fn new(url: String, token: String, certificates: &Path) -> Result<Kube> {
        let text = std::fs::read(certificates)?;
        let certificates: Vec<Certificate<'static>> = parse_pem(&text)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        let tls = TlsConfig::builder()
            .root_certs(certificates.into())
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .build();
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(30)))
            .tls_config(tls)
            .build()
            .new_agent();
        Ok(Kube { agent, url, token })
    }

    fn call(&self, method: &str, path: &str, media: &str, body: &str) -> Result<(u16, String)> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/{path}", self.url))
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Content-Type", media)
            .body(body)?;
        let mut reply = self.agent.run(request)?;
        Ok((
            reply.status().as_u16(),
            reply.body_mut().with_config().limit(64 << 20).read_to_string()?,
        ))
    }

    /// A call that may find nothing.
    fn find(&self, method: &str, path: &str, media: &str, body: &str) -> Result<Option<Value>> {
        match self.call(method, path, media, body)? {
            (404, _) => Ok(None),
            (200..300, text) => Ok(Some(serde_json::from_str(&text)?)),
            (status, text) => Err(format!("{method} {path}: {status} {text}").into()),
        }
    }

    /// The host and port of the API.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("https://")
    }

    /// A new token of a ServiceAccount, as a pod gets it.
    pub(crate) fn account_token(&self, namespace: &str, name: &str) -> Result<String> {
        let path = format!("api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let reply = self.find("POST", &path, "application/json", &request.to_string())?;
        let reply = reply.ok_or_else(|| format!("there is no ServiceAccount {namespace}/{name}"))?;
        Ok(text(&reply["status"]["token"]).to_owned())
    }

    pub(crate) fn ready(&self) -> Result<()> {
        match self.call("GET", "readyz", "application/json", "")? {
            (200, _) => Ok(()),
            (status, text) => Err(format!("/readyz says {status} {text}").into()),
        }
    }

    pub(crate) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Result<Option<Value>> {
        self.find("GET", &path(kind, namespace, name), "application/json", "")
    }

    /// An object that must be there.
    pub(crate) fn need(&self, kind: Kind, namespace: &str, name: &str) -> Result<Value> {
        let found = self.get(kind, namespace, name)?;
        found.ok_or_else(|| format!("there is no {} {namespace}/{name}", kind.plural).into())
    }

    /// Succeeds when the object is not there.
    pub(crate) fn gone(&self, kind: Kind, namespace: &str, name: &str) -> Result<()> {
        match self.get(kind, namespace, name)? {
            None => Ok(()),
            Some(_) => Err(format!("{} {namespace}/{name} is still there", kind.plural).into()),
        }
    }

    pub(crate) fn list(&self, kind: Kind) -> Result<Vec<Value>> {
        let path = format!("{}/{}", kind.api, kind.plural);
        let found = self.find("GET", &path, "application/json", "")?;
        Ok(items(found.unwrap_or_default()))
    }

    /// What was written to an object after a resource version, in order: the API server replays it to a watch. Fails if the object
    /// was deleted meanwhile.
    pub(crate) fn history(&self, kind: Kind, namespace: &str, name: &str, since: &str) -> Result<Vec<Value>> {
        let path = format!(
            "{}/namespaces/{namespace}/{}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3D{name}&resourceVersion={since}",
            kind.api, kind.plural
        );
        let (status, replayed) = self.call("GET", &path, "application/json", "")?;
        if status != 200 {
            return Err(format!("GET {path}: {status} {replayed}").into());
        }
        let mut written = Vec::new();
        for line in replayed.lines() {
            let mut event: Value = serde_json::from_str(line)?;
            match text(&event["type"]) {
                "ADDED" | "MODIFIED" => written.push(event["object"].take()),
                other => {
                    return Err(format!("{other} of {} {namespace}/{name}: {}", kind.plural, event["object"]).into());
                }
            }
        }
        Ok(written)
    }

    /// RFC 7396 on an object.
    pub(crate) fn merge(&self, kind: Kind, namespace: &str, name: &str, change: &Value) -> Result<()> {
        let path = path(kind, namespace, name);
        let found = self.find("PATCH", &path, "application/merge-patch+json", &change.to_string())?;
        found.map(drop).ok_or_else(|| format!("there is no {path}").into())
    }

    /// Asks Flux to look at an object now, as `flux reconcile` does.
    pub(crate) fn reconcile(&self, kind: Kind, namespace: &str, name: &str) -> Result<()> {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)?
            .as_nanos();
        let annotations = json!({REQUESTED_AT: now.to_string()});
        self.merge(
            kind,
            namespace,
            name,
            &json!({"metadata": {"annotations": annotations}}),
        )
    }

    /// Server-side apply of objects of any kind, in order, as `kubectl apply --server-side` does.
    pub(crate) fn apply(&self, objects: &[Value]) -> Result<()> {
        let mut known = self.resources()?;
        for object in objects {
            let path = match object_path(&known, object) {
                Ok(path) => path,
                Err(_) => {
                    known = self.resources()?;
                    object_path(&known, object)?
                }
            };
            let path = format!("{path}?fieldManager=e2e&force=true");
            let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
            match self.call("PATCH", &path, "application/apply-patch+yaml", &object.to_string())? {
                (200..300, _) => {}
                (status, text) => return Err(format!("apply {kind} {name}: {status} {text}").into()),
            }
        }
        Ok(())
    }

    /// Installs definitions, and comes back when all of them are served.
    pub(crate) fn define(&self, crds: &[Value]) -> Result<()> {
        self.apply(crds)?;
        for crd in crds {
            let name = text(&crd["metadata"]["name"]);
            wait::until(&format!("{name} to be served"), || {
                let crd = self.need(CRD, "", name)?;
                let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
                match conditions.any(|it| it["type"] == "Established" && it["status"] == "True") {
                    true => Ok(()),
                    false => Err("not established yet".into()),
                }
            })?;
        }
        Ok(())
    }

    /// The errors and warnings of the API server about an object, as `kubectl apply --server-side --dry-run=server
    /// --validate=strict` would tell. Nothing is changed.
    pub(crate) fn dry_run(&self, known: &[Resource], object: &Value) -> Result<Vec<String>> {
        let path = match object_path(known, object) {
            Ok(path) => path,
            Err(unknown) => return Ok(vec![unknown.to_string()]),
        };
        let request = Request::builder()
            .method("PATCH")
            .uri(format!(
                "{}/{path}?fieldManager=e2e&force=true&dryRun=All&fieldValidation=Strict",
                self.url
            ))
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Content-Type", "application/apply-patch+yaml")
            .body(object.to_string())?;
        let mut reply = self.agent.run(request)?;
        let warnings = reply.headers().get_all("Warning").iter();
        let mut problems: Vec<String> = warnings
            .map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned())
            .collect();
        if !reply.status().is_success() {
            let status: Value = serde_json::from_str(&reply.body_mut().read_to_string()?)?;
            problems.push(text(&status["message"]).to_owned());
        }
        Ok(problems)
    }

    /// What discovery lists, one version of each kind after the other.
    pub(crate) fn resources(&self) -> Result<Vec<Resource>> {
        let mut apis = vec!["api/v1".to_owned()];
        let groups = self.find("GET", "apis", "application/json", "")?.unwrap_or_default();
        for group in groups["groups"].as_array().into_iter().flatten() {
            let versions = group["versions"].as_array().into_iter().flatten();
            apis.extend(versions.map(|version| format!("apis/{}", text(&version["groupVersion"]))));
        }
        let mut found = Vec::new();
        for api in apis {
            let list = self.find("GET", &api, "application/json", "")?.unwrap_or_default();
            for resource in list["resources"].as_array().into_iter().flatten() {
                let name = text(&resource["name"]);
                if name.contains('/') {
                    continue;
                }
                let verbs = resource["verbs"].as_array().into_iter().flatten();
                found.push(Resource {
                    api: api.clone(),
                    plural: name.to_owned(),
                    kind: text(&resource["kind"]).to_owned(),
                    namespaced: resource["namespaced"] == true,
                    listed: verbs.into_iter().any(|verb| verb == "list"),
                });
            }
        }
        Ok(found)
    }

    /// Every object of the cluster, except those that only report events.
    pub(crate) fn inventory(&self) -> Result<Inventory> {
        const FLEETING: [&str; 4] = ["events", "leases", "componentstatuses", "fluxreports"];
        let mut inventory = Inventory::new();
        for resource in self.resources()? {
            if !resource.listed || FLEETING.contains(&resource.plural.as_str()) {
                continue;
            }
            let path = format!("{}/{}", resource.api, resource.plural);
            let found = self.find("GET", &path, "application/json", "")?;
            for mut object in items(found.unwrap_or_default()) {
                let metadata = object["metadata"].take();
                let place = match text(&metadata["namespace"]) {
                    "" => String::new(),
                    namespace => format!("{namespace}/"),
                };
                let key = format!("{} {place}{}", resource.kind, text(&metadata["name"]));
                object["metadata"] = json!({"labels": metadata["labels"], "uid": metadata["uid"]});
                if let Some(fields) = object.as_object_mut() {
                    fields.remove("status");
                }
                inventory.insert(key, object.to_string());
            }
        }
        Ok(inventory)
    }
}

/// Where an object is, or would be.
fn object_path(known: &[Resource], object: &Value) -> Result<String> {
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let api = if version.contains('/') {
        format!("apis/{version}")
    } else {
        format!("api/{version}")
    };
    let resource = known
        .iter()
        .find(|resource| resource.api == api && resource.kind == kind);
    let resource = resource.ok_or_else(|| format!("the cluster knows no {kind} of {version}"))?;
    let name = text(&object["metadata"]["name"]);
    let namespace = match (resource.namespaced, text(&object["metadata"]["namespace"])) {
        (false, _) => String::new(),
        (true, "") => "namespaces/default/".to_owned(),
        (true, namespace) => format!("namespaces/{namespace}/"),
    };
    Ok(format!("{api}/{namespace}{}/{name}", resource.plural))
}

fn path(kind: Kind, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{}/{}/{name}", kind.api, kind.plural),
        _ => format!("{}/namespaces/{namespace}/{}/{name}", kind.api, kind.plural),
    }
}

fn items(mut list: Value) -> Vec<Value> {
    match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// The text of a string, or nothing.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The `Ready` condition of a Flux object: its status, and what it says.
pub(crate) fn readiness(object: &Value) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    match ready {
        Some(ready) => {
            let said = format!("{}: {}", text(&ready["reason"]), text(&ready["message"]));
            (text(&ready["status"]).to_owned(), said)
        }
        None => (String::new(), "no condition yet".to_owned()),
    }
}

/// Succeeds when a Flux object is ready in its present generation.
pub(crate) fn ready(object: &Value) -> Result<()> {
    let (status, said) = readiness(object);
    let name = text(&object["metadata"]["name"]);
    let observed = &object["status"]["observedGeneration"];
    match status == "True" && (observed.is_null() || *observed == object["metadata"]["generation"]) {
        true => Ok(()),
        false => Err(format!("{} {name} is not ready: {said}", text(&object["kind"])).into()),
    }
}

/// Succeeds when a Flux object has done what it was last asked to.
pub(crate) fn handled(object: &Value) -> Result<()> {
    let asked = &object["metadata"]["annotations"][REQUESTED_AT];
    match *asked == object["status"]["lastHandledReconcileAt"] {
        true => Ok(()),
        false => Err(format!(
            "{} has not done what it was asked to",
            text(&object["metadata"]["name"])
        )
        .into()),
    }
}
