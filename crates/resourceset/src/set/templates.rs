//! Templates, and the objects that they render to.

use std::{
    collections::{BTreeSet, HashSet},
    sync::OnceLock,
};

use gotemplate::{Elem, Map as ValueMap, Template, Value, yaml};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::{
    error::{Error, ErrorKind},
    functions,
    objects::{self, Object},
};

/// How many objects a ResourceSet may render to. The operator has no such limit.
const MAX_OBJECTS: usize = 100_000;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Templates {
    resources: Option<Vec<ResourceTemplate>>,
    resources_template: Option<MultiTemplate>,
}

impl Templates {
    pub(super) fn is_empty(&self) -> bool {
        self.resources.as_ref().is_none_or(Vec::is_empty)
            && self
                .resources_template
                .as_ref()
                .is_none_or(|template| template.text.is_empty())
    }

    /// Renders all templates for all inputs. `resources` go template by template, `resourcesTemplate` input by input. Of
    /// objects with the same key the first one stays.
    pub(super) fn build(&self, inputs: &[Value]) -> Result<Built, Error> {
        let none = Value::Map(ValueMap::nil(Elem::Any));
        let mut built = Built::default();
        for (index, template) in self.resources.iter().flatten().enumerate() {
            if inputs.is_empty() {
                let object = template
                    .render(&none)
                    .map_err(|error| error.while_doing("failed to build resource"))?;
                built.add(object)?;
            }
            for input in inputs {
                let doing = |error: Error| error.while_doing(format_args!("failed to build resources[{index}]"));
                built.add_new(template.render(input).map_err(doing)?)?;
            }
        }
        let template = self.resources_template.as_ref();
        if let Some(template) = template.filter(|template| !template.text.is_empty()) {
            let objects = template.render_all(inputs, &none)?;
            objects.into_iter().try_for_each(|object| built.add_new(object))?;
        }
        Ok(built)
    }
}

/// Rendered objects.
#[derive(Default)]
pub(super) struct Built {
    pub(super) objects: Vec<Object>,
    keys: HashSet<String>,
    /// The objects that were left out as duplicates, for messages.
    pub(super) duplicates: BTreeSet<String>,
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

    /// Adds an object unless it is disabled or a duplicate.
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

/// A template for one object: JSON, which is written as YAML. That text is the template.
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
        functions::parse(&text)
            .map_err(|error| Error::template(ErrorKind::Parse, &error).while_doing("failed to parse template"))
    }

    fn render(&self, inputs: &Value) -> Result<Object, Error> {
        let template = self
            .parsed
            .get_or_init(|| self.parse())
            .as_ref()
            .map_err(Clone::clone)?;
        let text = functions::execute(template, inputs)
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
        functions::parse(&self.text).map_err(|error| {
            Error::template(ErrorKind::Parse, &error).while_doing("failed to parse multi-doc YAML template")
        })
    }

    /// The objects for all inputs; without inputs, for `none`.
    fn render_all(&self, inputs: &[Value], none: &Value) -> Result<Vec<Object>, Error> {
        if inputs.is_empty() {
            let objects = self.render(none);
            return objects.map_err(|error| error.while_doing("failed to build resource"));
        }
        let mut objects = Vec::new();
        for input in inputs {
            let rendered = self.render(input);
            objects.extend(rendered.map_err(|error| error.while_doing("failed to build resources"))?);
        }
        Ok(objects)
    }

    fn render(&self, inputs: &Value) -> Result<Vec<Object>, Error> {
        let template = self
            .parsed
            .get_or_init(|| self.parse())
            .as_ref()
            .map_err(Clone::clone)?;
        let text = functions::execute(template, inputs).map_err(|error| {
            Error::template(ErrorKind::Execute, &error).while_doing("failed to execute multi-doc YAML template")
        })?;
        objects::read_all(&text).map_err(|problem| {
            Error::new(ErrorKind::Object, problem).while_doing("failed to read objects from multi-doc YAML")
        })
    }
}
