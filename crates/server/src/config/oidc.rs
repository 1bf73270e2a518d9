//! The issuers of JWTs that the server accepts.

use std::ffi::OsStr;
use std::path::PathBuf;

use axum::http::Uri;

use super::values::{path, text};
use super::{ConfigError, ConfigErrors, Options};

const ISSUER: &str = "OIDC_ISSUER";
const AUDIENCE: &str = "OIDC_AUDIENCE";
const CLIENT_ID: &str = "OIDC_CLIENT_ID";
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
    /// What it asks for, separated by blanks.
    pub scopes: String,
    /// The claim that names the caller in the log.
    pub username_claim: String,
    /// Certificates (PEM) to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
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
        let scopes = problems.keep(word(SCOPES, &self.oidc_scopes));
        let username_claim = problems.keep(word(USERNAME_CLAIM, &self.oidc_username_claim));
        let ca_file = problems.keep(path(CA_FILE, self.oidc_ca_file.as_deref()));
        let missing = match (&self.oidc_issuer, &self.oidc_audience) {
            (Some(_), None) => Some((
                AUDIENCE,
                "is required with OIDC_ISSUER: whom a token must be for (its claim aud), such as the client id",
            )),
            (None, Some(_)) => Some((AUDIENCE, "needs OIDC_ISSUER")),
            (None, None) if self.oidc_client_id.is_some() => Some((CLIENT_ID, "needs OIDC_ISSUER")),
            (None, None) if self.oidc_ca_file.is_some() => Some((CA_FILE, "needs OIDC_ISSUER")),
            _ => None,
        };
        if let Some((variable, problem)) = missing {
            problems.push(ConfigError::new(variable, problem));
        }
        let audiences = audiences??;
        Some(OidcConfig {
            client_id: client_id?.unwrap_or_else(|| audiences[0].clone()),
            issuers: issuers??,
            audiences,
            scopes: scopes?,
            username_claim: username_claim?,
            ca_file: ca_file?,
        })
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
