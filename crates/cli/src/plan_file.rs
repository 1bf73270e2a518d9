//! A plan saved to a file, so that exactly these changes can be applied later.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::Operation;
use crate::error::{Code, Failure};
use crate::plan::Plan;

/// Identifies the file format and its version.
const FORMAT: &str = "flux-resourceset-plan/1";

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct PlanFile {
    format: String,
    /// The digest of the plan.
    pub(crate) plan: String,
    base: Value,
    operations: Vec<FileOperation>,
}

#[derive(Debug, Deserialize, Serialize)]
struct FileOperation {
    label: String,
    body: Value,
}

impl PlanFile {
    pub(crate) fn new(plan: &Plan, operations: &[Operation]) -> PlanFile {
        let operations = operations.iter().map(|operation| FileOperation {
            label: operation.label.clone(),
            body: operation.body.clone(),
        });
        PlanFile {
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

    pub(crate) fn read(path: &Path) -> Result<PlanFile, Failure> {
        let text = fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
        let file: Option<PlanFile> = serde_json::from_str(&text).ok();
        file.filter(|file| file.format == FORMAT).ok_or_else(|| {
            let message = format!("{}: not a plan file; `plan --out` writes one", path.display());
            Failure::new(Code::Usage, message)
        })
    }

    pub(crate) fn operations(self) -> Vec<Operation> {
        let operations = self.operations.into_iter();
        operations
            .map(|operation| Operation::new(operation.label, operation.body))
            .collect()
    }
}
