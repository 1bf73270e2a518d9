//! JWTs that were verified a moment ago: a signature costs more than everything else that a request needs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fleet::log::Digest;
use serde_json::{Map, Value};

use super::jwt::Validity;
use super::keys::Keys;

/// How long a token is remembered, and how many are.
const TIME: Duration = Duration::from_secs(60);
const MOST: usize = 1024;

/// What a verified JWT says.
#[derive(Debug)]
pub struct Verified {
    pub claims: Map<String, Value>,
    /// What the log calls its bearer.
    pub name: String,
    /// Whether it is from the first issuer.
    pub of_first_issuer: bool,
    pub(super) validity: Validity,
    /// The keys of the issuer when it was verified.
    pub(super) keys: Arc<Keys>,
}

/// Verified tokens, by the digest of their text. Only their signature is remembered: which identity they are is looked up in each
/// snapshot.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<HashMap<Digest, (Arc<Verified>, Instant)>>);

impl Cache {
    pub(super) fn get(&self, digest: &Digest, now: Instant) -> Option<Arc<Verified>> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (token, since) = tokens.get(digest)?;
        (now.duration_since(*since) < TIME).then(|| token.clone())
    }

    pub(super) fn put(&self, digest: Digest, token: Arc<Verified>, now: Instant) {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MOST {
            tokens.retain(|_, (_, since)| now.duration_since(*since) < TIME);
            if tokens.len() >= MOST {
                tokens.clear();
            }
        }
        tokens.insert(digest, (token, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::oidc::jwt::check;
    use fleet::identity::Time;
    use serde_json::json;

    fn token() -> Arc<Verified> {
        let claims = json!({"aud": "fleet", "exp": 60});
        let claims = claims.as_object().unwrap().clone();
        Arc::new(Verified {
            validity: check(&claims, &["fleet".to_owned()], Time::from_seconds(0)).unwrap(),
            claims,
            name: "ann".to_owned(),
            of_first_issuer: true,
            keys: Arc::default(),
        })
    }

    fn digest(n: usize) -> Digest {
        fleet::identity::Token::digest_of(&n.to_le_bytes())
    }

    #[test]
    fn tokens_are_remembered_for_a_time() {
        let (cache, start) = (Cache::default(), Instant::now());
        cache.put(digest(1), token(), start);
        assert!(cache.get(&digest(1), start + TIME / 2).is_some());
        assert!(cache.get(&digest(1), start + TIME).is_none());
        assert!(cache.get(&digest(2), start).is_none());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (cache, start) = (Cache::default(), Instant::now());
        for n in 0..3 * MOST {
            cache.put(digest(n), token(), start);
        }
        assert!(cache.0.lock().unwrap().len() <= MOST);
        assert!(cache.get(&digest(3 * MOST - 1), start).is_some());
    }
}
