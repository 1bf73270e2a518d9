//! What one cluster is told about one kind: its references, merged with their definitions, as the body of a reply.

mod body;
mod common;
mod mark;
mod merge;
mod reply;

use serde_json::Value;

pub(crate) use self::body::{Body, breach};
pub(crate) use self::common::Common;
pub(crate) use self::mark::{DESIRED, MARK_BYTES};
pub use self::mark::{Mark, NotAMark, mark};
pub use self::merge::Effective;
pub(crate) use self::merge::{Part, cluster_block};
pub use self::reply::{Breach, Form, MAX_INPUTS, MAX_REPLY_BYTES, Reply};
use crate::kind::Kind;
use crate::snapshot::Cluster;

/// How every reply begins and ends.
const START: &str = r#"{"inputs":["#;
const END: &str = "]}";

/// The references of `cluster` (a parsed document) to definitions of `kind`.
pub fn references<'a>(kind: &Kind, cluster: &'a Value) -> &'a [Value] {
    let array = kind.references.as_deref().and_then(|name| cluster.get(name));
    array.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn reference_id(reference: &Value) -> &str {
    reference.get("id").and_then(Value::as_str).unwrap_or_default()
}

/// The patches of a cluster for one reference.
fn patches<'a>(kind: &Kind, reference: &Value, cluster: &'a Value) -> Option<&'a Value> {
    let all = cluster.get("patches").filter(|_| kind.flux.patches)?;
    all.get(reference_id(reference))
}

/// The list of clusters for provisioning: four fields of each, whatever else the documents hold.
pub fn cluster_list<'a>(clusters: impl Iterator<Item = &'a Cluster>) -> Result<String, Breach> {
    let mut text = String::from(START);
    let mut count = 0;
    for cluster in clusters {
        if count > 0 {
            text.push(',');
        }
        count += 1;
        let head = cluster.head();
        let fields = vec![
            ("cluster_dns", Part::Text(&head.dns)),
            ("cluster_name", Part::Text(&head.name)),
            ("environment", Part::Text(&head.environment)),
            ("id", Part::Text(&cluster.document().id)),
        ];
        Part::Object(fields).write(&mut text);
    }
    text.push_str(END);
    Breach::check_size(text.len(), count)?;
    Ok(text)
}
