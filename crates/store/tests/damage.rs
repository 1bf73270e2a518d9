//! A damaged store never shortens an answer: each poll is answered as before or not at all, and the damage is found.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use fleet::Fleet;
use fleet::audit::Audit;
use fleet::files;
use fleet::kind::{self, CLUSTERS, KINDS};
use fleet::log::{Author, Batch};
use fleet::operation::{Operation, Verb};
use fleet::snapshot::{Poll, unique_of};
use fleet::write::Rules;
use pgtest::Server;
use store::{Access, Postgres, Sqlite, Store};
use tempfile::TempDir;

/// Commits operations as one revision, as the server does.
async fn write(store: &dyn Store, fleet: &Fleet, operations: &[Operation]) -> Fleet {
    let rules = Rules {
        batch: true,
        allow_dangling: true,
        ..Rules::PLAIN
    };
    let outcome = fleet.write(operations, rules).unwrap();
    let batch = Batch {
        author: Author::default(),
        changes: outcome.changes.clone(),
        applied: vec![("note".to_owned(), fleet.revision().to_string())],
        ..Batch::default()
    };
    let head = store.commit(fleet.head(), &[batch]).await.unwrap()[0];
    outcome.committed(head)
}

fn seed(text: &str) -> Vec<Operation> {
    let seed = files::Seed::read(text).unwrap();
    let parts = seed.parts().into_iter().map(|part| seed.operations(part).unwrap());
    parts.collect::<Vec<_>>().concat()
}

/// The demo fleet, some more clusters with a history, a deleted one, and a dangling reference.
async fn fill(store: &dyn Store) -> Fleet {
    let kinds = kind::built_in().iter().map(|document| {
        let (id, value) = (None, document.clone());
        Operation::new(KINDS, Verb::Apply { id, value })
    });
    let mut fleet = write(store, &Fleet::default(), &kinds.collect::<Vec<_>>()).await;
    fleet = write(store, &fleet, &seed(include_str!("../../../data/seed.json"))).await;
    for round in ["one", "two"] {
        for n in 0..4 {
            let references = match n {
                0 => String::new(),
                1 => r#","namespaces":[{"id":"traefik"},{"id":"missing"}]"#.to_owned(),
                _ => {
                    r#","platform_components":[{"id":"cert-manager"},{"id":"podinfo"}],"namespaces":[{"id":"podinfo"}]"#
                        .to_owned()
                }
            };
            let cluster = format!(
                r#"{{"id":"c-{n}","cluster_name":"c-{n}","cluster_dns":"c-{n}.example.com","environment":"dev","labels":{{"round":"{round}"}}{references}}}"#
            );
            let (id, value) = (None, fleet::json::parse(cluster.as_bytes()).unwrap());
            fleet = write(store, &fleet, &[Operation::new(CLUSTERS, Verb::Apply { id, value })]).await;
        }
    }
    let delete = Verb::Delete {
        id: "c-3".to_owned(),
        cascade: false,
    };
    write(store, &fleet, &[Operation::new(CLUSTERS, delete)]).await
}

const NAMES: [&str; 5] = [
    "demo-cluster-01.k8s.example.com",
    "c-0.example.com",
    "c-1.example.com",
    "c-2.example.com",
    "c-3.example.com",
];
const PATHS: [&str; 3] = ["platform-components", "namespaces", "rolebindings"];

type Answers = BTreeMap<(&'static str, &'static str), Option<Vec<u8>>>;

/// The answer to each poll; none for 503.
fn answers(fleet: &Fleet) -> Answers {
    let mut answers = Answers::new();
    for name in NAMES {
        for path in PATHS {
            let answer = match fleet.poll(name, path) {
                Poll::Reply(reply) => Some(reply.identity().to_vec()),
                Poll::Damaged => None,
                other => panic!("{name}/{path}: {other:?}"),
            };
            answers.insert((name, path), answer);
        }
    }
    answers
}

/// Everything in the store.
async fn content(store: &dyn Store) -> Result<String, String> {
    let mut export = store.export().await.map_err(|e| e.to_string())?;
    let mut text = format!("{:?} {:?} {:?}", export.head(), export.checkpoint(), export.applied());
    loop {
        let records = export.revisions().await.map_err(|e| e.to_string())?;
        if records.is_empty() {
            break;
        }
        text += &format!("{records:?}");
    }
    let mut resources = Vec::new();
    loop {
        let more = export.resources().await.map_err(|e| e.to_string())?;
        if more.is_empty() {
            break;
        }
        resources.extend(more.iter().map(|resource| format!("{resource:?}")));
    }
    resources.sort();
    Ok(text + &resources.concat())
}

/// As the command `verify` does it.
async fn verify(store: &dyn Store) -> Result<(), String> {
    let problems = store.check().await.map_err(|e| e.to_string())?;
    if let Some(problem) = problems.first() {
        return Err(problem.clone());
    }
    let mut export = store.export().await.map_err(|e| e.to_string())?;
    let begins = export
        .checkpoint()
        .map(|checkpoint| checkpoint.head)
        .unwrap_or_default();
    let mut audit = Audit::new(begins, &[]).map_err(|e| e.to_string())?;
    loop {
        let records = export.revisions().await.map_err(|e| e.to_string())?;
        if records.is_empty() {
            break;
        }
        records
            .iter()
            .try_for_each(|record| audit.record(record))
            .map_err(|e| e.to_string())?;
    }
    loop {
        let resources = export.resources().await.map_err(|e| e.to_string())?;
        if resources.is_empty() {
            break;
        }
        let mut resources = resources.iter();
        resources
            .try_for_each(|resource| audit.resource(resource))
            .map_err(|e| e.to_string())?;
    }
    let sum = audit.end().map_err(|e| e.to_string())?;
    sum.compare(export.checkpoint()).map_err(|e| e.to_string())
}

/// A store before it was damaged.
struct Before {
    answers: Answers,
    content: String,
}

impl Before {
    async fn of(store: &dyn Store, fleet: &Fleet) -> Before {
        verify(store).await.unwrap();
        Before {
            answers: answers(fleet),
            content: content(store).await.unwrap(),
        }
    }

    /// Compares the damaged store with it. Returns the number of polls that are still answered.
    async fn hold(&self, store: &dyn Store, what: &str) -> usize {
        let verified = verify(store).await;
        let loaded = store.load().await.map_err(|e| e.to_string()).and_then(Fleet::load);
        let now = loaded.as_ref().map(answers).unwrap_or_default();
        for (poll, answer) in &now {
            if answer.is_some() {
                assert_eq!(answer, &self.answers[poll], "{what}: {poll:?}");
            }
        }
        if verified.is_ok() {
            let fleet = loaded.unwrap_or_else(|e| panic!("{what}: verify finds nothing, and it cannot be loaded: {e}"));
            assert_eq!(fleet.damage(), None, "{what}: verify finds nothing");
            assert_eq!(now, self.answers, "{what}: verify finds nothing");
            let content = content(store).await.unwrap();
            assert_eq!(content, self.content, "{what}: verify finds nothing");
        }
        now.values().flatten().count()
    }
}

fn url(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("fleet.db").display())
}

/// As an administrator with the sqlite3 shell.
async fn tamper(folder: &Path, sql: &'static str) {
    use sqlx::ConnectOptions;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.join("fleet.db"));
    let mut conn = options.connect().await.unwrap();
    sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    sqlx::Connection::close(conn).await.unwrap();
}

/// Flips one bit of the only occurrence of `text` in the file, at this offset.
fn flip(file: &Path, text: &str, offset: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    let places = bytes.windows(text.len()).enumerate();
    let places: Vec<_> = places
        .filter(|(_, window)| *window == text.as_bytes())
        .map(|(n, _)| n)
        .collect();
    // The log has the document, too; the state's row is the one whose page has no revision in front of it.
    let table = places.iter().copied().find(|place| is_state(&bytes, *place)).unwrap();
    bytes[table + offset] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

/// Whether an offset of the file is in a row of the table of resources: kind and id are right before the body.
fn is_state(bytes: &[u8], place: usize) -> bool {
    let before = &bytes[place.saturating_sub(400)..place];
    let has = |text: &[u8]| before.windows(text.len()).any(|window| window == text);
    has(b"clustersc-2c-2.example.com{")
}

async fn closed() -> (TempDir, Before) {
    let folder = TempDir::new().unwrap();
    let store = Sqlite::open(&url(folder.path())).await.unwrap();
    let fleet = fill(&store).await;
    let before = Before::of(&store, &fleet).await;
    store.close().await;
    (folder, before)
}

/// Checks that the folder's store is damaged, that the rest of it is right, and that a repair restores it.
async fn damaged_then_repaired(folder: &Path, before: &Before, what: &str) -> usize {
    let store = Sqlite::open(&url(folder)).await.unwrap();
    let answered = before.hold(&store, what).await;
    assert!(verify(&store).await.is_err(), "{what}");
    let damage = store.load().await.unwrap().damage;
    assert!(!damage.is_empty(), "{what}");
    let planned = store.repair(false, unique_of).await.unwrap();
    assert!(
        planned.lost.is_empty() && !planned.steps.is_empty(),
        "{what}: {planned:?}"
    );
    assert!(
        !store.load().await.unwrap().damage.is_empty(),
        "{what}: a dry run changes nothing"
    );
    store.repair(true, unique_of).await.unwrap();
    verify(&store).await.unwrap();
    assert_eq!(
        answers(&Fleet::load(store.load().await.unwrap()).unwrap()),
        before.answers,
        "{what}"
    );
    assert_eq!(content(&store).await.unwrap(), before.content, "{what}");
    store.close().await;
    answered
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_in_the_references_of_a_cluster_does_not_empty_it() {
    let (folder, before) = closed().await;
    flip(&folder.path().join("fleet.db"), r#""platform_components":[{"#, 3);
    let answered = damaged_then_repaired(folder.path(), &before, "a bit").await;
    // The cluster itself is unknown by now, which is 503; all the others are answered, dangling references included.
    assert_eq!(answered, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_in_the_id_of_a_definition_does_not_shorten_lists() {
    let (folder, before) = closed().await;
    let sql = "UPDATE resources SET id = 'podinfp' WHERE kind = 'platform_components' AND id = 'podinfo'";
    tamper(folder.path(), sql).await;
    let answered = damaged_then_repaired(folder.path(), &before, "an id").await;
    // Two clusters refer to it.
    assert_eq!(answered, 13);
}

/// Damage to rows, in both dialects, and how many of the 15 polls are still answered.
const DAMAGE: [(&str, usize); 14] = [
    (
        "UPDATE resources SET body = replace(body, 'podinfo', 'podinf0') WHERE id = 'c-2'",
        12,
    ),
    ("UPDATE resources SET id = 'c-9' WHERE id = 'c-2'", 12),
    ("UPDATE resources SET kind = 'cluster5' WHERE id = 'c-2'", 12),
    ("UPDATE resources SET kind = 'kinds' WHERE id = 'c-2'", 12),
    (
        "UPDATE resources SET unique_key = 'c-9.example.com' WHERE id = 'c-2'",
        15,
    ),
    ("UPDATE resources SET origin = 'seed' WHERE id = 'c-2'", 15),
    ("UPDATE resources SET digest = NULL WHERE id = 'c-2'", 15),
    ("DELETE FROM resources WHERE id = 'c-2'", 12),
    ("DELETE FROM resources WHERE kind = 'decommissions'", 12),
    ("DELETE FROM resources WHERE kind = 'namespaces' AND id = 'traefik'", 13),
    ("DELETE FROM resources WHERE kind = 'kinds' AND id = 'rolebindings'", 0),
    ("DELETE FROM resources", 0),
    (
        "UPDATE revisions SET state = NULL WHERE revision = (SELECT max(revision) FROM revisions)",
        15,
    ),
    // An older version of a row, with its own digest.
    (
        "UPDATE resources SET body = (SELECT after FROM changes WHERE id = 'c-2' ORDER BY revision LIMIT 1), \
         digest = (SELECT digest FROM resources WHERE id = 'old') WHERE id = 'c-2'",
        12,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_damaged_are_noticed_and_restored() {
    let (folder, before) = closed().await;
    let file = folder.path().join("fleet.db");
    let pristine = std::fs::read(&file).unwrap();
    for (sql, expected) in DAMAGE {
        std::fs::write(&file, &pristine).unwrap();
        tamper(folder.path(), sql).await;
        let answered = damaged_then_repaired(folder.path(), &before, sql).await;
        assert_eq!(answered, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_damaged_in_postgres_are_noticed_and_restored() {
    let server = Server::shared();
    for (sql, expected) in DAMAGE {
        let url = server.database();
        let store = Postgres::open(&url, Access::Write).await.unwrap();
        let fleet = fill(&store).await;
        let before = Before::of(&store, &fleet).await;
        server.sql(&url, &format!("SET search_path = flux_resourceset; {sql}"));
        assert_eq!(before.hold(&store, sql).await, expected, "{sql}");
        assert!(verify(&store).await.is_err(), "{sql}");
        store.repair(true, unique_of).await.unwrap();
        verify(&store).await.unwrap();
        assert_eq!(content(&store).await.unwrap(), before.content, "{sql}");
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_compacted_log_cannot_tell_is_not_served() {
    let (folder, before) = closed().await;
    let file = folder.path().join("fleet.db");
    let store = Sqlite::open(&url(folder.path())).await.unwrap();
    let head = store.changes(fleet::log::Revision(9), 1).await.unwrap()[0].head();
    let mut export = store.export().await.unwrap();
    let mut audit = Audit::new(head, &[]).unwrap();
    for record in &export.revisions().await.unwrap()[10..] {
        audit.record(record).unwrap();
    }
    for resource in &export.resources().await.unwrap() {
        audit.resource(resource).unwrap();
    }
    drop(export);
    let state = audit.end().unwrap().state;
    store.compact(fleet::log::Checkpoint { head, state }).await.unwrap();
    store.close().await;
    let pristine = std::fs::read(&file).unwrap();
    for (sql, expected, restorable) in [
        // The digests add up, so this row is the only damaged one, of whatever kind it was. It may have been a profile, which brings
        // something to any cluster: only decommissioned names are answered.
        (
            "UPDATE resources SET body = replace(body, 'dev', 'prod') WHERE id = 'c-2'",
            3,
            false,
        ),
        ("DELETE FROM resources WHERE id = 'c-2'", 0, false),
        ("DELETE FROM resources WHERE kind = 'decommissions'", 12, true),
    ] {
        std::fs::write(&file, &pristine).unwrap();
        tamper(folder.path(), sql).await;
        let store = Sqlite::open(&url(folder.path())).await.unwrap();
        let loaded = Fleet::load(store.load().await.unwrap()).unwrap();
        let now = answers(&loaded);
        assert!(
            now.iter()
                .all(|(poll, answer)| answer.is_none() || *answer == before.answers[poll]),
            "{sql}"
        );
        assert_eq!(now.values().flatten().count(), expected, "{sql}: {:?}", loaded.damage());
        let repair = store.repair(true, unique_of).await.unwrap();
        assert_eq!(repair.lost.is_empty(), restorable, "{sql}: {repair:?}");
        assert_eq!(verify(&store).await.is_ok(), restorable, "{sql}");
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_log_is_not_read() {
    let (folder, _) = closed().await;
    tamper(
        folder.path(),
        "UPDATE changes SET after = replace(after, 'dev', 'prod') WHERE id = 'c-2'",
    )
    .await;
    let store = Sqlite::open(&url(folder.path())).await.unwrap();
    assert!(store.load().await.unwrap().damage.is_empty());
    let all = store.changes(fleet::log::Revision::ZERO, 100).await.unwrap_err();
    assert!(all.to_string().contains("does not match its digest"), "{all}");
    let query = store::AuditQuery {
        id: Some("c-2".to_owned()),
        limit: 9,
        ..Default::default()
    };
    assert!(store.audit(&query).await.is_err());
    tamper(folder.path(), "UPDATE revisions SET actor = 'eve' WHERE revision = 4").await;
    let page = store.changes(fleet::log::Revision(3), 1).await.unwrap_err();
    assert!(
        page.to_string()
            .contains("revision 4 of the log does not match its digest"),
        "{page}"
    );
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % end
    }
}

/// Damages bytes at random, and says how.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    const PAGE: usize = 4096;
    let pages = bytes.len() / PAGE;
    match random.below(8) {
        0..=4 => {
            let (place, bit) = (random.below(bytes.len()), random.below(8));
            bytes[place] ^= 1 << bit;
            format!("bit {bit} of byte {place}")
        }
        5 => {
            bytes.truncate(random.below(bytes.len()));
            format!("truncated to {} bytes", bytes.len())
        }
        6 => {
            let (one, two) = (random.below(pages), random.below(pages));
            let first = bytes[one * PAGE..][..PAGE].to_vec();
            bytes.copy_within(two * PAGE..(two + 1) * PAGE, one * PAGE);
            bytes[two * PAGE..][..PAGE].copy_from_slice(&first);
            format!("pages {one} and {two} swapped")
        }
        _ => {
            let page = random.below(pages);
            bytes[page * PAGE..][..PAGE].fill(0);
            format!("page {page} zeroed")
        }
    }
}

async fn hold_damaged(files: &[(&str, Vec<u8>)], before: &Before, seed: u64) {
    const CASES: usize = 120;
    let mut random = Random(seed);
    let (mut refused, mut partly, mut whole) = (0, 0, 0);
    for case in 0..CASES {
        let folder = TempDir::new().unwrap();
        let target = random.below(files.len() - 1);
        let mut what = String::new();
        for (n, (name, bytes)) in files.iter().enumerate() {
            let mut bytes = bytes.clone();
            if n == target {
                what = format!("case {case}: {name}: {}", damage(&mut bytes, &mut random));
            }
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        match Sqlite::open(&url(folder.path())).await {
            Err(_) => refused += 1,
            // Like the server: it is neither served nor written to.
            Ok(store) if store.unexpected().is_some() => refused += 1,
            Ok(store) => match before.hold(&store, &what).await {
                0 => refused += 1,
                15 => whole += 1,
                _ => partly += 1,
            },
        }
    }
    println!("{CASES} cases: {refused} refused, {partly} answered in part, {whole} as before");
    assert!(refused > 0 && whole > 0, "the cases differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_the_file_no_answer_is_shorter() {
    let (folder, before) = closed().await;
    let read = |name: &'static str| (name, std::fs::read(folder.path().join(name)).unwrap());
    hold_damaged(&[read("fleet.db"), read("fleet.db.head")], &before, 0x5eed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_the_write_ahead_log_no_answer_is_shorter() {
    let folder = TempDir::new().unwrap();
    let store = Sqlite::open(&url(folder.path())).await.unwrap();
    let fleet = fill(&store).await;
    let before = Before::of(&store, &fleet).await;
    let marker = folder.path().join("fleet.db.head");
    // As after kill -9: everything is in the log.
    let head = fleet.head().to_string();
    let noted = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        while !std::fs::read_to_string(&marker).is_ok_and(|text| text.contains(&head)) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    noted.await.expect("the marker follows");
    let read = |name: &'static str| (name, std::fs::read(folder.path().join(name)).unwrap());
    let files = [read("fleet.db-wal"), read("fleet.db"), read("fleet.db.head")];
    hold_damaged(&files, &before, 0xfeed).await;
}
