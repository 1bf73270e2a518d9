//! What came of it: `status`, `wait`, and states beside what other commands show.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use regex::Regex;

use crate::fixture::{Ran, World};

macro_rules! shown {
    ($shown:expr) => {
        insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!($shown) })
    };
}

/// What a cluster does: `poll CLUSTER`, and `event CLUSTER COMPONENT SEVERITY REASON MESSAGE` as its notification-controller sends it.
const AS_CLUSTER: &str = r#"
flux="$FLUX_API_URL/api/v2/flux/clusters"
poll() {
  for path in namespaces platform-components rolebindings; do
    curl -sf -A flux-operator/v0.58.1 -H "Authorization: Bearer read-token" -o "$path.json" "$flux/$1.example.com/$path?marked=true"
  done
}
mark() {
  flux-resourceset-cli status "$1" -o jsonpath="{.kinds['platform-components'].inputs[?(@.id=='$2')].digest}"
}
event() {
  curl -sf -H "Authorization: Bearer write-token" -H "Content-Type: application/json" "$flux/$1.example.com/events" -d '{
    "involvedObject": {"kind": "HelmRelease", "namespace": "flux-system", "name": "'"$2"'", "resourceVersion": "7"},
    "severity": "'"$3"'", "reason": "'"$4"'", "message": "'"$5"'", "timestamp": "'"$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)"'",
    "metadata": {"desired": "'"$(mark "$1" "$2")"'", "input": "platform-components/'"$2"'", "revision": "6.7.1"}}'
}
"#;

impl World {
    /// Runs lines as clusters.
    fn as_clusters(&self, lines: &str) {
        self.file("as-cluster.sh", AS_CLUSTER);
        let ran = self.sh(&format!("set -e; . ./as-cluster.sh; {lines}"));
        assert_eq!(ran.code, 0, "{lines}: {}", ran.stderr);
    }

    fn known(&self, lines: &[&str]) -> String {
        without_ages(&self.transcript(lines))
    }
}

/// Ages and digests differ from run to run, and the width of their columns with them.
fn without_ages(text: &str) -> String {
    let is_given = |line: &str| line.starts_with("$ ") || line.starts_with("error: ");
    let lines = text.lines().map(|line| match is_given(line) {
        true => format!("{line}\n"),
        false => without_ages_of(line),
    });
    lines.collect()
}

fn without_ages_of(line: &str) -> String {
    let mut text = format!("{line}\n");
    for (pattern, name) in [
        (r"\b\d+[smhd]\b( ago|)(?: {1,3}|$|(?P<end>\n))", "AGE$1 $end"),
        (r"\b[0-9a-f]{16}\b", "MARK"),
        (r"\b[0-9a-f]{8}\b", "DIGEST"),
        (r" +\n", "\n"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
    }
    text
}

/// Five clusters: one that fails, one that is ready, one that is behind, one that has never polled.
fn fleet() -> World {
    let world = World::fleet();
    world.as_clusters(
        "poll dev-1; poll dev-2; poll prod-1
         flux-resourceset-cli component update podinfo --oci-tag 6.7.1 --yes --reason 'podinfo 6.7.1'
         poll dev-1; poll prod-1
         event prod-1 podinfo error UpgradeFailed 'Helm upgrade failed: context deadline exceeded'
         for component in cert-manager traefik podinfo; do event dev-1 $component info UpgradeSucceeded ok; done",
    );
    world
}

#[test]
fn states_of_a_fleet() {
    shown!(fleet().known(&[
        "flux-resourceset-cli status -o table",
        "flux-resourceset-cli status -o wide",
        "flux-resourceset-cli status -o name",
        "flux-resourceset-cli status -l environment=dev --state told,converged -o table",
        "flux-resourceset-cli status -l environment=dev --state failing -o table",
        "flux-resourceset-cli status --kind component --component podinfo --state failing,behind,converged -o table",
        "flux-resourceset-cli status --kind namespaces -o table",
        "flux-resourceset-cli status --limit 1 -o table",
        "flux-resourceset-cli status -l team=b -o yaml",
        "flux-resourceset-cli status -o custom-columns=NAME:.id,STATE:.state",
        "flux-resourceset-cli status prod-1 -o table",
        "flux-resourceset-cli status dev-2 -o table",
        "flux-resourceset-cli status demo-cluster-01 -o name",
        "flux-resourceset-cli status prod-2",
        "flux-resourceset-cli status prod-1 -l environment=prod",
        "flux-resourceset-cli status --state odd",
        "flux-resourceset-cli status --kind odd",
        "flux-resourceset-cli status --component odd",
        "flux-resourceset-cli status -l environment=produ",
    ]));
}

#[test]
fn states_beside_other_things() {
    shown!(fleet().known(&[
        "flux-resourceset-cli cluster list -o table",
        "flux-resourceset-cli cluster list -l environment=dev -o wide",
        "flux-resourceset-cli cluster list -l environment=prod -o json",
        "flux-resourceset-cli get clusters -o name",
        "flux-resourceset-cli component where podinfo -o table",
        "flux-resourceset-cli component where podinfo -l environment=prod -o json",
        "flux-resourceset-cli component where --oci-tag 6.7.1 -o table",
        "flux-resourceset-cli component versions -o table",
        "flux-resourceset-cli changes --status -o table",
        "flux-resourceset-cli changes --limit 2 --status | grep -v '\"at\"'",
        "flux-resourceset-cli changes show 3 -o table",
    ]));
}

#[test]
fn a_pipeline_waits() {
    let world = fleet();
    world.as_clusters("poll qa-1");
    shown!(world.known(&[
        "flux-resourceset-cli wait --revision 3 --timeout 1s -o table",
        "flux-resourceset-cli wait --revision 3 --timeout 1 --keep-going --interval 0.2 -o table",
        "flux-resourceset-cli wait --revision 3 -l environment=dev --timeout 1s --interval 0.2",
        "flux-resourceset-cli wait --revision 3 dev-1 -o table",
        "flux-resourceset-cli wait --revision 3 prod-1 --for told -o table",
        "flux-resourceset-cli wait dev-2 --for told --timeout 0s",
        "flux-resourceset-cli wait prod-1",
        "flux-resourceset-cli wait prod-1 qa-1 --for told -o table",
        "flux-resourceset-cli wait dev-1",
        "flux-resourceset-cli wait dev-3",
        "flux-resourceset-cli wait --revision 99",
        "flux-resourceset-cli wait dev-1 -l environment=dev",
        "flux-resourceset-cli wait --timeout soon",
        "flux-resourceset-cli wait -l environment=produ --timeout 0",
    ]));
}

#[test]
fn waiting_ends_when_the_last_cluster_is_there() {
    let world = World::fleet();
    world.as_clusters("poll dev-1; flux-resourceset-cli component override podinfo --cluster dev-1 --oci-tag 6.7.1");
    let waiting = world
        .command("flux-resourceset-cli wait --timeout 60s --interval 0.1 -o table")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(500));
    world.as_clusters("poll dev-1");
    thread::sleep(Duration::from_millis(500));
    world.as_clusters("event dev-1 podinfo info UpgradeSucceeded ok");
    let output = waiting.wait_with_output().unwrap();
    let ran = Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "1 cluster converged\n"),
        "{}",
        ran.stderr
    );
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let revision = |rest: &str| format!("revision 3: {rest}");
    assert_eq!(
        lines,
        [
            revision("0/1 converged, 1 behind"),
            revision("0/1 converged, 1 told"),
            revision("1/1 converged")
        ]
    );
}

#[test]
fn states_are_followed() {
    let world = World::fleet();
    world.as_clusters("poll dev-1");
    let mut all = world.follow("flux-resourceset-cli status --watch -o table");
    let mut some = world.follow("flux-resourceset-cli status -w -l environment=prod --state told -o json");
    let words = |line: String| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    assert_eq!(words(all.line())[..3], ["CLUSTER", "ENVIRONMENT", "STATE"]);
    let listed: Vec<Vec<String>> = (0..4).map(|_| words(all.line())).collect();
    for id in ["demo-cluster-01", "dev-2", "prod-1", "qa-1"] {
        assert!(listed.iter().any(|row| row[0] == id && row[2] == "never"), "{listed:?}");
    }
    // The stream is open when the list has come; the other one has printed nothing.
    thread::sleep(Duration::from_millis(1500));
    world.as_clusters("poll dev-2; poll prod-1");
    // The first cluster may be told late, too.
    let mut changed = vec![words(all.line()), words(all.line())];
    if changed.iter().any(|row| row[0] == "dev-1") {
        changed.push(words(all.line()));
    }
    for expected in ["dev-2 dev told", "prod-1 prod told"] {
        assert!(changed.iter().any(|row| row[..3].join(" ") == expected), "{changed:?}");
    }
    let change: serde_json::Value = serde_json::from_str(&some.line()).unwrap();
    assert_eq!(
        (&change["id"], &change["before"], &change["state"]),
        (&"prod-1".into(), &"never".into(), &"told".into())
    );
    all.stop();
    some.stop();
}

/// A server that knows nothing of states, as an older release: what is asked of it about them is not found.
fn older(url: &str) -> String {
    let server = url.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming() {
            answer(&client.unwrap(), &server);
        }
    });
    address
}

/// Passes one request on.
fn answer(mut client: &TcpStream, server: &str) {
    let mut lines = BufReader::new(client).lines().map(Result::unwrap);
    let request = lines.next().unwrap();
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    if request.contains("/status") {
        let refused = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        client.write_all(refused.as_bytes()).unwrap();
        return;
    }
    let mut server = TcpStream::connect(server).unwrap();
    let head = format!("{request}\r\n{}\r\nConnection: close\r\n\r\n", headers.join("\r\n"));
    server.write_all(head.as_bytes()).unwrap();
    std::io::copy(&mut server, &mut client).unwrap();
}

#[test]
fn an_older_server_still_lists_its_clusters() {
    let world = World::demo();
    let address = older(&world.url);
    let world = world.with("FLUX_API_URL", &address);
    let shown = world.transcript(&[
        "flux-resourceset-cli cluster list -o table",
        "flux-resourceset-cli component where podinfo -o table",
        "flux-resourceset-cli changes --status -o table",
        "flux-resourceset-cli status",
        "flux-resourceset-cli status --watch",
        "flux-resourceset-cli wait",
    ]);
    shown!(shown);
}
