//! Everything that a server reads before it starts: its configuration, and the files that this names.

use std::path::Path;
use std::sync::Arc;

use fleet::Fleet;
use fleet::identity::{Identity, Role};

use crate::app::start;
use crate::app::templates::Templates;
use crate::auth::Environment;
use crate::auth::oidc::Oidc;
use crate::config::{Backend, Config, ConfigError, ConfigErrors, Mirror, MirrorOptions, Options};
use crate::http::tls::Tls;

pub(super) struct Settings {
    pub(super) config: Config,
    /// Of a mirror only.
    pub(super) mirror: Option<Mirror>,
    pub(super) tokens: Arc<Environment>,
    /// The ResourceSets of TEMPLATES_DIR, or the shipped ones.
    pub(super) templates: Arc<Templates>,
    /// None: plain HTTP.
    pub(super) tls: Option<Arc<Tls>>,
    /// None: no JWT is accepted.
    pub(super) oidc: Option<Arc<Oidc>>,
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
        let tokens = problems.keep(Environment::load(&config));
        if !is_mirror {
            problems.keep(start::check_kind_files(&config));
        }
        let templates = problems.keep(Templates::load(config.templates_dir.as_deref()));
        let openapi_file = problems.keep(config.openapi_file.as_deref().map(read_openapi).transpose());
        let tls = problems.keep(config.tls.as_ref().map(Tls::load).transpose());
        let oidc = problems.keep(config.oidc.as_ref().map(Oidc::new).transpose());
        // Identities of the store may take the place of these tokens. That is known when it is loaded.
        if !options.has_read_token() && (!problems.is_empty() || is_mirror || !may_have_callers(&config)) {
            problems.push(no_token());
        }
        match (tokens, templates, openapi_file, tls, oidc) {
            (Some(tokens), Some(templates), Some(openapi_file), Some(tls), Some(oidc)) if problems.is_empty() => {
                Ok(Settings {
                    config,
                    mirror,
                    tokens: Arc::new(tokens),
                    templates: Arc::new(templates),
                    tls: tls.map(Arc::new),
                    oidc: oidc.map(Arc::new),
                    openapi_file,
                })
            }
            _ => Err(problems),
        }
    }

    /// Refuses to serve if nobody could call: there is no token, and no identity that could issue one.
    pub(super) fn check_callers(&self, fleet: &Fleet) -> Result<(), ConfigError> {
        let is_admin = |identity: &Arc<Identity>| identity.role == Role::Admin && !identity.tokens.is_empty();
        match self.config.read_tokens.is_set()
            || accepts_others(&self.config)
            || fleet.identities().named().any(is_admin)
        {
            true => Ok(()),
            false => Err(no_token()),
        }
    }
}

fn no_token() -> ConfigError {
    let problem = "is required: the bearer token that clusters and readers send (or AUTH_TOKEN_FILE, or an admin in the store: \
                   flux-resourceset identity create)";
    ConfigError::new("AUTH_TOKEN", problem)
}

/// Whether somebody may be able to call without a token of the environment. A store that does not exist yet has no identities.
fn may_have_callers(config: &Config) -> bool {
    let may_have_identities = match config.backend {
        Backend::Memory => false,
        Backend::Sqlite => start::store_exists(config),
        Backend::Postgres => true,
    };
    may_have_identities || accepts_others(config)
}

/// Whether callers without a token of ours can be known: by client certificates, or by JWTs.
fn accepts_others(config: &Config) -> bool {
    let accepts_certificates = config.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    accepts_certificates || config.oidc.is_some()
}

fn read_openapi(path: &Path) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(path);
    text.map_err(|error| ConfigError::new("OPENAPI_FILE", format!("{}: {error}", path.display())))
}
