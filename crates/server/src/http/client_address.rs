//! Who a client is, as its connection tells: its address, which behind a trusted proxy is the one that the proxy reports, and its
//! certificate.

use std::net::IpAddr;

use axum::http::{Extensions, HeaderMap, HeaderName};
use ipnet::IpNet;

use super::peer_certificate::PeerCertificate;

static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The other end of a connection. Requests other than polls carry it as an extension.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: Option<IpAddr>,
    pub certificate: Option<PeerCertificate>,
}

impl Peer {
    /// What is known of a request that came over no connection.
    pub const UNKNOWN: Peer = Peer {
        address: None,
        certificate: None,
    };

    pub fn of(extensions: &Extensions) -> &Peer {
        extensions.get().unwrap_or(&Peer::UNKNOWN)
    }

    /// Whether its certificate counts no more. A new connection shows the one that it has by now.
    pub(super) fn is_outdated(&self) -> bool {
        let certificate = self.certificate.as_ref();
        certificate.is_some_and(|certificate| !certificate.is_valid())
    }
}

/// The address of the client of a request. `proxies` are trusted: the last address before them in `X-Forwarded-For` counts.
pub fn client_address(peer: &Peer, headers: &HeaderMap, proxies: &[IpNet]) -> Option<IpAddr> {
    let peer = peer.address?;
    let is_proxy = |address: &IpAddr| proxies.iter().any(|network| network.contains(&address.to_canonical()));
    let mut client = peer.to_canonical();
    let lines: Vec<&str> = headers
        .get_all(&FORWARDED_FOR)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let mut hops = lines.iter().flat_map(|line| line.split(',')).map(str::trim).rev();
    while is_proxy(&client) {
        // What is not an address was not written by our proxy.
        let Some(hop) = hops.next().and_then(|hop| hop.parse::<IpAddr>().ok()) else {
            break;
        };
        client = hop.to_canonical();
    }
    Some(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_trusted_proxy_reports_counts() {
        let proxies: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap(), "192.0.2.7/32".parse().unwrap()];
        for (peer, forwarded, expected) in [
            ("203.0.113.5", &[][..], "203.0.113.5"),
            // A client that is no proxy may write what it likes.
            ("203.0.113.5", &["1.1.1.1"], "203.0.113.5"),
            ("10.0.0.1", &["198.51.100.9"], "198.51.100.9"),
            ("10.0.0.1", &["1.1.1.1, 198.51.100.9"], "198.51.100.9"),
            ("10.0.0.1", &["1.1.1.1", "198.51.100.9, 192.0.2.7"], "198.51.100.9"),
            ("10.0.0.1", &["nonsense"], "10.0.0.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("::ffff:10.0.0.1", &["198.51.100.9"], "198.51.100.9"),
        ] {
            let address = Some(peer.parse().unwrap());
            let connected = Peer {
                address,
                certificate: None,
            };
            let mut headers = HeaderMap::new();
            for line in forwarded {
                headers.append(&FORWARDED_FOR, line.parse().unwrap());
            }
            let found = client_address(&connected, &headers, &proxies);
            assert_eq!(found, Some(expected.parse().unwrap()), "{peer} {forwarded:?}");
        }
    }
}
