//! What every engine must do. Each test runs once per engine, with a new store.

#![allow(clippy::unwrap_used)]

mod revisions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleet::json::Json;
use fleet::log::{Author, Batch, Change, Checkpoint, Digest, Head, Removed, Resource, Revision, RevisionRecord};
use pgtest::Server;
use store::{Access, AuditQuery, CommitError, Export, Memory, Postgres, Sqlite, Store, StoreError};
use tempfile::TempDir;
use tokio::task::JoinSet;

use self::revisions::*;

/// One store, and a second handle to it, like that of another process.
struct Fixture {
    store: Arc<dyn Store>,
    other: Arc<dyn Store>,
    _folder: Option<TempDir>,
}

async fn memory_fixture() -> Fixture {
    let store = Arc::new(Memory::default());
    Fixture {
        store: store.clone(),
        other: store,
        _folder: None,
    }
}

async fn sqlite_fixture() -> Fixture {
    let folder = TempDir::new().unwrap();
    let url = format!("sqlite://{}", folder.path().join("fleet.db").display());
    Fixture {
        store: Arc::new(Sqlite::open(&url).await.unwrap()),
        other: Arc::new(Sqlite::open(&url).await.unwrap()),
        _folder: Some(folder),
    }
}

async fn postgres_fixture() -> Fixture {
    let url = Server::shared().database();
    Fixture {
        store: Arc::new(Postgres::open(&url, Access::Write).await.unwrap()),
        other: Arc::new(Postgres::open(&url, Access::Write).await.unwrap()),
        _folder: None,
    }
}

macro_rules! for_every_engine {
    (@ $engine:ident $fixture:ident $($test:ident)*) => {
        mod $engine {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $test() {
                    super::$test(super::$fixture().await).await;
                }
            )*
        }
    };
    ($($test:ident,)*) => {
        for_every_engine!(@ memory memory_fixture $($test)*);
        for_every_engine!(@ sqlite sqlite_fixture $($test)*);
        for_every_engine!(@ postgres postgres_fixture $($test)*);
    };
}

for_every_engine! {
    a_new_store_is_empty,
    the_state_is_what_the_log_adds_up_to,
    a_revision_comes_back_as_it_was_written,
    digests_chain,
    changes_are_paged_by_whole_revisions,
    batches_of_one_commit_get_consecutive_revisions,
    batches_of_one_commit_may_touch_the_same_resource,
    no_batches_make_no_revision,
    a_batch_without_changes_is_a_revision,
    a_large_revision_is_one_revision,
    a_commit_on_a_stale_base_is_a_conflict_and_changes_nothing,
    a_base_of_another_history_is_a_conflict,
    a_unique_value_that_is_taken_undoes_the_whole_commit,
    a_unique_value_twice_in_one_batch_is_refused,
    a_unique_value_counts_within_its_kind,
    a_unique_value_is_free_again_after_its_owner_is_gone,
    two_resources_swap_their_unique_values_in_one_revision,
    a_resource_that_changes_its_body_keeps_its_unique_value,
    audit_filters_by_kind_id_and_actor,
    audit_never_splits_a_revision,
    audit_and_log_are_read_in_parts,
    applied_notes_survive_and_the_last_one_counts,
    concurrent_writers_lose_nothing_and_leave_no_gap,
    head_moved_wakes_for_a_commit_of_its_own,
    head_moved_wakes_for_a_commit_of_another_handle,
    head_moved_remembers_a_commit_that_nobody_waited_for,
    head_moved_can_be_dropped_and_wakes_everyone_who_waits,
    a_compacted_log_begins_after_its_checkpoint,
    what_was_compacted_is_said_to_be_gone,
    only_what_is_in_the_log_and_not_its_end_is_compacted,
    a_log_goes_on_after_it_was_compacted,
    a_large_log_is_compacted_beside_writers,
    revisions_are_found_by_their_time,
    an_export_is_everything_at_one_moment,
    an_export_goes_on_while_the_log_is_compacted,
    what_was_exported_can_be_restored,
    only_an_empty_store_is_restored_unless_told,
    a_restore_that_is_dropped_leaves_no_trace,
    a_place_in_the_log_is_told_from_one_that_is_not,
    a_restored_store_is_another_one,
    revisions_are_listed_newest_first_with_their_counts,
    revisions_are_filtered,
    lists_of_revisions_are_bounded_work,
    a_revision_that_was_undone_says_by_which_one,
    undos_are_in_the_chain_and_in_exports,
    overridden_guards_are_in_the_chain_and_in_exports,
    a_compacted_log_lists_what_is_left,
    the_last_change_of_each_resource_is_found,
}

// Helpers.

fn json(text: &str) -> Json {
    Json::from_canonical(text)
}

fn change(kind: &str, id: &str, before: Option<&str>, after: Option<&str>) -> Change {
    Change {
        kind: kind.into(),
        id: id.into(),
        before: before.map(json),
        after: after.map(json),
        origin: None,
        unique: None,
        keeps_unique: false,
    }
}

fn create(kind: &str, id: &str, body: &str) -> Change {
    change(kind, id, None, Some(body))
}

fn cluster(id: &str, before: Option<&str>, dns: &str) -> Change {
    let unique = Some(dns.to_owned());
    Change {
        unique,
        ..change("clusters", id, before, Some(dns))
    }
}

fn by(actor: &str, changes: Vec<Change>) -> Batch {
    let author = Author {
        at: "2026-01-01T00:00:00.000000Z".to_owned(),
        actor: actor.to_owned(),
        request_id: "r-1".to_owned(),
        reason: Some("because".to_owned()),
        reversal: None,
        overrides: Vec::new(),
    };
    Batch {
        author,
        changes,
        applied: Vec::new(),
        ..Batch::default()
    }
}

fn batch(changes: Vec<Change>) -> Batch {
    by("anna", changes)
}

async fn commit(store: &dyn Store, batches: &[Batch]) -> Head {
    let base = store.head().await.unwrap();
    *store.commit(base, batches).await.unwrap().last().unwrap()
}

async fn log(store: &dyn Store) -> Vec<RevisionRecord> {
    store.changes(Revision::ZERO, usize::MAX).await.unwrap()
}

async fn resources(store: &dyn Store) -> Vec<Resource> {
    let mut resources = store.load().await.unwrap().resources;
    resources.sort_by(|a, b| (&a.kind, &a.id).cmp(&(&b.kind, &b.id)));
    resources
}

/// The state after `records`.
fn replay(records: &[RevisionRecord]) -> Vec<Resource> {
    let mut state = BTreeMap::new();
    for change in records.iter().flat_map(|record| &record.changes) {
        let key = (change.kind.clone(), change.id.clone());
        assert_eq!(
            state.get(&key).map(|resource: &Resource| &resource.body),
            change.before.as_ref()
        );
        match &change.after {
            None => state.remove(&key),
            Some(body) => state.insert(
                key,
                Resource {
                    kind: change.kind.clone(),
                    id: change.id.clone(),
                    body: body.clone(),
                    origin: change.origin.clone(),
                },
            ),
        };
    }
    state.into_values().collect()
}

fn assert_chained(records: &[RevisionRecord]) {
    let mut head = Head::default();
    for record in records {
        assert_eq!(record.revision, head.revision.next());
        assert_eq!(record.digest, record.chained(head.digest));
        head = record.head();
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future)
        .await
        .expect("it takes too long")
}

// The tests.

async fn a_new_store_is_empty(f: Fixture) {
    let state = f.store.load().await.unwrap();
    assert_eq!((state.head, state.resources), (Head::default(), Vec::new()));
    assert_eq!(f.store.head().await.unwrap(), Head::default());
    assert!(log(&*f.store).await.is_empty());
    assert!(f.store.applied().await.unwrap().is_empty());
    assert!(
        f.store
            .audit(&AuditQuery {
                limit: 10,
                ..AuditQuery::default()
            })
            .await
            .unwrap()
            .is_empty()
    );
}

async fn the_state_is_what_the_log_adds_up_to(f: Fixture) {
    let seeded = Change {
        origin: Some("seed".into()),
        ..create("namespaces", "a", "1")
    };
    commit(
        &*f.store,
        &[batch(vec![
            seeded,
            create("clusters", "a", "2"),
            create("clusters", "b", "3"),
        ])],
    )
    .await;
    let update = change("clusters", "a", Some("2"), Some("4"));
    let delete = change("clusters", "b", Some("3"), None);
    commit(
        &*f.store,
        &[batch(vec![update, delete]), batch(vec![create("clusters", "b", "5")])],
    )
    .await;

    let state = f.other.load().await.unwrap();
    assert_eq!(state.head, f.store.head().await.unwrap());
    assert_eq!(resources(&*f.other).await, replay(&log(&*f.other).await));
    let bodies: Vec<_> = resources(&*f.other)
        .await
        .into_iter()
        .map(|resource| resource.body)
        .collect();
    assert_eq!(bodies, [json("4"), json("5"), json("1")]);
}

async fn a_revision_comes_back_as_it_was_written(f: Fixture) {
    let odd = "\u{0}'\"\\\u{1F680} \u{200b}ü";
    let mut written = batch(vec![
        Change {
            origin: Some(odd.into()),
            unique: Some("x".into()),
            ..create("kinds", odd, odd)
        },
        change("kinds", "b", None, None),
    ]);
    written.author.request_id = odd.to_owned();
    let mut plain = by("", vec![change("kinds", odd, Some(odd), None)]);
    plain.author.reason = None;
    commit(&*f.store, &[written.clone(), plain.clone()]).await;

    // The log does not hold unique values.
    written.changes[0].unique = None;
    let first = RevisionRecord::on(Head::default(), &written);
    let second = RevisionRecord::on(first.head(), &plain);
    assert_eq!(log(&*f.other).await, [first, second]);
}

async fn digests_chain(f: Fixture) {
    for n in 0..3 {
        commit(
            &*f.store,
            &[batch(vec![create("clusters", &n.to_string(), "1")]), batch(vec![])],
        )
        .await;
    }
    let records = log(&*f.store).await;
    assert_eq!(records.len(), 6);
    assert_chained(&records);
    assert_eq!(f.store.head().await.unwrap(), records[5].head());
}

async fn changes_are_paged_by_whole_revisions(f: Fixture) {
    for n in 0..5 {
        let id = |part: &str| format!("{n}{part}");
        commit(
            &*f.store,
            &[batch(vec![create("a", &id("x"), "1"), create("a", &id("y"), "1")])],
        )
        .await;
    }
    let page = f.store.changes(Revision(1), 2).await.unwrap();
    assert_eq!(page.iter().map(|record| record.revision.0).collect::<Vec<_>>(), [2, 3]);
    assert!(page.iter().all(|record| record.changes.len() == 2));
    assert!(f.store.changes(Revision(5), 10).await.unwrap().is_empty());
    assert!(f.store.changes(Revision(u64::MAX), 10).await.unwrap().is_empty());
    assert!(f.store.changes(Revision(0), 0).await.unwrap().is_empty());
}

async fn batches_of_one_commit_get_consecutive_revisions(f: Fixture) {
    let batches = [
        by("anna", vec![create("clusters", "a", "1")]),
        by("bert", vec![change("clusters", "a", Some("1"), Some("2"))]),
        by("carl", vec![change("clusters", "a", Some("2"), None)]),
    ];
    let heads = f.store.commit(Head::default(), &batches).await.unwrap();
    let records = log(&*f.store).await;
    assert_eq!(heads, records.iter().map(RevisionRecord::head).collect::<Vec<_>>());
    assert_eq!(heads.iter().map(|head| head.revision.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(
        records.iter().map(|record| &*record.author.actor).collect::<Vec<_>>(),
        ["anna", "bert", "carl"]
    );
    assert!(resources(&*f.store).await.is_empty());
}

async fn batches_of_one_commit_may_touch_the_same_resource(f: Fixture) {
    let gone = |dns: &str| change("clusters", "a", Some(dns), None);
    let batches = [
        batch(vec![cluster("a", None, "one")]),
        batch(vec![cluster("a", Some("one"), "two"), cluster("b", None, "one")]),
        batch(vec![gone("two")]),
        batch(vec![cluster("a", None, "three"), cluster("c", None, "two")]),
    ];
    commit(&*f.store, &batches).await;
    let records = log(&*f.store).await;
    assert_eq!(records.len(), 4);
    assert_chained(&records);
    assert_eq!(resources(&*f.store).await, replay(&records));
}

async fn no_batches_make_no_revision(f: Fixture) {
    assert_eq!(f.store.commit(Head::default(), &[]).await.unwrap(), []);
    assert_eq!(f.store.head().await.unwrap(), Head::default());
    let head = commit(&*f.store, &[batch(vec![])]).await;
    assert_eq!(f.store.commit(Head::default(), &[]).await, Err(CommitError::Conflict));
    assert_eq!(f.store.head().await.unwrap(), head);
}

async fn a_batch_without_changes_is_a_revision(f: Fixture) {
    let head = commit(&*f.store, &[batch(vec![])]).await;
    assert_eq!(head.revision, Revision(1));
    assert!(log(&*f.store).await[0].changes.is_empty());
}

async fn a_large_revision_is_one_revision(f: Fixture) {
    let ids: Vec<_> = (0..1003).map(|n| format!("c{n:04}")).collect();
    let creates = ids.iter().map(|id| cluster(id, None, id));
    commit(&*f.store, &[batch(creates.collect())]).await;
    let updates = ids.iter().map(|id| cluster(id, Some(id), &format!("new-{id}")));
    commit(&*f.store, &[batch(updates.collect())]).await;
    let records = log(&*f.other).await;
    assert_eq!(
        records.iter().map(|record| record.changes.len()).collect::<Vec<_>>(),
        [1003, 1003]
    );
    assert_chained(&records);
    assert_eq!(resources(&*f.other).await, replay(&records));
    let deletes = ids
        .iter()
        .map(|id| change("clusters", id, Some(&format!("new-{id}")), None));
    commit(&*f.store, &[batch(deletes.collect())]).await;
    assert!(resources(&*f.other).await.is_empty());
}

async fn a_commit_on_a_stale_base_is_a_conflict_and_changes_nothing(f: Fixture) {
    let base = f.store.head().await.unwrap();
    let head = commit(&*f.other, &[batch(vec![create("clusters", "a", "1")])]).await;
    let late = Batch {
        applied: vec![("file".into(), "digest".into())],
        ..batch(vec![create("clusters", "b", "1")])
    };
    assert_eq!(f.store.commit(base, &[late]).await, Err(CommitError::Conflict));
    assert_eq!(f.store.head().await.unwrap(), head);
    assert_eq!(resources(&*f.store).await.len(), 1);
    assert!(f.store.applied().await.unwrap().is_empty());
}

async fn a_base_of_another_history_is_a_conflict(f: Fixture) {
    let head = commit(&*f.store, &[batch(vec![])]).await;
    let foreign = Head {
        digest: Digest([7; 32]),
        ..head
    };
    assert_eq!(
        f.store.commit(foreign, &[batch(vec![])]).await,
        Err(CommitError::Conflict)
    );
    let ahead = Head {
        revision: Revision(2),
        ..head
    };
    assert_eq!(
        f.store.commit(ahead, &[batch(vec![])]).await,
        Err(CommitError::Conflict)
    );
    assert_eq!(f.store.head().await.unwrap(), head);
}

async fn a_unique_value_that_is_taken_undoes_the_whole_commit(f: Fixture) {
    let head = commit(&*f.store, &[batch(vec![cluster("a", None, "a.example.com")])]).await;
    let good = Batch {
        applied: vec![("file".into(), "digest".into())],
        ..batch(vec![create("namespaces", "n", "1")])
    };
    let bad = batch(vec![
        cluster("b", None, "b.example.com"),
        cluster("c", None, "a.example.com"),
    ]);
    let refused = f.store.commit(head, &[good, bad]).await;
    let value = "a.example.com".to_owned();
    assert_eq!(
        refused,
        Err(CommitError::Duplicate {
            kind: "clusters".into(),
            id: "c".into(),
            value
        })
    );

    assert_eq!(f.store.head().await.unwrap(), head);
    assert_eq!(log(&*f.store).await.len(), 1);
    assert_eq!(resources(&*f.store).await.len(), 1);
    assert!(f.store.applied().await.unwrap().is_empty());
    // The unique values of the rolled-back batch are free, and the store works.
    commit(&*f.store, &[batch(vec![cluster("c", None, "b.example.com")])]).await;
}

async fn a_unique_value_twice_in_one_batch_is_refused(f: Fixture) {
    let twice = batch(vec![cluster("a", None, "x"), cluster("b", None, "x")]);
    let refused = f.store.commit(Head::default(), &[twice]).await;
    let value = "x".to_owned();
    assert_eq!(
        refused,
        Err(CommitError::Duplicate {
            kind: "clusters".into(),
            id: "b".into(),
            value
        })
    );
    assert_eq!(f.store.head().await.unwrap(), Head::default());
}

async fn a_unique_value_counts_within_its_kind(f: Fixture) {
    let elsewhere = Change {
        kind: "gateways".into(),
        ..cluster("a", None, "x")
    };
    let upper_case = cluster("b", None, "X");
    commit(
        &*f.store,
        &[batch(vec![cluster("a", None, "x"), elsewhere, upper_case])],
    )
    .await;
}

async fn a_unique_value_is_free_again_after_its_owner_is_gone(f: Fixture) {
    commit(
        &*f.store,
        &[batch(vec![cluster("a", None, "x"), cluster("b", None, "y")])],
    )
    .await;
    let gone = change("clusters", "a", Some("x"), None);
    commit(&*f.store, &[batch(vec![gone]), batch(vec![cluster("c", None, "x")])]).await;
    let renamed = cluster("b", Some("y"), "z");
    commit(&*f.store, &[batch(vec![cluster("d", None, "y"), renamed])]).await;
    let no_longer_unique = Change {
        unique: None,
        ..cluster("b", Some("z"), "z")
    };
    commit(&*f.store, &[batch(vec![no_longer_unique, cluster("e", None, "z")])]).await;
}

async fn two_resources_swap_their_unique_values_in_one_revision(f: Fixture) {
    commit(
        &*f.store,
        &[batch(vec![cluster("a", None, "x"), cluster("b", None, "y")])],
    )
    .await;
    commit(
        &*f.store,
        &[batch(vec![cluster("a", Some("x"), "y"), cluster("b", Some("y"), "x")])],
    )
    .await;
    let bodies: Vec<_> = resources(&*f.store)
        .await
        .into_iter()
        .map(|resource| resource.body)
        .collect();
    assert_eq!(bodies, [json("y"), json("x")]);
    // They own the new values, not the old ones.
    let taken = f
        .store
        .commit(f.store.head().await.unwrap(), &[batch(vec![cluster("c", None, "x")])])
        .await;
    assert!(matches!(taken, Err(CommitError::Duplicate { .. })), "{taken:?}");
}

async fn a_resource_that_changes_its_body_keeps_its_unique_value(f: Fixture) {
    let body = |from: &str, to: &str| Change {
        unique: Some("x".to_owned()),
        keeps_unique: true,
        ..change("clusters", "a", Some(from), Some(to))
    };
    commit(&*f.store, &[batch(vec![cluster("a", None, "x")])]).await;
    // Two batches in one commit, then a rename between two batches without one.
    let two = [batch(vec![body("x", "1")]), batch(vec![body("1", "2")])];
    commit(&*f.store, &two).await;
    let after: Vec<_> = resources(&*f.store).await.into_iter().map(|one| one.body).collect();
    assert_eq!(after, [json("2")]);
    let taken = |dns| batch(vec![cluster("b", None, dns)]);
    let refused = f.store.commit(f.store.head().await.unwrap(), &[taken("x")]).await;
    assert!(matches!(refused, Err(CommitError::Duplicate { .. })), "{refused:?}");

    let renamed = Change {
        unique: Some("y".to_owned()),
        ..change("clusters", "a", Some("3"), Some("4"))
    };
    let still = Change {
        unique: Some("y".to_owned()),
        ..body("4", "5")
    };
    let three = [batch(vec![body("2", "3")]), batch(vec![renamed]), batch(vec![still])];
    commit(&*f.store, &three).await;
    let refused = f.store.commit(f.store.head().await.unwrap(), &[taken("y")]).await;
    assert!(matches!(refused, Err(CommitError::Duplicate { .. })), "{refused:?}");
    commit(&*f.store, &[taken("x")]).await;
    let after: Vec<_> = resources(&*f.store).await.into_iter().map(|one| one.body).collect();
    assert_eq!(after, [json("5"), json("x")]);
}

/// Six revisions by two actors, on two kinds.
async fn audited(store: &dyn Store) {
    for n in 1..=6 {
        let id = |name: &str| format!("{name}{}", n % 2);
        let before = (n > 2).then_some("1");
        let changes = vec![
            change("clusters", &id("a"), before, Some("1")),
            change("clusters", &id("b"), before, Some("1")),
            change("namespaces", &id("a"), before, Some("1")),
        ];
        commit(store, &[by(if n <= 4 { "anna" } else { "bert" }, changes)]).await;
    }
}

/// `revision/index` of each record that the query finds.
async fn found(store: &dyn Store, query: AuditQuery) -> String {
    let records = store.audit(&query).await.unwrap();
    let log = log(store).await;
    let mut places = Vec::new();
    for record in records {
        let whole = &log[usize::try_from(record.revision.0).unwrap() - 1];
        assert_eq!(*record.author, whole.author);
        assert_eq!(record.change, whole.changes[record.index]);
        assert_eq!(record.record().index, record.index);
        places.push(format!("{}/{}", record.revision, record.index));
    }
    places.join(" ")
}

async fn audit_and_log_are_read_in_parts(f: Fixture) {
    audited(&*f.store).await;
    // A revision without changes is part of the log, too.
    commit(&*f.store, &[by("anna", Vec::new())]).await;
    commits(&*f.store, many(1)).await;
    let (whole, all) = (log(&*f.store).await, AuditQuery::default());
    for (kind, actor) in [
        (None, None),
        (Some("clusters"), None),
        (None, Some("anna")),
        (Some("clusters"), Some("bert")),
    ] {
        let mut query = AuditQuery {
            kind: kind.map(str::to_owned),
            actor: actor.map(str::to_owned),
            limit: 100,
            ..all.clone()
        };
        let expected = f.store.audit(&query).await.unwrap();
        assert!(!expected.is_empty());
        // Each part has one record, because a part is never empty.
        query.bytes = Some(1);
        let mut parts = Vec::new();
        loop {
            let part = f.other.audit(&query).await.unwrap();
            let Some(last) = part.last() else { break };
            assert_eq!(part.len(), 1);
            query.behind = Some((last.revision, last.index));
            parts.extend(part);
        }
        assert_eq!(parts, expected);
    }
    let (mut after, mut index, mut parts) = (Revision::ZERO, 0, Vec::<RevisionRecord>::new());
    for _ in 0..100 {
        let part = f.other.log(after, index, 2, 1).await.unwrap();
        for (n, record) in part.iter().enumerate() {
            match parts.last_mut() {
                Some(last) if last.revision == record.revision => last.changes.extend(record.changes.clone()),
                _ => parts.push(record.clone()),
            }
            let cut = n + 1 == part.len() && part.iter().any(|record| !record.changes.is_empty());
            index = if cut { parts.last().unwrap().changes.len() } else { 0 };
            after = if cut {
                Revision(record.revision.0 - 1)
            } else {
                record.revision
            };
        }
    }
    assert_eq!(parts, whole);
}

async fn audit_filters_by_kind_id_and_actor(f: Fixture) {
    audited(&*f.store).await;
    let all = || AuditQuery {
        limit: 100,
        ..AuditQuery::default()
    };
    let some = |text: &str| Some(text.to_owned());
    let check = async |query, expected| assert_eq!(found(&*f.other, query).await, expected);

    check(
        AuditQuery {
            after: Some(Revision(5)),
            ..all()
        },
        "6/0 6/1 6/2",
    )
    .await;
    check(
        AuditQuery {
            kind: some("namespaces"),
            ..all()
        },
        "1/2 2/2 3/2 4/2 5/2 6/2",
    )
    .await;
    check(
        AuditQuery {
            id: some("a1"),
            ..all()
        },
        "1/0 1/2 3/0 3/2 5/0 5/2",
    )
    .await;
    check(
        AuditQuery {
            kind: some("clusters"),
            id: some("a1"),
            ..all()
        },
        "1/0 3/0 5/0",
    )
    .await;
    check(
        AuditQuery {
            actor: some("bert"),
            kind: some("clusters"),
            ..all()
        },
        "5/0 5/1 6/0 6/1",
    )
    .await;
    check(
        AuditQuery {
            actor: some("bert"),
            id: some("b0"),
            after: Some(Revision(4)),
            ..all()
        },
        "6/1",
    )
    .await;
    check(
        AuditQuery {
            actor: some("nobody"),
            ..all()
        },
        "",
    )
    .await;
    check(
        AuditQuery {
            after: Some(Revision(6)),
            ..all()
        },
        "",
    )
    .await;
}

async fn audit_never_splits_a_revision(f: Fixture) {
    audited(&*f.store).await;
    let clusters = |after, limit| AuditQuery {
        after: Some(Revision(after)),
        kind: Some("clusters".to_owned()),
        limit,
        ..AuditQuery::default()
    };
    let check = async |query, expected| assert_eq!(found(&*f.other, query).await, expected);

    check(clusters(0, 0), "").await;
    check(clusters(0, 1), "1/0 1/1").await;
    check(clusters(0, 2), "1/0 1/1").await;
    check(clusters(0, 3), "1/0 1/1 2/0 2/1").await;
    check(clusters(2, 3), "3/0 3/1 4/0 4/1").await;
    check(clusters(5, usize::MAX), "6/0 6/1").await;
    check(clusters(u64::MAX, 1), "").await;
}

async fn applied_notes_survive_and_the_last_one_counts(f: Fixture) {
    let note = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let first = Batch {
        applied: vec![note("a.yaml", "1"), note("b.yaml", "1")],
        ..batch(vec![])
    };
    let second = Batch {
        applied: vec![note("a.yaml", "2")],
        ..batch(vec![])
    };
    commit(&*f.store, &[first]).await;
    commit(&*f.store, &[second, batch(vec![])]).await;
    let expected = BTreeMap::from([note("a.yaml", "2"), note("b.yaml", "1")]);
    assert_eq!(f.other.applied().await.unwrap(), expected);
}

async fn concurrent_writers_lose_nothing_and_leave_no_gap(f: Fixture) {
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = if writer % 2 == 0 {
            f.store.clone()
        } else {
            f.other.clone()
        };
        writers.spawn(async move {
            for n in 0..10 {
                let batch = batch(vec![create("clusters", &format!("{writer}-{n}"), "1")]);
                loop {
                    let base = store.head().await.unwrap();
                    match store.commit(base, std::slice::from_ref(&batch)).await {
                        Ok(heads) => break assert_eq!(heads[0].revision, base.revision.next()),
                        Err(CommitError::Conflict) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let records = log(&*f.store).await;
    assert_eq!(records.len(), 80);
    assert_chained(&records);
    assert_eq!(resources(&*f.other).await, replay(&records));
    assert_eq!(resources(&*f.other).await.len(), 80);
}

async fn follow(store: &dyn Store, head: Head) {
    while store.head().await.unwrap() != head {
        store.head_moved().await;
    }
}

async fn head_moved_wakes_for_a_commit_of_its_own(f: Fixture) {
    let waiting = tokio::spawn({
        let store = f.store.clone();
        async move { store.head_moved().await }
    });
    commit(&*f.store, &[batch(vec![])]).await;
    soon(waiting).await.unwrap();
}

async fn head_moved_wakes_for_a_commit_of_another_handle(f: Fixture) {
    for _ in 0..5 {
        let head = commit(&*f.other, &[batch(vec![])]).await;
        soon(f.store.head_moved()).await;
        soon(follow(&*f.store, head)).await;
    }
}

async fn head_moved_remembers_a_commit_that_nobody_waited_for(f: Fixture) {
    commit(&*f.store, &[batch(vec![])]).await;
    soon(f.store.head_moved()).await;
}

async fn head_moved_can_be_dropped_and_wakes_everyone_who_waits(f: Fixture) {
    let brief = Duration::from_millis(1);
    let _ = tokio::time::timeout(brief, f.store.head_moved()).await;
    let committed = async {
        tokio::task::yield_now().await;
        commit(&*f.other, &[batch(vec![])]).await;
    };
    soon(async { tokio::join!(f.store.head_moved(), f.store.head_moved(), committed) }).await;
}

/// A checkpoint for the revisions up to `revision`. Its digest of the state does not matter here.
async fn checkpoint(store: &dyn Store, revision: u64) -> Checkpoint {
    let records = store.changes(Revision(revision - 1), 1).await.unwrap();
    Checkpoint {
        head: records[0].head(),
        state: Digest([7; 32]),
    }
}

/// Commits each batch separately.
async fn commits(store: &dyn Store, batches: impl IntoIterator<Item = Batch>) {
    for batch in batches {
        commit(store, &[batch]).await;
    }
}

fn many(number: usize) -> impl Iterator<Item = Batch> {
    (0..number).map(|n| batch(vec![create("clusters", &format!("c-{n:04}"), "1")]))
}

async fn a_compacted_log_begins_after_its_checkpoint(f: Fixture) {
    commits(&*f.store, many(10)).await;
    assert_eq!(f.store.checkpoint().await.unwrap(), None);
    let (head, before, whole) = (
        f.store.head().await.unwrap(),
        resources(&*f.store).await,
        log(&*f.store).await,
    );
    let at = checkpoint(&*f.store, 6).await;
    f.store.compact(at).await.unwrap();
    for store in [&f.store, &f.other] {
        assert_eq!(store.checkpoint().await.unwrap(), Some(at));
        assert_eq!(store.head().await.unwrap(), head);
        assert_eq!(resources(&**store).await, before);
        assert_eq!(store.changes(Revision(6), usize::MAX).await.unwrap(), whole[6..]);
        // A query without a start gets what is left.
        let all = AuditQuery {
            limit: 100,
            ..AuditQuery::default()
        };
        assert_eq!(store.audit(&all).await.unwrap()[0].revision, Revision(7));
    }
    // Again, and further.
    f.other.compact(at).await.unwrap();
    f.other.compact(checkpoint(&*f.other, 9).await).await.unwrap();
    assert_eq!(f.store.changes(Revision(9), 9).await.unwrap(), whole[9..]);
}

async fn what_was_compacted_is_said_to_be_gone(f: Fixture) {
    commits(&*f.store, many(10)).await;
    f.store.compact(checkpoint(&*f.store, 6).await).await.unwrap();
    let gone = StoreError::Compacted(Revision(6));
    for after in [0, 1, 5] {
        let after = Revision(after);
        assert_eq!(f.other.changes(after, 1).await.unwrap_err(), gone);
        for (id, limit) in [(None, 1), (Some("c-0008".to_owned()), 100)] {
            let query = AuditQuery {
                after: Some(after),
                id,
                limit,
                ..AuditQuery::default()
            };
            assert_eq!(f.other.audit(&query).await.unwrap_err(), gone);
        }
    }
}

async fn only_what_is_in_the_log_and_not_its_end_is_compacted(f: Fixture) {
    commits(&*f.store, many(3)).await;
    let good = checkpoint(&*f.store, 2).await;
    let last = checkpoint(&*f.store, 3).await;
    let of = |revision, digest| Checkpoint {
        head: Head {
            revision: Revision(revision),
            digest,
        },
        ..good
    };
    for bad in [
        last,
        of(0, Digest::default()),
        of(2, Digest::default()),
        of(4, good.head.digest),
        of(u64::MAX, good.head.digest),
    ] {
        assert_eq!(f.store.compact(bad).await, Err(CommitError::Conflict), "{bad:?}");
    }
    assert_eq!(log(&*f.store).await.len(), 3);
    f.store.compact(good).await.unwrap();
    // Compacted revisions cannot be compacted again, and a checkpoint cannot move back or change.
    let first = of(1, Digest::default());
    assert_eq!(f.store.compact(first).await, Err(CommitError::Conflict));
    let other = Checkpoint {
        state: Digest::default(),
        ..good
    };
    assert_eq!(f.store.compact(other).await, Err(CommitError::Conflict));
    assert_eq!(f.other.checkpoint().await.unwrap(), Some(good));
}

async fn a_log_goes_on_after_it_was_compacted(f: Fixture) {
    commits(&*f.store, many(3)).await;
    let head = f.store.head().await.unwrap();
    f.other.compact(checkpoint(&*f.store, 2).await).await.unwrap();
    let next = commit(&*f.store, &[batch(vec![create("clusters", "more", "1")])]).await;
    assert_eq!(next.revision, Revision(4));
    let records = f.other.changes(head.revision, 9).await.unwrap();
    assert_eq!(records[0].digest, records[0].chained(head.digest));
}

async fn a_large_log_is_compacted_beside_writers(f: Fixture) {
    let changes = |n: usize| (0..500).map(move |m| create("clusters", &format!("{n}-{m}"), "1"));
    commits(&*f.store, (0..12).map(|n| batch(changes(n).collect()))).await;
    let at = checkpoint(&*f.store, 11).await;
    let compacting = tokio::spawn({
        let store = f.other.clone();
        async move { store.compact(at).await }
    });
    commits(&*f.store, many(20)).await;
    compacting.await.unwrap().unwrap();
    let records = f.store.changes(Revision(11), usize::MAX).await.unwrap();
    assert_eq!(records.len(), 21);
    assert_eq!(resources(&*f.store).await.len(), 12 * 500 + 20);
}

async fn revisions_are_found_by_their_time(f: Fixture) {
    let at = |n: usize| format!("2026-01-0{n}T00:00:00.000000Z");
    let batches = (1..=5).map(|n| {
        let mut batch = batch(vec![]);
        batch.author.at = at(n);
        if n % 2 == 0 {
            batch.removed = Removed {
                lost: vec!["a.example.com".to_owned()],
                ..Removed::default()
            };
        }
        batch
    });
    commits(&*f.store, batches).await;
    let first = async |since: &str, removing| f.other.first_since(since, removing).await.unwrap().map(|found| found.0);
    assert_eq!(first("", false).await, Some(1));
    assert_eq!(first("", true).await, Some(2));
    assert_eq!(first(&at(2), false).await, Some(3));
    assert_eq!(first(&at(2), true).await, Some(4));
    assert_eq!(first(&at(4), true).await, None);
    assert_eq!(first(&at(5), false).await, None);
    f.store.compact(checkpoint(&*f.store, 3).await).await.unwrap();
    assert_eq!(first("", false).await, Some(4));
}

/// Everything that was not read yet.
async fn drain(export: &mut dyn Export) -> (Vec<RevisionRecord>, Vec<Resource>) {
    let (mut records, mut resources) = (Vec::new(), Vec::new());
    loop {
        let page = export.revisions().await.unwrap();
        if page.is_empty() {
            break;
        }
        records.extend(page);
    }
    loop {
        let page = export.resources().await.unwrap();
        if page.is_empty() {
            break;
        }
        resources.extend(page);
    }
    (records, resources)
}

/// A store with something of everything, on several pages.
async fn rich(store: &dyn Store) {
    let wide = "x".repeat(40_000);
    commits(
        store,
        (0..60).map(|n| {
            let mut cluster = cluster(&format!("c-{n:02}"), None, &format!("{n}.example.com"));
            cluster.after = Some(json(&format!("{n}{wide}")));
            cluster.origin = (n % 3 == 0).then(|| "seed".into());
            let mut batch = batch(vec![cluster, create("namespaces", &format!("n-{n}"), "1")]);
            batch.author.reason = None;
            batch.applied = vec![(format!("note-{}", n % 4), n.to_string())];
            batch.removed.deleted = (n == 5).then(|| "gone.example.com".to_owned()).into_iter().collect();
            batch
        }),
    )
    .await;
    commits(
        store,
        [batch(vec![]), batch(vec![change("namespaces", "n-7", Some("1"), None)])],
    )
    .await;
}

async fn an_export_is_everything_at_one_moment(f: Fixture) {
    rich(&*f.store).await;
    let (head, expected) = (f.store.head().await.unwrap(), resources(&*f.store).await);
    let applied = f.store.applied().await.unwrap();
    let mut export = f.other.export().await.unwrap();
    commits(&*f.store, [batch(vec![create("clusters", "later", "1")])]).await;
    assert_eq!((export.head(), export.checkpoint()), (head, None));
    assert_eq!(*export.applied(), applied);
    assert_eq!(applied.len(), 4);
    let first = export.revisions().await.unwrap();
    assert!(
        (1..60).contains(&first.len()),
        "a page is not the whole: {}",
        first.len()
    );
    let (rest, mut state) = drain(&mut *export).await;
    let records = [first, rest].concat();
    assert_chained(&records);
    assert_eq!(records.last().unwrap().head(), head);
    state.sort_by(|a, b| (&a.kind, &a.id).cmp(&(&b.kind, &b.id)));
    assert_eq!(state, expected);
}

async fn an_export_goes_on_while_the_log_is_compacted(f: Fixture) {
    rich(&*f.store).await;
    let mut export = f.other.export().await.unwrap();
    let first = export.revisions().await.unwrap();
    let at = checkpoint(&*f.store, 50).await;
    f.store.compact(at).await.unwrap();
    let (rest, _) = drain(&mut *export).await;
    assert_chained(&[first, rest].concat());

    let mut export = f.other.export().await.unwrap();
    assert_eq!(export.checkpoint(), Some(at));
    let (records, _) = drain(&mut *export).await;
    assert_eq!(records[0].revision, Revision(51));
    assert_eq!(records.len(), 12);
}

/// Copies a store.
async fn copy(from: &dyn Store, to: &dyn Store, replace: bool) -> Result<(), StoreError> {
    let mut export = from.export().await?;
    let mut restore = to.restore(replace).await?;
    if let Some(checkpoint) = export.checkpoint() {
        restore.checkpoint(checkpoint).await?;
    }
    restore.applied(export.applied().clone().into_iter().collect()).await?;
    let (records, resources) = drain(&mut *export).await;
    restore.revisions(&records).await?;
    let unique = |resource: &Resource| (&*resource.kind == "clusters").then(|| format!("{}.of", resource.id));
    let resources = resources.into_iter().map(|resource| {
        let unique = unique(&resource);
        (resource, unique)
    });
    restore.resources(resources.collect()).await?;
    restore.finish().await
}

async fn what_was_exported_can_be_restored(f: Fixture) {
    let source = Memory::default();
    rich(&source).await;
    for compacted in [false, true] {
        if compacted {
            source.compact(checkpoint(&source, 20).await).await.unwrap();
        }
        copy(&source, &*f.store, compacted).await.unwrap();
        let store = &*f.other;
        let begins = source.checkpoint().await.unwrap();
        assert_eq!(begins.is_some(), compacted);
        assert_eq!(store.checkpoint().await.unwrap(), begins);
        assert_eq!(store.head().await.unwrap(), source.head().await.unwrap());
        assert_eq!(resources(store).await, resources(&source).await);
        assert_eq!(store.applied().await.unwrap(), source.applied().await.unwrap());
        let after = begins.map(|checkpoint| checkpoint.head.revision).unwrap_or_default();
        let records = store.changes(after, usize::MAX).await.unwrap();
        assert_eq!(records, source.changes(after, usize::MAX).await.unwrap());
        assert_eq!(store.removed("").await.unwrap(), source.removed("").await.unwrap());
    }
    // It continues from there, and unique values are still unique.
    soon(f.store.head_moved()).await;
    let taken = batch(vec![cluster("new", None, "c-01.of")]);
    let base = f.other.head().await.unwrap();
    let refused = f.other.commit(base, &[taken]).await.unwrap_err();
    assert!(matches!(refused, CommitError::Duplicate { .. }), "{refused}");
    commit(&*f.other, &[batch(vec![cluster("new", None, "new.of")])]).await;
}

async fn only_an_empty_store_is_restored_unless_told(f: Fixture) {
    let source = Memory::default();
    commits(&source, many(3)).await;
    commits(&*f.store, [batch(vec![create("clusters", "old", "1")])]).await;
    let refused = copy(&source, &*f.other, false).await.unwrap_err();
    assert!(
        matches!(
            &refused,
            StoreError::NotEmpty {
                revision: Revision(1),
                ..
            }
        ),
        "{refused}"
    );
    assert_eq!(resources(&*f.store).await.len(), 1);
    copy(&source, &*f.other, true).await.unwrap();
    assert_eq!(resources(&*f.store).await, resources(&source).await);
    assert_eq!(f.store.head().await.unwrap(), source.head().await.unwrap());
}

async fn a_restore_that_is_dropped_leaves_no_trace(f: Fixture) {
    commits(&*f.store, many(3)).await;
    let (head, before) = (f.store.head().await.unwrap(), resources(&*f.store).await);
    let mut restore = f.other.restore(true).await.unwrap();
    let resource = Resource {
        id: "other".into(),
        ..before[0].clone()
    };
    restore.resources(vec![(resource, None)]).await.unwrap();
    assert_eq!(resources(&*f.store).await, before, "nothing is seen before its end");
    drop(restore);
    assert_eq!(resources(&*f.store).await, before);
    assert_eq!(log(&*f.store).await.len(), 3);
    let next = commit(&*f.store, &[batch(vec![])]).await;
    assert_eq!(next.revision, head.revision.next());
}

async fn a_place_in_the_log_is_told_from_one_that_is_not(f: Fixture) {
    assert!(f.store.holds(Head::default()).await.unwrap());
    commits(&*f.store, many(4)).await;
    let heads: Vec<Head> = log(&*f.store).await.iter().map(RevisionRecord::head).collect();
    let held = async || {
        let mut held = vec![f.other.holds(Head::default()).await.unwrap()];
        for head in &heads {
            held.push(f.other.holds(*head).await.unwrap());
        }
        held
    };
    assert_eq!(held().await, [true; 5]);
    for strange in [
        Head {
            digest: Digest([7; 32]),
            ..heads[1]
        },
        Head {
            revision: Revision(3),
            ..heads[1]
        },
        Head {
            revision: Revision(5),
            ..heads[3]
        },
        Head {
            revision: Revision(u64::MAX),
            ..heads[3]
        },
    ] {
        assert!(!f.other.holds(strange).await.unwrap(), "{strange}");
    }
    // Revisions before the log are unknown; its begin is known.
    f.store.compact(checkpoint(&*f.store, 2).await).await.unwrap();
    assert_eq!(held().await, [true, false, true, true, true]);
}

async fn a_restored_store_is_another_one(f: Fixture) {
    let epoch = f.store.epoch().await.unwrap();
    assert_eq!(epoch.len(), 32);
    commits(&*f.store, many(3)).await;
    assert_eq!(f.other.epoch().await.unwrap(), epoch);
    let source = Memory::default();
    assert_ne!(source.epoch().await.unwrap(), epoch);
    commits(&source, many(2)).await;
    let lost = f.store.head().await.unwrap();
    copy(&source, &*f.store, true).await.unwrap();
    let restored = f.other.epoch().await.unwrap();
    assert_ne!(restored, epoch);
    assert_ne!(restored, source.epoch().await.unwrap());
    // The first revisions are the same here, because the same was written.
    assert!(!f.other.holds(lost).await.unwrap());
    assert!(f.other.holds(source.head().await.unwrap()).await.unwrap());
}
