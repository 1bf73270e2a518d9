//! The kinds that come from files: the built-in ones, and those of RESOURCES_DIR.

use std::path::{Path, PathBuf};

use fleet::Fleet;
use fleet::document::Etag;
use fleet::json::Json;
use fleet::kind::{self, KINDS};
use fleet::operation::{Operation, Verb};
use fleet::refusal::Violation;
use fleet::write::Rules;
use fleet::yaml;
use serde_json::Value;

use super::error::{operation_of, violations};
use crate::config::{Config, ConfigError, ConfigErrors};

/// This release. The store records it beside the built-in kinds that it applied.
pub(super) const RELEASE: &str = env!("CARGO_PKG_VERSION");
pub(super) const BUILT_IN: &str = "built-in";
pub(super) const RESOURCES_DIR: &str = "resources-dir";

/// A kind from a file.
pub(super) struct KindFile {
    pub(super) name: String,
    document: Value,
    file: String,
}

impl KindFile {
    fn digest(&self) -> String {
        format!("{:032x}", Etag::of(&Json::new(&self.document)).0)
    }

    pub(super) fn operation(&self, origin: &str) -> Operation {
        let verb = Verb::Apply {
            id: Some(self.name.clone()),
            value: self.document.clone(),
        };
        Operation::new(KINDS, verb).from(&origin.into())
    }

    /// The note that the store keeps of a built-in kind: its key, and the release and digest that were applied.
    pub(super) fn built_in_note(&self) -> (String, String) {
        let key = format!("{BUILT_IN}/{}", self.name);
        (key, format!("{RELEASE} {}", self.digest()))
    }

    /// The note that the store keeps of a kind of RESOURCES_DIR: its key, and the digest that was applied.
    pub(super) fn folder_note(&self) -> (String, String) {
        (format!("{RESOURCES_DIR}/{}", self.name), self.digest())
    }
}

pub(super) fn built_in() -> Vec<KindFile> {
    let kinds = kind::built_in().iter();
    let kinds = kinds.map(|document| KindFile {
        name: kind::name_of(document).expect("built-in kinds have names"),
        document: document.clone(),
        file: BUILT_IN.to_owned(),
    });
    kinds.collect()
}

/// The kinds of RESOURCES_DIR, by file name, or what is wrong with each file. Clusters come last: their schema may name the
/// others.
pub(super) fn from_folder(config: &Config) -> Result<Vec<KindFile>, ConfigErrors> {
    let Some(folder) = &config.resources_dir else {
        return Ok(Vec::new());
    };
    let mut kinds: Vec<KindFile> = Vec::new();
    let mut problems = ConfigErrors::default();
    for path in paths(folder).map_err(|error| file_error(folder, error.to_string()))? {
        let Some(kind) = problems.keep(read(&path)) else {
            continue;
        };
        match kinds.iter().find(|known| known.name == kind.name) {
            Some(other) => {
                let problem = format!("defines the kind \"{}\", and so does {}", kind.name, other.file);
                problems.push(file_error(&path, problem));
            }
            None => kinds.push(kind),
        }
    }
    problems.into_result()?;
    kinds.sort_by_key(|kind| kind.name == kind::CLUSTERS);
    Ok(kinds)
}

/// Reports every file of RESOURCES_DIR that is no kind.
pub fn check_kind_files(config: &Config) -> Result<(), ConfigErrors> {
    from_folder(config).map(drop)
}

/// The fleet of the kind files alone, without a store. Fails when the kinds do not fit together.
pub fn fleet_of_files(config: &Config) -> Result<Fleet, ConfigErrors> {
    let folder = from_folder(config)?;
    let built_in = built_in();
    let mut operations: Vec<Operation> = built_in.iter().map(|kind| kind.operation(BUILT_IN)).collect();
    operations.extend(folder.iter().map(|kind| kind.operation(RESOURCES_DIR)));
    let rules = Rules {
        batch: true,
        ..Rules::default()
    };
    let outcome = Fleet::default().write(&operations, rules);
    let outcome = outcome.map_err(|refusal| kinds_error(&folder, built_in.len(), violations(refusal)))?;
    Ok(outcome.committed(Default::default()))
}

/// Names the file instead of the number of the operation. `offset`: the number of the folder's first operation.
pub(super) fn kinds_error(folder: &[KindFile], offset: usize, errors: Vec<Violation>) -> ConfigError {
    let errors = errors.into_iter().map(|mut error| {
        if let Some((n, rest)) = operation_of(&error.pointer)
            && let Some(kind) = n.checked_sub(offset).and_then(|n| folder.get(n))
        {
            error.pointer = format!("{} {rest}", kind.file);
        }
        error
    });
    let errors: Vec<_> = errors.collect();
    ConfigError::in_file("RESOURCES_DIR", "the kinds cannot be used", &errors)
}

fn paths(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<KindFile, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| file_error(path, error.to_string()))?;
    let document = yaml::parse(&text).map_err(|error| file_error(path, error))?;
    let name =
        kind::name_of(&document).map_err(|error| file_error(path, format!("{}: {}", error.pointer, error.detail)))?;
    Ok(KindFile {
        name,
        document,
        file: path.display().to_string(),
    })
}

fn file_error(file: &Path, detail: String) -> ConfigError {
    ConfigError::in_file("RESOURCES_DIR", file.display(), &[Violation::new("", detail)])
}
