//! The objects of a bootstrap. They are the files of `k8s/`, with the values of one cluster in them; ResourceSets are those that the
//! server renders its plans with, so that a cluster does what a plan shows.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::evidence;
use super::trust::Trust;
use crate::error::Failure;
use crate::session::text;

pub(super) const NAMESPACE: &str = "flux-system";
/// The Secret with the token, as the shipped providers name it.
const TOKEN: &str = "internal-api-token";
/// The Secret with certificates.
pub(super) const TLS: &str = "internal-api-tls";
const EVERY: &str = "fluxcd.controlplane.io/reconcileEvery";

/// The shipped files that a bootstrap is made of.
mod shipped {
    pub(super) const NAMESPACE: &str = include_str!("../../../../../../k8s/base/namespace.yaml");
    pub(super) const IDENTITY: &str = include_str!("../../../../../../k8s/base/cluster-identity.yaml");
    pub(super) const TOKEN: &str = include_str!("../../../../../../k8s/base/internal-api-token.yaml");
    pub(super) const FLUX: &str = include_str!("../../../../../../k8s/base/flux-instance.yaml");
    pub(super) const PROVIDER: &str = include_str!("../../../../../../k8s/providers/namespaces.yaml");
    pub(super) const SOURCE: &str = include_str!("../../../../../../k8s/bootstrap/source.yaml");
    pub(super) const KUSTOMIZATION: &str = include_str!("../../../../../../k8s/bootstrap/phone-home.yaml");
}

/// Objects that belong together.
pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) objects: Vec<Value>,
}

impl File {
    pub(super) fn is_secret(&self) -> bool {
        self.objects.iter().any(|object| object["kind"] == "Secret")
    }
}

/// Where `k8s/` is published.
#[derive(Clone, Debug)]
pub(super) struct Source {
    url: String,
    reference: Value,
}

impl Source {
    pub(super) fn parse(text: &str) -> Result<Source, String> {
        let wrong = || "expected the address of an artifact: oci://HOST/NAME[:TAG]".to_owned();
        let rest = text.strip_prefix("oci://").ok_or_else(wrong)?;
        let (path, reference) = match (rest.split_once('@'), rest.rsplit_once(':')) {
            (Some((path, digest)), _) => (path, json!({ "digest": digest })),
            // A colon before a slash is that of a port.
            (None, Some((path, tag))) if !tag.contains('/') => (path, json!({ "tag": tag })),
            _ => (rest, json!({"tag": "latest"})),
        };
        match path.split_once('/') {
            Some((host, name)) if !host.is_empty() && !name.is_empty() => Ok(Source {
                url: format!("oci://{path}"),
                reference,
            }),
            _ => Err(wrong()),
        }
    }
}

pub(super) struct Bundle {
    identity: Value,
    url: String,
    dns: String,
    trust: Trust,
    pub(super) token: Option<String>,
    pub(super) interval: Option<String>,
    pub(super) source: Option<Source>,
    pub(super) flux_instance: bool,
    pub(super) notifications: bool,
    pub(super) reporter: Option<evidence::Reporter>,
    providers: Vec<Value>,
    resource_sets: Vec<Value>,
    notes: Vec<String>,
}

impl Bundle {
    pub(super) fn new(cluster: &Value, url: &str, trust: Trust) -> Result<Bundle, Failure> {
        let mut identity = parse(shipped::IDENTITY)?;
        identity["data"] = json!({
            "CLUSTER_NAME": cluster["cluster_name"],
            "CLUSTER_DNS": cluster["cluster_dns"],
            "ENVIRONMENT": cluster["environment"],
            "INTERNAL_API_URL": url,
        });
        Ok(Bundle {
            identity,
            url: url.to_owned(),
            dns: text(&cluster["cluster_dns"]).to_owned(),
            trust,
            token: None,
            interval: None,
            source: None,
            flux_instance: false,
            notifications: false,
            reporter: None,
            providers: Vec::new(),
            resource_sets: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Whether the cluster identifies with a token.
    pub(super) fn needs_token(&self) -> bool {
        !self.trust.identifies()
    }

    /// What is not in the bundle though it might be expected.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds a provider for each path of the server, and the ResourceSets that read them.
    pub(super) fn add_templates(&mut self, paths: &[&str], templates: &[Value]) -> Result<(), Failure> {
        let of_kind = |kind: &'static str| templates.iter().filter(move |object| object["kind"] == kind);
        let mut names = BTreeSet::new();
        for path in paths {
            let own = of_kind("ResourceSetInputProvider").find(|object| path_of(object) == *path);
            let provider = match own {
                Some(provider) => provider.clone(),
                None => {
                    let mut provider = parse(shipped::PROVIDER)?;
                    provider["metadata"]["name"] = (*path).into();
                    provider
                }
            };
            names.insert(text(&provider["metadata"]["name"]).to_owned());
            self.providers.push(self.filled(provider, path));
        }
        let mut read = BTreeSet::new();
        for set in of_kind("ResourceSet") {
            let inputs = set["spec"]["inputsFrom"].as_array().into_iter().flatten();
            let from: Vec<String> = inputs.map(|input| text(&input["name"]).to_owned()).collect();
            // A ResourceSet that selects providers by labels has no names.
            if !from.is_empty() && !from.iter().any(|name| name.is_empty() || names.contains(name)) {
                let set = text(&set["metadata"]["name"]);
                self.notes.push(format!(
                    "the ResourceSet {set} is left out: the server has no kind for it"
                ));
                continue;
            }
            read.extend(from);
            self.resource_sets.push(set.clone());
        }
        for name in names.difference(&read) {
            self.notes.push(format!(
                "no ResourceSet of the server reads {name}, so the cluster makes nothing of it (TEMPLATES_DIR)"
            ));
        }
        Ok(())
    }

    /// A provider with the values of this cluster.
    fn filled(&self, mut provider: Value, path: &str) -> Value {
        let query = text(&provider["spec"]["url"]);
        let query = query.find('?').map_or("", |at| &query[at..]).to_owned();
        let spec = &mut provider["spec"];
        spec["url"] = format!("{}/api/v2/flux/clusters/{}/{path}{query}", self.url, self.dns).into();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("insecure");
            match self.needs_token() {
                true => fields.insert("secretRef".to_owned(), json!({ "name": TOKEN })),
                false => fields.remove("secretRef"),
            };
            match self.trust.secret(TLS) {
                Some(_) => fields.insert("certSecretRef".to_owned(), json!({ "name": TLS })),
                None => fields.remove("certSecretRef"),
            };
            if self.is_plain() {
                fields.insert("insecure".to_owned(), true.into());
            }
        }
        provider
    }

    fn is_plain(&self) -> bool {
        self.url.starts_with("http://")
    }

    /// All objects, in the order in which they are applied.
    pub(super) fn files(&self) -> Result<Vec<File>, Failure> {
        let mut files = vec![
            file("namespace.yaml", vec![parse(shipped::NAMESPACE)?]),
            file("cluster-identity.yaml", vec![self.identity.clone()]),
        ];
        if let Some(token) = &self.token {
            let mut secret = parse(shipped::TOKEN)?;
            secret["stringData"] = json!({ "token": token });
            files.push(file("internal-api-token.yaml", vec![secret]));
        }
        files.extend(
            self.trust
                .secret(TLS)
                .map(|secret| file("internal-api-tls.yaml", vec![secret])),
        );
        if self.flux_instance {
            files.push(file("flux-instance.yaml", vec![self.instance()?]));
        }
        let providers = self.providers.iter().map(|provider| self.paced(provider.clone()));
        files.push(file("providers.yaml", providers.collect()));
        files.push(file("resourcesets.yaml", self.resource_sets.clone()));
        if self.notifications {
            files.extend(evidence::notifications(
                &self.url,
                &self.dns,
                self.token.as_deref(),
                &self.trust,
            )?);
        }
        if let Some(reporter) = &self.reporter {
            files.push(file("reporter.yaml", reporter.objects()?));
        }
        if let Some(source) = &self.source {
            files.push(file("source.yaml", vec![self.repository(source)?]));
            files.push(file("phone-home.yaml", vec![self.kustomization()?]));
        }
        Ok(files)
    }

    /// Flux, with the controller that notifications need.
    fn instance(&self) -> Result<Value, Failure> {
        let mut instance = parse(shipped::FLUX)?;
        if let (true, Some(components)) = (self.notifications, instance["spec"]["components"].as_array_mut()) {
            components.push("notification-controller".into());
        }
        Ok(instance)
    }

    fn paced(&self, mut provider: Value) -> Value {
        if let Some(interval) = &self.interval {
            provider["metadata"]["annotations"][EVERY] = interval.as_str().into();
        }
        provider
    }

    fn repository(&self, source: &Source) -> Result<Value, Failure> {
        let mut repository = parse(shipped::SOURCE)?;
        repository["spec"]["url"] = source.url.as_str().into();
        repository["spec"]["ref"] = source.reference.clone();
        Ok(repository)
    }

    /// The Kustomization changes the providers of the artifact as the bundle changes its own.
    fn kustomization(&self) -> Result<Value, Failure> {
        let mut patch = Vec::new();
        if self.is_plain() {
            patch.push(json!({"op": "add", "path": "/spec/insecure", "value": true}));
        }
        if self.trust.secret(TLS).is_some() {
            patch.push(json!({"op": "add", "path": "/spec/certSecretRef", "value": {"name": TLS}}));
        }
        if !self.needs_token() {
            patch.push(json!({"op": "remove", "path": "/spec/secretRef"}));
        }
        if let Some(interval) = &self.interval {
            let path = format!("/metadata/annotations/{}", EVERY.replace('/', "~1"));
            patch.push(json!({"op": "add", "path": path, "value": interval}));
        }
        let mut kustomization = parse(shipped::KUSTOMIZATION)?;
        if !patch.is_empty() {
            let target = json!({"kind": "ResourceSetInputProvider"});
            let patch = yaml(&Value::Array(patch))?;
            kustomization["spec"]["patches"] = json!([{"target": target, "patch": patch}]);
        }
        Ok(kustomization)
    }
}

pub(super) fn file(name: &'static str, objects: Vec<Value>) -> File {
    File { name, objects }
}

pub(super) fn parse(document: &str) -> Result<Value, Failure> {
    fleet::yaml::parse(document).map_err(Failure::refused)
}

pub(super) fn yaml(object: &Value) -> Result<String, Failure> {
    resourceset::to_yaml(object).map_err(|error| Failure::refused(error.to_string()))
}

/// `Kind/namespace/name`
pub(super) fn name(object: &Value) -> String {
    let metadata = &object["metadata"];
    let names = [&object["kind"], &metadata["namespace"], &metadata["name"]].map(text);
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    names.join("/")
}

/// The last segment of a provider's URL.
fn path_of(provider: &Value) -> &str {
    let url = text(&provider["spec"]["url"])
        .split(['?', '#'])
        .next()
        .unwrap_or_default();
    url.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_a_tag_or_a_digest() {
        for (text, url, reference) in [
            ("oci://ghcr.io/a/b", "oci://ghcr.io/a/b", json!({"tag": "latest"})),
            ("oci://ghcr.io/a/b:v1", "oci://ghcr.io/a/b", json!({"tag": "v1"})),
            (
                "oci://127.0.0.1:5000/b",
                "oci://127.0.0.1:5000/b",
                json!({"tag": "latest"}),
            ),
            (
                "oci://127.0.0.1:5000/b:v1",
                "oci://127.0.0.1:5000/b",
                json!({"tag": "v1"}),
            ),
            ("oci://h/b@sha256:00", "oci://h/b", json!({"digest": "sha256:00"})),
        ] {
            let source = Source::parse(text).unwrap();
            assert_eq!((source.url.as_str(), source.reference), (url, reference), "{text}");
        }
        for wrong in ["ghcr.io/a/b", "oci://", "oci://host", "https://h/b", "oci:///b"] {
            assert!(Source::parse(wrong).is_err(), "{wrong}");
        }
    }
}
