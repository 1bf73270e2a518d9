//! What a cluster applies so that the API hears what came of its inputs: notifications, and the reporter.

use serde_json::{Value, json};

use super::bundle::{File, TLS, file, parse};
use super::trust::Trust;
use crate::error::Failure;

/// The image of a release of the same version.
pub(super) const IMAGE: &str = concat!("ghcr.io/example/flux-resourceset-reporter:", env!("CARGO_PKG_VERSION"));

mod shipped {
    pub(super) const PROVIDER: &str = include_str!("../../../../../../k8s/notifications/provider.yaml");
    pub(super) const ALERT: &str = include_str!("../../../../../../k8s/notifications/alert.yaml");
    pub(super) const SECRET: &str = include_str!("../../../../../../k8s/notifications/notifications.example.yaml");
    pub(super) const RBAC: &str = include_str!("../../../../../../k8s/reporter/rbac.yaml");
    pub(super) const DEPLOYMENT: &str = include_str!("../../../../../../k8s/reporter/deployment.yaml");
    pub(super) const NUDGE_RBAC: &str = include_str!("../../../../../../k8s/reporter/nudge/rbac.yaml");
    pub(super) const NUDGE: &str = include_str!("../../../../../../k8s/reporter/nudge/deployment.yaml");
}

/// The provider and the alert, with the token in a Secret of its own. A cluster with a client certificate shows that.
pub(super) fn notifications(url: &str, dns: &str, token: Option<&str>, trust: &Trust) -> Result<Vec<File>, Failure> {
    let mut provider = parse(shipped::PROVIDER)?;
    let mut files = Vec::new();
    provider["spec"]["address"] = format!("{url}/api/v2/flux/clusters/{dns}/events").into();
    match (token, provider["spec"].as_object_mut()) {
        (Some(token), _) => {
            let mut secret = parse(shipped::SECRET)?;
            secret["stringData"] = json!({ "headers": format!("Authorization: Bearer {token}\n") });
            files.push(file("notifications-token.yaml", vec![secret]));
        }
        (None, Some(spec)) => drop(spec.remove("secretRef")),
        (None, None) => {}
    }
    if trust.secret(TLS).is_some() {
        provider["spec"]["certSecretRef"] = json!({ "name": TLS });
    }
    files.push(file("notifications.yaml", vec![provider, parse(shipped::ALERT)?]));
    Ok(files)
}

/// The reporter of a cluster. It reads the identity and the Secrets that the bundle has.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    pub(super) image: String,
    /// Whether it may patch providers.
    pub(super) nudge: bool,
}

impl Reporter {
    pub(super) fn objects(&self) -> Result<Vec<Value>, Failure> {
        let mut objects = documents(shipped::RBAC)?;
        let mut deployment = parse(shipped::DEPLOYMENT)?;
        let containers = "/spec/template/spec/containers/0";
        if let Some(container) = deployment.pointer_mut(containers) {
            container["image"] = self.image.as_str().into();
            if self.nudge {
                let patch = parse(shipped::NUDGE)?;
                let variables = patch.pointer(&format!("{containers}/env")).and_then(Value::as_array);
                if let Some(env) = container["env"].as_array_mut() {
                    env.extend(variables.into_iter().flatten().cloned());
                }
            }
        }
        if self.nudge {
            objects.extend(documents(shipped::NUDGE_RBAC)?);
        }
        objects.push(deployment);
        Ok(objects)
    }
}

/// The objects of a file with several.
fn documents(text: &str) -> Result<Vec<Value>, Failure> {
    text.split("\n---\n").map(parse).collect()
}
