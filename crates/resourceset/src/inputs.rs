//! Inputs: where they come from and how they are combined.

use std::{collections::BTreeMap, rc::Rc, sync::LazyLock};

use regex_syntax::hir::ClassUnicode;
use serde_json::{Map, Value as Json};

use crate::{
    convert,
    error::{Error, ErrorKind},
    unicode,
    value::Value,
};

pub(crate) const API_VERSION: &str = "fluxcd.controlplane.io/v1";

/// How many sets of inputs `Permute` may give.
const MAX_PERMUTATIONS: usize = 10_000;

/// Something that provides inputs: a ResourceSetInputProvider, or the ResourceSet itself.
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

    /// What providers are ordered by.
    pub(crate) fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// The inputs as a template sees them, each with a reference to its provider.
    fn values(&self) -> Vec<Value> {
        let text = |text: &str| Value::str(text);
        let value = |input: &Map<String, Json>| {
            let reference = [
                ("apiVersion", text(API_VERSION)),
                ("kind", text(self.kind)),
                ("name", text(&self.name)),
                ("namespace", text(&self.namespace)),
            ];
            let mut entries: BTreeMap<_, _> = input
                .iter()
                .map(|(key, json)| (Rc::from(key.as_bytes()), convert::value(json)))
                .collect();
            entries.insert(Rc::from(b"provider".as_slice()), dictionary(reference));
            Value::map(entries)
        };
        self.inputs.iter().map(value).collect()
    }
}

fn dictionary<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::map(
        entries
            .into_iter()
            .map(|(key, value)| (Rc::from(key.as_bytes()), value))
            .collect(),
    )
}

/// How the inputs of several providers are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// One after the other.
    Flatten,
    /// Each with each, under the name of its provider.
    Permute { include_empty: bool },
}

/// Inputs that are combined: a ResourceSet is rendered once for each.
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

    /// Whether there is nothing to render for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.strategy {
            Strategy::Flatten => self.providers.iter().all(|provider| provider.inputs.is_empty()),
            Strategy::Permute { .. } => {
                self.providers.is_empty() || self.providers.iter().any(|provider| provider.inputs.is_empty())
            }
        }
    }

    /// The sets, as templates see them. Made anew for each rendering, since a template can change them.
    pub(crate) fn values(&self) -> Vec<Value> {
        match self.strategy {
            Strategy::Flatten => self.providers.iter().flat_map(Provider::values).collect(),
            Strategy::Permute { .. } if self.is_empty() => Vec::new(),
            Strategy::Permute { .. } => self.permutations(),
        }
    }

    /// Each input of each provider with each of the others, the last provider's changing fastest.
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
            let mut entries: BTreeMap<_, _> = choice()
                .map(|((name, inputs), at)| (Rc::from(name.as_bytes()), inputs[*at].clone()))
                .collect();
            entries.insert(Rc::from(b"id".as_slice()), Value::str(checksum(&id.join("/"))));
            permutations.push(Value::map(entries));

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
    static PUNCTUATION: LazyLock<Option<ClassUnicode>> = LazyLock::new(|| unicode::of_version("P"));
    let is_punctuation = |char: char| {
        let ranges = PUNCTUATION.as_ref().map(ClassUnicode::ranges).unwrap_or_default();
        ranges.iter().any(|range| (range.start()..=range.end()).contains(&char))
    };
    let mapped: String = name
        .chars()
        .map(unicode::to_lower)
        .filter_map(|char| match char {
            'a'..='z' | '0'..='9' => Some(char),
            _ if unicode::is_space(char) || is_punctuation(char) => Some('_'),
            _ => None,
        })
        .collect();
    mapped
        .split('_')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("_")
}
