//! JWTs of OpenID Connect: people and CI jobs are identities by what their issuer claims of them.
//!
//! A token is verified here, with the keys of its issuer. Which identity it is follows from the snapshot
//! ([`fleet::identity::Identities::claimed`]), at every request: a changed, revoked or expired identity acts at once.

mod ask;
mod code_flow;
mod fetch;
mod issuer;
mod jwt;
mod keys;
mod refused;
mod verified;

use std::sync::Arc;
use std::time::Instant;

use fleet::identity::Time;
use fleet::log::Digest;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use self::code_flow::Failed;
use self::issuer::Issuer;
use self::jwt::Jwt;
pub use self::refused::Refused;
use self::verified::Cache;
pub use self::verified::Verified;
use crate::config::{ClientSecret, ConfigError, OidcConfig};

/// The issuers, their keys, and the tokens that were verified with them.
#[derive(Debug)]
pub struct Oidc {
    config: OidcConfig,
    issuers: Vec<Issuer>,
    verified: Cache,
    /// Places for sign-ins that ask the issuer for a token.
    redeeming: Semaphore,
}

impl Oidc {
    /// The issuers of a configuration, without their keys yet.
    pub fn new(config: &OidcConfig) -> Result<Oidc, ConfigError> {
        // Files are read here only to find what is wrong: each use reads them again.
        config.ca_file.as_deref().map(ask::certificates).transpose()?;
        config.client_secret.as_ref().map(ClientSecret::read).transpose()?;
        let issuer = |url: &String| Issuer::new(url, config.ca_file.clone());
        Ok(Oidc {
            issuers: config.issuers.iter().map(issuer).collect(),
            config: config.clone(),
            verified: Cache::default(),
            redeeming: Semaphore::new(code_flow::PLACES),
        })
    }

    pub fn config(&self) -> &OidcConfig {
        &self.config
    }

    /// Keeps the keys of all issuers current. `current` is 0 while those of one cannot be fetched.
    pub async fn follow(self: Arc<Self>, current: Gauge) {
        let mut tasks = JoinSet::new();
        for n in 0..self.issuers.len() {
            let (this, current) = (self.clone(), current.clone());
            let fetched = move |this: &Oidc| {
                let all = this.issuers.iter().all(Issuer::is_current);
                current.set(all.into());
            };
            tasks.spawn(async move { this.issuers[n].follow(|| fetched(&this)).await });
        }
        tasks.join_all().await;
    }

    /// What a token says, if it is a valid JWT. None: it does not have the form of one.
    pub fn verify(&self, token: &[u8], digest: &Digest, now: Time) -> Option<Result<Arc<Verified>, Refused>> {
        has_form(token).then(|| self.verify_jwt(token, digest, now))
    }

    fn verify_jwt(&self, token: &[u8], digest: &Digest, now: Time) -> Result<Arc<Verified>, Refused> {
        let instant = Instant::now();
        if let Some(known) = self.verified.get(digest, instant)
            && self.has_in_use(&known)
        {
            known.validity.check(now)?;
            return Ok(known);
        }
        let jwt = Jwt::parse(token)?;
        let (n, issuer) = self.issuer(&jwt)?;
        let Some(keys) = issuer.keys() else {
            issuer.want_keys();
            return Err(Refused::NoKeys);
        };
        if !keys.has(&jwt.key) {
            issuer.want_keys();
        }
        let claims = jwt.verify(&keys)?;
        let verified = Arc::new(Verified {
            validity: jwt::check(&claims, &self.config.audiences, now)?,
            name: jwt::name(&claims, &self.config.username_claim)?,
            claims,
            of_first_issuer: n == 0,
            keys,
        });
        self.verified.put(*digest, verified.clone(), instant);
        Ok(verified)
    }

    /// Whether the keys that a token was verified with are still those of its issuer.
    fn has_in_use(&self, token: &Verified) -> bool {
        let current = self.issuers.iter().filter_map(Issuer::keys);
        current.into_iter().any(|keys| Arc::ptr_eq(&keys, &token.keys))
    }

    fn issuer(&self, jwt: &Jwt<'_>) -> Result<(usize, &Issuer), Refused> {
        let mut issuers = self.issuers.iter().enumerate();
        let found = issuers.find(|(_, issuer)| issuer.url == jwt.issuer);
        found.ok_or_else(|| Refused::Issuer(jwt.issuer.clone()))
    }

    /// Waits until the keys of the issuer of a token were fetched. Does not wait if that was a moment ago.
    pub async fn wait_for_keys(&self, token: &[u8]) {
        if let Ok(jwt) = Jwt::parse(token)
            && let Ok((_, issuer)) = self.issuer(&jwt)
        {
            issuer.wait_for_keys().await;
        }
    }
}

impl Verified {
    /// When the token stops being valid.
    pub fn expires_at(&self) -> Time {
        self.validity.expires_at
    }
}

/// Whether a token has the form of a JWT.
pub fn has_form(token: &[u8]) -> bool {
    jwt::has_form(token)
}
