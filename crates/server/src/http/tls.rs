//! TLS: certificates that are reloaded when their files change, and the names in the certificate of a client.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::metrics::gauge::Gauge;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tracing::{info, warn};
use webpki::EndEntityCert;

use crate::config::{ConfigError, ConfigErrors, TlsFiles};

/// The DNS names in the certificate of a client, in lower case. The certificate was verified.
#[derive(Clone, Debug)]
pub struct PeerNames(pub Arc<[String]>);

impl PeerNames {
    /// The names of the first certificate of a chain. None if there is no certificate.
    pub(super) fn of(chain: Option<&[CertificateDer<'_>]>) -> Option<PeerNames> {
        let certificate = EndEntityCert::try_from(chain?.first()?).ok()?;
        let names = certificate.valid_dns_names().map(str::to_ascii_lowercase);
        Some(PeerNames(names.collect()))
    }
}

/// The certificates in use.
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<Loaded>,
}

struct Loaded {
    config: Arc<ServerConfig>,
    texts: Texts,
}

/// What the files contain.
#[derive(PartialEq, Eq)]
struct Texts {
    certificates: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    pub fn load(files: &TlsFiles) -> Result<Tls, ConfigErrors> {
        let texts = read(files)?;
        let config = configure(files, &texts)?;
        Ok(Tls {
            files: files.clone(),
            current: ArcSwap::from_pointee(Loaded { config, texts }),
        })
    }

    /// The configuration for the next connection.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.current.load().config.clone()
    }

    /// Reloads the files whenever they change. While they cannot be used, the certificates stay as they are, and `usable` is 0.
    pub async fn follow(self: Arc<Self>, usable: Gauge) {
        const EVERY: Duration = Duration::from_secs(1);
        usable.set(1);
        let mut logged = None;
        loop {
            tokio::time::sleep(EVERY).await;
            // On a blocking thread: a file may be on a mount that hangs.
            let this = self.clone();
            let Ok(loaded) = tokio::task::spawn_blocking(move || this.reload()).await else {
                return;
            };
            match loaded {
                Ok(changed) => {
                    logged = None;
                    usable.set(1);
                    if changed {
                        info!("TLS files changed: new connections use them");
                    }
                }
                Err(errors) => {
                    usable.set(0);
                    if logged.as_ref() != Some(&errors) {
                        for error in errors.iter() {
                            warn!(%error, "keeping the TLS certificates in use");
                        }
                    }
                    logged = Some(errors);
                }
            }
        }
    }

    fn reload(&self) -> Result<bool, ConfigErrors> {
        let texts = read(&self.files)?;
        if texts == self.current.load().texts {
            return Ok(false);
        }
        let config = configure(&self.files, &texts)?;
        self.current.store(Arc::new(Loaded { config, texts }));
        Ok(true)
    }
}

fn read(files: &TlsFiles) -> Result<Texts, ConfigErrors> {
    let read = |variable, path: &PathBuf| {
        let unreadable = |error| ConfigError::new(variable, format!("{}: {error}", path.display()));
        std::fs::read(path).map_err(unreadable)
    };
    let mut problems = ConfigErrors::default();
    let certificates = problems.keep(read("TLS_CERT_FILE", &files.certificates));
    let key = problems.keep(read("TLS_KEY_FILE", &files.key));
    let client_ca = files.client_ca.as_ref().map(|path| read("TLS_CLIENT_CA_FILE", path));
    let client_ca = problems.keep(client_ca.transpose());
    match (certificates, key, client_ca) {
        (Some(certificates), Some(key), Some(client_ca)) => Ok(Texts {
            certificates,
            key,
            client_ca,
        }),
        _ => Err(problems),
    }
}

fn configure(files: &TlsFiles, texts: &Texts) -> Result<Arc<ServerConfig>, ConfigErrors> {
    let mut problems = ConfigErrors::default();
    let problem =
        |variable, path: &PathBuf, detail: String| ConfigError::new(variable, format!("{}: {detail}", path.display()));
    let chain = problems.keep(
        certificates(&texts.certificates).map_err(|detail| problem("TLS_CERT_FILE", &files.certificates, detail)),
    );
    let key = PrivateKeyDer::from_pem_slice(&texts.key);
    let key = problems
        .keep(key.map_err(|error| problem("TLS_KEY_FILE", &files.key, format!("no private key (PEM): {error}"))));
    let roots = match (&texts.client_ca, &files.client_ca) {
        (Some(text), Some(path)) => problems.keep(
            roots(text)
                .map(Some)
                .map_err(|detail| problem("TLS_CLIENT_CA_FILE", path, detail)),
        ),
        _ => Some(None),
    };
    let (Some(chain), Some(key), Some(roots)) = (chain, key, roots) else {
        return Err(problems);
    };
    let built = build(chain, key, roots);
    built.map_err(|error| {
        problem(
            "TLS_CERT_FILE",
            &files.certificates,
            format!("cannot be used with TLS_KEY_FILE: {error}"),
        )
        .into()
    })
}

fn build(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Option<RootCertStore>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let builder = match roots {
        // A client without a certificate may have a token.
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).allow_unauthenticated();
            let verifier = verifier
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Flux opens a connection for each poll: resuming a session saves the expensive half of the handshake.
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    Ok(Arc::new(config))
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match all {
        Ok(all) if all.is_empty() => Err("contains no certificate (PEM)".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("no certificates (PEM): {error}")),
    }
}

fn roots(text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(text)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}
