//! Renders ResourceSets as Flux Operator does.
//!
//! A ResourceSet has templates and says where their inputs come from. Rendering returns the Kubernetes objects that the operator
//! would apply, or the error that it would report. The crate does no I/O, does not panic, and limits time and memory for any
//! input.
//!
//! - [`ResourceSet::parse`] reads a document. Its templates are parsed once and can be rendered many times.
//! - [`ResourceSet::combine`] combines the inputs of [`Provider`]s, [`ResourceSet::render`] renders them as the controller does,
//!   [`ResourceSet::render_inputs`] does both for one provider.
//! - [`Bundle`] renders the ResourceSets of a folder with the inputs of an API.
//! - [`offline::build`] is equivalent to `flux-operator build resourceset`.
//!
//! Templates, functions and YAML come from [`gotemplate`]. Here are the rules of the operator: its API types ([`ResourceSet`]),
//! its functions, how it combines inputs, and how it reads objects from rendered text.

mod bundle;
mod documents;
mod error;
mod functions;
mod inputs;
mod objects;
pub mod offline;
mod selector;
mod set;
mod slug;
mod types;

use gotemplate::yaml;
use serde_json::Value as Json;

pub use self::{
    bundle::{Bundle, BundleError, Rendered},
    error::{Error, ErrorKind},
    inputs::{Inputs, Provider},
    set::{ResourceSet, Step},
};

/// Reads the documents of a file, in order, without empty ones.
pub fn documents(text: &[u8]) -> Result<Vec<Json>, Error> {
    let objects = documents::Documents::new(text)
        .filter(|object| object.as_ref().is_ok_and(|object| !object.is_empty()) || object.is_err());
    let objects: Result<Vec<_>, String> = objects.map(|object| object.map(Json::Object)).collect();
    objects.map_err(|problem| Error::new(ErrorKind::Document, problem))
}

/// Writes an object as `flux-operator build` prints it.
pub fn to_yaml(object: &Json) -> Result<String, Error> {
    yaml::write(object).map_err(|problem| Error::new(ErrorKind::Object, problem.to_string()))
}
