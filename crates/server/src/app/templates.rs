//! The ResourceSets that clusters render their inputs with: those of TEMPLATES_DIR, which are reloaded when they change, or the
//! shipped ones.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use resourceset::Bundle;
use tracing::{info, warn};

use crate::config::ConfigError;
use crate::metrics::Metrics;

/// The manifests that this release ships.
const SHIPPED: [(&str, &str); 6] = [
    (
        "providers/namespaces.yaml",
        include_str!("../../../../k8s/providers/namespaces.yaml"),
    ),
    (
        "providers/platform-components.yaml",
        include_str!("../../../../k8s/providers/platform-components.yaml"),
    ),
    (
        "providers/rolebindings.yaml",
        include_str!("../../../../k8s/providers/rolebindings.yaml"),
    ),
    (
        "resourcesets/namespaces.yaml",
        include_str!("../../../../k8s/resourcesets/namespaces.yaml"),
    ),
    (
        "resourcesets/platform-components.yaml",
        include_str!("../../../../k8s/resourcesets/platform-components.yaml"),
    ),
    (
        "resourcesets/rolebindings.yaml",
        include_str!("../../../../k8s/resourcesets/rolebindings.yaml"),
    ),
];

/// The content of a folder: each file's path and text, by path.
type Files = Vec<(String, Vec<u8>)>;

/// The templates in use.
pub struct Templates {
    current: ArcSwap<Bundle>,
    folder: Option<PathBuf>,
    /// The files that the first templates were read from.
    first: Files,
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Templates")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Templates {
    /// Reads the templates of a folder and of those below it, or the shipped ones.
    pub fn load(folder: Option<&Path>) -> Result<Templates, ConfigError> {
        let first = folder.map(read_files).transpose()?.unwrap_or_default();
        let bundle = match folder {
            Some(folder) => parse(folder, &first)?,
            None => {
                let files = SHIPPED.iter().map(|(name, text)| (*name, text.as_bytes()));
                Bundle::read(files).map_err(|error| unusable(error.to_string()))?
            }
        };
        Ok(Templates {
            current: ArcSwap::from_pointee(bundle),
            folder: folder.map(Path::to_owned),
            first,
        })
    }

    pub fn current(&self) -> Arc<Bundle> {
        self.current.load_full()
    }

    /// Reloads the templates whenever a file of the folder changes. While the files cannot be used, the templates stay as they are.
    pub async fn follow(self: Arc<Self>, metrics: Arc<Metrics>) {
        const EVERY: Duration = Duration::from_secs(1);
        let Some(folder) = self.folder.clone() else {
            return;
        };
        let mut seen = Ok(self.first.clone());
        loop {
            tokio::time::sleep(EVERY).await;
            // On a blocking thread: the folder may be on a mount that hangs.
            let of = folder.clone();
            let Ok(found) = tokio::task::spawn_blocking(move || read_files(&of)).await else {
                return;
            };
            if found == seen {
                continue;
            }
            match found.clone().and_then(|files| parse(&folder, &files)) {
                Ok(bundle) => {
                    self.current.store(Arc::new(bundle));
                    metrics.templates_current.set(1);
                    info!(folder = %folder.display(), "templates changed");
                }
                Err(error) => {
                    metrics.templates_current.set(0);
                    warn!(%error, "keeping the templates in use");
                }
            }
            seen = found;
        }
    }
}

fn unusable(problem: String) -> ConfigError {
    ConfigError::new("TEMPLATES_DIR", problem)
}

fn parse(folder: &Path, files: &Files) -> Result<Bundle, ConfigError> {
    let bundle = Bundle::read(files.iter().map(|(name, text)| (name.as_str(), text.as_slice())));
    let bundle = bundle.map_err(|error| unusable(error.to_string()))?;
    match bundle.is_empty() {
        true => Err(unusable(format!("{}: no file holds a ResourceSet", folder.display()))),
        false => Ok(bundle),
    }
}

/// The YAML and JSON files of a folder and of those below it. Names that begin with a dot are skipped: a volume of Kubernetes has
/// its files twice more under such names.
fn read_files(folder: &Path) -> Result<Files, ConfigError> {
    let mut files = Files::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let failed = |path: &Path, error: std::io::Error| unusable(format!("{}: {error}", path.display()));
        for entry in std::fs::read_dir(&folder).map_err(|error| failed(&folder, error))? {
            let entry = entry.map_err(|error| failed(&folder, error))?;
            let path = entry.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if matches!(extension, Some("yaml" | "yml" | "json")) {
                let text = std::fs::read(&path).map_err(|error| failed(&path, error))?;
                files.push((path.display().to_string(), text));
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_of_kubernetes_is_read_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("..2026_11_16");
        std::fs::create_dir(&data).expect("a folder");
        std::fs::write(data.join("a.yaml"), SHIPPED[3].1).expect("a file");
        std::os::unix::fs::symlink("..2026_11_16", folder.path().join("..data")).expect("a link");
        std::os::unix::fs::symlink("..data/a.yaml", folder.path().join("a.yaml")).expect("a link");
        let templates = Templates::load(Some(folder.path())).expect("templates");
        assert!(templates.current().reads("namespaces"));
        let names: Vec<_> = templates.first.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names, [folder.path().join("a.yaml").display().to_string()]);
    }
}
