//! https, tokens and certificates that change.

use std::fs;
use std::sync::Arc;

use flux_resourceset_reporter::config::{File, Token};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::world::{World, release};

fn file(path: std::path::PathBuf) -> File {
    File { path, required: true }
}

#[tokio::test]
async fn a_token_that_is_swapped_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    fs::write(&path, "one\n").unwrap();
    let mut world = World::new().await;
    world.config.access.token = Token::In(file(path.clone()));
    world.start().await;
    let (n, first) = world.fleet.report_after(0, |_| true).await;
    assert_eq!(first.token, "Bearer one");
    // As the kubelet does it.
    fs::write(folder.path().join("new"), "two").unwrap();
    fs::rename(folder.path().join("new"), &path).unwrap();
    world.kubernetes.put("helmreleases", release("a", "True"));
    let (_, next) = world.fleet.report_after(n, |_| true).await;
    assert_eq!(next.token, "Bearer two");
}

#[tokio::test]
async fn a_token_that_comes_later_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let mut world = World::new().await;
    world.config.access.token = Token::In(File {
        path: path.clone(),
        required: false,
    });
    world.start().await;
    crate::world::eventually("the objects are listed", || world.kubernetes.lists("buckets") > 0).await;
    assert!(world.fleet.reports().is_empty(), "nothing is sent without a token");
    fs::write(&path, "one").unwrap();
    let (_, first) = world.fleet.report_after(0, |_| true).await;
    assert_eq!(first.token, "Bearer one");
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn signed(authority: &Authority, name: &str) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap(), key)
}

/// The fleet's API with TLS, for clients with a certificate of the authority.
async fn serve_tls(world: &mut World, authority: &Authority) {
    let (certificate, key) = signed(authority, "127.0.0.1");
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.config.url = format!("https://{}", listener.local_addr().unwrap());
    let router = world.fleet.router();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let service = TowerToHyperService::new(router);
                let _ = Builder::new(TokioExecutor::new())
                    .http1_only()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
}

#[tokio::test]
async fn a_client_certificate_identifies_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let (ours, other) = (authority(), authority());
    let mut world = World::new().await;
    serve_tls(&mut world, &ours).await;
    let write = |name: &str, authority: &Authority| {
        let (certificate, key) = signed(authority, crate::world::DNS);
        fs::write(place(&format!("{name}.crt")), certificate.pem()).unwrap();
        fs::write(place(&format!("{name}.key")), key.serialize_pem()).unwrap();
    };
    fs::write(place("ca.crt"), ours.pem()).unwrap();
    write("tls", &other);
    let access = &mut world.config.access;
    access.token = Token::In(File {
        path: place("token"),
        required: false,
    });
    access.authority = Some(file(place("ca.crt")));
    access.certificate = Some(file(place("tls.crt")));
    access.key = Some(file(place("tls.key")));
    world.start().await;
    crate::world::eventually("the objects are listed", || world.kubernetes.lists("buckets") > 0).await;
    assert!(
        world.fleet.reports().is_empty(),
        "the server does not know the authority"
    );
    // A certificate of the right one, in time.
    write("new", &ours);
    fs::rename(place("new.key"), place("tls.key")).unwrap();
    fs::rename(place("new.crt"), place("tls.crt")).unwrap();
    let (_, first) = world.fleet.report_after(0, |_| true).await;
    assert_eq!(first.token, "", "the certificate is enough");
}
