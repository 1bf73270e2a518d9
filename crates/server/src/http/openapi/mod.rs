//! The OpenAPI document (3.0.3), made from the table of routes and the kinds that exist.
// Schemas are built where they are passed: references would only add noise.
#![allow(clippy::needless_pass_by_value)]

pub mod cache;
pub mod convert;
pub mod describe;
pub mod operation;
pub mod plan;
pub mod schemas;

use fleet::kind::Kinds;
use serde_json::{Map, Value, json};

pub use self::cache::Cache;
use super::routes;
use crate::config::Mode;

/// The sections of the document, in the order in which people read them.
const SECTIONS: [&str; 6] = ["openapi", "info", "servers", "paths", "components", "tags"];

/// The document as YAML.
pub fn text(kinds: &Kinds, mode: Mode) -> String {
    let mut document = document(kinds, mode);
    let section = |name: &str| fleet::yaml::write(&json!({name: document[name].take()}));
    SECTIONS.map(section).concat()
}

/// The document of a server in this mode.
pub fn document(kinds: &Kinds, mode: Mode) -> Value {
    let mut paths = Map::new();
    for route in routes::served(mode) {
        let method = route.method.method().as_str().to_lowercase();
        for (path, operation) in route.described(kinds) {
            let entry = paths.entry(path).or_insert_with(|| json!({}));
            entry[&method] = operation.build(route.right);
        }
    }
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "flux-resourceset",
            "description": "The desired state of a fleet of Kubernetes clusters behind one API.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "servers": [{"url": "/", "description": "The server that serves this document."}],
        "paths": paths,
        "components": {
            "schemas": schemas::components(kinds, mode),
            "securitySchemes": {
                "read": {"type": "http", "scheme": "bearer", "description": "AUTH_TOKEN, a token of an identity, a JWT of OIDC_ISSUER whose claims an identity has, or any token that can write."},
                "write": {"type": "http", "scheme": "bearer", "description": "CRUD_AUTH_TOKEN, or a token or JWT of an identity that can write."},
            },
        },
        "tags": tags(kinds, mode),
    })
}

fn tags(kinds: &Kinds, mode: Mode) -> Value {
    let mut tags = vec![
        json!({"name": "flux", "description": "What Flux Operator polls."}),
        json!({"name": "service", "description": "Probes, metrics and this document."}),
    ];
    if mode == Mode::Crud {
        tags.push(json!({"name": "changes", "description": "Batches, rollbacks, and the log of all changes."}));
        tags.push(json!({"name": "kinds", "description": "The kinds of resources."}));
        for kind in kinds.iter() {
            let description = match kind.description.is_empty() {
                true => &*kind.name,
                false => &kind.description,
            };
            tags.push(json!({"name": &*kind.name, "description": description}));
        }
    }
    Value::Array(tags)
}
