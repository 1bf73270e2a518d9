//! Shared by the tests of this crate: fleets to start from, one way to write, one view of everything that is visible.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use fleet::Fleet;
use fleet::document::Etag;
use fleet::inputs::{Form, mark};
use fleet::json::Json;
use fleet::kind::{self, KINDS};
use fleet::log::{Batch, Change, Resource, RevisionRecord, State};
use fleet::operation::{BatchRequest, Operation, Verb};
use fleet::refusal::{Reason, Refusal, Violation};
use fleet::snapshot::Poll;
use fleet::status::ExpectedKind;
use fleet::write::Rules;
use fleet::{files, yaml};
use serde_json::{Value, json};

pub const BATCH: Rules = Rules {
    batch: true,
    allow_dangling: false,
    ..Rules::PLAIN
};
pub const SEED: Rules = Rules {
    batch: true,
    allow_dangling: true,
    allow_unknown_labels: true,
    ..Rules::PLAIN
};

/// The kind of the book's chapter "Extending with New Resource Types".
pub fn network_policy() -> Value {
    let case = yaml::parse(include_str!("../merge/network_policies.yaml")).unwrap();
    yaml::parse(case["kinds"][0].as_str().unwrap()).unwrap()
}

/// The built-in kinds, and nothing else.
pub fn empty() -> Fleet {
    static EMPTY: LazyLock<Fleet> = LazyLock::new(|| {
        let put = |document: &Value| {
            Operation::new(
                KINDS,
                Verb::Apply {
                    id: None,
                    value: document.clone(),
                },
            )
        };
        let operations: Vec<_> = kind::built_in().iter().map(put).collect();
        commit(&Fleet::default(), &operations, BATCH).unwrap().0
    });
    EMPTY.clone()
}

/// The demo fleet of the book.
pub fn demo() -> Fleet {
    static DEMO: LazyLock<Fleet> = LazyLock::new(|| {
        let seed = serde_json::from_str(include_str!("../../../../data/seed.json")).unwrap();
        commit(&empty(), &seed_operations(&seed).unwrap(), BATCH).unwrap().0
    });
    DEMO.clone()
}

/// All operations of a seed.
pub fn seed_operations(seed: &Value) -> Result<Vec<Operation>, Vec<Violation>> {
    let text = seed.to_string();
    let seed = files::Seed::read(&text)?;
    let parts = seed.parts().into_iter().map(|part| seed.operations(part));
    Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Writes, and compares the three ways to the next snapshot: by the write, by the log, by loading the store.
pub fn commit(fleet: &Fleet, operations: &[Operation], rules: Rules) -> Result<(Fleet, RevisionRecord), Refusal> {
    let outcome = fleet.write(operations, rules)?;
    let batch = Batch {
        changes: outcome.changes.clone(),
        ..Batch::default()
    };
    let record = RevisionRecord::on(fleet.head(), &batch);
    let written = outcome.committed(record.head());
    let followed = fleet.follow(&record).expect("what was accepted can be followed");
    let loaded = Fleet::load(state(&written)).expect("what was accepted can be loaded");
    let expected = view(&written);
    assert_eq!(view(&followed), expected, "the log leads elsewhere than the write");
    assert_eq!(view(&loaded), expected, "the store leads elsewhere than the write");
    Ok((written, record))
}

/// Writes the operations of a batch, in their wire form.
pub fn write(fleet: &Fleet, operations: Value) -> Result<(Fleet, Vec<Change>), Refusal> {
    let request = BatchRequest::parse(json!({ "operations": operations })).map_err(Refusal::invalid)?;
    commit(fleet, &request.operations, BATCH).map(|(fleet, record)| (fleet, record.changes))
}

/// The fleet after a batch that must be accepted.
#[track_caller]
pub fn accept(fleet: &Fleet, operations: Value) -> Fleet {
    write(fleet, operations)
        .unwrap_or_else(|refusal| panic!("refused: {refusal:#?}"))
        .0
}

/// The refusal of a batch that must be refused: for this reason, and pointing at exactly these places.
#[track_caller]
pub fn refuse(fleet: &Fleet, operations: Value, reason: Reason, pointers: &[&str]) -> Refusal {
    let refusal = match write(fleet, operations) {
        Ok((_, changes)) => panic!("accepted: {changes:#?}"),
        Err(refusal) => refusal,
    };
    let found: Vec<_> = refusal.errors.iter().map(|error| error.pointer.as_str()).collect();
    assert_eq!((refusal.reason, found.as_slice()), (reason, pointers), "{refusal:#?}");
    refusal
}

/// The answer to a poll.
pub fn poll(fleet: &Fleet, dns: &str, path: &str) -> Value {
    match fleet.poll(dns, path) {
        Poll::Reply(reply) => serde_json::from_slice(&reply.identity()).unwrap(),
        Poll::UnknownCluster => "unknown cluster".into(),
        Poll::UnknownKind => "unknown kind".into(),
        Poll::Breach(breach) => format!("breach: {breach}").into(),
        Poll::Damaged => "damaged".into(),
    }
}

/// The body of a reply, if there is one.
fn body(poll: &Poll<Bytes>) -> Option<Bytes> {
    match poll {
        Poll::Reply(body) => Some(body.clone()),
        _ => None,
    }
}

/// Checks what the two forms of a reply have to do with each other, and with what status expects.
fn check_marks(fleet: &Fleet, dns: &str, path: &str, plain: &[u8], marked: &[u8]) {
    let parsed = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
    let mut without = parsed(marked);
    let mut marks = Vec::new();
    for input in without["inputs"].as_array_mut().unwrap() {
        // A kind from before the name was reserved may have a property of that name.
        let has_own = fleet.kinds().at_path(path).unwrap().schema["properties"]
            .get("desired")
            .is_some();
        let desired = (!has_own).then(|| input.as_object_mut().unwrap().remove("desired"));
        let mark = mark(path, Json::new(input).as_str());
        if let Some(desired) = desired {
            assert_eq!(desired, Some(json!({"input": mark.to_string()})), "{dns}/{path}");
        }
        marks.push((input["id"].as_str().unwrap().to_owned(), mark));
    }
    assert_eq!(without, parsed(plain), "{dns}/{path}");
    if let Some(cluster) = fleet.cluster_at(&dns.to_ascii_lowercase()) {
        let kind = fleet.kinds().at_path(path).unwrap();
        let etag = Etag::of_bytes(plain);
        assert_eq!(fleet.plain_etag(cluster, kind), Ok(etag), "{dns}/{path}");
        let expected = ExpectedKind::read(path.into(), plain, true, Arc::new([]));
        assert_eq!(expected.digest, etag, "{dns}/{path}");
        let expected = expected
            .inputs
            .into_iter()
            .map(|input| (input.id.into_string(), input.mark));
        assert_eq!(expected.collect::<Vec<_>>(), marks, "{dns}/{path}");
    }
}

/// What a cluster is told about a kind, in both forms. It polls one of them, always the same, so that the reply stays cached from one revision to
/// the next as that of a real cluster does; the other one is made without the cache.
fn told(fleet: &Fleet, dns: &str, path: &str) -> [Result<Bytes, String>; 2] {
    let sum: usize = dns.bytes().chain(path.bytes()).map(usize::from).sum();
    let polled = [Form::Plain, Form::Marked][sum % 2];
    let both = [Form::Plain, Form::Marked].map(|form| match form == polled {
        true => match fleet.named(dns).poll(path, form) {
            Poll::Reply(reply) => Ok(reply.identity()),
            other => Err(format!("{other:?}")),
        },
        false => {
            let read = fleet.named(dns).read(path, form);
            body(&read).ok_or_else(|| format!("{read:?}"))
        }
    });
    if let [Ok(plain), Ok(marked)] = &both {
        check_marks(fleet, dns, path, plain, marked);
    }
    both
}

/// The ids of a reply's inputs, in their order.
pub fn ids(fleet: &Fleet, dns: &str, path: &str) -> Vec<String> {
    let reply = poll(fleet, dns, path);
    let inputs = reply["inputs"]
        .as_array()
        .unwrap_or_else(|| panic!("{dns}/{path}: {reply}"));
    inputs
        .iter()
        .map(|input| input["id"].as_str().unwrap().to_owned())
        .collect()
}

pub fn document(fleet: &Fleet, kind: &str, id: &str) -> Value {
    fleet
        .document(kind, id)
        .map_or(Value::Null, |document| document.body.parse())
}

/// The state in a store.
pub fn state(fleet: &Fleet) -> State {
    State {
        head: fleet.head(),
        resources: fleet.resources().collect(),
        ..State::default()
    }
}

/// Ids and labels to look up in indexes, whether they exist or not.
pub const IDS: [&str; 6] = ["a", "b", "c", "d", "cert-manager", "podinfo"];
pub const LABELS: [&str; 3] = ["team", "tier", "zone"];

/// Everything visible of a fleet, as text: two fleets with the same view are the same for clients.
pub fn view(fleet: &Fleet) -> BTreeMap<String, String> {
    let mut view = BTreeMap::new();
    view.insert("head".into(), format!("{:?}", fleet.head()));
    view.extend(fleet.resources().map(|resource| {
        let Resource { kind, id, body, .. } = resource;
        (format!("document {kind}/{id}"), body.as_str().to_owned())
    }));
    for kind in fleet.kinds().iter() {
        view.insert(
            format!("schema {}", kind.name),
            format!("{} {:?}", kind.schema, kind.origin),
        );
    }
    let mut names: Vec<&str> = fleet.clusters().values().map(|cluster| &*cluster.head().dns).collect();
    names.extend(fleet.decommissions().keys().map(|dns| &**dns));
    for kind in fleet.kinds().definitions() {
        let path = kind.path.as_deref().unwrap();
        for dns in &names {
            for (form, body) in ["poll", "marked"].iter().zip(told(fleet, dns, path)) {
                let body = body.map_or_else(|problem| problem, |body| String::from_utf8(body.to_vec()).unwrap());
                view.insert(format!("{form} {dns}/{path}"), body);
            }
        }
        let all = fleet.definitions(&kind.name).unwrap();
        for id in all.iter().map(|one| &*one.document.id).chain(IDS) {
            view.insert(
                format!("users {}/{id}", kind.name),
                format!("{:?}", fleet.ids(all.users(id))),
            );
        }
    }
    let mut dangling: Vec<_> = fleet.dangling().collect();
    dangling.sort();
    view.insert("dangling".into(), format!("{dangling:?}"));
    view.insert(
        "labels".into(),
        format!("{:?}", LABELS.map(|label| fleet.has_label(label))),
    );
    for (id, cluster) in fleet.clusters() {
        view.insert(format!("diagnostics {id}"), format!("{:?}", fleet.diagnose(cluster)));
        let explanation = serde_json::to_string(&fleet::profile::explain(fleet, cluster, None, None));
        view.insert(format!("explanation {id}"), explanation.unwrap());
    }
    for profile in fleet.profiles().iter() {
        let members = format!("{:?}", fleet.ids(fleet.profiles().members(profile.id())));
        view.insert(format!("members {}", profile.id()), members);
    }
    view
}
