//! Batches, rollbacks and the log of changes.

use fleet::kind::Kinds;
use fleet::operation::MOST_OPERATIONS;
use serde_json::{Value, json};

use super::Operation;
use crate::http::openapi::operation::or_dry_run;
use crate::http::openapi::schemas::{
    any_object, array, described, flag, integer, number, object, reason, reference, selector, text,
};
use crate::http::revisions::{MOST, MOST_EXAMINED, USUAL};

/// The operations of a batch: name, description, the fields beside `op` and `kind` that it requires, and those that it allows.
const OPERATIONS: [(&str, &str, &[&str], &[&str]); 8] = [
    ("create", "Create a resource.", &["value"], &["id"]),
    ("replace", "Replace a resource.", &["value"], &["id"]),
    (
        "apply",
        "Create or replace a resource.",
        &["value"],
        &["id", "keep_missing"],
    ),
    (
        "merge",
        "Change parts of one resource, or of the clusters that match a selector.",
        &["value"],
        &["id", "selector"],
    ),
    ("delete", "Delete a resource.", &["id"], &["cascade"]),
    (
        "assign",
        "Give clusters a definition.",
        &["id"],
        &["cluster", "selector", "value"],
    ),
    (
        "unassign",
        "Take a definition from clusters.",
        &["id"],
        &["cluster", "selector", "drop_patches"],
    ),
    (
        "patch",
        "Set values that clusters give a definition.",
        &["id"],
        &["cluster", "selector", "set", "unset"],
    ),
];

fn operation_field(name: &str) -> Value {
    match name {
        "id" => described(
            "The id of what is written; of the definition, for assign, unassign and patch.",
            text(),
        ),
        "value" => described(
            "The document; for merge the changes, for assign the overrides.",
            any_object(),
        ),
        "cluster" => described("One cluster.", text()),
        "selector" => described(
            "In place of `cluster`, or of the `id` of clusters to merge: those that match; `*` for all.",
            selector(),
        ),
        "set" => described("Values by their paths.", any_object()),
        "unset" => described("Paths to remove.", array(text())),
        "cascade" => described("Also remove the references to it.", flag()),
        "keep_missing" => described(
            "For clusters: keep the arrays of references that the document leaves out; else a document that leaves out one \
             that is not empty is refused.",
            flag(),
        ),
        _ => described("Also remove the patches that the clusters have for it.", flag()),
    }
}

/// One schema for each operation of a batch, and one for all of them.
pub fn batch_schemas() -> impl Iterator<Item = (String, Value)> {
    let name = |op: &str| format!("batch_{op}");
    let all: Vec<_> = OPERATIONS.iter().map(|(op, ..)| reference(&name(op))).collect();
    let target = |op: &str| (op.to_owned(), format!("#/components/schemas/{}", name(op)).into());
    let mapping: serde_json::Map<String, Value> = OPERATIONS.iter().map(|(op, ..)| target(op)).collect();
    let any = json!({"oneOf": all, "discriminator": {"propertyName": "op", "mapping": mapping}});
    let one = move |(op, description, required, allowed): &(&str, &str, &[&str], &[&str])| {
        let kind = "The name of the kind, as in `platform_components`; `kinds` for a kind itself.";
        let if_match = "Only if the resource still has this version.";
        let mut properties = json!({
            "op": {"type": "string", "enum": [op]},
            "kind": described(kind, text()),
            "if_match": described(if_match, text()),
        });
        for field in required.iter().chain(*allowed) {
            properties[*field] = operation_field(field);
        }
        let required: Vec<&str> = ["op", "kind"].iter().chain(*required).copied().collect();
        let mut schema = described(description, object(&required, properties));
        schema["additionalProperties"] = false.into();
        (name(op), schema)
    };
    std::iter::once(("batch_operation".to_owned(), any)).chain(OPERATIONS.iter().map(one))
}

/// The revision of a write, and the new version of each resource that it changed.
fn written() -> Value {
    let action = json!({"type": "string", "enum": ["create", "update", "delete"]});
    let change = json!({"action": action, "kind": text(), "id": text(), "etag": {"type": "string", "nullable": true}});
    let change = object(&["action", "kind", "id", "etag"], change);
    object(
        &["revision", "changes"],
        json!({"revision": integer(), "changes": array(change)}),
    )
}

pub fn batch(_: &Kinds) -> Operation {
    let operations = json!({
        "type": "array", "minItems": 1, "maxItems": MOST_OPERATIONS, "items": reference("batch_operation"),
    });
    let mut body = object(&["operations"], json!({"reason": reason(), "operations": operations}));
    body["additionalProperties"] = false.into();
    body["example"] = json!({
        "reason": "blue week",
        "operations": [{
            "op": "patch", "kind": "platform_components", "id": "podinfo", "selector": "environment=dev",
            "set": {"ui.color": "#3b82f6"},
        }],
    });
    let summary = "Several operations as one revision: all of them, or none.";
    Operation::new("changes", "batch", summary)
        .writes()
        .document_body(body)
        .answer(
            200,
            "The revision and the changed resources, or the plan of a dry run.",
            or_dry_run(written()),
        )
        .problem(404, "An operation names something that does not exist.")
        .problem(
            409,
            "An operation conflicts with what exists, or the removal budget refuses the write.",
        )
        .problem(
            412,
            "A resource does not have the version in if_match, or the plan is out of date.",
        )
}

pub fn rollback(_: &Kinds) -> Operation {
    let to = described("Restore the state at this revision.", number(1));
    let form = |description: &str, required: &[&str], mut properties: Value| {
        properties["reason"] = reason();
        let mut form = described(description, object(required, properties));
        form["additionalProperties"] = false.into();
        form
    };
    let forms = json!([
        form("Roll back the whole fleet.", &["revision"], json!({"revision": to})),
        form(
            "Roll back one resource.",
            &["revision", "kind", "id"],
            json!({"revision": to, "kind": text(), "id": text()}),
        ),
        form(
            "Roll back the clusters that match a selector, now or then.",
            &["revision", "selector"],
            json!({"revision": to, "selector": selector()}),
        ),
        form(
            "Undo one revision.",
            &["undo"],
            json!({"undo": described("The revision to undo. To undo an undo is to redo.", number(1))}),
        ),
        form(
            "Make the changes of an undone revision again.",
            &["redo"],
            json!({"redo": described("The revision that was undone, or its undo.", number(1))}),
        ),
    ]);
    let example = json!({"revision": 41, "selector": "environment=prod", "reason": "6.5.0 fails"});
    let summary = "Roll back to a revision, or undo or redo one, in one new revision.";
    Operation::new("changes", "rollback", summary)
        .writes()
        .document_body(json!({"oneOf": forms, "example": example}))
        .answer(
            200,
            "The revision and the changed resources, or the plan of a dry run.",
            or_dry_run(written()),
        )
        .problem(404, "There is no such revision, or nothing to roll back.")
        .problem(
            409,
            "The revision to undo was changed again, the one to redo is not undone, or the removal budget refuses the write.",
        )
        .compacted()
}

pub fn diff(_: &Kinds) -> Operation {
    Operation::new("changes", "diff", "The difference between two revisions.")
        .paged()
        .listed_changes()
        .required_query("from", "The first revision.", number(0))
        .query("to", "The second revision; the current one by default.", number(0))
        .query(
            "selector",
            "Only clusters that match at one of the two revisions.",
            selector(),
        )
        .answer(200, "The difference.", reference("difference"))
        .problem(404, "There is no such revision.")
        .compacted()
        .bad_selector()
        .problem(503, "The store is unavailable, or the read took longer than 30 s.")
}

pub fn revisions(_: &Kinds) -> Operation {
    let mut limit = number(1);
    limit["default"] = USUAL.into();
    let time = |example: &str| json!({"type": "string", "example": example});
    let page = format!("The most revisions to return, up to {MOST}.");
    let next = json!({"type": "integer", "format": "int64", "nullable": true, "description": "The `before` of the next page. null: there are no more."});
    let mut reply = object(
        &["revisions", "next"],
        json!({"revisions": array(reference("revision")), "next": next}),
    );
    reply["example"] = json!({
        "revisions": [{
            "revision": 57, "at": "2026-01-31T12:00:00.000000Z", "actor": "anna", "request_id": "5f3c", "reason": "podinfo 6.5.0",
            "undone_by": 58,
            "changes": {
                "clusters": {"create": 0, "update": 371, "delete": 0},
                "platform_components": {"create": 0, "update": 1, "delete": 0},
            },
        }],
        "next": 57,
    });
    let summary = "The revisions, newest first: who, when, why, and how many resources of each kind.";
    let examined = format!(
        "The revisions. A page looks at no more than {MOST_EXAMINED} revisions: with `reason`, or with `kind` and no `id`, it may \
         have fewer than `limit`, or none, and `next` still says where to go on."
    );
    Operation::new("changes", "revisions", summary)
        .query(
            "before",
            "Only revisions before this one; by default all, from the newest.",
            number(0),
        )
        .query("limit", &page, limit)
        .query("actor", "Only revisions of this actor.", text())
        .query("kind", "Only revisions that changed a resource of this kind.", text())
        .query("id", "Only revisions that changed a resource with this id.", text())
        .query(
            "since",
            "Only revisions at this time or later: RFC 3339, a date in UTC, or an age such as 24h.",
            time("2026-01-31"),
        )
        .query(
            "until",
            "Only revisions before this time.",
            time("2026-01-31T12:00:00Z"),
        )
        .query(
            "reason",
            "Only revisions whose reason contains this text. Case matters.",
            text(),
        )
        .answer(200, &examined, reply)
        .bad_parameters()
        .problem(503, "The store is unavailable, or the read took longer than 30 s.")
}

pub fn changes(_: &Kinds) -> Operation {
    let mut limit = number(1);
    limit["default"] = 100.into();
    Operation::new("changes", "changes", "The log of changes, in the order of revisions.")
        .query(
            "after",
            "Only revisions after this one; by default all that are kept.",
            number(0),
        )
        .query(
            "limit",
            "The most records to return, up to 10000; a page includes all of its last revision. A page with 8 MiB of documents ends earlier, with a revision: continue with `after` until one is empty. Lines (application/x-ndjson) have no limit by default.",
            limit,
        )
        .query("kind", "Only this kind.", text())
        .query("id", "Only this id.", text())
        .query("actor", "Only changes of this actor.", text())
        .answers(
            200,
            "The records.",
            &[
                ("application/json", array(reference("change"))),
                ("application/x-ndjson", reference("change")),
            ],
        )
        .bad_parameters()
        .compacted()
        .unreadable()
}

pub fn stream_changes(_: &Kinds) -> Operation {
    let position = json!({"type": "string", "pattern": "^[0-9]{1,19}(:[0-9a-f]{64})?$"});
    let data = "A revision as JSON: {revision, at, actor, request_id, reason, undoes, redoes, overrides, digest, removed, changes}, with the records of GET /changes.";
    let event = json!({"id": described("The revision.", text()), "data": described(data, text())});
    Operation::new("changes", "stream_changes", "Follow the log: each revision as it is committed.")
        .query(
            "after",
            "Begin after this revision; by default with the next one. With its digest (`57:8f3c…`, as each commit logs it), the log of another history is refused.",
            position.clone(),
        )
        .header(
            "Last-Event-ID",
            "Continue after this event; overrides `after`. Clients send it when they reconnect.",
            position,
        )
        .answers(
            200,
            "Server-sent events. X-Head says where the log ends.",
            &[("text/event-stream", object(&["id", "data"], event))],
        )
        .bad_parameters()
        .problem(409, "The log has no such revision, or it has another digest.")
        .compacted()
        .problem(503, "The store is unavailable, or too many clients follow the log.")
}

pub fn backup(_: &Kinds) -> Operation {
    let summary = "Everything that is stored, with its history, for `flux-resourceset restore`.";
    Operation::new("changes", "backup", summary)
        .answers(
            200,
            "Lines of JSON. The last one has the number of lines: without it, the file is incomplete.",
            &[("application/x-ndjson", text())],
        )
        .bad_parameters()
        .problem(503, "The store is unavailable, or other backups are in progress.")
}
