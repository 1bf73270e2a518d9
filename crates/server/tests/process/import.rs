//! Large fleets from a file, through the one write path.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use testkit::{Ended, Folder, Setup, cluster, eventually, poll, server_binary};

fn lines(documents: &[Value]) -> String {
    documents.iter().map(|document| format!("{document}\n")).collect()
}

fn with_kind(mut document: Value, kind: &str) -> Value {
    document["kind"] = kind.into();
    document
}

/// A kind, definitions, a profile, and clusters that use them. The label in the profile comes later, with the clusters.
fn fleet(clusters: usize) -> String {
    let mut documents = vec![
        json!({"kind": "quota", "apiVersion": "v1", "schema": {"type": "object", "properties": {"cpu": {"type": "string"}}}}),
        json!({"kind": "quotas", "id": "small", "cpu": "1"}),
        json!({"kind": "namespaces", "id": "apps"}),
        json!({"kind": "profiles", "id": "rest", "selector": "tier!=gold", "quotas": [{"id": "small"}]}),
    ];
    documents.extend((0..clusters).map(|n| {
        let mut one = with_kind(cluster(&format!("c-{n:05}")), "clusters");
        one["namespaces"] = json!([{"id": "apps"}]);
        one["labels"] = json!({"tier": "iron"});
        one
    }));
    lines(&documents)
}

/// An import needs a database and nothing else.
fn import(folder: &Folder, args: &[&str]) -> Setup {
    let setup = folder
        .bare()
        .env("DATABASE_URL", format!("sqlite://{}", folder.database().display()));
    setup.args(&["import"]).args(args)
}

#[track_caller]
fn succeeded(ended: &Ended) -> &str {
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    ended.stderr.lines().last().unwrap()
}

#[test]
fn an_import_brings_kinds_and_resources_and_can_be_repeated() {
    let folder = Folder::new();
    folder.write("fleet.jsonl", fleet(2500));
    let first = import(&folder, &["fleet.jsonl"]).run();
    let progress = succeeded(&first);
    assert!(
        progress.starts_with("imported 2504 documents (2504 changed) in 3 revisions, "),
        "{progress}"
    );
    let again = import(&folder, &["fleet.jsonl"]).run();
    let progress = succeeded(&again);
    assert!(
        progress.starts_with("imported 2504 documents (0 changed) in 0 revisions, "),
        "{progress}"
    );

    // A seed is for a store that nobody has written to.
    let server = folder
        .crud()
        .env("SEED_FILE", folder.seed(&json!({"clusters": [cluster("seeded")]})))
        .start();
    assert_eq!(server.writer().ids("clusters").len(), 2500);
    let inputs = |kind: &str| {
        let path = format!("/api/v2/flux/clusters/c-02499.k8s.example.com/{kind}");
        server.reader().get(&path).expect(200).json()["inputs"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((inputs("namespaces"), inputs("quotas")), (1, 1));
    let changes = server.writer().changes_without_gaps();
    assert_eq!(changes.last().unwrap()["revision"], 4);
    assert!(changes.iter().all(|change| change["actor"] == "system"));
    let reason = changes.last().unwrap()["reason"].as_str().unwrap();
    assert!(reason.contains("import of fleet.jsonl"), "{reason}");
    let mut clusters = changes.iter().filter(|change| change["kind"] == "clusters");
    assert!(
        clusters.all(|change| change["after"].get("kind").is_none()),
        "the kind is not stored"
    );
}

#[test]
fn documents_are_replaced_and_none_is_deleted() {
    let folder = Folder::new();
    succeeded(&import(&folder, &["-"]).run_with_input(fleet(3)));
    let mut changed = with_kind(cluster("c-00001"), "clusters");
    changed["environment"] = "prod".into();
    changed["namespaces"] = json!([]);
    let ended = import(&folder, &["-"]).run_with_input(lines(&[changed]));
    assert!(succeeded(&ended).starts_with("imported 1 documents (1 changed) in 1 revisions"));
    let server = folder.crud().start();
    assert_eq!(server.writer().ids("clusters").len(), 3);
    assert_eq!(
        server.writer().get("/clusters/c-00001").expect(200).json()["environment"],
        "prod"
    );
}

#[test]
fn a_bad_line_is_named_and_nothing_of_its_revision_is_kept() {
    let folder = Folder::new();
    let namespace = |n: usize| json!({"kind": "namespaces", "id": format!("n-{n:02}")});
    let mut documents: Vec<_> = (1..=10).map(namespace).collect();
    documents[6] = json!({"kind": "namespaces", "id": "Not a name", "colour": "green"});
    documents[7] = json!({"kind": "gadgets", "id": "a"});
    // Blank lines count, since an editor counts them.
    folder.write("fleet.jsonl", format!("\n{}", lines(&documents)));
    let ended = import(&folder, &["fleet.jsonl", "--batch", "5"]).run();
    assert_eq!(ended.status.code(), Some(1));
    insta::assert_snapshot!(ended.stderr);

    for (name, text) in [
        (
            "no JSON",
            "{\"kind\": \"namespaces\", \"id\": \"x\"\n".to_owned().into_bytes(),
        ),
        ("no kind", lines(&[json!({"id": "x"})]).into_bytes()),
        ("no object", b"[]\n".to_vec()),
        ("no text", b"{\"kind\": \"namespaces\", \"id\": \"\xff\"}\n".to_vec()),
        (
            "dangling",
            lines(&[{
                let mut one = with_kind(cluster("a"), "clusters");
                one["namespaces"] = json!([{"id": "nowhere"}]);
                one
            }])
            .into_bytes(),
        ),
        (
            "a name taken twice",
            lines(&[with_kind(cluster("a"), "clusters"), {
                let mut one = with_kind(cluster("b"), "clusters");
                one["cluster_dns"] = cluster("a")["cluster_dns"].clone();
                one
            }])
            .into_bytes(),
        ),
    ] {
        let first = lines(&[json!({"kind": "namespaces", "id": format!("with-{}", name.replace(' ', "-"))})]);
        let ended = import(&folder, &["-"]).run_with_input([first.as_bytes(), &text].concat());
        assert_eq!(ended.status.code(), Some(1), "{name}: {}", ended.stderr);
        let named = ended
            .stderr
            .lines()
            .filter(|line| line.starts_with("  line "))
            .collect::<Vec<_>>();
        assert!(!named.is_empty(), "{name}: {}", ended.stderr);
        let line = if name == "a name taken twice" {
            "  line 3:"
        } else {
            "  line 2:"
        };
        assert!(
            named.iter().all(|named| named.starts_with(line)),
            "{name}: {}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("panicked"));
    }

    let server = folder.crud().start();
    let kept: Vec<_> = (1..=5).map(|n| format!("n-{n:02}")).collect();
    assert_eq!(server.writer().ids("namespaces"), kept);
    assert!(server.writer().ids("clusters").is_empty());
    server.writer().changes_without_gaps();
}

#[test]
fn an_import_can_be_read_from_standard_input() {
    let folder = Folder::new();
    let ended = import(&folder, &["-"]).run_with_input(fleet(10));
    assert!(succeeded(&ended).starts_with("imported 14 documents (14 changed) in 1 revisions"));
    // Without a last line break, and with nothing at all.
    let text = lines(&[json!({"kind": "namespaces", "id": "last"})]);
    let ended = import(&folder, &["-"]).run_with_input(text.trim_end());
    assert!(succeeded(&ended).starts_with("imported 1 documents (1 changed)"));
    let ended = import(&folder, &["-"]).run();
    assert!(succeeded(&ended).starts_with("imported 0 documents (0 changed) in 0 revisions"));
    assert_eq!(folder.crud().start().writer().ids("namespaces"), ["apps", "last"]);
}

/// An import of a thousand clusters, with writes of another process beside it until it ends.
fn import_beside(folder: &Folder, batch: &str, write: impl Fn(usize) + Sync) -> (Ended, usize) {
    folder.write("fleet.jsonl", fleet(1000));
    let importing = import(folder, &["fleet.jsonl", "--batch", batch]).spawn();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::SeqCst) {
                write(count);
                count += 1;
            }
            count
        });
        let ended = importing.end();
        done.store(true, Ordering::SeqCst);
        (ended, writing.join().unwrap())
    })
}

#[test]
fn servers_on_the_same_file_see_an_import_and_write_beside_it() {
    let folder = Folder::new();
    let (writer, reader) = (folder.crud().start(), folder.read_only().start());
    let (ended, beside) = import_beside(&folder, "100", |n| {
        let id = format!("beside-{n}");
        writer.writer().post("/clusters", &cluster(&id)).expect(201);
        eventually("it is served by the other process", || {
            reader.reader().get(&poll(&id)).status == 200
        });
    });
    let progress = succeeded(&ended);
    println!("{beside} writes beside the import; {progress}");
    assert!(
        progress.starts_with("imported 1004 documents (1004 changed) in 11 revisions"),
        "{progress}"
    );
    for id in ["c-00000", "c-00999"] {
        eventually("all of it is served", || {
            let path = poll(id).replace("namespaces", "quotas");
            [&writer, &reader].map(|server| server.reader().get(&path).status) == [200, 200]
        });
    }
    assert_eq!(writer.writer().ids("clusters").len(), 1000 + beside);
    writer.writer().changes_without_gaps();
}

#[test]
fn an_import_gets_its_turn_beside_a_process_that_never_stops_writing() {
    let folder = Folder::new();
    let writer = folder.crud().start();
    let (ended, beside) = import_beside(&folder, "1000", |n| {
        let one = json!({"id": format!("n-{n}")});
        writer.writer().post("/namespaces", &one).expect(201);
    });
    println!("{beside} writes beside the import");
    succeeded(&ended);
}

#[test]
fn an_import_that_cannot_begin_says_why() {
    let folder = Folder::new();
    let mut text = String::new();
    let cases = [
        ("a missing file", import(&folder, &["missing.jsonl"])),
        ("a folder", import(&folder, &["."])),
        ("into memory", import(&folder, &["-"]).env("STORE_BACKEND", "memory")),
        (
            "another engine",
            import(&folder, &["-"]).env("DATABASE_URL", "postgres://127.0.0.1:1/fleet"),
        ),
    ];
    for (title, setup) in cases {
        let ended = setup.run();
        assert_eq!(ended.status.code(), Some(1), "{title}");
        text.push_str(&format!("{title}\n{}\n", ended.stderr));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_reader_of_the_output_may_close_it_early() {
    let folder = Folder::new();
    let mut importing = Command::new(server_binary())
        .args(["import", "-", "--database-url", "sqlite:fleet.db"])
        .current_dir(folder.path(""))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(importing.stderr.take());
    importing.stdin.take().unwrap().write_all(fleet(10).as_bytes()).unwrap();
    assert_eq!(importing.wait().unwrap().code(), Some(0));

    // As in `flux-resourceset openapi | head -n 0`.
    let mut printing = Command::new(server_binary())
        .arg("openapi")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(printing.stdout.take());
    let output = printing.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("panicked"), "{said}");
}
