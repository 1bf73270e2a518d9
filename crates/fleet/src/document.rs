//! A stored resource and its version.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::json::Json;

/// The version of a document: a digest of its content, so it is the same on every replica and mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Etag(pub u128);

impl Etag {
    pub fn of(body: &Json) -> Self {
        Etag::of_bytes(body.as_str().as_bytes())
    }

    pub fn of_bytes(bytes: &[u8]) -> Self {
        let digest = Sha256::digest(bytes);
        Etag(u128::from_be_bytes(
            digest[..16].try_into().expect("SHA-256 has 32 bytes"),
        ))
    }
}

/// As in an `ETag` header, including the quotes.
impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{:032x}\"", self.0)
    }
}

#[derive(Clone, Debug)]
pub struct Document {
    pub id: Arc<str>,
    pub body: Json,
    pub etag: Etag,
}

impl Document {
    pub fn new(id: Arc<str>, body: Json) -> Self {
        Document {
            etag: Etag::of(&body),
            id,
            body,
        }
    }
}
