//! The certificates that a cluster gets: whom it trusts, and what it identifies with.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::error::Failure;
use crate::tls::{certificates, check_pair, private_key};

/// The content of the Secret that providers name as `certSecretRef`.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust {
    data: Map<String, Value>,
    identifies: bool,
}

impl Trust {
    /// Reads the files. What Flux could not use is refused here.
    pub(super) fn read(authority: Option<&Path>, own: Option<(&Path, &Path)>) -> Result<Trust, Failure> {
        let mut trust = Trust::default();
        if let Some(path) = authority {
            certificates(path)?;
            trust.put("ca.crt", path)?;
        }
        if let Some((path, key_path)) = own {
            check_pair(path, key_path, &certificates(path)?, &private_key(key_path)?)?;
            trust.put("tls.crt", path)?;
            trust.put("tls.key", key_path)?;
            trust.identifies = true;
        }
        Ok(trust)
    }

    fn put(&mut self, key: &str, path: &Path) -> Result<(), Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
        self.data.insert(key.to_owned(), text.into());
        Ok(())
    }

    /// Whether the cluster identifies with a certificate, so that it needs no token.
    pub(super) fn identifies(&self) -> bool {
        self.identifies
    }

    /// The Secret, if it has anything in it.
    pub(super) fn secret(&self, name: &str) -> Option<Value> {
        (!self.data.is_empty()).then(|| {
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": super::bundle::NAMESPACE},
                "type": "Opaque",
                "stringData": self.data,
            })
        })
    }
}
