//! A cluster that registers itself, with the token of a join identity.

use serde_json::{Map, Value, json};

use super::{CLUSTER_PREFIX, IDENTITIES, Identity, JoinScope, Token};
use crate::kind::CLUSTERS;
use crate::log::Digest;
use crate::operation::{Operation, Verb};
use crate::refusal::{Reason, Refusal, Violation, segment};
use crate::snapshot::Fleet;

/// What a cluster says of itself.
#[derive(Clone, Debug)]
pub struct Registration {
    name: String,
    dns: String,
    environment: String,
    labels: Map<String, Value>,
    /// The digest of a token that the cluster made itself.
    pub token_digest: Option<Digest>,
}

/// The fields of a registration.
const FIELDS: [&str; 5] = ["cluster_name", "cluster_dns", "environment", "labels", "token_sha256"];

impl Registration {
    /// Reads the body of a request.
    pub fn read(body: Value) -> Result<Registration, Vec<Violation>> {
        let Value::Object(mut fields) = body else {
            return Err(vec![Violation::new("", "must be an object")]);
        };
        let mut errors: Vec<Violation> = fields
            .keys()
            .filter(|name| !FIELDS.contains(&name.as_str()))
            .map(|name| Violation::new(segment(name), format!("unknown field; known: {}", FIELDS.join(", "))))
            .collect();
        let mut text = |name: &str| match fields.remove(name) {
            Some(Value::String(text)) if !text.is_empty() => text,
            given => {
                let detail = if given.is_none() {
                    "is required"
                } else {
                    "must be a string that is not empty"
                };
                errors.push(Violation::new(format!("/{name}"), detail));
                String::new()
            }
        };
        let (name, dns, environment) = (text("cluster_name"), text("cluster_dns"), text("environment"));
        let labels = match fields.remove("labels") {
            None => Map::new(),
            Some(Value::Object(labels)) => labels,
            Some(_) => {
                errors.push(Violation::new("/labels", "must be an object"));
                Map::new()
            }
        };
        let token_digest = match fields.remove("token_sha256") {
            None => None,
            Some(given) => {
                let digest = given
                    .as_str()
                    .and_then(|text| Digest::parse(&text.to_ascii_lowercase()));
                if digest.is_none() {
                    let detail = "must be the SHA-256 of the token, as 64 hexadecimal digits";
                    errors.push(Violation::new("/token_sha256", detail));
                }
                digest
            }
        };
        let registration = Registration {
            name,
            dns,
            environment,
            labels,
            token_digest,
        };
        if errors.is_empty() {
            Ok(registration)
        } else {
            Err(errors)
        }
    }

    /// The id of the cluster: its name.
    pub fn cluster(&self) -> &str {
        &self.name
    }

    /// Refuses a cluster that the join identity may not register, and adds the labels that it forces.
    pub fn within(mut self, scope: &JoinScope) -> Result<Registration, Refusal> {
        let refuse = |pointer: &str, detail: String| Refusal::at(Reason::OutOfScope, pointer, detail);
        if !scope.environments.is_empty() && !scope.environments.contains(&self.environment) {
            let detail = format!(
                "\"{}\" is not one of {}",
                self.environment,
                scope.environments.join(", ")
            );
            return Err(refuse("/environment", detail));
        }
        let suffix = scope.dns_suffix.to_ascii_lowercase();
        let own = self.dns.to_ascii_lowercase();
        if own.len() <= suffix.len() || !own.ends_with(&suffix) {
            return Err(refuse("/cluster_dns", format!("does not end in {}", scope.dns_suffix)));
        }
        for (key, value) in &scope.labels {
            let given = self.labels.insert(key.clone(), value.as_str().into());
            if given.is_some_and(|given| given != value.as_str()) {
                let detail = format!("must be \"{value}\" for clusters that register with this identity");
                return Err(refuse(&format!("/labels{}", segment(key)), detail));
            }
        }
        Ok(self)
    }

    /// Whether the cluster is registered already, by this very call: its response may have been lost.
    pub fn is_repeated(&self, fleet: &Fleet) -> bool {
        let Some(cluster) = fleet.cluster(&self.name) else {
            return false;
        };
        let document = cluster.document().body.parse();
        let same = |name: &str, own: &Value| document.get(name) == Some(own);
        let labels = document
            .get("labels")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let identity = fleet.identities().get(&self.identity());
        let has_token = |digest: &Digest| {
            let mut tokens = identity.iter().flat_map(|identity| &identity.tokens);
            tokens.any(|token| token.digest == *digest)
        };
        self.token_digest.as_ref().is_some_and(has_token)
            && same("cluster_dns", &json!(self.dns))
            && same("environment", &json!(self.environment))
            && labels == self.labels
    }

    /// The id of the identity that the cluster gets.
    pub fn identity(&self) -> String {
        format!("{CLUSTER_PREFIX}{}", self.name)
    }

    /// The write that registers the cluster, in one revision.
    pub fn operations(&self, join: &Identity, token: Token) -> Vec<Operation> {
        let mut cluster = json!({
            "cluster_name": self.name,
            "cluster_dns": self.dns,
            "environment": self.environment,
        });
        if !self.labels.is_empty() {
            cluster["labels"] = self.labels.clone().into();
        }
        let (id, value) = (None, cluster);
        vec![
            Operation::new(
                IDENTITIES,
                Verb::Register {
                    id: join.id.to_string(),
                    cluster: self.name.clone(),
                    dns: self.dns.clone(),
                },
            ),
            Operation::new(CLUSTERS, Verb::Create { id, value }),
            Operation::new(
                IDENTITIES,
                Verb::IssueToken {
                    id: self.identity(),
                    token,
                },
            ),
        ]
    }
}
