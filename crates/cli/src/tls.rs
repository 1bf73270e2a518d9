//! TLS of the client: the authorities that it trusts, and the certificate that it shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use ureq::tls::{Certificate, ClientCert, PrivateKey, TlsConfig};

use crate::error::{Code, Failure};

/// The files of TLS. Without an authority, those of the system are trusted.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    pub(crate) authority: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl TlsFiles {
    /// These files, and the others where these have none. A certificate and its key belong together, so they are taken together.
    #[must_use]
    pub(crate) fn or(self, others: TlsFiles) -> TlsFiles {
        let (certificate, key) = match (self.certificate, self.key) {
            (None, None) => (others.certificate, others.key),
            own => own,
        };
        TlsFiles {
            authority: self.authority.or(others.authority),
            certificate,
            key,
        }
    }

    /// Reads the files. Reading the certificates of the system takes longer than a request, so this is done only for https.
    pub(crate) fn load(&self) -> Result<TlsConfig, Failure> {
        let roots = match &self.authority {
            Some(path) => certificates(path)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        let roots: Vec<_> = roots.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let config = TlsConfig::builder()
            .root_certs(roots.into())
            .client_cert(self.client_certificate()?)
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()));
        Ok(config.build())
    }

    fn client_certificate(&self) -> Result<Option<ClientCert>, Failure> {
        let (path, key_path) = match (&self.certificate, &self.key) {
            (None, None) => return Ok(None),
            (Some(path), Some(key)) => (path, key),
            (Some(path), None) => {
                let failure = wrong(path, "the client certificate needs its key");
                return Err(failure.hint("name the file of the key: --client-key FILE"));
            }
            (None, Some(key)) => {
                let failure = wrong(key, "the key needs its client certificate");
                return Err(failure.hint("name the file of the certificate: --client-certificate FILE"));
            }
        };
        let chain = certificates(path)?;
        let key = private_key(key_path)?;
        check_pair(path, key_path, &chain, &key)?;
        let chain: Vec<_> = chain.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let key = PrivateKey::from_pem(&read(key_path)?).map_err(|error| wrong(key_path, &error.to_string()))?;
        Ok(Some(ClientCert::new_with_certs(&chain, key)))
    }
}

fn wrong(path: &Path, detail: &str) -> Failure {
    Failure::new(Code::Usage, format!("{}: {detail}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::file(path, &error))
}

/// The certificates of a file in PEM format; at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(wrong(path, "contains no certificate in PEM format")),
        Err(error) => Err(wrong(path, &format!("is not in PEM format: {error}"))),
    }
}

pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    let bytes = read(path)?;
    let encrypted = String::from_utf8_lossy(&bytes).contains("ENCRYPTED");
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| match encrypted {
        true => wrong(path, "the key is encrypted; decrypt it first"),
        false => wrong(path, "contains no private key in PEM format"),
    })
}

/// Refuses a key that does not belong to the certificate.
pub(crate) fn check_pair(
    path: &Path,
    key_path: &Path,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<(), Failure> {
    let provider = aws_lc_rs::default_provider();
    match CertifiedKey::from_der(chain.to_vec(), key.clone_key(), &provider) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => {
            let detail = format!("the key does not belong to the certificate in {}", path.display());
            Err(wrong(key_path, &detail))
        }
        Err(error) => Err(wrong(
            path,
            &format!("cannot be used with {}: {error}", key_path.display()),
        )),
    }
}
