//! Probes, metrics and the document itself.

use fleet::kind::Kinds;
use serde_json::json;

use super::Operation;
use crate::http::openapi::schemas::{described, integer, object, text};

pub fn health(_: &Kinds) -> Operation {
    let status = object(&["status"], json!({"status": text()}));
    Operation::new("service", "health", "Liveness: the process answers.").answer(200, "Alive.", status)
}

pub fn ready(_: &Kinds) -> Operation {
    let damaged =
        "If the store is damaged: how many rows are not what was written. Polls that may depend on them get 503.";
    let revision = "The revision that is served. While the store is unavailable or not followed, and on a mirror.";
    let age =
        "How long ago it was confirmed as current. While the store is unavailable or not followed, and on a mirror.";
    let mirror = json!({
        "standing": {"type": "string", "enum": ["current", "behind", "away", "refused"]},
        "origin_revision": described("The last known revision of the origin.", integer()),
    });
    let properties = json!({
        "status": {"type": "string", "enum": ["ok", "damaged", "stopped"]},
        "detail": described("If this process does not follow the store any more: why. A later release may have written to it.", text()),
        "damaged_rows": described(damaged, integer()),
        "revision": described(revision, integer()),
        "age_seconds": described(age, integer()),
        "mirror": described("On a mirror: its state, compared with the origin.", object(&["standing"], mirror)),
    });
    let summary = "Readiness: there is a snapshot, and it is not older than MAX_STALENESS.";
    Operation::new("service", "ready", summary)
        .answer(200, "Ready.", object(&["status"], properties))
        .problem(
            503,
            "The fleet is still being loaded, or the snapshot is older than MAX_STALENESS.",
        )
}

pub fn openapi(_: &Kinds) -> Operation {
    Operation::new("service", "openapi", "This document.")
        .answers(200, "The document.", &[("application/yaml", text())])
        .not_modified()
}

pub fn metrics(_: &Kinds) -> Operation {
    let forms = [("text/plain", text()), ("application/openmetrics-text", text())];
    Operation::new("service", "metrics", "Metrics for Prometheus.").answers(200, "The metrics.", &forms)
}
