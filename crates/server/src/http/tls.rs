//! TLS: certificates that are reloaded when their files change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::metrics::gauge::Gauge;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tracing::{info, warn};

use super::peer_certificate::{Authorities, AuthoritiesInUse, PeerCertificate};
use crate::config::{ConfigError, ConfigErrors, TlsFiles};

/// The certificates in use.
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<Loaded>,
    /// None without a client CA.
    trusted: Option<AuthoritiesInUse>,
}

struct Loaded {
    config: Arc<ServerConfig>,
    /// Those who sign certificates of clients.
    authorities: Option<Arc<Authorities>>,
    texts: Texts,
}

/// What one connection is served with.
pub(super) struct Terms {
    pub(super) config: Arc<ServerConfig>,
    authorities: Option<Arc<Authorities>>,
    trusted: Option<AuthoritiesInUse>,
}

impl Terms {
    /// The certificate of the client, after the handshake. None if it showed none.
    pub(super) fn certificate(self, chain: Option<&[CertificateDer<'_>]>) -> Option<PeerCertificate> {
        PeerCertificate::of(chain?, self.authorities?, self.trusted?)
    }
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
        let loaded = configure(files, read(files)?, None)?;
        let authorities = loaded.authorities.clone();
        Ok(Tls {
            files: files.clone(),
            current: ArcSwap::from_pointee(loaded),
            trusted: authorities.map(|authorities| Arc::new(ArcSwap::new(authorities))),
        })
    }

    /// The terms of the next connection.
    pub(super) fn terms(&self) -> Terms {
        let current = self.current.load();
        Terms {
            config: current.config.clone(),
            authorities: current.authorities.clone(),
            trusted: self.trusted.clone(),
        }
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
        let current = self.current.load_full();
        if texts == current.texts {
            return Ok(false);
        }
        let loaded = configure(&self.files, texts, Some(&current))?;
        if let (Some(trusted), Some(authorities)) = (&self.trusted, &loaded.authorities) {
            trusted.store(authorities.clone());
        }
        self.current.store(Arc::new(loaded));
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

/// What the files are good for. `before`: what they were; the same authorities are kept.
fn configure(files: &TlsFiles, texts: Texts, before: Option<&Loaded>) -> Result<Loaded, ConfigErrors> {
    let mut problems = ConfigErrors::default();
    let problem =
        |variable, path: &PathBuf, detail: String| ConfigError::new(variable, format!("{}: {detail}", path.display()));
    let chain = problems.keep(
        certificates(&texts.certificates).map_err(|detail| problem("TLS_CERT_FILE", &files.certificates, detail)),
    );
    let key = PrivateKeyDer::from_pem_slice(&texts.key);
    let key = problems
        .keep(key.map_err(|error| problem("TLS_KEY_FILE", &files.key, format!("no private key (PEM): {error}"))));
    let kept = before.filter(|before| before.texts.client_ca == texts.client_ca);
    let authorities = match (&texts.client_ca, &files.client_ca, kept) {
        (_, _, Some(kept)) => Some(kept.authorities.clone()),
        (Some(text), Some(path), None) => problems.keep(
            authorities(text)
                .map(|authorities| Some(Arc::new(authorities)))
                .map_err(|detail| problem("TLS_CLIENT_CA_FILE", path, detail)),
        ),
        _ => Some(None),
    };
    let (Some(chain), Some(key), Some(authorities)) = (chain, key, authorities) else {
        return Err(problems);
    };
    let config = build(chain, key, authorities.as_deref()).map_err(|error| {
        problem(
            "TLS_CERT_FILE",
            &files.certificates,
            format!("cannot be used with TLS_KEY_FILE: {error}"),
        )
    })?;
    Ok(Loaded {
        config,
        authorities,
        texts,
    })
}

fn build(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Option<&Authorities>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let mut config = match authorities.cloned() {
        Some(authorities) => builder.with_client_cert_verifier(authorities),
        None => builder.with_no_client_auth(),
    }
    .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    match authorities {
        // Resuming a session saves the expensive half of the handshake.
        None => config.ticketer = aws_lc_rs::Ticketer::new()?,
        // A resumed session has the client certificate of the first one, and nobody verifies it again.
        Some(_) => {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
    }
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Those whose certificates are in a file. A client without a certificate may have a token.
fn authorities(text: &[u8]) -> Result<Authorities, String> {
    let roots = Arc::new(roots(text)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).allow_unauthenticated();
    verifier.build().map_err(|error| error.to_string())
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
