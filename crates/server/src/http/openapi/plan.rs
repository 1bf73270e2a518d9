//! The schemas of plans, and of the difference between two revisions, which has the same parts.

use serde_json::{Value, json};

use super::schemas::{any_object, array, described, flag, integer, object, reference, text};

pub fn removals() -> Value {
    let budget =
        json!({"type": "integer", "format": "int64", "nullable": true, "description": "null: there is no budget."});
    let count = "Clusters that lose something by the change: the number that X-Confirm-Removals confirms.";
    let window = "The same, with the removals within REMOVAL_WINDOW.";
    let properties = json!({
        "count": described(count, integer()),
        "window": described(window, integer()),
        "budget": budget,
    });
    described(
        "What a change removes from clusters, and REMOVAL_BUDGET.",
        object(&["count", "window", "budget"], properties),
    )
}

/// The schemas by their names.
pub fn schemas() -> [(&'static str, Value); 6] {
    [
        ("dry_run", dry_run()),
        ("cluster_effect", cluster_effect()),
        ("effect_totals", totals()),
        ("effect_relabelled", relabelled()),
        ("effect_warning", warning()),
        ("difference", difference()),
    ]
}

fn dry_run() -> Value {
    let losing = object(&[], json!({"clusters": array(text())}));
    let removals = json!({"allOf": [reference("removals"), losing]});
    let properties = json!({
        "plan": described("Identifies the effect, for If-Plan-Match.", text()),
        "base": described("The revision that the plan was computed on.", integer()),
        "changes": array(reference("change")),
        "clusters": array(reference("cluster_effect")),
        "totals": reference("effect_totals"),
        "removals": removals,
        "relabelled": reference("effect_relabelled"),
        "warnings": array(reference("effect_warning")),
    });
    let required = [
        "plan",
        "base",
        "changes",
        "clusters",
        "totals",
        "removals",
        "relabelled",
        "warnings",
    ];
    described("The plan of a write: what it would do.", object(&required, properties))
}

fn difference() -> Value {
    let properties = json!({
        "from": integer(), "to": integer(),
        "changes": array(any_object()),
        "clusters": array(reference("cluster_effect")),
        "totals": reference("effect_totals"),
        "relabelled": reference("effect_relabelled"),
        "warnings": array(reference("effect_warning")),
    });
    let required = ["from", "to", "changes", "clusters", "totals", "relabelled", "warnings"];
    described("The difference between two revisions.", object(&required, properties))
}

fn cluster_effect() -> Value {
    let failed = object(&["error"], json!({"error": text()}));
    let version = json!({"type": "object", "nullable": true});
    let manifest = object(
        &["id", "before", "after"],
        json!({"id": text(), "before": version, "after": version}),
    );
    let properties = json!({
        "id": text(), "dns": text(), "environment": text(),
        "deleted": described("Whether the change deletes the cluster.", flag()),
        "inputs": {"type": "object", "description": "By path.", "additionalProperties": list_effect()},
        "objects": {
            "description": "With manifests=true: the Kubernetes objects, as Kind/namespace/name.",
            "anyOf": [list_effect(), failed],
        },
        "manifests": described("With manifests=true: the same objects, whole, before and after.", array(manifest)),
    });
    let required = ["id", "dns", "environment", "deleted", "inputs"];
    described(
        "What a change does to the inputs of one cluster.",
        object(&required, properties),
    )
}

fn list_effect() -> Value {
    let value = json!({"nullable": true});
    let field = object(
        &["pointer"],
        json!({"pointer": text(), "before": value, "after": value}),
    );
    let changed = object(&["id", "fields"], json!({"id": text(), "fields": array(field)}));
    let properties = json!({
        "added": array(text()), "removed": array(text()), "changed": array(changed),
        "unanswered": described("No kind has the path any more: polls get 404.", flag()),
    });
    object(&["added", "removed", "changed"], properties)
}

fn totals() -> Value {
    let sums = json!({"clusters": integer(), "added": integer(), "removed": integer(), "changed": integer()});
    let properties = json!({
        "clusters": integer(),
        "by_environment": {"type": "object", "description": "Clusters.", "additionalProperties": integer()},
        "by_kind": {"type": "object", "description": "Inputs, by path.", "additionalProperties": object(&[], sums)},
        "warnings": integer(),
    });
    object(&["clusters", "by_environment", "by_kind", "warnings"], properties)
}

fn relabelled() -> Value {
    let properties = json!({
        "count": integer(),
        "keys": described("The labels and fields that change.", array(text())),
        "clusters": array(text()),
    });
    let description = "Clusters whose labels or fields change: a provisioner's list that selects by one of these keys may lose \
        or gain them. They are not counted as removals.";
    described(description, object(&["count", "keys", "clusters"], properties))
}

fn warning() -> Value {
    let properties = json!({"cluster": text(), "kind": text(), "id": text(), "detail": text()});
    object(&["cluster", "kind", "id", "detail"], properties)
}
