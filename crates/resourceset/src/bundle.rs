//! ResourceSets together with the providers that feed them: what a cluster applies, as a folder holds it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::{Error, Provider, ResourceSet, Step, documents};

/// ResourceSets, and at which path of the API each of their providers asks.
#[derive(Debug, Default)]
pub struct Bundle {
    sets: Vec<ResourceSet>,
    providers: BTreeMap<String, Endpoint>,
}

/// Where a provider asks, as far as it matters: the last segment of its URL.
#[derive(Debug)]
struct Endpoint {
    path: String,
    /// What an input has unless the API says otherwise.
    defaults: Map<String, Value>,
}

/// What a ResourceSet renders to for one cluster.
#[derive(Debug)]
pub struct Rendered<'a> {
    /// The ResourceSet's name.
    pub name: &'a str,
    /// The paths that its inputs come from.
    pub paths: Vec<&'a str>,
    pub result: Result<Vec<Step>, Error>,
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct BundleError {
    pub file: String,
    pub problem: String,
}

impl Bundle {
    /// Reads files, each with its name. Documents that are neither ResourceSets nor providers are somebody else's.
    pub fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, BundleError> {
        let mut bundle = Bundle::default();
        for (file, text) in files {
            let problem = |problem: String| BundleError {
                file: file.to_owned(),
                problem,
            };
            for document in documents(text).map_err(|error| problem(error.to_string()))? {
                let flux = document["apiVersion"]
                    .as_str()
                    .is_some_and(|version| version.starts_with("fluxcd.controlplane.io/"));
                match document["kind"].as_str().filter(|_| flux) {
                    Some("ResourceSet") => {
                        let set = ResourceSet::from_json(&document).map_err(|error| problem(error.to_string()))?;
                        let set = set.or_namespace("flux-system");
                        if set.name().is_empty() {
                            return Err(problem("a ResourceSet without a name".to_owned()));
                        }
                        if bundle.sets.iter().any(|other| other.name() == set.name()) {
                            return Err(problem(format!("the ResourceSet \"{}\" is there twice", set.name())));
                        }
                        bundle.sets.push(set);
                    }
                    Some("ResourceSetInputProvider") => bundle.add_provider(&document),
                    _ => {}
                }
            }
        }
        Ok(bundle)
    }

    fn add_provider(&mut self, document: &Value) {
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = text("/metadata/name");
        let path = text("/spec/url").split(['?', '#']).next().unwrap_or_default();
        let path = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let defaults = document.pointer("/spec/defaultValues").and_then(Value::as_object);
        let endpoint = Endpoint {
            path: if path.is_empty() { name } else { path }.to_owned(),
            defaults: defaults.cloned().unwrap_or_default(),
        };
        self.providers.insert(name.to_owned(), endpoint);
    }

    /// Whether there is nothing to render.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Where a provider asks: as its document says, or at the path of its own name if there is none.
    fn path<'a>(&'a self, provider: &'a str) -> &'a str {
        self.providers.get(provider).map_or(provider, |endpoint| &endpoint.path)
    }

    /// Renders every ResourceSet with what the API answers at each path. One none of whose paths there is gives nothing:
    /// its provider would get no answer, and Flux would leave things as they are.
    pub fn render(&self, told: impl Fn(&str) -> Option<Vec<Map<String, Value>>>) -> Vec<Rendered<'_>> {
        let mut rendered = Vec::new();
        for set in &self.sets {
            let names: BTreeSet<&str> = set.provider_names().collect();
            let answers: Vec<_> = names.iter().map(|name| (*name, told(self.path(name)))).collect();
            if !names.is_empty() && answers.iter().all(|(_, inputs)| inputs.is_none()) {
                continue;
            }
            let providers = answers.into_iter().filter_map(|(name, inputs)| {
                let defaults = self.providers.get(name).map(|endpoint| &endpoint.defaults);
                let inputs = inputs?.into_iter().map(|input| {
                    let mut whole = defaults.cloned().unwrap_or_default();
                    whole.extend(input);
                    whole
                });
                Some(Provider::new(name, set.namespace(), inputs.collect()))
            });
            let result = set.combine(providers.collect()).and_then(|inputs| set.render(&inputs));
            rendered.push(Rendered {
                name: set.name(),
                paths: names.iter().map(|name| self.path(name)).collect(),
                result,
            });
        }
        rendered
    }
}
