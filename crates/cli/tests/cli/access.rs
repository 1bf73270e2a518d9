//! Contexts and tokens.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::fixture::World;
use crate::transcript;

fn without_environment() -> World {
    World::demo()
        .without("FLUX_API_URL")
        .without("FLUX_API_TOKEN")
        .without("FLUX_API_WRITE_TOKEN")
}

#[test]
fn contexts() {
    let world = without_environment();
    world.file("token", "read-token\n");
    let set = |rest: &str| format!("flux-resourceset-cli config set-context {rest}");
    transcript!(
        world,
        "flux-resourceset-cli config get-contexts",
        "flux-resourceset-cli config current-context",
        "flux-resourceset-cli config set-context demo",
        "flux-resourceset-cli config set-context demo --url example.com",
        &set(&format!(
            "demo --url {}/ --token-file token --write-token write-token",
            world.url
        )),
        "flux-resourceset-cli namespace create from-context -o name",
        &set("away --url http://127.0.0.1:1 --token secret --use"),
        "flux-resourceset-cli config get-contexts -o table",
        "flux-resourceset-cli cluster list -o name",
        "flux-resourceset-cli cluster list -o name --context demo",
        "flux-resourceset-cli --context=demo cluster list -o name",
        "flux-resourceset-cli config use-context demo -o name",
        "flux-resourceset-cli config current-context -o table",
        "flux-resourceset-cli config current-context",
        "flux-resourceset-cli config current-context -o json",
        &set("demo --token-command 'echo read-token' -o name"),
        "flux-resourceset-cli cluster list -o name",
        &set("demo --token-command 'exit 3' -o name"),
        "flux-resourceset-cli cluster list -o name",
        "flux-resourceset-cli config view",
        "flux-resourceset-cli config view --raw -o jsonpath='{.contexts.away.token}'",
        "flux-resourceset-cli config delete-context demo -o name",
        "flux-resourceset-cli cluster list",
        "flux-resourceset-cli cluster list --context demo",
        "flux-resourceset-cli config use-context demo",
        &set("x --url http://x --token a --token-file b"),
    );
    let file = world.home.path().join(".config/flux-resourceset/config.yaml");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_environment_wins_and_tokens_stay_with_their_address() {
    let world = without_environment();
    world
        .sh("flux-resourceset-cli config set-context away --url http://127.0.0.1:1 --token secret")
        .json();
    let url = world.url.clone();
    transcript!(
        world,
        &format!("FLUX_API_URL={url} FLUX_API_TOKEN=read-token flux-resourceset-cli cluster list -o name"),
        &format!("FLUX_API_URL={url} flux-resourceset-cli cluster list -o name"),
        &format!(
            "FLUX_API_URL={url} FLUX_API_TOKEN=read-token flux-resourceset-cli cluster list -o name --context away"
        ),
    );
}

#[test]
fn the_password_of_an_address_is_never_shown() {
    let world = without_environment();
    let host = world.url.strip_prefix("http://").unwrap();
    let with_token = format!("FLUX_API_URL=http://ann:pa55@{host} FLUX_API_TOKEN=read-token flux-resourceset-cli");
    let at = |url: &str| format!("FLUX_API_URL={url} FLUX_API_TOKEN=read-token flux-resourceset-cli cluster list");
    let listed = world.sh(&format!("{with_token} cluster list -o name"));
    assert_eq!(listed.code, 0, "the address still works: {}", listed.stderr);
    for (line, shown) in [
        (at("http://ann:pa55@127.0.0.1:1"), "REDACTED@127.0.0.1:1"),
        (at("http://pa55@127.0.0.1:1"), "REDACTED@127.0.0.1:1"),
        (at("'http://ann:pa55@in valid'"), ""),
        (at("ftp://ann:pa55@127.0.0.1"), "ftp://REDACTED@127.0.0.1"),
        (at("ann:pa55@127.0.0.1"), "REDACTED@127.0.0.1"),
        (
            format!("FLUX_API_URL=http://ann:pa55@{host} FLUX_API_TOKEN=wrong flux-resourceset-cli cluster list"),
            "",
        ),
        (format!("{with_token} cluster get none"), ""),
        (
            format!("{with_token} config set-context x --url http://ann:pa55@127.0.0.1:1 --token t"),
            "REDACTED@",
        ),
        (
            "flux-resourceset-cli config get-contexts -o table".to_owned(),
            "REDACTED@",
        ),
        (
            "flux-resourceset-cli config get-contexts -o json".to_owned(),
            "REDACTED@",
        ),
        ("flux-resourceset-cli config current-context -o json".to_owned(), ""),
        ("flux-resourceset-cli config view".to_owned(), "REDACTED@"),
        ("flux-resourceset-cli cluster list".to_owned(), "REDACTED@"),
    ] {
        let said = world.sh(&line);
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(!all.contains("pa55") && all.contains(shown), "{line}: {all}");
    }
    // Whoever asks for the file as it is gets it.
    let raw = world.sh("flux-resourceset-cli config view --raw");
    assert!(raw.stdout.contains("pa55"), "{}", raw.stdout);
}

#[test]
fn a_broken_file_is_named_and_not_in_the_way() {
    let world = World::demo().with("FLUX_RESOURCESET_CONFIG", "broken.yaml");
    world.file("broken.yaml", "contexts: {a: {address: x}}\n");
    transcript!(
        world,
        "flux-resourceset-cli cluster list -o name",
        "flux-resourceset-cli config get-contexts",
        "FLUX_API_URL= flux-resourceset-cli cluster list",
    );
}

/// What stands before a server in production: speaks TLS, and passes each request on. Gives its port.
fn tls_in_front_of(server: &str, certificate: &rcgen::CertifiedKey<rcgen::KeyPair>) -> u16 {
    let chain = vec![certificate.cert.der().clone()];
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key.into())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let upstream = server.strip_prefix("http://").unwrap().to_owned();
    let pass_on = move |connection: TcpStream| -> io::Result<()> {
        let tls = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        let mut client = StreamOwned::new(tls, connection);
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte)?;
            request.extend(byte);
        }
        let mut server = TcpStream::connect(&upstream)?;
        server.write_all(&request[..request.len() - 2])?;
        server.write_all(b"Connection: close\r\n\r\n")?;
        io::copy(&mut server, &mut client)?;
        client.conn.send_close_notify();
        client.flush()
    };
    thread::spawn(move || {
        for connection in listener.incoming() {
            // Who does not trust the certificate leaves in the middle.
            let _left = pass_on(connection.unwrap());
        }
    });
    port
}

#[test]
fn https() {
    let world = World::demo();
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    world.file("authority.pem", &certificate.cert.pem());
    let port = tls_in_front_of(&world.url, &certificate);
    let world = world
        .with("FLUX_API_URL", &format!("https://localhost:{port}"))
        .with("PORT", &port.to_string());
    let plain = world.url.replace("http://", "https://");
    let world = world.with("PLAIN", &plain);
    let trusting = "SSL_CERT_FILE=authority.pem flux-resourceset-cli";
    let told = world.transcript(&[
        &format!("{trusting} cluster list -o name"),
        "flux-resourceset-cli cluster list -o name",
        &format!("FLUX_API_URL=https://127.0.0.1:$PORT {trusting} cluster list -o name"),
        "FLUX_API_URL=http://localhost:$PORT flux-resourceset-cli cluster list -o name",
        "FLUX_API_URL=$PLAIN flux-resourceset-cli cluster list -o name",
    ]);
    insta::with_settings!({omit_expression => true}, {
        let told = told.replace(&plain, "https://API").replace(&port.to_string(), "PORT");
        insta::assert_snapshot!(told);
    });
}
