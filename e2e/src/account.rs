//! What a pod has of its ServiceAccount, for a program that runs as a process instead.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::Result;
use crate::cluster::Cluster;

#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) token: String,
    pub(crate) kubeconfig: PathBuf,
}

impl Account {
    /// A ServiceAccount of flux-system; the file is made in the folder.
    pub(crate) fn new(cluster: &Cluster, name: &str, folder: &Path) -> Result<Account> {
        let token = cluster.kube.account_token("flux-system", name)?;
        let kubeconfig = folder.join(format!("{name}.kubeconfig"));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {
                "server": format!("https://{}", cluster.kube.address()), "certificate-authority": cluster.authority()}}],
            "users": [{"name": "a", "user": {"token": token}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "flux-system"}}],
        });
        fs::write(&kubeconfig, config.to_string())?;
        Ok(Account { token, kubeconfig })
    }
}
