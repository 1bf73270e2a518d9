//! What clusters send.

use fleet::kind::Kinds;
use serde_json::{Value, json};

use super::Operation;
use crate::http::evidence::{MOST_PATIENCE, PATIENCE};
use crate::http::openapi::schemas::{array, described, flag, object, text};

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn nullable(mut schema: Value) -> Value {
    schema["nullable"] = true.into();
    schema
}

fn name(most: usize) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": most})
}

fn evidence(id: &str, summary: &str) -> Operation {
    Operation::new("flux", id, summary)
        .path("cluster_dns", "The DNS name of the cluster.")
        .answer_plain(202, "Taken.")
        .bad_parameters()
        .problem(404, "No cluster ever had this DNS name, or the cluster gave it up.")
        .problem(408, "The body did not arrive in time.")
        .problem(413, "The body is too large.")
        .problem(415, "The content encoding is not supported.")
        .problem(422, "A field is not valid.")
        .problem(503, "Other large requests are in progress.")
}

pub fn event(_: &Kinds) -> Operation {
    let namespace = json!({"type": "string", "maxLength": 63});
    let involved = json!({
        "kind": name(63), "namespace": namespace, "name": name(253), "uid": text(), "apiVersion": text(),
        "resourceVersion": text(),
    });
    let metadata = json!({"type": "object", "nullable": true, "additionalProperties": text()});
    let event = json!({
        "involvedObject": object(&["kind", "name"], involved),
        "severity": {"type": "string", "enum": ["info", "error", "trace"]},
        "timestamp": nullable(time()), "message": text(), "reason": text(),
        "metadata": described("`desired` and `input` are those of the object's annotations.", metadata),
        "reportingController": text(), "reportingInstance": text(),
    });
    evidence(
        "flux_event",
        "An event of Flux, as its notification-controller sends it (`generic`). The same one again changes nothing.",
    )
    .body(&[("application/json", object(&["involvedObject", "severity"], event))])
}

pub fn report(_: &Kinds) -> Operation {
    let input = json!({"type": "string", "nullable": true, "maxLength": 512, "pattern": "^([^/]+/.+)?$"});
    let mark = json!({"type": "string", "nullable": true, "pattern": "^([0-9a-f]{16})?$"});
    let namespace = json!({"type": "string", "nullable": true, "maxLength": 63});
    let ready = nullable(described(
        "null: the controller has not finished, or does not say.",
        flag(),
    ));
    let thing = json!({
        "apiVersion": nullable(text()), "kind": name(63), "namespace": namespace, "name": name(253),
        "uid": nullable(text()), "resourceVersion": nullable(text()), "ready": ready, "reason": nullable(text()),
        "message": nullable(text()), "version": nullable(text()),
        "input": described("The input that it comes from: PATH/ID.", input),
        "desired": described("The mark of the input that it has.", mark),
        "at": described("Since when it is so.", nullable(time())),
        "deleted": described("Whether it is gone.", flag()),
    });
    let provider = json!({
        "name": name(253), "namespace": namespace, "ready": ready, "reason": nullable(text()),
        "message": nullable(text()),
    });
    let report = json!({
        "at": nullable(time()), "reporter": text(),
        "full": described("Whether this is every object. Else these changed.", flag()),
        "objects": array(object(&["kind", "name"], thing)),
        "providers": array(object(&["name"], provider)),
    });
    evidence(
        "flux_report",
        "What the reporter in a cluster sees: the state of the objects that came of its inputs.",
    )
    .body(&[("application/json", object(&[], report))])
}

pub fn changed(_: &Kinds) -> Operation {
    let paths = json!({"type": "object", "additionalProperties": text()});
    let answer = json!({
        "since": described("Identifies these replies.", text()),
        "paths": described("A digest of the reply at each path.", paths),
    });
    let summary = "Waits until a reply of the cluster is another one than those of `since`, or for a while.";
    let timeout = json!({"type": "integer", "minimum": 0, "default": PATIENCE});
    let timeout_text = format!("How many seconds to wait, at most {MOST_PATIENCE}.");
    Operation::new("flux", "flux_changed", summary)
        .path("cluster_dns", "The DNS name of the cluster.")
        .query(
            "since",
            "The `since` of the last answer. Without it: answered at once.",
            text(),
        )
        .query("timeout", &timeout_text, timeout)
        .answer(200, "The replies now.", object(&["since", "paths"], answer))
        .bad_parameters()
        .problem(404, "No cluster ever had this DNS name, or the cluster gave it up.")
        .problem(429, "Too many clusters wait.")
}
