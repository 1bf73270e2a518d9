//! The certificate that a client showed when it connected, and whether it still counts.
//!
//! A connection may outlive its certificate, and the authorities that were trusted when it began. So each request asks again: the time is
//! compared, and the signatures are checked again when there are other authorities.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use webpki::{EndEntityCert, KeyUsage};

/// Those who sign certificates of clients.
pub(super) type Authorities = Arc<dyn ClientCertVerifier>;

/// The authorities in use. They change when their file does; the same authorities stay the same object.
pub(super) type AuthoritiesInUse = Arc<ArcSwap<Authorities>>;

/// The certificate of a client. It was verified when the client connected.
#[derive(Clone)]
pub struct PeerCertificate(Arc<Shown>);

struct Shown {
    /// The certificate, and what it was sent with.
    chain: Vec<CertificateDer<'static>>,
    /// Its DNS names, in lower case.
    names: Vec<String>,
    not_after: UnixTime,
    trusted: AuthoritiesInUse,
    /// The authorities that it was verified with last.
    verified_by: ArcSwap<Authorities>,
}

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeerCertificate").field(&self.0.names).finish()
    }
}

impl PeerCertificate {
    /// The first certificate of a chain that `verified_by` accepted. None if it cannot be read.
    pub(super) fn of(
        chain: &[CertificateDer<'_>],
        verified_by: Arc<Authorities>,
        trusted: AuthoritiesInUse,
    ) -> Option<PeerCertificate> {
        let certificate = EndEntityCert::try_from(chain.first()?).ok()?;
        let names = certificate.valid_dns_names().map(str::to_ascii_lowercase);
        Some(PeerCertificate(Arc::new(Shown {
            names: names.collect(),
            not_after: not_after(&certificate),
            chain: chain.iter().map(|one| one.clone().into_owned()).collect(),
            trusted,
            verified_by: ArcSwap::new(verified_by),
        })))
    }

    /// Its DNS names, in lower case.
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// Whether it has not expired, and those who signed it are trusted.
    pub fn is_valid(&self) -> bool {
        let now = UnixTime::now();
        now <= self.0.not_after && self.0.is_trusted(now)
    }
}

impl Shown {
    fn is_trusted(&self, now: UnixTime) -> bool {
        let (trusted, verified_by) = (self.trusted.load(), self.verified_by.load());
        if Arc::ptr_eq(&trusted, &verified_by) {
            return true;
        }
        let Some((certificate, others)) = self.chain.split_first() else {
            return false;
        };
        let verified = trusted.verify_client_cert(certificate, others, now).is_ok();
        if verified {
            self.verified_by.store(Guard::into_inner(trusted));
        }
        verified
    }
}

/// The end of a certificate's validity. Its reader tells it only when that time is over, so it is asked for the end of time.
fn not_after(certificate: &EndEntityCert<'_>) -> UnixTime {
    let end_of_time = UnixTime::since_unix_epoch(Duration::MAX);
    let verified = certificate.verify_for_usage(&[], &[], &[], end_of_time, KeyUsage::client_auth(), None, None);
    match verified {
        Err(webpki::Error::CertExpired { not_after, .. }) => not_after,
        // Unreadable: as if it were over.
        _ => UnixTime::since_unix_epoch(Duration::ZERO),
    }
}
