//! The schemas of plans, and of the difference between two revisions, which has the same parts.

use serde_json::{Value, json};

use super::schemas::{any_object, array, change, described, flag, integer, object, reference, text};

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

/// One limit of a guard, and what counts for it.
pub fn guard_limit() -> Value {
    let of = "changes: clusters whose replies change. removals: clusters that lose something.";
    let properties = json!({
        "id": described("The guard.", text()),
        "reason": described("Why the guard exists.", text()),
        "selector": described("The clusters that count.", text()),
        "until": described("When the guard ends. Left out if it does not.", text()),
        "of": {"type": "string", "enum": ["changes", "removals"], "description": of},
        "limit": described("The most clusters that it allows.", integer()),
        "count": described("The clusters that the write counts.", integer()),
    });
    described(
        "A limit of a guard, and how many clusters a write counts for it.",
        object(&["id", "reason", "selector", "of", "limit", "count"], properties),
    )
}

fn guard_check() -> Value {
    let properties = json!({
        "exceeded": described("Whether the write counts more than the limit. It is refused then, unless it overrides the guard.", flag()),
        "overridden": described("Whether the request overrides the guard.", flag()),
    });
    let check = object(&["exceeded", "overridden"], properties);
    json!({"description": "A limit of a guard in force, and what it means for a write.", "allOf": [reference("guard_limit"), check]})
}

/// The schemas by their names.
pub fn schemas() -> [(&'static str, Value); 11] {
    [
        ("planned_change", planned_change()),
        ("last_change", last_change()),
        ("dry_run", dry_run()),
        ("cluster_effect", cluster_effect()),
        ("effect_totals", totals()),
        ("effect_relabelled", relabelled()),
        ("effect_membership", membership()),
        ("effect_warning", warning()),
        ("guard_check", guard_check()),
        ("rollout_plan", rollout_plan()),
        ("difference", difference()),
    ]
}

fn dry_run() -> Value {
    let losing = object(&[], json!({"clusters": array(text())}));
    let removals = json!({"allOf": [reference("removals"), losing]});
    let properties = json!({
        "plan": described("Identifies the effect, for If-Plan-Match.", text()),
        "base": described("The revision that the plan was computed on.", integer()),
        "changes": array(reference("planned_change")),
        "clusters": array(reference("cluster_effect")),
        "totals": reference("effect_totals"),
        "history": history(),
        "removals": removals,
        "rollouts": described("The rollouts that the write would start; `clusters` and `removals` are those of their completion.", array(reference("rollout_plan"))),
        "demotions": described("Clusters that the write would take out of a wave that a rollout promoted: the number that X-Confirm-Demotions confirms.", some_clusters()),
        "guards": described("The limits of the guards in force.", array(reference("guard_check"))),
        "relabelled": reference("effect_relabelled"),
        "profiles": array(reference("effect_membership")),
        "warnings": array(reference("effect_warning")),
    });
    let required = [
        "plan",
        "base",
        "changes",
        "clusters",
        "totals",
        "history",
        "removals",
        "guards",
        "rollouts",
        "demotions",
        "relabelled",
        "profiles",
        "warnings",
    ];
    described("The plan of a write: what it would do.", object(&required, properties))
}

/// A change of the log, without its documents.
fn last_change() -> Value {
    let properties = json!({
        "revision": integer(), "at": {"type": "string", "format": "date-time"}, "actor": text(),
        "reason": {"type": "string", "nullable": true},
    });
    let mut schema = object(&["revision", "at", "actor", "reason"], properties);
    schema["example"] = json!({
        "revision": 57, "at": "2026-01-31T12:00:00.000000Z", "actor": "anna", "reason": "hotfix: 6.4.1 leaks memory",
    });
    described("Who changed a resource last, when and why.", schema)
}

fn planned_change() -> Value {
    let mut schema = change();
    let description =
        "The last change of the resource. null: it is new, or the log no longer has the change; see `history`.";
    schema["properties"]["last_change"] = json!({
        "nullable": true, "allOf": [reference("last_change")], "description": description,
    });
    let mut field = last_change();
    let pointer = "The field. Empty: the resource itself, which is created again after its deletion.";
    field["properties"]["pointer"] = described(pointer, text());
    field["required"] = json!(["pointer", "revision", "at", "actor", "reason"]);
    field["example"]["pointer"] = "/oci_tag".into();
    let reverts = "The fields that go back to a value which they had before, each with the change that set the value which is \
        overwritten. The last ten changes of a resource are compared.";
    schema["properties"]["reverts"] = described(
        reverts,
        array(described("A field, and the change that it reverts.", field)),
    );
    if let Some(required) = schema["required"].as_array_mut() {
        required.extend(["last_change".into(), "reverts".into()]);
    }
    described("A change that is planned, and what it overwrites.", schema)
}

fn history() -> Value {
    let status = "complete: all that was looked for. compacted: the log no longer has earlier changes of some resources. partial: \
        there were too many earlier changes to compare all. unavailable: the store cannot be read now.";
    let properties = json!({
        "status": {
            "type": "string", "enum": ["complete", "compacted", "partial", "unavailable"], "description": status,
        },
        "through": described("With compacted: the last revision that the log no longer has.", integer()),
    });
    described(
        "How much of the log `last_change` and `reverts` are based on.",
        object(&["status"], properties),
    )
}

fn difference() -> Value {
    let properties = json!({
        "from": integer(), "to": integer(),
        "changes": array(any_object()),
        "clusters": array(reference("cluster_effect")),
        "totals": reference("effect_totals"),
        "relabelled": reference("effect_relabelled"),
        "profiles": array(reference("effect_membership")),
        "warnings": array(reference("effect_warning")),
    });
    let required = [
        "from",
        "to",
        "changes",
        "clusters",
        "totals",
        "relabelled",
        "profiles",
        "warnings",
    ];
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
        "changes": described("Documents that change, also those that are not listed.", integer()),
        "clusters": integer(),
        "by_environment": {"type": "object", "description": "Clusters.", "additionalProperties": integer()},
        "by_kind": {"type": "object", "description": "Inputs, by path.", "additionalProperties": object(&[], sums)},
        "warnings": integer(),
    });
    object(
        &["changes", "clusters", "by_environment", "by_kind", "warnings"],
        properties,
    )
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

fn some_clusters() -> Value {
    object(
        &["count", "clusters"],
        json!({"count": integer(), "clusters": array(text())}),
    )
}

fn rollout_plan() -> Value {
    let wave = object(
        &["name", "approve", "members", "affected", "removals", "guards"],
        json!({
            "name": text(), "approve": flag(), "members": integer(),
            "affected": described("Members for which something changes.", integer()),
            "removals": described("Members that lose something.", integer()),
            "guards": described(
                "The limits of the guards in force, and how many members count. While one is exceeded, the wave is not promoted.",
                array(reference("guard_check")),
            ),
        }),
    );
    let unaffected = "Clusters that have what the rollout changes, and override it; the first 1,000.";
    let properties = json!({"id": text(), "waves": array(wave), "unaffected": described(unaffected, some_clusters())});
    described(
        "What a rollout would do, wave by wave.",
        object(&["id", "waves", "unaffected"], properties),
    )
}

fn membership() -> Value {
    let some = some_clusters();
    let properties = json!({
        "profile": text(),
        "entered": described("The clusters that match it after the change and did not before; the first 1,000.", some.clone()),
        "left": described("The reverse.", some),
    });
    described(
        "A profile that clusters enter or leave.",
        object(&["profile", "entered", "left"], properties),
    )
}

fn warning() -> Value {
    let cluster = "The cluster that it is about. Left out if it is about the resource itself.";
    let properties = json!({
        "cluster": described(cluster, text()), "kind": text(), "id": text(), "detail": text(),
    });
    object(&["kind", "id", "detail"], properties)
}
