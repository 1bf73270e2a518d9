//! Tells an address with the wrong scheme from a server that is away: https to a port without TLS, and http to one with it.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, InvalidMessage, RootCertStore};
use ureq::http::Uri;

/// How long the other scheme is tried.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why an address cannot be used, and the one that can: none if the scheme is not the reason.
pub(crate) struct WrongScheme {
    pub(crate) detail: &'static str,
    pub(crate) address: String,
}

const NO_TLS: &str = "the server does not use TLS on this port";
const TLS: &str = "the server uses TLS on this port";

impl WrongScheme {
    /// After a request that failed.
    pub(crate) fn find(url: &str, error: &ureq::Error) -> Option<WrongScheme> {
        match url.split_once("://")? {
            ("https", rest) if is_not_tls(error) => Some(WrongScheme {
                detail: NO_TLS,
                address: format!("http://{rest}"),
            }),
            // A server with TLS closes the connection when it gets anything else.
            ("http", rest) if is_cut_off(error) && answers_with_tls(url) => Some(WrongScheme {
                detail: TLS,
                address: format!("https://{rest}"),
            }),
            _ => None,
        }
    }

    /// After an answer: some servers explain that they expect https.
    pub(crate) fn in_answer(url: &str, status: u16, body: &[u8]) -> Option<WrongScheme> {
        let rest = url.strip_prefix("http://")?;
        let explains = status == 400 && String::from_utf8_lossy(body).contains("HTTPS");
        explains.then(|| WrongScheme {
            detail: TLS,
            address: format!("https://{rest}"),
        })
    }
}

/// The error of TLS within an error of a request.
pub(crate) fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()),
        _ => None,
    }
}

fn is_not_tls(error: &ureq::Error) -> bool {
    matches!(
        tls_error(error),
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType))
    )
}

/// Whether the server answered with something else than HTTP, or closed the connection.
fn is_cut_off(error: &ureq::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData, UnexpectedEof};
    match error {
        ureq::Error::Io(error) => matches!(
            error.kind(),
            BrokenPipe | ConnectionAborted | ConnectionReset | InvalidData | UnexpectedEof
        ),
        ureq::Error::Protocol(_) | ureq::Error::Http(_) => true,
        _ => false,
    }
}

/// Sends the first message of TLS, and looks at the first byte of the answer: a handshake, or an alert. Nothing is trusted and no
/// token is sent.
fn answers_with_tls(url: &str) -> bool {
    first_byte(url).is_some_and(|byte| byte == 0x16 || byte == 0x15)
}

fn first_byte(url: &str) -> Option<u8> {
    let uri: Uri = url.parse().ok()?;
    let (host, port) = (uri.host()?, uri.port_u16().unwrap_or(80));
    let bare = host.trim_matches(['[', ']']);
    let address = (bare, port).to_socket_addrs().ok()?.next()?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?;
    let config = config
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(bare.to_owned()).ok()?;
    let mut hello = Vec::new();
    ClientConnection::new(Arc::new(config), name)
        .ok()?
        .write_tls(&mut hello)
        .ok()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(&hello).ok()?;
    let mut byte = [0];
    stream.read_exact(&mut byte).ok()?;
    Some(byte[0])
}
