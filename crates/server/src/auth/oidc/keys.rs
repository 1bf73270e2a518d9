//! The public keys of an issuer.

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The algorithms that are accepted. With a shared secret (HS256) whoever can verify can sign, and `none` is no signature at all.
pub(super) const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// A set of keys.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: String,
    document: Jwk,
    public: DecodingKey,
}

/// Two sets are equal if they were read from the same documents.
impl PartialEq for Keys {
    fn eq(&self, other: &Keys) -> bool {
        let documents = |keys: &Keys| keys.0.iter().map(|key| key.document.clone()).collect::<Vec<_>>();
        documents(self) == documents(other)
    }
}

impl Keys {
    /// Reads a JSON Web Key Set. Keys that verify no signature of ours are left out: those for encryption, shared secrets, unknown types, and those
    /// without an id.
    pub(super) fn read(text: &[u8]) -> Result<Keys, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(text).map_err(|error| format!("is no set of keys: {error}"))?;
        let keys: Vec<Key> = set.keys.into_iter().filter_map(Key::read).collect();
        match keys.is_empty() {
            true => Err("has no key that can verify a signature".to_owned()),
            false => Ok(Keys(keys)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id == id)
    }

    /// The keys with this id that may sign with this algorithm. Ids are unique in practice, not by the standard.
    pub(super) fn find(&self, id: &str, algorithm: Algorithm) -> impl Iterator<Item = &DecodingKey> {
        let fits = move |key: &&Key| {
            let own = key.document.common.key_algorithm;
            let is_for_it = own.is_none_or(|own| own.to_string().parse() == Ok(algorithm));
            is_for_it && algorithm.family() == key.public.family()
        };
        let with_id = self.0.iter().filter(move |key| key.id == id);
        with_id.filter(fits).map(|key| &key.public)
    }
}

impl Key {
    fn read(value: Value) -> Option<Key> {
        let document: Jwk = serde_json::from_value(value).ok()?;
        let is_public = matches!(
            document.algorithm,
            AlgorithmParameters::RSA(_) | AlgorithmParameters::EllipticCurve(_) | AlgorithmParameters::OctetKeyPair(_)
        );
        let signs = matches!(document.common.public_key_use, None | Some(PublicKeyUse::Signature));
        if !is_public || !signs {
            return None;
        }
        Some(Key {
            id: document.common.key_id.clone()?,
            public: DecodingKey::from_jwk(&document).ok()?,
            document,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_public_keys_for_signatures_are_kept() {
        let rsa = |more: Value| {
            let mut key = json!({"kty": "RSA", "kid": "r", "n": "3Q", "e": "AQAB"});
            key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            key
        };
        let ec = json!({"kty": "EC", "kid": "e", "crv": "P-256", "x": "3Q", "y": "3Q", "alg": "ES256", "use": "sig"});
        for (key, kept) in [
            (rsa(json!({})), true),
            (rsa(json!({"use": "sig", "alg": "RS256", "x5c": ["…"]})), true),
            (rsa(json!({"use": "enc"})), false),
            (rsa(json!({"kid": null})), false),
            (rsa(json!({"n": "not base64"})), false),
            (ec.clone(), true),
            (json!({"kty": "OKP", "kid": "o", "crv": "Ed25519", "x": "3Q"}), true),
            (json!({"kty": "oct", "kid": "s", "k": "c2VjcmV0"}), false),
            (json!({"kty": "AKP", "kid": "a", "pub": "3Q"}), false),
            (json!("text"), false),
        ] {
            let read = Keys::read(json!({"keys": [key]}).to_string().as_bytes());
            assert_eq!(read.is_ok(), kept, "{key}");
        }
        for wrong in ["", "[]", "{}", "{\"keys\": 1}", "{\"keys\": []}"] {
            assert!(Keys::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let keys = Keys::read(json!({"keys": [ec, rsa(json!({}))]}).to_string().as_bytes()).unwrap();
        let count = |id, algorithm| keys.find(id, algorithm).count();
        assert_eq!((count("e", Algorithm::ES256), count("e", Algorithm::ES384)), (1, 0));
        assert_eq!((count("e", Algorithm::RS256), count("r", Algorithm::ES256)), (0, 0));
        assert_eq!((count("r", Algorithm::RS256), count("r", Algorithm::PS512)), (1, 1));
        assert_eq!(count("x", Algorithm::RS256), 0);
    }
}
