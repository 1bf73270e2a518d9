//! The files that a mirror uses for https: the certificates that it trusts, and its own. They are read for each connection.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::{ConfigError, ConfigErrors};

pub(super) const CA_FILE: &str = "MIRROR_CA_FILE";
pub(super) const CERT_FILE: &str = "MIRROR_CLIENT_CERT_FILE";
pub(super) const KEY_FILE: &str = "MIRROR_CLIENT_KEY_FILE";

/// Where the certificates are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorTls {
    /// Trusted in addition to the system's.
    pub ca: Option<PathBuf>,
    /// The certificate that the mirror shows, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// What the files contain.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MirrorTlsTexts {
    ca: Option<Vec<u8>>,
    own: Option<(Vec<u8>, Vec<u8>)>,
}

/// Debug output never contains a key.
impl fmt::Debug for MirrorTlsTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MirrorTlsTexts")
    }
}

impl MirrorTls {
    /// Reads the files.
    pub fn read(&self) -> Result<MirrorTlsTexts, ConfigErrors> {
        let mut problems = ConfigErrors::default();
        let ca = self.ca.as_ref().map(|path| read(CA_FILE, path)).transpose();
        let ca = problems.keep(ca);
        let own = match &self.own {
            None => Some(None),
            Some((certificates, key)) => {
                let certificates = problems.keep(read(CERT_FILE, certificates));
                let key = problems.keep(read(KEY_FILE, key));
                certificates.zip(key).map(Some)
            }
        };
        match (ca, own) {
            (Some(ca), Some(own)) => Ok(MirrorTlsTexts { ca, own }),
            _ => Err(problems),
        }
    }

    /// The configuration of a client with these certificates, which also trusts `roots`.
    pub fn configure(&self, texts: &MirrorTlsTexts, mut roots: RootCertStore) -> Result<ClientConfig, ConfigError> {
        let unusable = |error: rustls::Error| ConfigError::new(CA_FILE, error.to_string());
        if let (Some(path), Some(text)) = (&self.ca, &texts.ca) {
            for certificate in certificates(CA_FILE, path, text)? {
                let unusable = |error: rustls::Error| problem(CA_FILE, path, &error.to_string());
                roots.add(certificate).map_err(unusable)?;
            }
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
        let builder = builder.with_root_certificates(roots);
        let (Some((path, key_path)), Some((chain, key))) = (&self.own, &texts.own) else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates(CERT_FILE, path, chain)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| problem(KEY_FILE, key_path, &format!("no private key (PEM): {error}")))?;
        builder.with_client_auth_cert(chain, key).map_err(|error| {
            problem(
                CERT_FILE,
                path,
                &format!("cannot be used with MIRROR_CLIENT_KEY_FILE: {error}"),
            )
        })
    }
}

fn problem(variable: &'static str, path: &Path, detail: &str) -> ConfigError {
    ConfigError::new(variable, format!("{}: {detail}", path.display()))
}

fn read(variable: &'static str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| problem(variable, path, &error.to_string()))
}

fn certificates(variable: &'static str, path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| problem(variable, path, &format!("is not PEM: {error}")))?;
    match found.is_empty() {
        true => Err(problem(variable, path, "contains no certificate")),
        false => Ok(found),
    }
}
