//! `flux-resourceset healthcheck`, as a container engine runs it beside the server: the same environment, another process.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::thread;

use serde_json::{Value, json};

use testkit::client::Client;
use testkit::{Ended, Folder, eventually};

use crate::shell::shell;

fn ask(folder: &Folder, listen: &str, arguments: &[&str]) -> Ended {
    let mut line = vec!["healthcheck"];
    line.extend(arguments);
    // Only what it needs: a probe does not fail for want of a token.
    folder.bare().env("LISTEN_ADDR", listen).args(&line).run()
}

#[track_caller]
fn refused(ended: &Ended, said: &str) {
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(ended.stdout, "");
    assert!(
        ended.stderr.starts_with("error: ") && ended.stderr.contains(said),
        "{ended:?}"
    );
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
}

#[test]
fn a_server_that_is_ready_is_healthy() {
    let folder = Folder::new();
    let server = folder.crud().start();
    let address = server.address.to_string();
    let ended = ask(&folder, &address, &[]);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let (asked, body) = ended.stdout.split_once(": ").unwrap();
    assert_eq!(asked, format!("http://{address}/ready"));
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body, json!({"status": "ok"}));
    let ended = ask(&folder, &address, &["--live"]);
    assert_eq!(
        ended.stdout,
        format!("http://{address}/health: {{\"status\":\"ok\"}}\n")
    );
    // It listens everywhere, says its variable: the loopback is asked.
    let everywhere = format!("0.0.0.0:{}", server.address.port());
    let ended = ask(&folder, &everywhere, &[]);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(
        ended.stdout.starts_with(&format!("http://{address}/ready: ")),
        "{ended:?}"
    );
    server.stop();
    refused(&ask(&folder, &address, &[]), &format!("http://{address}/ready: "));
}

#[test]
fn a_server_that_still_reads_its_fleet_is_alive_and_not_ready() {
    let folder = Folder::new();
    folder.crud().start().stop();
    let _lock = shell(&folder.database(), "BEGIN IMMEDIATE");
    let address: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listen = address.to_string();
    let _process = folder.read_only().env("LISTEN_ADDR", &listen).spawn();
    eventually("it is alive", || {
        let reply = Client::new(address, None).try_send("GET", "/health", &[], &[]);
        reply.is_ok_and(|reply| reply.status == 200)
    });
    refused(&ask(&folder, &listen, &[]), "/ready: HTTP/1.1 503 ");
    assert_eq!(ask(&folder, &listen, &["--live"]).status.code(), Some(0));
}

#[test]
fn healthchecks_do_not_wait_for_silent_or_dropped_connections() {
    let folder = Folder::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let ended = ask(&folder, &address, &["--timeout", "50ms"]);
    refused(&ended, "no reply within 50ms");
    thread::spawn(move || {
        while let Ok((mut stream, _)) = silent.accept() {
            while stream.write_all(b"x").is_ok() {
                thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    });
    let ended = ask(&folder, &address, &["--timeout", "200ms"]);
    refused(&ended, "no reply within 200ms");
}

#[test]
fn a_healthcheck_names_what_it_cannot_reach() {
    let folder = Folder::new();
    refused(&ask(&folder, "127.0.0.1:0", &[]), "LISTEN_ADDR: port 0");
    refused(
        &ask(&folder, "nowhere", &[]),
        "LISTEN_ADDR: \"nowhere\" is not an address",
    );
}
