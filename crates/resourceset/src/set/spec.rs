//! The parts of a ResourceSet document that rendering depends on.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::templates::Templates;
use crate::selector::Selector;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Document {
    pub(super) metadata: Option<Metadata>,
    pub(super) spec: Option<Spec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) common_metadata: Option<CommonMetadata>,
    pub(super) input_strategy: Option<InputStrategy>,
    pub(super) inputs_from: Option<Vec<ProviderReference>>,
    #[serde(flatten)]
    pub(super) templates: Templates,
    pub(super) steps: Option<Vec<StepSpec>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CommonMetadata {
    pub(super) labels: Option<BTreeMap<String, Option<String>>>,
    pub(super) annotations: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct InputStrategy {
    pub(super) name: Option<String>,
    pub(super) include_empty_providers: Option<bool>,
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
pub(super) struct StepSpec {
    pub(super) name: Option<String>,
    #[serde(flatten)]
    pub(super) templates: Templates,
}

impl StepSpec {
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}
