//! Signatures as cosign makes them, with a key made here by openssl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::Result;

#[derive(Debug)]
pub(crate) struct Key {
    folder: PathBuf,
    /// PEM, as the Secret of a source has it.
    pub(crate) public: String,
}

impl Key {
    pub(crate) fn new(folder: &Path) -> Result<Key> {
        fs::create_dir_all(folder)?;
        openssl(folder, "ecparam -name prime256v1 -genkey -noout -out private.pem")?;
        let public = openssl(folder, "ec -in private.pem -pubout")?;
        Ok(Key {
            folder: folder.to_owned(),
            public,
        })
    }

    /// What is signed about a manifest with this digest, and the signature of that in base64.
    pub(crate) fn sign(&self, digest: &str) -> Result<(String, String)> {
        let payload = json!({
            "critical": {
                "identity": {"docker-reference": ""},
                "image": {"docker-manifest-digest": digest},
                "type": "cosign container image signature",
            },
            "optional": null,
        });
        let payload = payload.to_string();
        fs::write(self.folder.join("payload"), &payload)?;
        openssl(&self.folder, "dgst -sha256 -sign private.pem -out signature payload")?;
        let signature = openssl(&self.folder, "base64 -A -in signature")?;
        Ok((payload, signature.trim().to_owned()))
    }
}

fn openssl(folder: &Path, arguments: &str) -> Result<String> {
    let run = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .map_err(|error| format!("openssl: {error}"))?;
    match run.status.success() {
        true => Ok(String::from_utf8(run.stdout)?),
        false => Err(format!("openssl {arguments}: {}", String::from_utf8_lossy(&run.stderr)).into()),
    }
}
