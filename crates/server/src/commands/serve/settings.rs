//! Everything that a server reads before it starts: its configuration, and the files that this names.

use std::path::Path;
use std::sync::Arc;

use crate::app::start;
use crate::app::templates::Templates;
use crate::config::{Config, ConfigError, ConfigErrors, Mirror, MirrorOptions, Options};
use crate::tokens::Tokens;

pub(super) struct Settings {
    pub(super) config: Config,
    /// Of a mirror only.
    pub(super) mirror: Option<Mirror>,
    pub(super) tokens: Arc<Tokens>,
    /// The ResourceSets of TEMPLATES_DIR, or the shipped ones.
    pub(super) templates: Arc<Templates>,
    /// The text of OPENAPI_FILE.
    pub(super) openapi_file: Option<String>,
}

impl Settings {
    /// Reads everything, and reports every problem that can be found without the store.
    pub(super) fn read(options: &Options, mirror: Option<&MirrorOptions>) -> Result<Settings, ConfigErrors> {
        let mut problems = ConfigErrors::default();
        let config = options.check(&mut problems);
        let is_mirror = mirror.is_some();
        let mirror = mirror.and_then(|mirror| mirror.check(options, &mut problems));
        if !options.has_read_token() {
            let problem = "is required: the bearer token that clusters and readers send (or AUTH_TOKEN_FILE)";
            problems.push(ConfigError::new("AUTH_TOKEN", problem));
        }
        let tokens = problems.keep(Tokens::load(&config));
        if !is_mirror {
            problems.keep(start::check_kind_files(&config));
        }
        let templates = problems.keep(Templates::load(config.templates_dir.as_deref()));
        let openapi_file = problems.keep(config.openapi_file.as_deref().map(read_openapi).transpose());
        match (tokens, templates, openapi_file) {
            (Some(tokens), Some(templates), Some(openapi_file)) if problems.is_empty() => Ok(Settings {
                config,
                mirror,
                tokens: Arc::new(tokens),
                templates: Arc::new(templates),
                openapi_file,
            }),
            _ => Err(problems),
        }
    }
}

fn read_openapi(path: &Path) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(path);
    text.map_err(|error| ConfigError::new("OPENAPI_FILE", format!("{}: {error}", path.display())))
}
