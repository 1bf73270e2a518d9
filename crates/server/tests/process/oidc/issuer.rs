//! An issuer of the test's own: it signs whatever a test needs, wrong tokens among them, and counts who asks for its keys.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use serde_json::{Value, json};

pub const AUDIENCE: &str = "fleet";

/// A private key, and its public one as the issuer shows it.
pub struct Key {
    id: String,
    algorithm: Algorithm,
    private: EncodingKey,
    pub public: Value,
}

impl Key {
    pub fn ec(id: &str) -> Key {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        Key::new(id, Algorithm::ES256, EncodingKey::from_ec_der(&pair.serialize_der()))
    }

    pub fn ed(id: &str) -> Key {
        let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        // The library wants the shortest form of the key: rcgen's has the public key behind it.
        let short = [&ED25519_HEAD[..], &pair.serialize_der()[16..48]].concat();
        Key::new(id, Algorithm::EdDSA, EncodingKey::from_ed_der(&short))
    }

    fn new(id: &str, algorithm: Algorithm, private: EncodingKey) -> Key {
        let mut public = serde_json::to_value(Jwk::from_encoding_key(&private, algorithm).unwrap()).unwrap();
        public["kid"] = id.into();
        public["use"] = "sig".into();
        Key {
            id: id.to_owned(),
            algorithm,
            private,
            public,
        }
    }

    pub fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.clone());
        self.sign_with(&header, claims)
    }

    pub fn sign_with(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.private).unwrap()
    }
}

/// The beginning of an Ed25519 private key in PKCS #8, version 1.
const ED25519_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

#[derive(Default)]
struct State {
    keys: Mutex<Vec<Value>>,
    away: AtomicBool,
    fetches: AtomicUsize,
}

pub struct Issuer {
    address: SocketAddr,
    state: Arc<State>,
}

impl Issuer {
    /// An issuer with these keys.
    pub fn start(keys: &[&Key]) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = Issuer {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        issuer.publish(keys);
        let (url, state) = (issuer.url(), issuer.state.clone());
        thread::spawn(move || {
            for connection in listener.incoming() {
                // The connection is dropped while the issuer is away.
                if !state.away.load(Ordering::SeqCst) {
                    answer(&connection.unwrap(), &url, &state);
                }
            }
        });
        issuer
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces its keys.
    pub fn publish(&self, keys: &[&Key]) {
        *self.state.keys.lock().unwrap() = keys.iter().map(|key| key.public.clone()).collect();
    }

    pub fn go_away(&self, away: bool) {
        self.state.away.store(away, Ordering::SeqCst);
    }

    /// How often its keys were fetched.
    pub fn fetches(&self) -> usize {
        self.state.fetches.load(Ordering::SeqCst)
    }

    /// Claims that are valid for an hour.
    pub fn claims(&self, more: &Value) -> Value {
        let mut claims = json!({
            "iss": self.url(), "aud": AUDIENCE, "sub": "ann", "iat": now(), "exp": now() + 3600,
        });
        claims
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        claims
    }
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn answer(mut connection: &TcpStream, url: &str, state: &State) {
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    // The headers: closing a connection with unread bytes resets it.
    let _ = lines.take_while(|line| !line.is_empty()).count();
    let body = match first.split(' ').nth(1) {
        Some("/.well-known/openid-configuration") => json!({"issuer": url, "jwks_uri": format!("{url}/keys")}),
        Some("/keys") => {
            state.fetches.fetch_add(1, Ordering::SeqCst);
            json!({"keys": *state.keys.lock().unwrap()})
        }
        _ => json!({}),
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = connection.write_all((head + &body).as_bytes());
}
