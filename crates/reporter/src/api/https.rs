//! The HTTP client. Its certificates are read again for each call, so that they can be rotated.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower::util::{BoxCloneSyncService, ServiceExt as _};
use tracing::{info, warn};

use crate::config::{Access, File};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

type Problem = Box<dyn std::error::Error + Send + Sync>;
type Tcp = BoxCloneSyncService<Uri, TokioIo<TcpStream>, Problem>;
pub(super) type HttpsClient = Client<HttpsConnector<Tcp>, Full<Bytes>>;

#[derive(Debug)]
pub(super) struct Https {
    url: String,
    files: [Option<File>; 3],
    /// The certificates that the system trusts. They are slow to read, so that they are read once.
    system: RootCertStore,
    current: Mutex<Current>,
}

/// What the files contain: authorities, own certificate, its key.
type Texts = [Option<Vec<u8>>; 3];

#[derive(Debug)]
struct Current {
    texts: Texts,
    client: HttpsClient,
    /// The last problem with the files, so that it is logged once.
    logged: Option<String>,
}

impl Https {
    /// A client for this address. Files that cannot be used are an error at the start, and keep the last ones later.
    pub(super) fn new(url: &str, access: &Access) -> Result<Https, String> {
        let files = [&access.authority, &access.certificate, &access.key].map(Clone::clone);
        let mut system = RootCertStore::empty();
        if url.starts_with("https:") {
            system.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let texts = read(&files)?;
        let client = client(url, &files, &texts, &system)?;
        Ok(Https {
            url: url.to_owned(),
            files,
            system,
            current: Mutex::new(Current {
                texts,
                client,
                logged: None,
            }),
        })
    }

    /// Whether the cluster has a certificate to identify with.
    pub(super) fn has_certificate(&self) -> bool {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.url.starts_with("https:") && current.texts[1].is_some() && current.texts[2].is_some()
    }

    /// The client for the next call.
    pub(super) fn client(&self) -> HttpsClient {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match self.reload(&mut current) {
            Ok(()) => current.logged = None,
            Err(problem) => {
                if current.logged.as_ref() != Some(&problem) {
                    warn!(%problem, "keeping the certificates in use");
                }
                current.logged = Some(problem);
            }
        }
        current.client.clone()
    }

    fn reload(&self, current: &mut Current) -> Result<(), String> {
        let texts = read(&self.files)?;
        if texts != current.texts {
            current.client = client(&self.url, &self.files, &texts, &self.system)?;
            current.texts = texts;
            info!("the certificates changed: new connections use them");
        }
        Ok(())
    }
}

fn read(files: &[Option<File>; 3]) -> Result<Texts, String> {
    let mut texts = Texts::default();
    for (file, text) in files.iter().zip(&mut texts) {
        let Some(file) = file else { continue };
        *text = match std::fs::read(&file.path) {
            Ok(content) => Some(content),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !file.required => None,
            Err(error) => return Err(format!("{}: {error}", file.path.display())),
        };
    }
    Ok(texts)
}

fn client(url: &str, files: &[Option<File>; 3], texts: &Texts, system: &RootCertStore) -> Result<HttpsClient, String> {
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls(files, texts, system.clone())?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp(url));
    // Calls are rare, and the server closes idle connections: one that it just closed would look like an outage.
    let mut builder = Client::builder(TokioExecutor::new());
    Ok(builder.pool_max_idle_per_host(0).build(connector))
}

fn tls(files: &[Option<File>; 3], texts: &Texts, mut roots: RootCertStore) -> Result<ClientConfig, String> {
    let path = |n: usize| files[n].as_ref().map_or(Path::new(""), |file| &file.path).display();
    let certificates = |n: usize, text: &[u8]| -> Result<Vec<CertificateDer<'static>>, String> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            _ => Err(format!("{}: contains no certificate in PEM format", path(n))),
        }
    };
    if let Some(text) = &texts[0] {
        for certificate in certificates(0, text)? {
            roots
                .add(certificate)
                .map_err(|error| format!("{}: {error}", path(0)))?;
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let (Some(certificate), Some(key)) = (&texts[1], &texts[2]) else {
        return Ok(builder.with_no_client_auth());
    };
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| format!("{}: contains no private key in PEM format", path(2)))?;
    builder
        .with_client_auth_cert(certificates(1, certificate)?, key)
        .map_err(|error| format!("{}, {}: {error}", path(1), path(2)))
}

/// Connects to the host of a URL; over https through the proxy of the environment, if it names one.
fn tcp(url: &str) -> Tcp {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT));
    let secure = url.parse().ok().filter(|_| url.starts_with("https:"));
    match secure.and_then(|url: Uri| Matcher::from_env().intercept(&url)) {
        None => BoxCloneSyncService::new(http.map_err(Into::into)),
        Some(proxy) => {
            let mut tunnel = Tunnel::new(proxy.uri().clone(), http);
            if let Some(credentials) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(credentials.clone());
            }
            BoxCloneSyncService::new(tunnel.map_err(Into::into))
        }
    }
}
