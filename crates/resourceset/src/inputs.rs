//! Inputs: where they come from, and how they are combined.

use gotemplate::{Value, unicode};
use serde_json::{Map, Value as Json};

use crate::error::{Error, ErrorKind};

pub(crate) const API_VERSION: &str = "fluxcd.controlplane.io/v1";

/// How many inputs `Permute` may produce. The operator has the same limit.
const MAX_PERMUTATIONS: usize = 10_000;

/// A source of inputs: a ResourceSetInputProvider, or the ResourceSet itself.
#[derive(Clone, Debug)]
pub struct Provider {
    kind: &'static str,
    name: String,
    namespace: String,
    inputs: Vec<Map<String, Json>>,
}

impl Provider {
    /// A ResourceSetInputProvider that exports the given inputs.
    #[must_use]
    pub fn new(name: impl Into<String>, namespace: impl Into<String>, inputs: Vec<Map<String, Json>>) -> Self {
        Self {
            kind: "ResourceSetInputProvider",
            name: name.into(),
            namespace: namespace.into(),
            inputs,
        }
    }

    pub(crate) fn resource_set(name: &str, namespace: &str, inputs: Vec<Map<String, Json>>) -> Self {
        Self {
            kind: "ResourceSet",
            ..Self::new(name, namespace, inputs)
        }
    }

    /// The sort key of providers.
    pub(crate) fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// The inputs as a template sees them, each with a reference to its provider.
    fn values(&self) -> Vec<Value> {
        let value = |input: &Map<String, Json>| {
            let reference = Value::map([
                ("apiVersion", Value::str(API_VERSION)),
                ("kind", Value::str(self.kind)),
                ("name", Value::str(&self.name)),
                ("namespace", Value::str(&self.namespace)),
            ]);
            let entries = input.iter().map(|(key, json)| (key.as_str(), Value::from(json)));
            Value::map(entries.chain([("provider", reference)]))
        };
        self.inputs.iter().map(value).collect()
    }
}

/// How the inputs of several providers are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The inputs of all providers, one after the other.
    Flatten,
    /// Every combination of one input per provider, each under the name of its provider.
    Permute { include_empty: bool },
}

/// Combined inputs. A ResourceSet is rendered once for each.
#[derive(Clone, Debug)]
pub struct Inputs {
    providers: Vec<Provider>,
    strategy: Strategy,
}

impl Inputs {
    pub(crate) fn combine(providers: Vec<Provider>, strategy: Strategy) -> Result<Self, Error> {
        let Strategy::Permute { include_empty } = strategy else {
            return Ok(Self { providers, strategy });
        };
        let mut kept = Vec::new();
        let mut expected = 1_usize;
        for provider in providers {
            let count = provider.inputs.len();
            if count == 0 && !include_empty {
                continue;
            }
            expected = expected.saturating_mul(count);
            let refusal = if expected > MAX_PERMUTATIONS {
                format!(
                    "adding provider '{}' with {count} inputs would exceed the maximum allowed permutations. \
                     max: {MAX_PERMUTATIONS}, got: {expected}",
                    provider.name
                )
            } else if normalized(&provider.name).is_empty() {
                format!("normalized provider name is empty: '{}'", provider.name)
            } else {
                kept.push(provider);
                continue;
            };
            return Err(Error::new(ErrorKind::Inputs, refusal).while_doing(format_args!(
                "failed to get inputs from {}/{}",
                provider.kind, provider.name
            )));
        }
        Ok(Self {
            providers: kept,
            strategy,
        })
    }

    /// Whether there are no inputs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.strategy {
            Strategy::Flatten => self.providers.iter().all(|provider| provider.inputs.is_empty()),
            Strategy::Permute { .. } => {
                self.providers.is_empty() || self.providers.iter().any(|provider| provider.inputs.is_empty())
            }
        }
    }

    /// The inputs as templates see them. Every rendering gets new ones, because a template can change them.
    pub(crate) fn values(&self) -> Vec<Value> {
        match self.strategy {
            Strategy::Flatten => self.providers.iter().flat_map(Provider::values).collect(),
            Strategy::Permute { .. } if self.is_empty() => Vec::new(),
            Strategy::Permute { .. } => self.permutations(),
        }
    }

    /// Every combination of one input per provider. The input of the last provider changes fastest.
    fn permutations(&self) -> Vec<Value> {
        let scoped: Vec<(String, Vec<Value>)> = self
            .providers
            .iter()
            .map(|provider| (normalized(&provider.name), provider.values()))
            .collect();
        let mut chosen = vec![0; scoped.len()];
        let mut permutations = Vec::new();
        loop {
            let choice = || scoped.iter().zip(&chosen);
            let id: Vec<String> = choice().map(|((name, _), at)| format!("{name}={at}")).collect();
            let entries = choice().map(|((name, inputs), at)| (name.as_str(), inputs[*at].clone()));
            let id = ("id", Value::str(checksum(&id.join("/"))));
            permutations.push(Value::map(entries.chain([id])));

            let Some(last) = chosen
                .iter()
                .zip(&scoped)
                .rposition(|(at, (_, inputs))| at + 1 < inputs.len())
            else {
                return permutations;
            };
            chosen[last] += 1;
            chosen[last + 1..].fill(0);
        }
    }
}

/// A short id: the Adler-32 checksum of a text, in decimal.
pub(crate) fn checksum(text: &str) -> String {
    const MODULUS: u32 = 65_521;
    let (low, high) = text.bytes().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    (high << 16 | low).to_string()
}

/// A provider's name as a key for templates: words of lower-case letters and digits, joined by `_`.
fn normalized(name: &str) -> String {
    let mapped: String = name
        .chars()
        .map(unicode::to_lower)
        .filter_map(|char| match char {
            'a'..='z' | '0'..='9' => Some(char),
            _ if unicode::is_space(char) || unicode::is_punct(char) => Some('_'),
            _ => None,
        })
        .collect();
    mapped
        .split('_')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("_")
}
