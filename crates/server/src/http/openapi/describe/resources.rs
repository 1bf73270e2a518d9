//! The resources of one kind.

use fleet::kind::{CLUSTERS, GUARDS, Kind, ROLLOUTS};
use serde_json::{Value, json};

use super::Operation;
use crate::http::openapi::operation::or_dry_run;
use crate::http::openapi::schemas::{any_object, array, described, flag, number, object, reference, selector, text};

/// The summary of an operation: the one of the kind's file, or a general one.
fn summary(kind: &Kind, pointer: &str, otherwise: String) -> String {
    let given = kind.descriptions.pointer(pointer).and_then(Value::as_str);
    given.map_or(otherwise, str::to_owned)
}

/// An operation on one resource.
fn instance(operation: Operation) -> Operation {
    operation
        .path("id", "The id of the resource.")
        .problem(404, "There is no such resource.")
}

pub fn list(kind: &Kind) -> Operation {
    let name = &*kind.name;
    let summary = summary(kind, "/resource/get", format!("List {name}."));
    let mut list = Operation::new(name, format!("list_{name}"), summary).paged();
    for filter in &kind.filters {
        let mut schema = filter.schema.clone();
        if let Some(values) = kind.schema["properties"][&filter.name].get("enum") {
            schema["enum"] = values.clone();
        }
        list = list.query(&filter.name, &filter.description, schema);
    }
    if name == CLUSTERS {
        let description = "Only clusters that match this Kubernetes label selector.";
        list = list.query("selector", description, selector()).bad_selector();
    }
    if name == GUARDS {
        let description = "Only guards that are in force at this time: RFC 3339, or `now`.";
        let time = json!({"type": "string", "example": "2026-12-24T00:00:00Z"});
        list = list.query("at", description, time);
    }
    if name == ROLLOUTS {
        let description = "`true`: only rollouts that are under way (running, paused, halted, reverted). `false`: only those that are over.";
        list = list.query("active", description, flag());
    }
    let items = array(reference(&kind.singular));
    let reply = "The resources; X-Total-Count says how many there are on all pages.";
    list.answer(200, reply, items).late()
}

pub fn create(kind: &Kind) -> Operation {
    let singular = &kind.singular;
    let summary = summary(kind, "/resource/post", format!("Create a {singular}."));
    Operation::new(&kind.name, format!("create_{singular}"), summary)
        .writes()
        .document_body(reference(singular))
        .created(reference(singular))
        .problem(
            409,
            "The id, or another value that must be unique, is taken; or the removal budget refuses the write.",
        )
}

pub fn get(kind: &Kind) -> Operation {
    let singular = &kind.singular;
    let summary = summary(kind, "/instance/get", format!("Get a {singular}."));
    instance(Operation::new(&kind.name, format!("get_{singular}"), summary))
        .at_revision()
        .answer(200, "The resource; ETag is its version.", reference(singular))
        .not_modified()
}

pub fn replace(kind: &Kind) -> Operation {
    let singular = &kind.singular;
    let summary = summary(kind, "/instance/put", format!("Replace a {singular}."));
    instance(Operation::new(&kind.name, format!("replace_{singular}"), summary).writes())
        .if_match()
        .document_body(reference(singular))
        .answer(
            200,
            "The new resource, or the plan of a dry run.",
            or_dry_run(reference(singular)),
        )
        .problem(
            409,
            "A value that must be unique is taken, or the removal budget refuses the write.",
        )
}

pub fn patch(kind: &Kind) -> Operation {
    let singular = &kind.singular;
    let summary = summary(kind, "/instance/patch", format!("Change parts of a {singular}."));
    let merge = "Objects merge, null removes, arrays of references merge by id: {\"id\": …, \"$patch\": \"delete\"} removes one.";
    let steps = json!({
        "op": {"type": "string", "enum": ["add", "remove", "replace", "move", "copy", "test"]},
        "path": {"type": "string", "description": "A JSON pointer."},
        "from": {"type": "string", "description": "For move and copy: a JSON pointer."},
        "value": {"description": "For add, replace and test.", "nullable": true},
    });
    let steps = array(object(&["op", "path"], steps));
    instance(Operation::new(&kind.name, format!("patch_{singular}"), summary).writes())
        .if_match()
        .body(&[
            ("application/json", described(merge, any_object())),
            ("application/merge-patch+json", described("RFC 7396.", any_object())),
            ("application/json-patch+json", described("RFC 6902.", steps)),
        ])
        .answer(
            200,
            "The new resource, or the plan of a dry run.",
            or_dry_run(reference(singular)),
        )
        .problem(
            409,
            "A value that must be unique is taken, or the removal budget refuses the write.",
        )
}

pub fn delete(kind: &Kind) -> Operation {
    let singular = &kind.singular;
    let summary = summary(kind, "/instance/delete", format!("Delete a {singular}."));
    let mut delete = Operation::new(&kind.name, format!("delete_{singular}"), summary).writes();
    if &*kind.name != CLUSTERS {
        let description = "Also remove the references of clusters to it.";
        delete = delete.query("cascade", description, flag());
    }
    instance(delete)
        .if_match()
        .answer_plain(204, "Deleted.")
        .dry_run()
        .problem(
            409,
            "It is in use or protected, or the removal budget refuses the write.",
        )
}

pub fn history(kind: &Kind) -> Operation {
    let singular = &kind.singular;
    let summary = format!("Every change of a {singular}, in the order of revisions.");
    history_page(instance(Operation::new(
        &kind.name,
        format!("history_{singular}"),
        summary,
    )))
}

/// A page of the changes of one resource.
pub(super) fn history_page(operation: Operation) -> Operation {
    let mut limit = number(1);
    limit["default"] = 100.into();
    operation
        .query("after", "Only revisions after this one.", number(0))
        .query(
            "limit",
            "The most records to return, up to 10000. A page with 8 MiB of documents ends earlier, with a revision: continue until one is empty.",
            limit,
        )
        .bad_parameters()
        .compacted()
        .answer(200, "The records.", array(reference("change")))
        .unreadable()
}

pub fn references(kind: &Kind) -> Operation {
    let singular = &kind.singular;
    let usage = json!({
        "cluster": text(),
        "cluster_dns": text(),
        "environment": text(),
        "values": described("The definition with the overrides of this cluster and its profiles.", any_object()),
        "overridden": described("The values that the cluster sets itself.", array(text())),
        "set_by_profiles": {
            "type": "object", "additionalProperties": text(),
            "description": "The values that profiles set, each with the profile. Left out if there are none.",
        },
        "profiles": described("The profiles that bring or change it. Left out if there are none.", array(text())),
    });
    let usage = object(
        &["cluster", "cluster_dns", "environment", "values", "overridden"],
        usage,
    );
    let summary = format!("The clusters that use a {singular}, each with its effective values.");
    instance(Operation::new(&kind.name, format!("references_{singular}"), summary))
        .paged()
        .query("selector", "Only clusters that match this selector.", selector())
        .bad_selector()
        .answer(200, "The clusters.", array(usage))
        .late()
}
