//! A plan in a file: what was seen, so that exactly that can be done later.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::Operation;
use crate::error::{Code, Failure};
use crate::plan::Plan;

/// Says that a file is one of ours, and which form it has.
const FORMAT: &str = "flux-resourceset-plan/1";

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Saved {
    format: String,
    /// The digest of the effect.
    pub(crate) plan: String,
    base: Value,
    operations: Vec<SavedOperation>,
}

#[derive(Debug, Deserialize, Serialize)]
struct SavedOperation {
    label: String,
    body: Value,
}

impl Saved {
    pub(crate) fn new(plan: &Plan, operations: &[Operation]) -> Saved {
        let operations = operations.iter().map(|operation| SavedOperation {
            label: operation.label.clone(),
            body: operation.body.clone(),
        });
        Saved {
            format: FORMAT.to_owned(),
            plan: plan.digest().unwrap_or_default().to_owned(),
            base: plan.base().clone(),
            operations: operations.collect(),
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string(self).unwrap_or_default();
        fs::write(path, text + "\n").map_err(|error| Failure::file(path, &error))
    }

    pub(crate) fn read(path: &Path) -> Result<Saved, Failure> {
        let text = fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
        let saved: Option<Saved> = serde_json::from_str(&text).ok();
        saved.filter(|saved| saved.format == FORMAT).ok_or_else(|| {
            let message = format!("{}: this is not a plan that `plan --out` wrote", path.display());
            Failure::new(Code::Usage, message)
        })
    }

    pub(crate) fn operations(self) -> Vec<Operation> {
        let operations = self.operations.into_iter();
        operations
            .map(|saved| Operation::new(saved.label, saved.body))
            .collect()
    }
}
