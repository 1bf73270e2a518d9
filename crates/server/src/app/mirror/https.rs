//! The HTTP client of a mirror. Its certificates are read again for each connection, so that they can be rotated.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::RootCertStore;
use tracing::{info, warn};

use crate::config::{ConfigErrors, MirrorTls, MirrorTlsTexts};
use crate::outbound;

pub(super) type HttpsClient = Client<outbound::Connector, Empty<Bytes>>;

#[derive(Debug)]
pub(super) struct Https {
    url: String,
    files: MirrorTls,
    /// The certificates that the system trusts. They are slow to read, so that they are read once.
    system: RootCertStore,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    texts: MirrorTlsTexts,
    client: HttpsClient,
    /// The last problem with the files, so that it is logged once.
    logged: Option<ConfigErrors>,
}

impl Https {
    /// A client for this URL.
    pub(super) fn new(url: &str, files: &MirrorTls) -> Result<Self, ConfigErrors> {
        let system = outbound::system_roots(url);
        let texts = files.read()?;
        let client = client(url, files, &texts, &system)?;
        Ok(Https {
            url: url.to_owned(),
            files: files.clone(),
            system,
            current: Mutex::new(Current {
                texts,
                client,
                logged: None,
            }),
        })
    }

    /// The client for the next connection. While the files cannot be used, the certificates stay as they are.
    pub(super) fn client(&self) -> HttpsClient {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match self.reload(&mut current) {
            Ok(()) => current.logged = None,
            Err(errors) => {
                if current.logged.as_ref() != Some(&errors) {
                    for error in errors.iter() {
                        warn!(%error, "keeping the certificates of the mirror");
                    }
                }
                current.logged = Some(errors);
            }
        }
        current.client.clone()
    }

    fn reload(&self, current: &mut Current) -> Result<(), ConfigErrors> {
        let texts = self.files.read()?;
        if texts != current.texts {
            current.client = client(&self.url, &self.files, &texts, &self.system)?;
            current.texts = texts;
            info!("the certificates of the mirror changed: new connections use them");
        }
        Ok(())
    }
}

fn client(
    url: &str,
    files: &MirrorTls,
    texts: &MirrorTlsTexts,
    system: &RootCertStore,
) -> Result<HttpsClient, ConfigErrors> {
    let connector = outbound::connector(url, files.configure(texts, system.clone())?);
    // Each reply lasts long and has its own connection.
    let mut builder = Client::builder(TokioExecutor::new());
    Ok(builder.pool_max_idle_per_host(0).build(connector))
}
