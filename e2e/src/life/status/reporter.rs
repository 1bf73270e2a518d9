//! The reporter of the first cluster. Nothing runs pods here, so the container of its Deployment runs as a process: with its variables, the files of
//! its Secrets, and the token of its ServiceAccount.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::FLUX;
use crate::account::Account;
use crate::kube::{self, text};
use crate::process::Process;
use crate::world::World;
use crate::{Result, wait};

/// What `cluster bootstrap` is told of evidence.
pub(super) const OPTIONS: &[&str] = &["--notifications", "--reporter", "--nudge"];

const NAME: &str = "flux-resourceset-reporter";

/// Starts it, or starts it again, and comes back when it listens for changes.
pub(super) fn start(world: &mut World) -> Result<()> {
    world.reporter.take().map_or(Ok(()), Process::stop)?;
    let kube = &world.one.kube;
    let deployment = kube.need(kube::DEPLOYMENT, FLUX, NAME)?;
    let pod = &deployment["spec"]["template"]["spec"];
    let folder = world.folder.join("work/reporter");
    let account = Account::new(&world.one, text(&pod["serviceAccountName"]), &mounted(&folder, "")?)?;
    let program = world.reporter_program.as_ref().ok_or("the reporter was not built")?;
    let mut command = Command::new(program);
    command.env_clear().env("KUBECONFIG", &account.kubeconfig);
    for variable in pod["containers"][0]["env"].as_array().into_iter().flatten() {
        let reference = &variable["valueFrom"]["configMapKeyRef"];
        let value = match reference {
            Value::Null => text(&variable["value"]).to_owned(),
            _ => {
                let config = kube.need(kube::CONFIG_MAP, FLUX, text(&reference["name"]))?;
                text(&config["data"][text(&reference["key"])]).to_owned()
            }
        };
        command.env(text(&variable["name"]), value);
    }
    let (token, tls) = (mounted(&folder, "token")?, mounted(&folder, "tls")?);
    for (secret, folder) in [("internal-api-token", &token), ("internal-api-tls", &tls)] {
        let secret = kube.need(kube::SECRET, FLUX, secret)?;
        for (key, value) in secret["data"].as_object().into_iter().flatten() {
            fs::write(folder.join(key), BASE64_STANDARD.decode(text(value))?)?;
        }
    }
    // Where a pod has them is the default.
    command
        .env("FLUX_API_TOKEN_FILE", token.join("token"))
        .env("FLUX_API_CA_FILE", tls.join("ca.crt"));
    let reporter = Process::start(NAME, &mut command, &world.folder.join("logs"))?;
    let listens = wait::until("the reporter to listen for changes", || {
        reporter.logged("listens for changes")
    });
    world.reporter = Some(reporter);
    listens
}

fn mounted(folder: &Path, name: &str) -> Result<std::path::PathBuf> {
    let folder = folder.join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
