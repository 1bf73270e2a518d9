//! What a JWT says. The server verifies it; this program got it from the issuer itself.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

pub(super) fn claims(token: &str) -> Option<Value> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&claims).ok()
}

/// When it expires, in seconds since 1970.
pub(super) fn expiry(token: &str) -> Option<u64> {
    claims(token)?["exp"].as_u64()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_of_a_token_are_read() {
        let token = format!(
            "e30.{}.c2ln",
            BASE64_URL_SAFE_NO_PAD.encode(r#"{"exp": 60, "nonce": "n"}"#)
        );
        assert_eq!(claims(&token).unwrap()["nonce"], "n");
        assert_eq!(expiry(&token), Some(60));
        for other in ["", "frs_a_1", "a.b.c", "e30.e30.e30"] {
            assert_eq!(expiry(other), None, "{other}");
        }
    }
}
