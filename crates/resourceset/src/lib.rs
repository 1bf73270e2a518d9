//! Renders ResourceSets as Flux Operator does.
//!
//! A ResourceSet holds templates and says where their inputs come from. Rendering gives Kubernetes objects, the same that
//! the operator would apply, or the error that it would stall with. The crate does no I/O, never panics, and is bounded
//! in time and memory whatever it is given.
//!
//! - [`ResourceSet::parse`] reads a document; its templates are parsed once and can be rendered many times.
//! - [`ResourceSet::combine`] brings the inputs of [`Provider`]s together, [`ResourceSet::render`] renders for them as the
//!   controller does, [`ResourceSet::render_inputs`] does both for one provider.
//! - [`offline::build`] is a drop-in for `flux-operator build resourceset`.
//!
//! Everything that decides over the result is here as Go has it: `text/template` with slim-sprig's functions, the YAML
//! library's reading and writing, JSON's decoding into the operator's types.

mod bundle;
mod convert;
mod documents;
mod error;
mod float;
mod format;
mod function;
mod functions;
mod gojson;
mod inputs;
mod json;
mod number;
mod objects;
pub mod offline;
mod regexp;
mod selector;
mod set;
mod shape;
mod strconv;
mod template;
mod text;
mod time;
mod types;
mod unicode;
mod url;
mod value;
mod yaml;

use serde_json::Value as Json;

pub use self::{
    bundle::{Bundle, BundleError, Rendered},
    error::{Error, ErrorKind},
    inputs::{Inputs, Provider},
    set::{ResourceSet, Step},
};

/// The documents of a file, in order, without those that are empty.
pub fn documents(text: &[u8]) -> Result<Vec<Json>, Error> {
    let objects = documents::Documents::new(text)
        .filter(|object| object.as_ref().is_ok_and(|object| !object.is_empty()) || object.is_err());
    let objects: Result<Vec<_>, String> = objects.map(|object| object.map(Json::Object)).collect();
    objects.map_err(|problem| Error::new(ErrorKind::Document, problem))
}

/// An object as `flux-operator build` prints it.
pub fn to_yaml(object: &Json) -> Result<String, Error> {
    yaml::write(object).map_err(|problem| Error::new(ErrorKind::Object, problem.to_string()))
}
