//! The issuers of JWTs that the server accepts.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use axum::http::Uri;

use super::values::{path, text};
use super::{ConfigError, ConfigErrors, Options};

const ISSUER: &str = "OIDC_ISSUER";
const AUDIENCE: &str = "OIDC_AUDIENCE";
const CLIENT_ID: &str = "OIDC_CLIENT_ID";
const UI_CLIENT_ID: &str = "OIDC_UI_CLIENT_ID";
const CLIENT_SECRET: &str = "OIDC_CLIENT_SECRET";
const CLIENT_SECRET_FILE: &str = "OIDC_CLIENT_SECRET_FILE";
const SCOPES: &str = "OIDC_SCOPES";
const USERNAME_CLAIM: &str = "OIDC_USERNAME_CLAIM";
pub(crate) const CA_FILE: &str = "OIDC_CA_FILE";

/// Whose JWTs are accepted, and how people get one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcConfig {
    /// As tokens have them in `iss`. The first is the one that people log in to. Never empty.
    pub issuers: Vec<String>,
    /// A token must be for one of them. Never empty.
    pub audiences: Vec<String>,
    /// What the command line logs in as.
    pub client_id: String,
    /// What the dashboard signs people in as.
    pub ui_client_id: String,
    /// None: that client is public.
    pub client_secret: Option<ClientSecret>,
    /// What both ask for, separated by blanks.
    pub scopes: String,
    /// The claim that names the caller in the log.
    pub username_claim: String,
    /// Certificates (PEM) to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
}

/// The secret of a client, or the file that has it.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientSecret {
    Text(String),
    File(PathBuf),
}

impl ClientSecret {
    /// The secret, without the end of its line.
    pub fn read(&self) -> Result<String, ConfigError> {
        let path = match self {
            ClientSecret::Text(text) => return Ok(text.clone()),
            ClientSecret::File(path) => path,
        };
        let problem = |detail: &str| ConfigError::new(CLIENT_SECRET_FILE, format!("{}: {detail}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| problem(&error.to_string()))?;
        match text.trim() {
            "" => Err(problem("is empty")),
            secret => Ok(secret.to_owned()),
        }
    }
}

/// Debug output never contains a secret.
impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientSecret::Text(_) => f.write_str("Text"),
            ClientSecret::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Options {
    pub(super) fn oidc(&self, problems: &mut ConfigErrors) -> Option<OidcConfig> {
        let issuers = self.oidc_issuer.as_deref().map(|value| list(ISSUER, value));
        let issuers = problems.keep(issuers.transpose());
        for issuer in issuers.iter().flatten().flatten() {
            problems.keep(check_issuer(issuer));
        }
        let audiences = self.oidc_audience.as_deref().map(|value| list(AUDIENCE, value));
        let audiences = problems.keep(audiences.transpose());
        let client_id = self.oidc_client_id.as_deref().map(|value| word(CLIENT_ID, value));
        let client_id = problems.keep(client_id.transpose());
        let ui_client_id = self.oidc_ui_client_id.as_deref().map(|value| word(UI_CLIENT_ID, value));
        let ui_client_id = problems.keep(ui_client_id.transpose());
        let client_secret = problems.keep(self.client_secret());
        let scopes = problems.keep(word(SCOPES, &self.oidc_scopes));
        let username_claim = problems.keep(word(USERNAME_CLAIM, &self.oidc_username_claim));
        let ca_file = problems.keep(path(CA_FILE, self.oidc_ca_file.as_deref()));
        let missing = match (&self.oidc_issuer, &self.oidc_audience) {
            (Some(_), None) => Some((
                AUDIENCE,
                "is required with OIDC_ISSUER: whom a token must be for (its claim aud), such as the client id",
            )),
            (None, Some(_)) => Some((AUDIENCE, "needs OIDC_ISSUER")),
            (None, None) => {
                let unused = [
                    (CLIENT_ID, &self.oidc_client_id),
                    (UI_CLIENT_ID, &self.oidc_ui_client_id),
                    (CLIENT_SECRET, &self.oidc_client_secret),
                    (CLIENT_SECRET_FILE, &self.oidc_client_secret_file),
                    (CA_FILE, &self.oidc_ca_file),
                ];
                let unused = unused.into_iter().find(|(_, value)| value.is_some());
                unused.map(|(variable, _)| (variable, "needs OIDC_ISSUER"))
            }
            _ => None,
        };
        if let Some((variable, problem)) = missing {
            problems.push(ConfigError::new(variable, problem));
        }
        let audiences = audiences??;
        if let Some(Some(client)) = &ui_client_id
            && !audiences.contains(client)
        {
            let problem =
                format!("\"{client}\" is not one of OIDC_AUDIENCE: the ID tokens of a client are for the client");
            problems.push(ConfigError::new(UI_CLIENT_ID, problem));
        }
        let client_id = client_id?.unwrap_or_else(|| audiences[0].clone());
        Some(OidcConfig {
            ui_client_id: ui_client_id?.unwrap_or_else(|| client_id.clone()),
            client_id,
            client_secret: client_secret?,
            issuers: issuers??,
            audiences,
            scopes: scopes?,
            username_claim: username_claim?,
            ca_file: ca_file?,
        })
    }
}

impl Options {
    fn client_secret(&self) -> Result<Option<ClientSecret>, ConfigError> {
        let file = path(CLIENT_SECRET_FILE, self.oidc_client_secret_file.as_deref())?;
        let secret = self
            .oidc_client_secret
            .as_deref()
            .map(|value| word(CLIENT_SECRET, value));
        match (secret.transpose()?, file) {
            (Some(_), Some(_)) => Err(ConfigError::new(
                CLIENT_SECRET,
                "and OIDC_CLIENT_SECRET_FILE cannot both be set",
            )),
            (Some(secret), None) => Ok(Some(ClientSecret::Text(secret))),
            (None, file) => Ok(file.map(ClientSecret::File)),
        }
    }
}

/// Values separated by commas, at least one.
fn list(variable: &'static str, value: &OsStr) -> Result<Vec<String>, ConfigError> {
    let parts = text(variable, value)?.split(',').map(str::trim);
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).map(str::to_owned).collect();
    match parts.is_empty() {
        true => Err(ConfigError::new(variable, "is empty")),
        false => Ok(parts),
    }
}

fn word(variable: &'static str, value: &OsStr) -> Result<String, ConfigError> {
    match text(variable, value)?.trim() {
        "" => Err(ConfigError::new(variable, "is empty")),
        word => Ok(word.to_owned()),
    }
}

/// Keys that travel in plain text could be replaced on the way.
fn check_issuer(issuer: &str) -> Result<(), ConfigError> {
    let problem = |detail: &str| Err(ConfigError::new(ISSUER, format!("\"{issuer}\" {detail}")));
    let Ok(url) = issuer.parse::<Uri>() else {
        return problem("is not a URL");
    };
    if url.query().is_some() || issuer.contains(['#', '@']) {
        return problem("must be a URL without a query, a fragment and a password");
    }
    match is_trustworthy(&url) {
        true => Ok(()),
        false => problem("must begin with https:// (http:// is accepted for localhost only)"),
    }
}

/// Whether what is read from a URL can be trusted: it is encrypted, or does not leave this machine.
pub(crate) fn is_trustworthy(url: &Uri) -> bool {
    let local = ["localhost", "127.0.0.1", "[::1]"];
    match (url.scheme_str(), url.host()) {
        (Some("https"), Some(host)) => !host.is_empty(),
        (Some("http"), Some(host)) => local.contains(&host),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_encrypted_or_local() {
        for good in [
            "https://login.example.com",
            "https://login.example.com/realms/fleet",
            "https://login.example.com:8443/",
            "http://localhost:9998/",
            "http://127.0.0.1:9998",
            "http://[::1]:9998",
        ] {
            assert_eq!(check_issuer(good), Ok(()), "{good}");
        }
        for (bad, detail) in [
            ("http://login.example.com", "must begin with https://"),
            ("http://localhost.example.com", "must begin with https://"),
            ("login.example.com", "must begin with https://"),
            ("https://", "is not a URL"),
            ("https://login.example.com?x=1", "without a query"),
            ("https://ann:secret@login.example.com", "without a query"),
            ("https://login.example.com/#x", "without a query"),
        ] {
            let error = check_issuer(bad).unwrap_err();
            assert!(error.problem.contains(detail), "{bad}: {error}");
        }
    }
}
