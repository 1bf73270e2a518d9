//! `flux-operator build resourceset`: files in, a stream of YAML documents out.

use std::collections::BTreeMap;

use gotemplate::yaml;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::{
    error::{Error, ErrorKind},
    inputs::{Provider, checksum},
    objects,
    set::{ResourceSet, Step, input_maps},
    types,
};

/// The input of the command: the contents of files.
#[derive(Clone, Copy, Debug)]
pub struct Offline<'a> {
    /// The ResourceSet.
    pub resource_set: &'a [u8],
    /// A list of inputs, decoded over those of the ResourceSet.
    pub inputs: Option<&'a [u8]>,
    /// ResourceSetInputProviders of type Static. `spec.inputsFrom` selects from them.
    pub providers: Option<&'a [u8]>,
    /// The namespace of the ResourceSet, if the document has none.
    pub namespace: &'a str,
}

/// Renders and prints as the command does. Unlike in the controller, it is an error if there are no objects.
pub fn build(offline: &Offline<'_>) -> Result<String, Error> {
    let steps = render(offline)?;
    if steps.iter().all(|step| step.objects.is_empty()) {
        return Err(Error::new(ErrorKind::NoObjects, "no objects were generated"));
    }
    print(&steps)
}

fn render(offline: &Offline<'_>) -> Result<Vec<Step>, Error> {
    let mut set = ResourceSet::parse(offline.resource_set)
        .map_err(|error| error.while_doing("error parsing ResourceSet"))?
        .or_namespace(offline.namespace);
    let refuse = |text: &str| Err(Error::new(ErrorKind::Document, text));
    if set.namespace().is_empty() {
        return refuse("ResourceSet namespace must be set either in the manifest or with --namespace");
    }
    if set.name().is_empty() {
        return refuse("ResourceSet name must be set in the manifest");
    }
    if !set.inputs_from().is_empty() && offline.inputs.is_none() && offline.providers.is_none() {
        return refuse(
            "ResourceSet has '.spec.inputsFrom', please provide the inputs with --inputs-from or --inputs-from-provider",
        );
    }
    if let Some(inputs) = offline.inputs {
        set.merge_inputs(inputs)
            .map_err(|problem| Error::new(ErrorKind::Inputs, problem).while_doing("error parsing inputs file"))?;
    }
    let providers = match offline.providers {
        Some(text) => choose(&set, &load(text, set.namespace())?)?,
        None => Vec::new(),
    };
    let inputs = set
        .combine(providers)
        .map_err(|error| error.while_doing("error combining inputs"))?;
    set.build(&inputs)
}

/// Prints objects as YAML documents. Each step starts with a comment with its name.
fn print(steps: &[Step]) -> Result<String, Error> {
    let mut text = String::new();
    for step in steps {
        if let Some(name) = step.name.as_ref().filter(|_| !step.objects.is_empty()) {
            text.push_str(&format!("# step: {name}\n"));
        }
        for object in &step.objects {
            let yaml = yaml::write(object).map_err(|error| {
                Error::new(ErrorKind::Object, error.to_string()).while_doing("error marshalling object")
            })?;
            text.push_str("---\n");
            text.push_str(&yaml);
        }
    }
    Ok(text)
}

/// A provider from a file.
struct Loaded {
    labels: BTreeMap<String, String>,
    name: String,
    provider: Provider,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    labels: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    r#type: Option<String>,
    default_values: Option<Map<String, Json>>,
}

/// Reads the providers of a namespace.
fn load(text: &[u8], namespace: &str) -> Result<Vec<Loaded>, Error> {
    let loading = |error: Error| error.while_doing("error loading providers from file");
    let parsing =
        |text: String| loading(Error::new(ErrorKind::Inputs, text).while_doing("error parsing inputs provider file"));
    let refuse = |text: String| loading(Error::new(ErrorKind::Inputs, text));
    let mut providers = Vec::new();
    for object in objects::read_all(text).map_err(parsing)? {
        let yaml = yaml::write(&Json::Object(object)).map_err(|error| parsing(error.to_string()))?;
        let mut document = Json::Null;
        yaml::unmarshal(yaml.as_bytes(), &types::INPUT_PROVIDER, &mut document).map_err(parsing)?;
        let Document { metadata, spec } =
            serde_json::from_value(document).map_err(|problem| parsing(problem.to_string()))?;
        if metadata
            .namespace
            .is_some_and(|own| !own.is_empty() && own != namespace)
        {
            continue;
        }
        let name = metadata.name.unwrap_or_default();
        if name.is_empty() {
            return Err(refuse(
                "ResourceSetInputProvider name must be set in the manifest".to_owned(),
            ));
        }
        let kind = spec.r#type.unwrap_or_default();
        if kind != "Static" {
            return Err(refuse(format!(
                "unsupported provider type '{kind}', only 'Static' is supported"
            )));
        }
        let mut values = spec.default_values.unwrap_or_default();
        values.insert("id".to_owned(), checksum(&name).into());
        let labels = metadata.labels.into_iter().flatten();
        providers.push(Loaded {
            labels: labels.map(|(key, value)| (key, value.unwrap_or_default())).collect(),
            provider: Provider::new(&name, namespace, input_maps(&Json::Array(vec![values.into()]))?),
            name,
        });
    }
    Ok(providers)
}

/// The providers that `spec.inputsFrom` names or selects.
fn choose(set: &ResourceSet, loaded: &[Loaded]) -> Result<Vec<Provider>, Error> {
    let filtering = |text: String| Error::new(ErrorKind::Inputs, text).while_doing("error filtering providers");
    let mut chosen: BTreeMap<&str, &Provider> = BTreeMap::new();
    for reference in set.inputs_from() {
        match (reference.name.as_deref().unwrap_or_default(), &reference.selector) {
            ("", None) => {
                return Err(filtering(
                    "input provider reference must have either name or selector set".to_owned(),
                ));
            }
            ("", Some(selector)) => {
                let matcher = selector
                    .matcher()
                    .map_err(|text| filtering(format!("failed to parse selector: {text}")))?;
                for provider in loaded.iter().filter(|provider| matcher.matches(&provider.labels)) {
                    chosen.entry(&provider.name).or_insert(&provider.provider);
                }
            }
            (name, _) => {
                // Of several providers with the same name the last one counts.
                if let Some(provider) = loaded.iter().rfind(|provider| provider.name == name) {
                    chosen.entry(&provider.name).or_insert(&provider.provider);
                }
            }
        }
    }
    Ok(chosen.into_values().cloned().collect())
}
