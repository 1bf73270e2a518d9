//! TLS for tests: who signs certificates, a server that uses them, and clients.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use testkit::{Folder, Process, WRITE, address_in};

/// Signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate with these names and its key, as PEM.
    pub(crate) fn sign(&self, names: &[&str]) -> (String, String) {
        self.sign_as(&params(names))
    }

    /// The same, and it expires after a time, within a second.
    pub(crate) fn sign_for(&self, lifetime: Duration, names: &[&str]) -> (String, String) {
        let mut params = params(names);
        let end = SystemTime::now() + lifetime;
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        self.sign_as(&params)
    }

    fn sign_as(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    CertificateParams::new(names).unwrap()
}

/// A server that speaks TLS, and those who sign.
pub(crate) struct World {
    pub(crate) folder: Folder,
    pub(crate) servers: Authority,
    pub(crate) clients: Authority,
}

impl World {
    pub(crate) fn new() -> World {
        let world = World {
            folder: Folder::new(),
            servers: Authority::new(),
            clients: Authority::new(),
        };
        world.install(world.servers.sign(&["localhost"]));
        world.folder.write("client-ca.pem", world.clients.pem());
        world
    }

    /// Puts a certificate and its key where the server reads them.
    pub(crate) fn install(&self, (certificate, key): (String, String)) {
        self.folder.write("tls.key", key);
        self.folder.write("tls.pem", certificate);
    }

    pub(crate) fn setup(&self) -> testkit::Setup {
        self.folder
            .crud()
            .env(
                "SEED_FILE",
                concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/seed.json"),
            )
            .env("TLS_CERT_FILE", self.folder.path("tls.pem"))
            .env("TLS_KEY_FILE", self.folder.path("tls.key"))
            .env("TLS_CLIENT_CA_FILE", self.folder.path("client-ca.pem"))
    }

    pub(crate) fn start(&self, setup: testkit::Setup) -> Running {
        let process = setup.spawn();
        let address = address_in(&process.line("listening"));
        Running { process, address }
    }

    pub(crate) fn client(&self, version: &'static SupportedProtocolVersion, own: Option<(String, String)>) -> Client {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.servers.pem().as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap();
        let builder = builder.with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Client(Arc::new(config))
    }

    pub(crate) fn plain_client(&self) -> Client {
        self.client(&rustls::version::TLS13, None)
    }
}

pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

#[derive(Clone)]
pub(crate) struct Client(pub(crate) Arc<ClientConfig>);

impl Client {
    /// A connection whose handshake has not begun.
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(StreamOwned::new(connection, socket))
    }

    /// The status of a request on a connection of its own.
    pub(crate) fn get(&self, address: SocketAddr, path: &str, token: Option<&str>) -> io::Result<u16> {
        self.send(address, "GET", path, token, "").map(|(status, _)| status)
    }

    /// Status and body of a request on a connection of its own.
    pub(crate) fn send(
        &self,
        address: SocketAddr,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> io::Result<(u16, String)> {
        let mut stream = self.connect(address)?;
        let token = token
            .map(|token| format!("authorization: Bearer {token}\r\n"))
            .unwrap_or_default();
        let length = body.len();
        stream.write_all(
            format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\n{token}content-type: application/json\r\n\
                 content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .as_bytes(),
        )?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {reply}")))?;
        let body = reply.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        Ok((status, body.unwrap_or_default()))
    }

    /// Creates something with the write token, and returns the reply.
    #[track_caller]
    pub(crate) fn post(&self, address: SocketAddr, path: &str, body: &str) -> serde_json::Value {
        let (status, reply) = self.send(address, "POST", path, Some(WRITE), body).unwrap();
        assert_eq!(status, 201, "{reply}");
        serde_json::from_str(&reply).unwrap()
    }
}

/// A connection that stays open between requests.
pub(crate) struct Kept(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Client {
    pub(crate) fn keep(&self, address: SocketAddr) -> Kept {
        Kept(BufReader::new(self.connect(address).unwrap()))
    }
}

impl Kept {
    /// Status and head of a request. An error, once the server has closed the connection.
    pub(crate) fn get(&mut self, path: &str) -> io::Result<(u16, String)> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes())?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let head = head.to_ascii_lowercase();
        let length = head.split_once("content-length: ").map_or("0", |(_, rest)| rest);
        let length = length
            .lines()
            .next()
            .and_then(|length| length.parse().ok())
            .unwrap_or(0);
        io::copy(&mut Read::by_ref(&mut self.0).take(length), &mut io::sink())?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.expect("a status"), head))
    }

    pub(crate) fn connection(&self) -> &ClientConnection {
        &self.0.get_ref().conn
    }
}
