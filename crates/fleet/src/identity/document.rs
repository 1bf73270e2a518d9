//! The documents of identities: as they are sent, stored and shown.

use std::sync::LazyLock;

use serde_json::Value;

use super::{IDENTITIES, Identity, OperatorScope, Scope};
use crate::document::Document;
use crate::json::Json;
use crate::kind::{CLUSTERS, FixedSchema, GUARDS, KINDS, name_record};
use crate::refusal::Violation;
use crate::selector::Selector;
use crate::snapshot::Fleet;

/// The schema of the documents as they are sent and shown.
pub static SCHEMA: LazyLock<FixedSchema> = LazyLock::new(|| FixedSchema::embedded(include_str!("schema.yaml")));

/// Ids that the server uses for actors of its own, and for the tokens of its environment. `rollout`, because people who are an identity
/// by OIDC are logged as `IDENTITY/SUBJECT`, and rollouts as `rollout/NAME`.
const RESERVED: [&str; 4] = ["system", "read", "write", "rollout"];
/// The fields that only the server sets.
const SERVERS: [&str; 2] = ["tokens", "used"];

impl Identity {
    /// The identity that a document describes. `present` is the one that it replaces, whose tokens and uses stay.
    pub(crate) fn read(value: &Value, present: Option<&Identity>, fleet: &Fleet) -> Result<Identity, Vec<Violation>> {
        let mut errors = SCHEMA.validate(value);
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut given = value.clone();
        let kept = present.map(|present| shown(&present.document().body));
        if let Some(fields) = given.as_object_mut() {
            for name in SERVERS {
                let own = fields.remove(name);
                let kept = kept.as_ref().and_then(|kept| kept.get(name));
                if own.is_some() && own.as_ref() != kept {
                    let detail = "is set by the server: leave it out, or send it as it is";
                    errors.push(Violation::new(format!("/{name}"), detail));
                }
            }
            fields.retain(|_, value| !value.is_null());
        }
        let mut identity: Identity = match serde_json::from_value(given) {
            Ok(identity) => identity,
            Err(error) => return Err(vec![Violation::new("", error.to_string())]),
        };
        errors.extend(identity.problems(present, fleet));
        if !errors.is_empty() {
            return Err(errors);
        }
        if let Some(present) = present {
            identity.tokens.clone_from(&present.tokens);
            identity.used = present.used;
        }
        for dns in &mut identity.certificates {
            *dns = dns.to_ascii_lowercase().into();
        }
        Ok(identity)
    }

    /// What is wrong beyond the schema.
    fn problems(&self, present: Option<&Identity>, fleet: &Fleet) -> Vec<Violation> {
        let mut errors = Vec::new();
        let mut refuse = |pointer: &str, detail: String| errors.push(Violation::new(pointer, detail));
        if RESERVED.contains(&&*self.id) {
            refuse("/id", format!("\"{}\" is reserved for the server", self.id));
        }
        if let Some(present) = present.filter(|present| present.role != self.role) {
            let role = present.role.name();
            refuse(
                "/role",
                format!("is {role} and cannot be changed: create another identity"),
            );
        }
        for (n, dns) in self.certificates.iter().enumerate() {
            let dns = dns.to_ascii_lowercase();
            let is_kept = present.is_some_and(|present| present.certificates.iter().any(|kept| **kept == *dns));
            if let Some(owner) = self.other_owner(&dns, fleet).filter(|_| !is_kept) {
                refuse(&format!("/certificates/{n}"), format!("belongs to the {owner}"));
            }
        }
        match &self.scope {
            Some(Scope::Operator(scope)) => errors.extend(scope.problems(fleet)),
            Some(Scope::Join(scope)) => errors.extend(scope.problems(fleet)),
            None => {}
        }
        errors
    }

    /// Who else certificates with a DNS name belong to: such a certificate would be of two, and so of none.
    fn other_owner(&self, dns: &str, fleet: &Fleet) -> Option<String> {
        let identity = fleet.identities().with_certificate(dns);
        if let Some(other) = identity.filter(|other| other.id != self.id) {
            return Some(format!("identity \"{}\"", other.id));
        }
        if let Some(cluster) = fleet.cluster_at(dns) {
            return Some(format!("cluster \"{}\"", cluster.document().id));
        }
        let decommissioned = fleet.decommissioned_cluster(dns)?;
        Some(format!("decommissioned cluster \"{decommissioned}\""))
    }

    /// The document as it is shown.
    pub fn shown(&self) -> Value {
        shown(&self.document().body)
    }

    pub(crate) fn document(&self) -> Document {
        let value = serde_json::to_value(self).unwrap_or_default();
        Document::new(self.id.clone(), Json::new(&value))
    }
}

impl OperatorScope {
    fn problems(&self, fleet: &Fleet) -> Vec<Violation> {
        let mut errors = Vec::new();
        if let Err(error) = Selector::stored(&self.clusters, fleet) {
            errors.push(Violation::new("/scope/clusters", error.to_string()));
        }
        for (n, kind) in self.kinds.iter().enumerate() {
            let detail = match kind.as_str() {
                CLUSTERS => "clusters are in `clusters`, by a selector".to_owned(),
                KINDS | IDENTITIES | GUARDS => format!("only an admin may write {kind}"),
                kind if name_record(kind).is_some() => format!("{kind} follow from writes to clusters"),
                kind if fleet.kinds().get(kind).is_none() => format!("there is no kind \"{kind}\""),
                _ => continue,
            };
            errors.push(Violation::new(format!("/scope/kinds/{n}"), detail));
        }
        errors
    }
}

impl super::JoinScope {
    fn problems(&self, fleet: &Fleet) -> Vec<Violation> {
        let schema = fleet.kinds().clusters().map(|kind| &kind.schema["properties"]);
        let known = schema.and_then(|properties| properties["environment"]["enum"].as_array());
        let mut errors = Vec::new();
        for (n, environment) in self.environments.iter().enumerate() {
            let is_known = |known: &Vec<Value>| known.iter().any(|one| one.as_str() == Some(environment));
            if known.is_some_and(|known| !is_known(known)) {
                let detail = format!("there is no environment \"{environment}\"");
                errors.push(Violation::new(format!("/scope/environments/{n}"), detail));
            }
        }
        errors
    }
}

/// A stored document as it is shown: without the digests of tokens.
pub fn shown(body: &Json) -> Value {
    let mut value = body.parse();
    // An index would add a null where there are no tokens.
    let tokens = value.get_mut("tokens").and_then(Value::as_array_mut);
    for token in tokens.into_iter().flatten() {
        if let Some(token) = token.as_object_mut() {
            token.remove("digest");
        }
    }
    value
}
