//! A token as it is stored: the digest of its text, never the text.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::Time;
use crate::log::Digest;

/// The most tokens of one identity. Rotation needs two.
pub const MOST_TOKENS: usize = 16;

/// Names a token: the first eight bytes of its digest, so that a token needs no other name, and one map finds it by its text. They
/// reveal nothing about the text, which has 256 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(u64);

impl TokenId {
    pub fn of(digest: &Digest) -> TokenId {
        let [a, b, c, d, e, f, g, h, ..] = digest.0;
        TokenId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    pub(super) fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Parses the displayed form.
    pub fn parse(text: &str) -> Option<TokenId> {
        let is_canonical = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_canonical.then(|| u64::from_str_radix(text, 16).ok().map(TokenId))?
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A token of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    /// SHA-256 of the text.
    pub digest: Digest,
    pub created_at: Time,
    pub expires_at: Option<Time>,
}

impl Token {
    pub fn new(digest: Digest, created_at: Time, expires_at: Option<Time>) -> Token {
        Token {
            id: TokenId::of(&digest),
            digest,
            created_at,
            expires_at,
        }
    }

    /// The digest of a token's text.
    pub fn digest_of(text: &[u8]) -> Digest {
        Digest(Sha256::digest(text).into())
    }
}

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    id: String,
    digest: String,
    created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = Stored {
            id: self.id.to_string(),
            digest: self.digest.to_string(),
            created_at: self.created_at,
            expires_at: self.expires_at,
        };
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        let digest = Digest::parse(&stored.digest).ok_or_else(|| serde::de::Error::custom("the digest is not one"))?;
        let token = Token::new(digest, stored.created_at, stored.expires_at);
        match token.id.to_string() == stored.id {
            true => Ok(token),
            false => Err(serde::de::Error::custom("the id does not match the digest")),
        }
    }
}
