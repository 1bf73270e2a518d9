//! The ResourceSets and providers of a folder.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::{Error, Provider, ResourceSet, Step, documents};

/// ResourceSets, and the path of the API that each of their providers reads.
#[derive(Debug, Default)]
pub struct Bundle {
    sets: Vec<ResourceSet>,
    documents: Vec<Value>,
    providers: BTreeMap<String, Endpoint>,
    /// The ResourceSets with an object of Flux in their templates.
    waiting: BTreeSet<String>,
}

/// Where a provider gets its inputs: the last segment of its URL.
#[derive(Debug)]
struct Endpoint {
    path: String,
    /// Default values of every input.
    defaults: Map<String, Value>,
}

/// The result of rendering a ResourceSet for one cluster.
#[derive(Debug)]
pub struct Rendered<'a> {
    /// The name of the ResourceSet.
    pub name: &'a str,
    /// The paths that its inputs come from.
    pub paths: Vec<&'a str>,
    /// The objects, step by step.
    pub result: Result<Vec<Step>, Error>,
}

/// A file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct BundleError {
    /// The name of the file.
    pub file: String,
    /// What is wrong.
    pub problem: String,
}

impl Bundle {
    /// Reads files, each with its name. Documents that are neither ResourceSets nor providers are ignored.
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
                            return Err(problem("a ResourceSet has no metadata.name".to_owned()));
                        }
                        if bundle.sets.iter().any(|other| other.name() == set.name()) {
                            return Err(problem(format!(
                                "more than one ResourceSet is named \"{}\"",
                                set.name()
                            )));
                        }
                        if document.to_string().contains(".toolkit.fluxcd.io/v") {
                            bundle.waiting.insert(set.name().to_owned());
                        }
                        bundle.sets.push(set);
                        bundle.documents.push(document);
                    }
                    Some("ResourceSetInputProvider") => {
                        bundle.add_provider(&document);
                        bundle.documents.push(document);
                    }
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

    /// The ResourceSets and providers as they were read.
    #[must_use]
    pub fn documents(&self) -> &[Value] {
        &self.documents
    }

    /// Whether there are no ResourceSets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Whether a ResourceSet gets its inputs from a path.
    #[must_use]
    pub fn reads(&self, path: &str) -> bool {
        let mut providers = self.sets.iter().flat_map(ResourceSet::provider_names);
        providers.any(|provider| self.path(provider) == path)
    }

    /// The names of the ResourceSets that get inputs from a path.
    pub fn sets_of<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        let reads = move |set: &&ResourceSet| set.provider_names().any(|provider| self.path(provider) == path);
        self.sets.iter().filter(reads).map(ResourceSet::name)
    }

    /// Whether a ResourceSet that gets inputs from a path makes objects of Flux, which tell when they are ready.
    #[must_use]
    pub fn waits(&self, path: &str) -> bool {
        self.sets_of(path).any(|name| self.waiting.contains(name))
    }

    /// The path of a provider: from the URL in its document, or its name if there is no document.
    fn path<'a>(&'a self, provider: &'a str) -> &'a str {
        self.providers.get(provider).map_or(provider, |endpoint| &endpoint.path)
    }

    /// Renders every ResourceSet with the inputs that the API returns for each path. A ResourceSet is skipped if none of its
    /// paths exists: its providers would get an error, and Flux would change nothing.
    pub fn render(&self, inputs: impl Fn(&str) -> Option<Vec<Map<String, Value>>>) -> Vec<Rendered<'_>> {
        let mut rendered = Vec::new();
        for set in &self.sets {
            let names: BTreeSet<&str> = set.provider_names().collect();
            let answers: Vec<_> = names.iter().map(|name| (*name, inputs(self.path(name)))).collect();
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
