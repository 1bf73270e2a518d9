//! Asks a running server on this machine whether it is ready: a probe for containers without a shell.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// More than the reply of a probe.
const MOST: usize = 16 * 1024;

/// The reply of a healthy server.
#[derive(Debug)]
pub struct Answer {
    url: String,
    body: String,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.url, self.body)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Unhealthy {
    #[error("LISTEN_ADDR: port 0 lets the system choose a port, so healthcheck cannot know which: set a port")]
    NoPort,
    #[error("{url}: {problem}")]
    NoAnswer { url: String, problem: io::Error },
    #[error("{url}: no reply within {timeout:?}")]
    TooLate { url: String, timeout: Duration },
    #[error("{url}: {status}")]
    Refused { url: String, status: String },
}

/// Asks `/ready`, or `/health` for `live`.
/// With `tls` over TLS: whatever certificate the server shows, as probes of Kubernetes do. Nothing secret is sent.
pub fn ask(listen: SocketAddr, tls: bool, live: bool, timeout: Duration) -> Result<Answer, Unhealthy> {
    if listen.port() == 0 {
        return Err(Unhealthy::NoPort);
    }
    let address = reachable(listen);
    let path = if live { "/health" } else { "/ready" };
    let url = format!("{}://{address}{path}", if tls { "https" } else { "http" });
    let reply = match exchange(address, tls, path, timeout) {
        Ok(reply) => reply,
        Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            return Err(Unhealthy::TooLate { url, timeout });
        }
        Err(problem) => return Err(Unhealthy::NoAnswer { url, problem }),
    };
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    let status = head.lines().next().unwrap_or_default();
    let one_line = body.replace(char::is_control, " ").trim().to_owned();
    match status.split(' ').nth(1) {
        Some("200") => Ok(Answer { url, body: one_line }),
        _ => Err(Unhealthy::Refused {
            url,
            status: format!("{status} {one_line}").trim().to_owned(),
        }),
    }
}

/// The address to ask: the loopback, if the server listens on all addresses.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// A stream, with TLS or without.
trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

fn handshake(address: SocketAddr) -> io::Result<ClientConnection> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = AnyServer(provider.signature_verification_algorithms);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let name = ServerName::IpAddress(address.ip().into());
    ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)
}

/// Accepts every certificate.
#[derive(Debug)]
struct AnyServer(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// One request on a new connection. The timeout is for all of it, so that a reply in small pieces is late, too.
fn exchange(address: SocketAddr, tls: bool, path: &str, timeout: Duration) -> io::Result<String> {
    let start = Instant::now();
    let left = || match timeout.saturating_sub(start.elapsed()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok::<_, io::Error>(left),
    };
    let socket = TcpStream::connect_timeout(&address, timeout)?;
    socket.set_write_timeout(Some(left()?))?;
    socket.set_read_timeout(Some(left()?))?;
    let limits = socket.try_clone()?;
    let mut stream: Box<dyn ReadWrite> = match tls {
        true => Box::new(StreamOwned::new(handshake(address)?, socket)),
        false => Box::new(socket),
    };
    let agent = concat!("flux-resourceset-healthcheck/", env!("CARGO_PKG_VERSION"));
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut reply = Vec::new();
    let mut buffer = [0; 1024];
    while reply.len() < MOST {
        limits.set_read_timeout(Some(left()?))?;
        match stream.read(&mut buffer)? {
            0 => break,
            count => reply.extend_from_slice(&buffer[..count]),
        }
    }
    if reply.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the connection was closed without a reply",
        ));
    }
    Ok(String::from_utf8_lossy(&reply).into_owned())
}
