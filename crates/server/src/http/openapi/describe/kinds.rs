//! The kinds themselves.

use fleet::kind::{KINDS, Kinds};
use serde_json::{Value, json};

use super::Operation;
use super::resources::history_page;
use crate::http::openapi::schemas::{any_object, array, object, text};

/// The document of a kind. Its own schema is checked when it is put.
fn document() -> Value {
    any_object()
}

fn instance(operation: Operation) -> Operation {
    operation
        .path("kind", "The name of the kind: plural, as in its routes.")
        .problem(404, "There is no such kind.")
}

pub fn list_kinds(_: &Kinds) -> Operation {
    let optional = json!({"type": "string", "nullable": true});
    let entry = json!({
        "name": text(), "singular": text(), "command": text(),
        "path": optional,
        "references": optional,
        "origin": {"type": "string", "enum": ["built-in", "resources-dir", "seed", "api"]},
        "etag": text(),
        "document": document(),
    });
    let required = [
        "name",
        "singular",
        "command",
        "path",
        "references",
        "origin",
        "etag",
        "document",
    ];
    Operation::new(KINDS, "list_kinds", "All kinds of resources.")
        .answer(200, "The kinds.", array(object(&required, entry)))
        .not_modified()
        .bad_parameters()
        .late()
}

pub fn get_kind(_: &Kinds) -> Operation {
    let forms = [("application/json", document()), ("application/yaml", text())];
    instance(Operation::new(
        KINDS,
        "get_kind",
        "The document of a kind, as it was put.",
    ))
    .at_revision()
    .answers(200, "The document; ETag is its version.", &forms)
    .not_modified()
}

pub fn put_kind(_: &Kinds) -> Operation {
    let body = json!({
        "kind": {
            "type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": 63,
            "description": "The name of the kind, as in the path.",
        },
        "schema": {"type": "object", "description": "What the resources look like: a Firestone schema."},
    });
    instance(Operation::new(KINDS, "put_kind", "Add a kind to the running fleet, or change one.").writes())
        .if_match()
        .document_body(object(&["kind", "schema"], body))
        .answer(200, "The changed document, or the plan of a dry run.", document())
        .answer(201, "The added document.", document())
        .problem(404, "If-Match names a version of a kind that does not exist.")
        .problem(
            409,
            "The kind conflicts with another one, or the removal budget refuses the write.",
        )
}

pub fn delete_kind(_: &Kinds) -> Operation {
    instance(Operation::new(KINDS, "delete_kind", "Delete a kind that is not used.").writes())
        .if_match()
        .answer_plain(204, "Deleted.")
        .dry_run()
        .problem(409, "The kind is in use, or the removal budget refuses the write.")
}

pub fn history_kind(_: &Kinds) -> Operation {
    history_page(instance(Operation::new(
        KINDS,
        "history_kind",
        "Every change of a kind.",
    )))
}
