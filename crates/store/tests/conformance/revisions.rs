//! Lists of revisions, undos among them, and the last changes of resources.

use fleet::log::{Batch, Revision};
use fleet::reversal::Reversal;
use store::{AuditQuery, LastChange, Memory, RevisionPage, RevisionQuery, Store};

use crate::{Fixture, assert_chained, audited, batch, by, change, checkpoint, commit, copy, create, log};

/// The revisions that a query finds, and where the next page begins: `6 5 | 5`.
async fn listed(store: &dyn Store, query: RevisionQuery) -> String {
    let RevisionPage { revisions, next } = store.revisions(&query).await.unwrap();
    let numbers: Vec<_> = revisions.iter().map(|found| found.revision.to_string()).collect();
    match next {
        Some(next) => format!("{} | {next}", numbers.join(" ")),
        None => numbers.join(" "),
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn with_reversal(reversal: Reversal) -> Batch {
    let mut batch = batch(vec![change("clusters", "a", Some("1"), Some("1"))]);
    batch.author.reversal = Some(reversal);
    batch
}

pub(crate) async fn revisions_are_listed_newest_first_with_their_counts(f: Fixture) {
    let changes = vec![
        create("clusters", "a", "1"),
        create("clusters", "b", "1"),
        create("namespaces", "x", "1"),
    ];
    commit(&*f.store, &[batch(changes)]).await;
    let changes = vec![
        change("clusters", "a", Some("1"), Some("2")),
        change("clusters", "b", Some("1"), None),
    ];
    commit(&*f.store, &[by("bert", changes), batch(vec![])]).await;

    let found = f.other.revisions(&RevisionQuery::default()).await.unwrap();
    assert_eq!(found.next, None);
    let shown: Vec<_> = found
        .revisions
        .iter()
        .map(|found| serde_json::to_string(found).unwrap())
        .collect();
    let author = |actor: &str| {
        format!(
            r#""at":"2026-01-01T00:00:00.000000Z","actor":"{actor}","request_id":"r-1","reason":"because","changes":"#
        )
    };
    assert_eq!(
        shown,
        [
            format!(r#"{{"revision":3,{}{{}}}}"#, author("anna")),
            format!(
                r#"{{"revision":2,{}{{"clusters":{{"create":0,"update":1,"delete":1}}}}}}"#,
                author("bert")
            ),
            format!(
                r#"{{"revision":1,{}{{"clusters":{{"create":2,"update":0,"delete":0}},"namespaces":{{"create":1,"update":0,"delete":0}}}}}}"#,
                author("anna")
            ),
        ]
    );
    assert!(f.store.check().await.unwrap().is_empty());
}

pub(crate) async fn revisions_are_filtered(f: Fixture) {
    // Revisions 1 to 6: clusters a and b and namespaces a, with 1 and 0 at the end of their ids in turn; 1 to 4 by anna.
    audited(&*f.store).await;
    let mut odd = by("carl", vec![create("namespaces", "b1", "1")]);
    odd.author.reason = some("Because 100% of ümlauts");
    // The clock of another replica may be behind.
    odd.author.at = "2025-12-31T00:00:00.000000Z".to_owned();
    let mut late = by("carl", vec![create("namespaces", "b0", "1")]);
    late.author.reason = None;
    late.author.at = "2026-01-02T00:00:00.000000Z".to_owned();
    commit(&*f.store, &[odd, late]).await;

    let all = RevisionQuery::default;
    let check = async |query: RevisionQuery, expected: &str| {
        assert_eq!(listed(&*f.other, query.clone()).await, expected, "{query:?}");
    };
    check(all(), "8 7 6 5 4 3 2 1").await;
    check(
        RevisionQuery {
            before: Some(Revision(3)),
            ..all()
        },
        "2 1",
    )
    .await;
    check(
        RevisionQuery {
            before: Some(Revision(1)),
            ..all()
        },
        "",
    )
    .await;
    check(RevisionQuery { limit: 2, ..all() }, "8 7 | 7").await;
    check(
        RevisionQuery {
            actor: some("bert"),
            ..all()
        },
        "6 5",
    )
    .await;
    check(
        RevisionQuery {
            actor: some("nobody"),
            ..all()
        },
        "",
    )
    .await;
    check(
        RevisionQuery {
            kind: some("clusters"),
            ..all()
        },
        "6 5 4 3 2 1",
    )
    .await;
    check(
        RevisionQuery {
            kind: some("clusters"),
            actor: some("bert"),
            ..all()
        },
        "6 5",
    )
    .await;
    check(
        RevisionQuery {
            id: some("a1"),
            ..all()
        },
        "5 3 1",
    )
    .await;
    check(
        RevisionQuery {
            id: some("b1"),
            ..all()
        },
        "7 5 3 1",
    )
    .await;
    check(
        RevisionQuery {
            id: some("b1"),
            kind: some("namespaces"),
            ..all()
        },
        "7",
    )
    .await;
    check(
        RevisionQuery {
            id: some("b1"),
            actor: some("anna"),
            ..all()
        },
        "3 1",
    )
    .await;
    check(
        RevisionQuery {
            reason: some("100% of ü"),
            ..all()
        },
        "7",
    )
    .await;
    // Case counts, and nothing has a special meaning.
    check(
        RevisionQuery {
            reason: some("because"),
            before: Some(Revision(8)),
            ..all()
        },
        "6 5 4 3 2 1",
    )
    .await;
    check(
        RevisionQuery {
            reason: some("_ecause"),
            ..all()
        },
        "",
    )
    .await;
    let (first, second) = ("2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000000Z");
    check(
        RevisionQuery {
            since: some(second),
            ..all()
        },
        "8",
    )
    .await;
    check(
        RevisionQuery {
            since: some(first),
            until: some(second),
            ..all()
        },
        "6 5 4 3 2 1",
    )
    .await;
    check(
        RevisionQuery {
            until: some(first),
            ..all()
        },
        "7",
    )
    .await;
    check(
        RevisionQuery {
            since: some("2027"),
            ..all()
        },
        "",
    )
    .await;
    check(
        RevisionQuery {
            since: some(first),
            actor: some("carl"),
            ..all()
        },
        "8",
    )
    .await;
}

pub(crate) async fn lists_of_revisions_are_bounded_work(f: Fixture) {
    audited(&*f.store).await;
    let all = || RevisionQuery {
        examine: 2,
        ..RevisionQuery::default()
    };
    let check = async |query: RevisionQuery, expected: &str| {
        assert_eq!(listed(&*f.other, query.clone()).await, expected, "{query:?}");
    };
    // Nothing among the revisions that were looked at: the next page goes on after them.
    check(
        RevisionQuery {
            reason: some("nothing has this"),
            ..all()
        },
        " | 5",
    )
    .await;
    check(
        RevisionQuery {
            reason: some("nothing has this"),
            before: Some(Revision(5)),
            ..all()
        },
        " | 3",
    )
    .await;
    check(
        RevisionQuery {
            reason: some("nothing has this"),
            before: Some(Revision(2)),
            ..all()
        },
        "",
    )
    .await;
    // What an index finds is not looked for.
    check(
        RevisionQuery {
            actor: some("anna"),
            ..all()
        },
        "4 3 | 3",
    )
    .await;
    check(
        RevisionQuery {
            id: some("a1"),
            ..all()
        },
        "5 3 | 3",
    )
    .await;
    check(
        RevisionQuery {
            id: some("a1"),
            before: Some(Revision(3)),
            ..all()
        },
        "1",
    )
    .await;
}

pub(crate) async fn a_revision_that_was_undone_says_by_which_one(f: Fixture) {
    commit(&*f.store, &[batch(vec![create("clusters", "a", "1")])]).await;
    let again = || batch(vec![change("clusters", "a", Some("1"), Some("1"))]);
    let reversals = [
        None,
        Some(Reversal::Undo(Revision(2))),
        Some(Reversal::Undo(Revision(1))),
        Some(Reversal::Redo(Revision(1))),
    ];
    for reversal in reversals {
        commit(&*f.store, &[reversal.map_or_else(again, with_reversal)]).await;
    }
    let states = async || {
        let page = f.other.revisions(&RevisionQuery::default()).await.unwrap();
        let state = |found: &fleet::summary::RevisionSummary| {
            let by = found.reversed_by.map_or("-".to_owned(), |by| by.to_string());
            format!("{}:{by}", found.revision)
        };
        page.revisions.iter().map(state).collect::<Vec<_>>().join(" ")
    };
    // 3 undoes 2. 4 undoes 1, and 5 brings it back.
    assert_eq!(states().await, "5:- 4:5 3:- 2:3 1:-");
    commit(&*f.store, &[with_reversal(Reversal::Undo(Revision(1)))]).await;
    assert_eq!(states().await, "6:- 5:6 4:5 3:- 2:3 1:6");
}

pub(crate) async fn undos_are_in_the_chain_and_in_exports(f: Fixture) {
    commit(&*f.store, &[batch(vec![create("clusters", "a", "1")])]).await;
    let undo = with_reversal(Reversal::Undo(Revision(1)));
    let redo = with_reversal(Reversal::Redo(Revision(1)));
    commit(&*f.store, &[undo.clone(), redo.clone()]).await;
    let records = log(&*f.other).await;
    assert_chained(&records);
    assert_eq!((&records[1].author, &records[2].author), (&undo.author, &redo.author));
    // Each of them, and neither, has another digest.
    let mut digests = Vec::new();
    for reversal in [None, undo.author.reversal, redo.author.reversal] {
        let mut record = records[1].clone();
        record.author.reversal = reversal;
        digests.push(record.chained(records[0].digest));
    }
    assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);

    let memory = Memory::default();
    copy(&*f.store, &memory, false).await.unwrap();
    assert_eq!(log(&memory).await, records);
    copy(&memory, &*f.store, true).await.unwrap();
    assert_eq!(log(&*f.other).await, records);
    let (all, copied) = (
        RevisionQuery::default(),
        f.other.revisions(&RevisionQuery::default()).await,
    );
    assert_eq!(copied, memory.revisions(&all).await);
    assert!(f.store.check().await.unwrap().is_empty());
}

pub(crate) async fn overridden_guards_are_in_the_chain_and_in_exports(f: Fixture) {
    let overrides = || vec!["freeze".to_owned(), "a \"quoted\" one".to_owned()];
    let mut plain = batch(vec![create("clusters", "a", "1")]);
    plain.removed.lost = vec!["x.example.com".to_owned()];
    let mut only = batch(vec![change("clusters", "a", Some("1"), Some("2"))]);
    only.author.overrides = overrides();
    let mut both = batch(vec![change("clusters", "a", Some("2"), Some("3"))]);
    both.author.overrides = overrides();
    both.removed.deleted = vec!["y.example.com".to_owned()];
    let expected = [plain.removed.clone(), both.removed.clone()];
    commit(&*f.store, &[plain, only, both]).await;

    let records = log(&*f.other).await;
    assert_chained(&records);
    let found: Vec<_> = records.iter().map(|record| record.author.overrides.clone()).collect();
    assert_eq!(found, [vec![], overrides(), overrides()]);
    let listed = f.other.revisions(&RevisionQuery::default()).await.unwrap().revisions;
    let found: Vec<_> = listed.iter().map(|found| found.author.overrides.clone()).collect();
    assert_eq!(found, [overrides(), overrides(), vec![]]);
    let audited = f
        .other
        .audit(&AuditQuery {
            limit: 10,
            ..AuditQuery::default()
        })
        .await
        .unwrap();
    assert_eq!(audited.last().unwrap().author.overrides, overrides());
    // Only what removes something is a removal.
    let removed: Vec<_> = f
        .other
        .removed("")
        .await
        .unwrap()
        .into_iter()
        .map(|(_, removed)| removed)
        .collect();
    assert_eq!(removed, expected);
    let target = Memory::default();
    copy(&*f.store, &target, false).await.unwrap();
    assert_eq!(log(&target).await, records);
    assert!(f.store.check().await.unwrap().is_empty());
}

pub(crate) async fn a_compacted_log_lists_what_is_left(f: Fixture) {
    audited(&*f.store).await;
    f.store.compact(checkpoint(&*f.store, 4).await).await.unwrap();
    assert_eq!(listed(&*f.other, RevisionQuery::default()).await, "6 5");
    let of_anna = RevisionQuery {
        actor: some("anna"),
        ..RevisionQuery::default()
    };
    assert_eq!(listed(&*f.other, of_anna).await, "");
    let wanted = |id, before| LastChange {
        kind: "clusters",
        id,
        before: Revision(before),
    };
    let found = f.other.last_changes(&[wanted("a1", 5), wanted("a1", 6)]).await.unwrap();
    assert!(found[0].is_none());
    assert_eq!(found[1].as_ref().unwrap().revision, Revision(5));
}

pub(crate) async fn the_last_change_of_each_resource_is_found(f: Fixture) {
    audited(&*f.store).await;
    assert_eq!(f.other.last_changes(&[]).await.unwrap(), []);
    let wanted = [
        ("clusters", "a1", 7),
        ("clusters", "b0", 6),
        ("namespaces", "a1", 3),
        ("clusters", "a1", 1),
        ("clusters", "x", 7),
        ("x", "a1", 7),
    ];
    let wanted = wanted.map(|(kind, id, before)| LastChange {
        kind,
        id,
        before: Revision(before),
    });
    let found = f.other.last_changes(&wanted).await.unwrap();
    let places = found
        .iter()
        .map(|found| found.as_ref().map(|found| (found.revision.0, found.index)));
    assert_eq!(
        places.collect::<Vec<_>>(),
        [Some((5, 0)), Some((4, 1)), Some((1, 2)), None, None, None]
    );
    let log = log(&*f.other).await;
    for found in found.into_iter().flatten() {
        let whole = &log[usize::try_from(found.revision.0).unwrap() - 1];
        assert_eq!(
            (&*found.author, &found.change),
            (&whole.author, &whole.changes[found.index])
        );
    }
}
