//! The names of a kind: `network_policy` in its file, `network_policies` on its route, `network-policy` on the command line.

use serde_json::Value;

use super::{CLUSTERS, DECOMMISSIONS, Flux, GUARDS, KINDS, PROFILES, RELEASED_NAMES, ROLLOUTS, is_server_kind};
use crate::identity::IDENTITIES;
use crate::refusal::Violation;

/// Names that a kind may not have: routes of the API, and names reserved for later ones.
const RESERVED: [&str; 33] = [
    "api",
    "audit",
    "backup",
    "batch",
    "changes",
    DECOMMISSIONS,
    "diff",
    "docs",
    "events",
    "export",
    "flux",
    GUARDS,
    "health",
    IDENTITIES,
    "import",
    KINDS,
    "metrics",
    "openapi",
    "plan",
    "plans",
    "problems",
    PROFILES,
    "ready",
    "register",
    RELEASED_NAMES,
    "restore",
    "revisions",
    "rollback",
    ROLLOUTS,
    "status",
    "ui",
    "undo",
    "whoami",
];

/// Flux paths that a kind may not have: clusters report there.
pub(super) const RESERVED_PATHS: [&str; 3] = ["changed", "events", "report"];

/// The name of a kind (the plural), from its document.
pub fn name_of(document: &Value) -> Result<String, Violation> {
    let Some(kind) = document.get("kind").and_then(Value::as_str) else {
        return Err(Violation::new(
            "/kind",
            "is required: the name of the kind, as a string",
        ));
    };
    let given = document.pointer("/schema/x-flux/plural").and_then(Value::as_str);
    let name = given.map_or_else(|| plural(kind), str::to_owned);
    if !well_formed(kind) || !well_formed(&name) {
        return Err(Violation::new(
            "/kind",
            "a kind's name has only lower-case letters, digits and underscores, begins with a letter and is at most 63 characters long",
        ));
    }
    if RESERVED.contains(&name.as_str()) {
        return Err(Violation::new(
            "/kind",
            format!("\"{name}\" is reserved for a route of the API"),
        ));
    }
    Ok(name)
}

/// The names of a kind besides its plural.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) singular: String,
    pub(super) command: String,
    /// The last segment of its Flux endpoint; clusters and the kinds of the server have none.
    pub(super) path: Option<String>,
    /// The array of references of clusters and profiles; only definitions have one.
    pub(super) references: Option<String>,
}

impl Names {
    /// The names of a kind: `given` is the `kind` in its document, `name` its plural.
    pub(super) fn new(given: &str, name: &str, flux: &Flux) -> Names {
        let singular = flux.singular.clone().unwrap_or_else(|| match given == name {
            true => singular(given),
            false => given.to_owned(),
        });
        let is_definition = name != CLUSTERS && !is_server_kind(name);
        let path = || flux.path.clone().unwrap_or_else(|| name.replace('_', "-"));
        let references = || flux.references.clone().unwrap_or_else(|| name.to_owned());
        Names {
            command: flux.command.clone().unwrap_or_else(|| singular.replace('_', "-")),
            path: is_definition.then(path),
            references: is_definition.then(references),
            singular,
        }
    }
}

/// Whether a name can be a route, a property and, with dashes, a command.
pub(super) fn well_formed(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.ends_with('_')
}

/// The plural of the last word. A plural stays as it is.
pub fn plural(name: &str) -> String {
    if let Some(stem) = name.strip_suffix('y')
        && !stem.ends_with(['a', 'e', 'i', 'o', 'u', '_'])
        && !stem.is_empty()
    {
        return format!("{stem}ies");
    }
    if name.ends_with("ss") || name.ends_with("us") || name.ends_with(['x', 'z']) || ends_in_hiss(name) {
        return format!("{name}es");
    }
    if name.ends_with('s') {
        return name.to_owned();
    }
    format!("{name}s")
}

/// The singular of the last word. A singular stays as it is.
pub fn singular(name: &str) -> String {
    if plural(name) != name {
        return name.to_owned();
    }
    if let Some(stem) = name.strip_suffix("ies") {
        return format!("{stem}y");
    }
    if let Some(stem) = name.strip_suffix("es")
        && (stem.ends_with("ss") || stem.ends_with("us") || stem.ends_with(['x', 'z']) || ends_in_hiss(stem))
    {
        return stem.to_owned();
    }
    name.strip_suffix('s').unwrap_or(name).to_owned()
}

fn ends_in_hiss(name: &str) -> bool {
    name.ends_with("ch") || name.ends_with("sh")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_names_are_pluralised_and_plurals_stay() {
        for (one, many) in [
            ("network_policy", "network_policies"),
            ("namespace", "namespaces"),
            ("gateway", "gateways"),
            ("ingress", "ingresses"),
            ("status", "statuses"),
            ("box", "boxes"),
            ("patch", "patches"),
            ("mesh", "meshes"),
            ("resource_quota", "resource_quotas"),
        ] {
            assert_eq!(plural(one), many);
            assert_eq!(plural(many), many);
            assert_eq!(singular(many), one);
            assert_eq!(singular(one), one);
        }
    }
}
