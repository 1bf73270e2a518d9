//! The fleet that targets start from: the built-in kinds and the demo fleet.

use std::sync::LazyLock;

use fleet::log::{Batch, Change, Head, Resource, RevisionRecord, State};
use fleet::operation::{Operation, Verb};
use fleet::write::Rules;
use fleet::{Fleet, files, kind};

/// The rules of a request to `POST /batch`.
pub(crate) const RULES: Rules = Rules {
    batch: true,
    allow_dangling: false,
    ..Rules::PLAIN
};

const SEED: &str = include_str!("../../../data/seed.json");

static DEMO: LazyLock<Fleet> = LazyLock::new(|| {
    let kinds: Vec<_> = kind::built_in()
        .iter()
        .map(|document| {
            let value = document.clone();
            Operation::new(kind::KINDS, Verb::Apply { id: None, value })
        })
        .collect();
    let seed = files::Seed::read(SEED).expect("the seed is one object");
    let parts = seed.parts().into_iter().map(|part| seed.operations(part));
    let parts: Vec<_> = parts.collect::<Result<_, _>>().expect("the seed has documents");
    write(&write(&Fleet::default(), &kinds), &parts.concat())
});

fn write(fleet: &Fleet, operations: &[Operation]) -> Fleet {
    let outcome = fleet.write(operations, RULES).expect("the demo fleet is accepted");
    let batch = Batch {
        changes: outcome.changes.clone(),
        ..Batch::default()
    };
    let record = RevisionRecord::on(fleet.head(), &batch);
    outcome.committed(record.head())
}

pub(crate) fn fleet() -> &'static Fleet {
    &DEMO
}

/// The log that leads from an empty store to the demo fleet: one revision that creates everything.
pub(crate) fn log() -> RevisionRecord {
    let create = |resource: Resource| Change {
        kind: resource.kind,
        id: resource.id,
        before: None,
        after: Some(resource.body),
        origin: resource.origin,
        unique: None,
        keeps_unique: false,
    };
    let batch = Batch {
        changes: fleet().resources().map(create).collect(),
        ..Batch::default()
    };
    RevisionRecord::on(Head::default(), &batch)
}

/// What a sound store would hold.
pub(crate) fn state(fleet: &Fleet) -> State {
    State {
        head: fleet.head(),
        resources: fleet.resources().collect(),
        ..State::default()
    }
}
