//! ResourceSet documents, and what they render to.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::OnceLock,
};

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::{
    error::{Error, ErrorKind},
    inputs::{Inputs, Provider, Strategy},
    objects::{self, Object},
    selector::Selector,
    shape,
    template::Template,
    types,
    value::{Elem, Map as ValueMap, Scope, Value},
    yaml,
};

/// How many objects a ResourceSet may render to. The operator has no such bound.
const MAX_OBJECTS: usize = 100_000;

/// A ResourceSet: templates, and where their inputs come from.
#[derive(Debug)]
pub struct ResourceSet {
    name: String,
    namespace: String,
    spec: Spec,
    /// As they were decoded, since a file of inputs is decoded over them.
    inputs: Json,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    common_metadata: Option<CommonMetadata>,
    input_strategy: Option<InputStrategy>,
    inputs_from: Option<Vec<ProviderReference>>,
    #[serde(flatten)]
    templates: Templates,
    steps: Option<Vec<StepSpec>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CommonMetadata {
    labels: Option<BTreeMap<String, Option<String>>>,
    annotations: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InputStrategy {
    name: Option<String>,
    include_empty_providers: Option<bool>,
}

/// A reference to providers, by name or by labels.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProviderReference {
    pub(crate) name: Option<String>,
    pub(crate) selector: Option<Selector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StepSpec {
    name: Option<String>,
    #[serde(flatten)]
    templates: Templates,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Templates {
    resources: Option<Vec<ResourceTemplate>>,
    resources_template: Option<MultiTemplate>,
}

/// The objects of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// None for the one step of a ResourceSet that has no steps.
    pub name: Option<String>,
    /// In the order in which they are applied.
    pub objects: Vec<Json>,
    /// Objects that were rendered once more and left out, as `kind/namespace/name`.
    pub duplicates: Vec<String>,
}

impl ResourceSet {
    /// Reads the first document of a YAML text.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let mut document = Json::Null;
        shape::unmarshal(text, &types::RESOURCE_SET, &mut document)
            .map_err(|problem| Error::new(ErrorKind::Document, problem))?;
        Self::from_decoded(document)
    }

    /// Reads a document that is JSON already.
    pub fn from_json(json: &Json) -> Result<Self, Error> {
        let mut document = Json::Null;
        shape::decode(json, &types::RESOURCE_SET, &mut document)
            .map_err(|problem| Error::new(ErrorKind::Document, problem))?;
        Self::from_decoded(document)
    }

    fn from_decoded(mut document: Json) -> Result<Self, Error> {
        let inputs = document.pointer_mut("/spec/inputs").map(Json::take).unwrap_or_default();
        let document: Option<Document> =
            serde_json::from_value(document).map_err(|problem| Error::new(ErrorKind::Document, problem.to_string()))?;
        let Document { metadata, spec } = document.unwrap_or_default();
        let Metadata { name, namespace } = metadata.unwrap_or_default();
        Ok(Self {
            name: name.unwrap_or_default(),
            namespace: namespace.unwrap_or_default(),
            spec: spec.unwrap_or_default(),
            inputs,
        })
    }

    /// `metadata.name`, empty if there is none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `metadata.namespace`, empty if there is none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Puts the ResourceSet into a namespace unless it is in one.
    #[must_use]
    pub fn or_namespace(mut self, namespace: &str) -> Self {
        if self.namespace.is_empty() {
            namespace.clone_into(&mut self.namespace);
        }
        self
    }

    /// Decodes a file of inputs over those of the ResourceSet, position by position.
    pub(crate) fn merge_inputs(&mut self, text: &[u8]) -> Result<(), String> {
        shape::unmarshal(text, &types::INPUTS, &mut self.inputs)
    }

    pub(crate) fn inputs_from(&self) -> &[ProviderReference] {
        self.spec.inputs_from.as_deref().unwrap_or_default()
    }

    /// The name of the first provider that `spec.inputsFrom` names.
    #[must_use]
    pub fn provider_name(&self) -> Option<&str> {
        self.inputs_from()
            .iter()
            .filter_map(|reference| reference.name.as_deref())
            .find(|name| !name.is_empty())
    }

    /// The providers that `spec.inputsFrom` names.
    pub fn provider_names(&self) -> impl Iterator<Item = &str> {
        let names = self
            .inputs_from()
            .iter()
            .filter_map(|reference| reference.name.as_deref());
        names.filter(|name| !name.is_empty())
    }

    /// Combines the ResourceSet's own inputs with those of providers, which come in the order of their names.
    pub fn combine(&self, mut providers: Vec<Provider>) -> Result<Inputs, Error> {
        let strategy = self.spec.input_strategy.as_ref();
        let strategy = match strategy
            .and_then(|strategy| strategy.name.as_deref())
            .unwrap_or_default()
        {
            "" | "Flatten" => Strategy::Flatten,
            "Permute" => Strategy::Permute {
                include_empty: strategy
                    .and_then(|strategy| strategy.include_empty_providers)
                    .unwrap_or_default(),
            },
            other => {
                return Err(Error::new(
                    ErrorKind::Inputs,
                    format!("unknown input strategy: '{other}'"),
                ));
            }
        };
        providers.sort_by(|a, b| a.key().cmp(&b.key()));
        providers.insert(
            0,
            Provider::resource_set(&self.name, &self.namespace, input_maps(&self.inputs)?),
        );
        Inputs::combine(providers, strategy)
    }

    /// Renders as the controller does: providers without inputs mean no objects.
    pub fn render(&self, inputs: &Inputs) -> Result<Vec<Step>, Error> {
        if !self.inputs_from().is_empty() && inputs.is_empty() {
            self.validate()?;
            return Ok(Vec::new());
        }
        self.build(inputs)
    }

    /// Renders for the inputs of one provider, the first that `spec.inputsFrom` names.
    pub fn render_inputs(&self, inputs: Vec<Map<String, Json>>) -> Result<Vec<Json>, Error> {
        let provider = Provider::new(self.provider_name().unwrap_or(&self.name), &self.namespace, inputs);
        let steps = self.render(&self.combine(vec![provider])?)?;
        Ok(steps.into_iter().flat_map(|step| step.objects).collect())
    }

    /// Renders; without inputs, once with none.
    pub(crate) fn build(&self, inputs: &Inputs) -> Result<Vec<Step>, Error> {
        self.validate()?;
        // Frees the inputs of templates that made them hold themselves; hence older than they are.
        let _scope = Scope::enter();
        let inputs = inputs.values();
        let mut built = Vec::new();
        match self.spec.steps.as_deref() {
            None | Some([]) => built.push((None, self.spec.templates.build(&inputs)?)),
            Some(steps) => {
                let mut owners: HashMap<String, &str> = HashMap::new();
                for step in steps {
                    let name = step.name();
                    let doing = |error: Error| error.while_doing(format_args!("step {}", quoted(name)));
                    let objects = step.templates.build(&inputs).map_err(doing)?;
                    for object in &objects.objects {
                        let owner = owners.entry(objects::key(object)).or_insert(name);
                        if *owner != name {
                            let text = format!(
                                "duplicate resource {} in step {}, already defined in step {}",
                                objects::display(object),
                                quoted(name),
                                quoted(owner)
                            );
                            return Err(Error::new(ErrorKind::Spec, text));
                        }
                    }
                    built.push((Some(name.to_owned()).filter(|name| !name.is_empty()), objects));
                }
            }
        }
        Ok(built
            .into_iter()
            .map(|(name, objects)| self.finish(name, objects))
            .collect())
    }

    fn validate(&self) -> Result<(), Error> {
        let steps = self.spec.steps.as_deref().unwrap_or_default();
        if !steps.is_empty() && !self.spec.templates.is_empty() {
            let text = "spec.steps is mutually exclusive with spec.resources and spec.resourcesTemplate";
            return Err(Error::new(ErrorKind::Spec, text));
        }
        match steps.iter().find(|step| step.templates.is_empty()) {
            Some(step) => Err(Error::new(
                ErrorKind::Spec,
                format!(
                    "step {}: at least one of resources or resourcesTemplate must be set",
                    quoted(step.name())
                ),
            )),
            None => Ok(()),
        }
    }

    /// Adds the metadata that all objects get.
    fn finish(&self, name: Option<String>, built: Built) -> Step {
        let Built {
            mut objects,
            duplicates,
            ..
        } = built;
        let owner = [("name", &self.name), ("namespace", &self.namespace)]
            .map(|(key, value)| (format!("resourceset.fluxcd.controlplane.io/{key}"), value.clone()));
        let owner = BTreeMap::from(owner);
        let flat = |strings: &Option<BTreeMap<String, Option<String>>>| -> BTreeMap<String, String> {
            strings
                .iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.clone().unwrap_or_default()))
                .collect()
        };
        let common = self.spec.common_metadata.as_ref();
        let common = common.map(|metadata| (flat(&metadata.labels), flat(&metadata.annotations)));
        for object in &mut objects {
            if let Some((labels, annotations)) = &common {
                objects::add_metadata(object, labels, annotations);
            }
            objects::add_metadata(object, &owner, []);
        }
        Step {
            name,
            objects: objects.into_iter().map(Json::Object).collect(),
            duplicates: duplicates.into_iter().collect(),
        }
    }
}

impl StepSpec {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

fn quoted(text: &str) -> String {
    String::from_utf8_lossy(&crate::text::quote(text.as_bytes(), false)).into_owned()
}

/// Inputs as maps. A value that is null brings the operator down, so that it is refused here.
pub(crate) fn input_maps(inputs: &Json) -> Result<Vec<Map<String, Json>>, Error> {
    let maps: Vec<Map<String, Json>> = match inputs {
        Json::Array(inputs) => inputs
            .iter()
            .map(|input| input.as_object().cloned().unwrap_or_default())
            .collect(),
        _ => Vec::new(),
    };
    if maps.iter().flat_map(Map::values).any(Json::is_null) {
        return Err(Error::nil_pointer());
    }
    Ok(maps)
}

impl Templates {
    fn is_empty(&self) -> bool {
        self.resources.as_ref().is_none_or(Vec::is_empty)
            && self
                .resources_template
                .as_ref()
                .is_none_or(|template| template.text.is_empty())
    }

    /// The objects of all templates for all inputs: item by item, then input by input. The first of its kind stays.
    fn build(&self, inputs: &[Value]) -> Result<Built, Error> {
        let none = Value::Map(ValueMap::nil(Elem::Any));
        let mut built = Built::default();
        for (at, template) in self.resources.iter().flatten().enumerate() {
            if inputs.is_empty() {
                let object = template
                    .render(&none)
                    .map_err(|error| error.while_doing("failed to build resource"))?;
                built.add(object)?;
            }
            for input in inputs {
                let doing = |error: Error| error.while_doing(format_args!("failed to build resources[{at}]"));
                built.add_new(template.render(input).map_err(doing)?)?;
            }
        }
        if let Some(template) = self
            .resources_template
            .as_ref()
            .filter(|template| !template.text.is_empty())
        {
            let mut objects = Vec::new();
            if inputs.is_empty() {
                objects = template
                    .render(&none)
                    .map_err(|error| error.while_doing("failed to build resource"))?;
            }
            for input in inputs {
                objects.extend(
                    template
                        .render(input)
                        .map_err(|error| error.while_doing("failed to build resources"))?,
                );
            }
            objects.into_iter().try_for_each(|object| built.add_new(object))?;
        }
        Ok(built)
    }
}

#[derive(Default)]
struct Built {
    objects: Vec<Object>,
    keys: HashSet<String>,
    /// What was left out because it was there, for people.
    duplicates: BTreeSet<String>,
}

impl Built {
    fn add(&mut self, object: Object) -> Result<(), Error> {
        self.keys.insert(objects::key(&object));
        if self.objects.len() == MAX_OBJECTS {
            return Err(Error::new(
                ErrorKind::Object,
                format!("more than {MAX_OBJECTS} objects"),
            ));
        }
        self.objects.push(object);
        Ok(())
    }

    /// Adds an object unless it is disabled or there already.
    fn add_new(&mut self, object: Object) -> Result<(), Error> {
        if objects::is_disabled(&object) {
            return Ok(());
        }
        if self.keys.contains(&objects::key(&object)) {
            self.duplicates.insert(objects::display(&object));
            return Ok(());
        }
        self.add(object)
    }
}

/// A template for one object: JSON, which is written as YAML and then taken for the text of a template.
#[derive(Debug, Deserialize)]
#[serde(from = "Json")]
struct ResourceTemplate {
    json: Json,
    parsed: OnceLock<Result<Template, Error>>,
}

impl From<Json> for ResourceTemplate {
    fn from(json: Json) -> Self {
        Self {
            json,
            parsed: OnceLock::new(),
        }
    }
}

impl ResourceTemplate {
    fn parse(&self) -> Result<Template, Error> {
        if self.json.is_null() {
            return Err(Error::nil_pointer());
        }
        let text = yaml::write(&self.json).map_err(|error| {
            Error::new(ErrorKind::Document, error.to_string()).while_doing("failed to convert template to YAML")
        })?;
        Template::parse(&text)
            .map_err(|error| Error::template(ErrorKind::Parse, &error).while_doing("failed to parse template"))
    }

    fn render(&self, inputs: &Value) -> Result<Object, Error> {
        let template = self
            .parsed
            .get_or_init(|| self.parse())
            .as_ref()
            .map_err(Clone::clone)?;
        let text = template
            .render(inputs)
            .map_err(|error| Error::template(ErrorKind::Execute, &error).while_doing("failed to execute template"))?;
        objects::read_one(&text)
            .map_err(|problem| Error::new(ErrorKind::Object, problem).while_doing("failed to read object"))
    }
}

/// A template for any number of objects.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
struct MultiTemplate {
    text: String,
    parsed: OnceLock<Result<Template, Error>>,
}

impl From<String> for MultiTemplate {
    fn from(text: String) -> Self {
        Self {
            text,
            parsed: OnceLock::new(),
        }
    }
}

impl MultiTemplate {
    fn parse(&self) -> Result<Template, Error> {
        Template::parse(&self.text).map_err(|error| {
            Error::template(ErrorKind::Parse, &error).while_doing("failed to parse multi-doc YAML template")
        })
    }

    fn render(&self, inputs: &Value) -> Result<Vec<Object>, Error> {
        let template = self
            .parsed
            .get_or_init(|| self.parse())
            .as_ref()
            .map_err(Clone::clone)?;
        let text = template.render(inputs).map_err(|error| {
            Error::template(ErrorKind::Execute, &error).while_doing("failed to execute multi-doc YAML template")
        })?;
        objects::read_all(&text).map_err(|problem| {
            Error::new(ErrorKind::Object, problem).while_doing("failed to read objects from multi-doc YAML")
        })
    }
}
