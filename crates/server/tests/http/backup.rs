//! Backups: what is written, what a restore accepts, and what it refuses.

use std::sync::Arc;

use fleet::log::Revision;
use flux_resourceset::app::backup::{self, Terms};
use flux_resourceset::app::verify::verify;
use serde_json::json;
use store::Store;

use crate::feed::{LINES, compacted, lines, namespaces, numbered};
use crate::support::{DEMO, DEMO_DNS, PATHS, Setup, TestApp, WRITE, bare};

#[tokio::test]
async fn a_backup_is_gzipped_for_clients_that_accept_it() {
    let app = TestApp::start().await;
    namespaces(&app, numbered("n", 60)).await;
    let plain = app.get("/backup").token(WRITE).await.expect(200);
    let packed = app.get("/backup").token(WRITE).header("accept-encoding", "gzip").await;
    let packed = packed.expect(200);
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.body.len() * 2 < plain.text().len());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed.body[..]), &mut text).unwrap();
    // All but the time in the first line.
    let rest = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    assert_eq!(rest(&text), rest(plain.text()));
}

/// Everything that clusters and readers see.
async fn seen(app: &TestApp) -> Vec<(String, String, String)> {
    let mut seen = Vec::new();
    let mut paths: Vec<_> = PATHS
        .iter()
        .map(|path| format!("/api/v2/flux/clusters/{DEMO_DNS}/{path}"))
        .collect();
    let rest = [
        "/api/v2/flux/clusters",
        "/kinds",
        "/clusters",
        "/profiles",
        "/decommissions",
        "/released_names",
        "/changes?limit=10000",
    ];
    paths.extend(rest.map(str::to_owned));
    paths.push(format!("/clusters/{DEMO}"));
    for path in paths {
        let reply = app.get(&path).await.expect(200);
        seen.push((path, reply.header("etag").to_owned(), reply.text().to_owned()));
    }
    seen
}

#[tokio::test]
async fn what_was_backed_up_over_http_is_served_byte_for_byte_after_a_restore() {
    for compact_first in [false, true] {
        let app = match compact_first {
            false => Setup::default().start().await,
            true => compacted(Setup::default()).await,
        };
        let profile = json!({"id": "rest", "selector": "tier!=gold", "namespaces": [{"id": "apps"}]});
        let batch = [
            json!({"op": "create", "kind": "profiles", "value": profile}),
            json!({"op": "create", "kind": "namespaces", "value": {"id": "apps"}}),
            json!({"op": "merge", "kind": "clusters", "id": DEMO, "value": {"labels": {"tier": "iron"}}}),
        ];
        app.post("/batch", &json!({ "operations": batch })).await.expect(200);
        // A profile keeps its meaning when its label vanishes.
        app.patch(format!("/clusters/{DEMO}"), &json!({"labels": {"tier": null}}))
            .await
            .expect(200);
        assert!(app.input_ids(DEMO_DNS, "namespaces").await.contains(&"apps".to_owned()));
        app.post("/clusters", &bare("short")).await.expect(201);
        app.delete("/clusters/short").await.expect(204);
        app.post("/rollback", &json!({"undo": app.revision()}))
            .await
            .expect(200);
        app.get("/backup").await.problem(403, "forbidden");
        app.get("/backup?all").token(WRITE).await.problem(400, "bad-request");
        let reply = app.get("/backup").token(WRITE).await.expect(200);
        assert_eq!(reply.header("content-type"), LINES);
        assert_eq!(reply.header("x-revision"), app.revision().to_string());
        assert!(reply.header("content-disposition").contains(".jsonl"));
        let all = lines(&reply);
        assert_eq!(all[0]["backup"]["version"], 1);
        assert_eq!(all[0]["backup"]["checkpoint"].is_object(), compact_first);
        assert_eq!(all[all.len() - 1]["end"]["head"], app.app.fleet().head().to_string());

        let restored = Setup::default().restored(&reply).await;
        assert_eq!(seen(&restored).await, seen(&app).await);
        assert_eq!(restored.app.fleet().head(), app.app.fleet().head());
        let removed = app.store.removed("").await.unwrap();
        assert_eq!(restored.store.removed("").await.unwrap(), removed);
        assert_eq!(removed.len(), 1);
        let revisions = app.read("/revisions").await;
        assert_eq!(restored.read("/revisions").await, revisions);
        assert_eq!(revisions["revisions"][1]["undone_by"], app.revision());
        // The same again, but for when it was made.
        let again = restored.get("/backup").token(WRITE).await.expect(200);
        assert_eq!(lines(&again)[1..], all[1..]);
        // What must be unique still is.
        let mut taken = bare("other");
        taken["cluster_dns"] = json!(DEMO_DNS.to_uppercase());
        restored.post("/clusters", &taken).await.problem(409, "exists");
        namespaces(&restored, ["next".to_owned()]).await;
    }
}

/// A backup with changes, restored to an empty store, which must refuse it and stay empty.
struct Damaged {
    lines: Vec<String>,
    target: Setup,
    store: Arc<dyn Store>,
}

impl Damaged {
    async fn start() -> Self {
        let app = compacted(Setup::default()).await;
        let reply = app.get("/backup").token(WRITE).await.expect(200);
        let lines = reply.text().lines().map(str::to_owned).collect();
        let target = Setup::default().sqlite();
        let store = flux_resourceset::app::start::open_store(&target.config).await.unwrap();
        Damaged { lines, target, store }
    }

    /// Why a file with these lines is refused.
    async fn refusal(&self, lines: &[String], end: &str) -> String {
        let file = self.target.file("bad.jsonl", &format!("{}{end}", lines.join("\n")));
        let store = &*self.store;
        let refused = backup::restore(store, &file, Terms::default())
            .await
            .unwrap_err()
            .to_string();
        assert_eq!(store.head().await.unwrap().revision, Revision::ZERO, "{refused}");
        assert!(store.load().await.unwrap().resources.is_empty(), "{refused}");
        assert!(store.applied().await.unwrap().is_empty(), "{refused}");
        assert_eq!(store.checkpoint().await.unwrap(), None, "{refused}");
        let (_, rest) = refused.split_once("bad.jsonl: ").unwrap();
        rest.to_owned()
    }

    fn last(&self) -> usize {
        self.lines.len() - 1
    }

    fn edited(&self, at: usize, from: &str, to: &str) -> Vec<String> {
        let mut lines = self.lines.clone();
        assert!(lines[at].contains(from), "{}", lines[at]);
        lines[at] = lines[at].replacen(from, to, 1);
        lines
    }

    fn without(&self, at: usize) -> Vec<String> {
        let mut lines = self.lines.clone();
        lines.remove(at);
        lines
    }

    fn swapped(&self, a: usize, b: usize) -> Vec<String> {
        let mut lines = self.lines.clone();
        lines.swap(a, b);
        lines
    }
}

#[tokio::test]
async fn a_backup_that_was_cut_off_is_refused_and_nothing_is_kept() {
    let backup = Damaged::start().await;
    let last = backup.last();
    let cut_off = "the file was cut off: its end is missing";
    for end in [1, 3, 8, last] {
        let refused = backup.refusal(&backup.lines[..end], "\n").await;
        assert_eq!(refused, format!("line {}: {cut_off}", end + 1));
    }
    let refused = backup.refusal(&backup.lines, "").await;
    assert_eq!(refused, format!("line {}: {cut_off}", last + 1));
    let mut torn = backup.lines[..last].to_vec();
    let half = torn[last - 1].len() / 2;
    torn[last - 1].truncate(half);
    assert_eq!(backup.refusal(&torn, "").await, format!("line {last}: {cut_off}"));
}

#[tokio::test]
async fn a_backup_that_was_changed_is_refused_and_nothing_is_kept() {
    let backup = Damaged::start().await;
    let last = backup.last();
    let changed = "was changed: its digest does not match its content and the revision before it";
    let wrong_end = "the numbers at the end do not match: lines are missing";
    for (lines, expected) in [
        (
            backup.edited(1, "\"actor\":\"write\"", "\"actor\":\"eve\""),
            format!("line 2: revision 7 {changed}"),
        ),
        (
            backup.edited(1, "\"node_count\":4", "\"node_count\":5"),
            format!("line 2: revision 7 {changed}"),
        ),
        (
            backup.without(2),
            "line 3: revision 8 is missing: revision 9 follows instead".to_owned(),
        ),
        (
            backup.swapped(1, 2),
            "line 2: revision 7 is missing: revision 8 follows instead".to_owned(),
        ),
        (backup.without(4), format!("line {last}: {wrong_end}")),
        (backup.without(last - 1), format!("line {last}: {wrong_end}")),
    ] {
        assert_eq!(backup.refusal(&lines, "\n").await, expected);
    }
}

/// The counts can be brought in line with missing lines. The state and the checkpoint cannot.
#[tokio::test]
async fn a_backup_whose_counts_were_corrected_is_refused() {
    let backup = Damaged::start().await;
    let last = backup.last();
    let mut fewer = backup.without(last - 1);
    let is_resource = |line: &&String| line.starts_with("{\"resource\"");
    let resources = backup.lines.iter().filter(is_resource).count();
    let count = |number: usize| format!("\"resources\":{number}");
    fewer[last - 1] = fewer[last - 1].replace(&count(resources), &count(resources - 1));
    let state = "the resources that did not change since the checkpoint at revision 6 do not match it: the state or the checkpoint was changed";
    assert_eq!(backup.refusal(&fewer, "\n").await, format!("line {last}: {state}"));
    let its_line = format!("{{\"resource\":{{\"kind\":\"clusters\",\"id\":\"{DEMO}\"");
    let demo = backup
        .lines
        .iter()
        .position(|line| line.starts_with(&its_line))
        .unwrap();
    let differs = format!("clusters/{DEMO} differs from revision 7: the state was changed");
    let edited = backup.edited(demo, "\"node_count\":4", "\"node_count\":5");
    let refused = backup.refusal(&edited, "\n").await;
    assert_eq!(refused, format!("line {}: {differs}", demo + 1));
}

#[tokio::test]
async fn a_file_that_is_no_backup_is_refused_and_nothing_is_kept() {
    let backup = Damaged::start().await;
    let last = backup.last();
    let mut later = backup.lines.clone();
    later.push(later[last].clone());
    let deep = format!(
        "{{\"resource\":{{\"kind\":\"namespaces\",\"id\":\"x\",\"body\":{}1{}}}}}",
        "[".repeat(500),
        "]".repeat(500)
    );
    let mut nested = backup.lines.clone();
    nested.insert(last, deep);
    let newer = backup.edited(0, "\"version\":1", "\"version\":2");
    let not_a_line = "this is not a line of a backup";
    for (lines, line, expected) in [
        (later, last + 2, "there are lines after the end"),
        (newer, 1, "this release reads version 1"),
        (backup.without(0), 1, "this is not a backup of flux-resourceset"),
        (vec!["hello".to_owned()], 1, not_a_line),
        (nested, last + 1, not_a_line),
    ] {
        let refused = backup.refusal(&lines, "\n").await;
        let place = format!("line {line}: ");
        assert!(refused.starts_with(&place) && refused.contains(expected), "{refused}");
    }
    assert!(backup.refusal(&[], "").await.starts_with("line 1: "));
}

#[tokio::test]
async fn a_backup_replaces_a_store_only_when_told_to() {
    let app = compacted(Setup::default()).await;
    let reply = app.get("/backup").token(WRITE).await.expect(200);
    let target = Setup::default().sqlite();
    let store = flux_resourceset::app::start::open_store(&target.config).await.unwrap();
    let file = target.file("good.jsonl", reply.text());
    backup::restore(&*store, &file, Terms::default()).await.unwrap();
    let refused = backup::restore(&*store, &file, Terms::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.ends_with("is not empty: it is at revision 10; use --replace to replace its content"),
        "{refused}"
    );
    let replacing = Terms {
        replace: true,
        keeps_revocations: true,
        ..Terms::default()
    };
    backup::restore(&*store, &file, replacing).await.unwrap();
    verify(&*store, &[app.app.fleet().head()]).await.unwrap();
}
