//! A certificate for `localhost`, for servers that speak TLS, and a client that trusts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::Result;

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Makes a certificate with a key on the curve P-256, which is what most servers have.
    pub(crate) fn generate(dir: &Path) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let files = Certificates {
            certificate: dir.join("tls.pem"),
            key: dir.join("tls.key"),
        };
        fs::write(&files.certificate, made.cert.pem())?;
        fs::write(&files.key, made.signing_key.serialize_pem())?;
        Ok(files)
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>> {
        Ok(vec![CertificateDer::from_pem_file(&self.certificate)?])
    }

    /// A server as rustls makes it.
    pub(crate) fn server(&self) -> Result<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
        Ok(builder.with_single_cert(self.chain()?, PrivateKeyDer::from_pem_file(&self.key)?)?)
    }

    /// A client that makes a full handshake each time, as Flux Operator does: each of its polls has a new HTTP client.
    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        for certificate in self.chain()? {
            roots.add(certificate)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}
