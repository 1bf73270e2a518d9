//! Connections to other servers: of mirrors to their origin, and to the issuers of tokens.

use std::error::Error;
use std::time::Duration;

use axum::http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower::util::{BoxCloneSyncService, ServiceExt};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

type Tcp = BoxCloneSyncService<Uri, TokioIo<TcpStream>, axum::BoxError>;
pub(crate) type Connector = HttpsConnector<Tcp>;

/// Connects to the host of a URL; over https through the proxy of the environment, if it names one.
pub(crate) fn connector(url: &str, tls: ClientConfig) -> Connector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT));
    let proxy = url.parse().ok().filter(|_| is_secure(url));
    let tcp = match proxy.and_then(|url: Uri| Matcher::from_env().intercept(&url)) {
        None => BoxCloneSyncService::new(http.map_err(Into::into)),
        Some(proxy) => {
            let mut tunnel = Tunnel::new(proxy.uri().clone(), http);
            if let Some(credentials) = proxy.basic_auth() {
                tunnel = tunnel.with_auth(credentials.clone());
            }
            BoxCloneSyncService::new(tunnel.map_err(Into::into))
        }
    };
    HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp)
}

/// The certificates that the system trusts. They are slow to read, so plain HTTP does not read them.
pub(crate) fn system_roots(url: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    if is_secure(url) {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    roots
}

/// The certificates to trust: the system's, and those of `ca`.
pub(crate) fn trusted(url: &str, ca: &[CertificateDer<'static>]) -> Result<RootCertStore, rustls::Error> {
    let mut roots = system_roots(url);
    for certificate in ca {
        roots.add(certificate.clone())?;
    }
    Ok(roots)
}

fn is_secure(url: &str) -> bool {
    url.starts_with("https:")
}

/// The root cause of an error. The errors around it only name places in the libraries.
pub(crate) fn plain(error: &dyn Error) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}
