//! ResourceSet documents, and the objects that they render to.

mod spec;
mod templates;

use std::collections::{BTreeMap, HashMap};

use gotemplate::{Scope, Value, json, strconv, yaml};
use serde_json::{Map, Value as Json};

pub(crate) use self::spec::ProviderReference;
use self::{
    spec::{Document, Metadata, Spec, StepSpec},
    templates::Built,
};
use crate::{
    error::{Error, ErrorKind},
    inputs::{Inputs, Provider, Strategy},
    objects, types,
};

/// A ResourceSet: templates, and where their inputs come from.
///
/// ```
/// use resourceset::ResourceSet;
/// use serde_json::json;
///
/// let set = ResourceSet::parse(
///     br#"
/// apiVersion: fluxcd.controlplane.io/v1
/// kind: ResourceSet
/// metadata: {name: apps, namespace: flux-system}
/// spec:
///   inputsFrom: [{name: apps}]
///   resourcesTemplate: |
///     apiVersion: v1
///     kind: Namespace
///     metadata: {name: << inputs.id | quote >>}
/// "#,
/// )?;
/// let input = json!({"id": "web"}).as_object().cloned().unwrap_or_default();
/// let objects = set.render_inputs(vec![input])?;
/// assert_eq!(objects[0]["metadata"]["name"], "web");
/// # Ok::<(), resourceset::Error>(())
/// ```
#[derive(Debug)]
pub struct ResourceSet {
    name: String,
    namespace: String,
    spec: Spec,
    /// `spec.inputs` as JSON, because a file of inputs is decoded over it.
    inputs: Json,
}

/// The objects of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// `None` if the ResourceSet has no steps.
    pub name: Option<String>,
    /// The objects, in the order in which they are applied.
    pub objects: Vec<Json>,
    /// Objects that were left out because they were rendered before, as `kind/namespace/name`.
    pub duplicates: Vec<String>,
}

impl ResourceSet {
    /// Reads the first document of a YAML text.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let mut document = Json::Null;
        yaml::unmarshal(text, &types::RESOURCE_SET, &mut document)
            .map_err(|problem| Error::new(ErrorKind::Document, problem))?;
        Self::from_decoded(document)
    }

    /// Reads a JSON document.
    pub fn from_json(json: &Json) -> Result<Self, Error> {
        let mut document = Json::Null;
        json::unmarshal(json, &types::RESOURCE_SET, &mut document)
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

    /// Sets the namespace, unless the document has one.
    #[must_use]
    pub fn or_namespace(mut self, namespace: &str) -> Self {
        if self.namespace.is_empty() {
            namespace.clone_into(&mut self.namespace);
        }
        self
    }

    /// Decodes a file of inputs over `spec.inputs`, item by item.
    pub(crate) fn merge_inputs(&mut self, text: &[u8]) -> Result<(), String> {
        yaml::unmarshal(text, &types::INPUTS, &mut self.inputs)
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

    /// Combines the ResourceSet's own inputs with those of providers, which are sorted by namespace and name.
    pub fn combine(&self, mut providers: Vec<Provider>) -> Result<Inputs, Error> {
        let strategy = self.strategy()?;
        providers.sort_by(|a, b| a.key().cmp(&b.key()));
        let own = Provider::resource_set(&self.name, &self.namespace, input_maps(&self.inputs)?);
        providers.insert(0, own);
        Inputs::combine(providers, strategy)
    }

    fn strategy(&self) -> Result<Strategy, Error> {
        let Some(strategy) = &self.spec.input_strategy else {
            return Ok(Strategy::Flatten);
        };
        match strategy.name.as_deref().unwrap_or_default() {
            "" | "Flatten" => Ok(Strategy::Flatten),
            "Permute" => Ok(Strategy::Permute {
                include_empty: strategy.include_empty_providers.unwrap_or_default(),
            }),
            other => Err(Error::new(
                ErrorKind::Inputs,
                format!("unknown input strategy: '{other}'"),
            )),
        }
    }

    /// Renders as the controller does: if there are providers but no inputs, there are no objects.
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

    /// Renders as the offline command does: without inputs, once with none.
    pub(crate) fn build(&self, inputs: &Inputs) -> Result<Vec<Step>, Error> {
        self.validate()?;
        // Templates can put inputs into themselves. The scope frees them, so it must start before they are created.
        let _scope = Scope::enter();
        let inputs = inputs.values();
        let built = match self.spec.steps.as_deref() {
            None | Some([]) => vec![(None, self.spec.templates.build(&inputs)?)],
            Some(steps) => build_steps(steps, &inputs)?,
        };
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

/// Renders the steps in order. An object may be in one step only.
fn build_steps(steps: &[StepSpec], inputs: &[Value]) -> Result<Vec<(Option<String>, Built)>, Error> {
    let mut built = Vec::new();
    let mut owners: HashMap<String, &str> = HashMap::new();
    for step in steps {
        let name = step.name();
        let objects = step
            .templates
            .build(inputs)
            .map_err(|error| error.while_doing(format_args!("step {}", quoted(name))))?;
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
    Ok(built)
}

fn quoted(text: &str) -> String {
    strconv::quote(text.as_bytes())
}

/// Inputs as maps. A null value is an error, because it crashes the operator.
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
