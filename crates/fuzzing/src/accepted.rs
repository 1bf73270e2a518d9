//! What must hold after a write that was accepted.

use std::collections::BTreeSet;

use fleet::Fleet;
use fleet::inputs::Form;
use fleet::log::{Batch, RevisionRecord};
use fleet::operation::Operation;
use fleet::snapshot::Poll;
use serde_json::Value;

use crate::demo;

/// Writes to the demo fleet. A refusal is fine. What is accepted can be followed by another process and loaded by the next one,
/// and all of them give every cluster the same valid reply.
pub(crate) fn write(operations: &[Operation]) {
    let fleet = demo::fleet();
    let Ok(outcome) = fleet.write(operations, demo::RULES) else {
        return;
    };
    let batch = Batch {
        changes: outcome.changes.clone(),
        ..Batch::default()
    };
    let record = RevisionRecord::on(fleet.head(), &batch);
    let written = outcome.committed(record.head());
    let followed = fleet.follow(&record).expect("an accepted write can be followed");
    let loaded = Fleet::load(demo::state(&written)).expect("an accepted write can be loaded");
    let expected = replies(&written);
    assert_eq!(
        replies(&followed),
        expected,
        "the log leads to other replies than the write"
    );
    assert_eq!(
        replies(&loaded),
        expected,
        "the store leads to other replies than the write"
    );
}

/// Every reply of a fleet, each of which is checked.
fn replies(fleet: &Fleet) -> Vec<Vec<u8>> {
    let clusters = fleet.clusters().values().map(|cluster| &*cluster.head().dns);
    let names: Vec<&str> = clusters.chain(fleet.decommissions().keys().map(|dns| &**dns)).collect();
    let mut replies = Vec::new();
    for kind in fleet.kinds().definitions() {
        let path = kind.path.as_deref().expect("a definition has a path");
        for form in [Form::Plain, Form::Marked] {
            replies.extend(names.iter().map(|dns| reply(fleet, dns, path, form)));
        }
    }
    replies
}

fn reply(fleet: &Fleet, dns: &str, path: &str, form: Form) -> Vec<u8> {
    let Poll::Reply(reply) = fleet.named(dns).poll(path, form) else {
        panic!("no reply for {dns}/{path}");
    };
    let bytes = reply.identity().to_vec();
    assert_valid(&bytes);
    bytes
}

/// A reply is an object with inputs, each with an id that no other has.
pub(crate) fn assert_valid(reply: &[u8]) {
    let reply: Value = serde_json::from_slice(reply).expect("a reply is JSON");
    let inputs = reply["inputs"].as_array().expect("a reply has inputs");
    let ids: BTreeSet<_> = inputs
        .iter()
        .map(|input| input["id"].as_str().expect("an input has an id"))
        .collect();
    assert_eq!(ids.len(), inputs.len(), "an id twice");
}
