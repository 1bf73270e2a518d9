//! The program and a server with TLS of its own: trusted authorities, and client certificates as identities.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use testkit::{Process, Setup, address_in};

use crate::fixture::World;

/// Signs certificates.
pub(crate) struct Authority(pub(crate) CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate with this name and its key, as files of the folder that commands are run in.
    pub(crate) fn sign(&self, world: &World, file: &str, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        world.file(&format!("{file}.pem"), &certificate.pem());
        world.file(&format!("{file}.key"), &key.serialize_pem());
    }
}

/// A server with TLS, and a folder with certificates of both sides.
struct Secure {
    world: World,
    _server: Process,
    port: String,
}

fn secure() -> Secure {
    let world = World::demo();
    let (servers, clients) = (Authority::new(), Authority::new());
    world.file("ca.pem", &servers.0.pem());
    world.file("client-ca.pem", &clients.0.pem());
    servers.sign(&world, "server", "localhost");
    clients.sign(&world, "ann", "ann.example.com");
    clients.sign(&world, "nobody", "nobody.example.com");
    clients.sign(&world, "demo", "demo-cluster-01.k8s.example.com");
    Authority::new().sign(&world, "forged", "ann.example.com");
    world.file("empty.pem", "");
    let work = world.work();
    let server = Setup::new(&work)
        .env("API_MODE", "crud")
        .env("STORE_BACKEND", "memory")
        .env(
            "SEED_FILE",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/seed.json"),
        )
        .env("LISTEN_ADDR", "127.0.0.1:0")
        .env("AUTH_TOKEN", "read-token")
        .env("CRUD_AUTH_TOKEN", "write-token")
        .env("TLS_CERT_FILE", work.join("server.pem"))
        .env("TLS_KEY_FILE", work.join("server.key"))
        .env("TLS_CLIENT_CA_FILE", work.join("client-ca.pem"))
        .spawn();
    let port = address_in(&server.line("listening")).port().to_string();
    let url = format!("https://localhost:{port}");
    let world = world
        .with("FLUX_API_URL", &url)
        .with("PLAIN", &format!("http://localhost:{port}"));
    Secure {
        world,
        _server: server,
        port,
    }
}

impl Secure {
    fn told(&self, lines: &[&str]) -> String {
        self.world.transcript(lines).replace(&self.port, "PORT")
    }
}

#[test]
fn client_certificates() {
    let secure = secure();
    let ann = "flux-resourceset-cli --certificate-authority ca.pem --client-certificate ann.pem --client-key ann.key";
    let told = secure.told(&[
        // A token, over TLS with an authority of ours.
        "flux-resourceset-cli cluster list -o name",
        "flux-resourceset-cli --certificate-authority ca.pem cluster list -o name",
        "flux-resourceset-cli --certificate-authority=ca.pem identity create ann --role operator --clusters '*' --certificate ann.example.com -o name",
        // A certificate in place of a token. A token beats it.
        &format!("unset FLUX_API_TOKEN FLUX_API_WRITE_TOKEN; {ann} whoami -o table"),
        &format!("{ann} whoami -o table"),
        "unset FLUX_API_TOKEN FLUX_API_WRITE_TOKEN; export FLUX_API_CA_FILE=ca.pem FLUX_API_CLIENT_CERTIFICATE=demo.pem FLUX_API_CLIENT_KEY=demo.key
flux-resourceset-cli whoami -o table
flux-resourceset-cli --client-certificate ann.pem --client-key ann.key cluster update demo-cluster-01 --node-count 9 -o table
flux-resourceset-cli inputs demo-cluster-01.k8s.example.com namespaces -o name
flux-resourceset-cli cluster list",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(told) });
}

#[test]
fn certificates_that_cannot_be_used() {
    let secure = secure();
    let with = |files: &str| {
        format!(
            "unset FLUX_API_TOKEN FLUX_API_WRITE_TOKEN; flux-resourceset-cli whoami --certificate-authority ca.pem {files}"
        )
    };
    let lines = [
        with("--client-certificate ann.pem"),
        with("--client-key ann.key"),
        with("--client-certificate ann.pem --client-key nobody.key"),
        with("--client-certificate ann.key --client-key ann.key"),
        with("--client-certificate ann.pem --client-key ann.pem"),
        with("--client-certificate missing.pem --client-key ann.key"),
        with("--client-certificate ann.pem --client-key missing.key"),
        with("--client-certificate empty.pem --client-key ann.key"),
        with("--client-certificate nobody.pem --client-key nobody.key"),
        with("--client-certificate forged.pem --client-key forged.key"),
        with(""),
        "flux-resourceset-cli whoami --certificate-authority empty.pem".to_owned(),
        "flux-resourceset-cli whoami --certificate-authority client-ca.pem".to_owned(),
        "FLUX_API_URL=$PLAIN flux-resourceset-cli whoami --client-certificate ann.pem --client-key ann.key".to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(secure.told(&lines)) });
}

#[test]
fn contexts_with_certificates() {
    let secure = secure();
    let told = secure.told(&[
        "flux-resourceset-cli config set-context demo --url $FLUX_API_URL --certificate-authority ca.pem --client-certificate demo.pem",
        "flux-resourceset-cli config set-context demo --url $FLUX_API_URL --certificate-authority ca.pem --client-certificate demo.pem --client-key demo.key -o table",
        "flux-resourceset-cli config get-contexts -o wide",
        "flux-resourceset-cli config view",
        "cd / && flux-resourceset-cli --context demo whoami -o table",
        // A certificate is not shown to another address.
        "unset FLUX_API_TOKEN FLUX_API_WRITE_TOKEN; FLUX_API_URL=https://127.0.0.1:1 flux-resourceset-cli whoami",
        "flux-resourceset-cli config set-context demo --no-client-certificate --token read-token -o table",
        "flux-resourceset-cli --context demo whoami -o table",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(told) });
}
