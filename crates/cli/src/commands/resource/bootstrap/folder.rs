//! The manifests as files of a folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::bundle::{File, yaml};
use crate::config::replace;
use crate::error::Failure;

/// Refuses a folder that has anything in it, unless it is forced.
pub(super) fn check(folder: &Path, force: bool) -> Result<(), Failure> {
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::file(folder, &error)),
    };
    match force || entries.next().is_none() {
        true => Ok(()),
        false => {
            let failure = Failure::refused(format!("{}: the folder is not empty", folder.display()));
            Err(failure.hint("use --force to replace files of the same names"))
        }
    }
}

/// Writes the files, and a kustomization that lists them. Only their owner can read those with secrets.
pub(super) fn write(folder: &Path, files: &[File]) -> Result<(), Failure> {
    let mut listed = String::from("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n");
    for file in files {
        let mut text = String::new();
        for (n, object) in file.objects.iter().enumerate() {
            if n > 0 {
                text.push_str("---\n");
            }
            text.push_str(&yaml(object)?);
        }
        put(folder, file.name, &text, file.is_secret())?;
        listed.push_str(&format!("  - {}\n", file.name));
    }
    put(folder, "kustomization.yaml", &listed, false)
}

fn put(folder: &Path, name: &str, text: &str, secret: bool) -> Result<(), Failure> {
    let path = folder.join(name);
    let written = replace(&path, folder, text.as_bytes()).and_then(|()| {
        let mode = if secret { 0o600 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
    });
    written.map_err(|error| Failure::file(&path, &error))
}
