//! Logging in with OpenID Connect: how a person gets a token without being handed one.
//!
//! A context keeps the ID token, which the server verifies, and the refresh token, with which the next one is fetched when it is needed.

mod browser;
pub(crate) mod code;
pub(crate) mod device;
mod issuer;
mod jwt;

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub(crate) use self::issuer::{Issuer, Tokens};
use crate::config::File;
use crate::error::{Code, Failure};

/// A token that ends sooner than this is replaced: the request needs some time, and clocks differ.
const SECONDS_LEFT: u64 = 15;

/// What a context keeps of a login.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Login {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) id_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
}

impl Login {
    fn is_fresh(&self) -> bool {
        jwt::expiry(&self.id_token).is_some_and(|end| end > now() + SECONDS_LEFT)
    }

    /// Replaces the tokens. An issuer that sends no new refresh token keeps accepting the old one.
    fn renew(&mut self, tokens: Tokens) {
        self.id_token = tokens.id_token;
        if tokens.refresh_token.is_some() {
            self.refresh_token = tokens.refresh_token;
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The token of a context's login, fetched anew if it is about to expire.
pub(crate) fn token(context: &str) -> Result<String, Failure> {
    let login = of_context(&File::read()?, context)?;
    if login.is_fresh() {
        return Ok(login.id_token);
    }
    // Issuers accept a refresh token once. Another command may have used it while this one waited.
    let _lock = lock()?;
    let mut login = of_context(&File::read()?, context)?;
    if login.is_fresh() {
        return Ok(login.id_token);
    }
    let Some(refresh_token) = &login.refresh_token else {
        return Err(ended(context, "it has expired, and the issuer gave no refresh token"));
    };
    let issuer = Issuer::discover(&login.issuer)?;
    let tokens = issuer.refresh(&login.client_id, refresh_token);
    let tokens = tokens.map_err(|failure| match failure.code {
        Code::Refused => ended(context, &failure.message),
        _ => failure,
    })?;
    login.renew(tokens);
    let token = login.id_token.clone();
    put(context, Some(login))?;
    Ok(token)
}

/// Keeps a login in a context; in a new one, which becomes the current one, if there is a URL.
pub(crate) fn keep(context: &str, url: Option<&str>, login: Login) -> Result<(), Failure> {
    let _lock = lock()?;
    if let Some(url) = url {
        let mut file = File::read()?;
        url.clone_into(&mut file.contexts.entry(context.to_owned()).or_default().url);
        file.current_context = Some(context.to_owned());
        file.write()?;
    }
    put(context, Some(login))
}

/// Removes the login of a context.
pub(crate) fn forget(context: &str) -> Result<(), Failure> {
    let _lock = lock()?;
    put(context, None)
}

fn put(context: &str, login: Option<Login>) -> Result<(), Failure> {
    let mut file = File::read()?;
    let Some(kept) = file.contexts.get_mut(context) else {
        return Err(file.unknown(context));
    };
    kept.login = login;
    file.write()
}

fn of_context(file: &File, context: &str) -> Result<Login, Failure> {
    let login = file.contexts.get(context).and_then(|context| context.login.clone());
    login.ok_or_else(|| ended(context, "there is none"))
}

fn ended(context: &str, why: &str) -> Failure {
    let failure = Failure::refused(format!("the login of the context \"{context}\" cannot be used: {why}"));
    failure.hint("log in again: `flux-resourceset-cli login`")
}

/// Held by the one process that changes a login. Released when it is dropped, or the process ends.
fn lock() -> Result<fs::File, Failure> {
    let path = File::path()?;
    let path = PathBuf::from(format!("{}.lock", path.display()));
    let failed = |error: std::io::Error| Failure::file(&path, &error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let file = fs::File::create(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}
