//! A JWT: what it says, and whether that is true.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use fleet::identity::Time;
use jsonwebtoken::{Algorithm, Validation};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::keys::{ALGORITHMS, Keys};
use super::refused::Refused;

/// The longest token that is looked at. Those with many groups have a few KiB.
pub(super) const MOST_BYTES: usize = 16 << 10;
/// The most characters of a name in the log.
const MOST_NAME: usize = 255;
/// How far the clock of the issuer may be ahead, in seconds: many issuers set `nbf` to the time of issue.
const LEEWAY: u64 = 30;

/// Whether a token has the form of a JWT: three parts, of which the first begins as every JSON object does in base64.
pub(super) fn has_form(token: &[u8]) -> bool {
    token.starts_with(b"ey") && token.iter().filter(|byte| **byte == b'.').count() == 2
}

/// A JWT that was not verified.
#[derive(Debug)]
pub(super) struct Jwt<'a> {
    token: &'a [u8],
    algorithm: Algorithm,
    pub(super) key: String,
    pub(super) issuer: String,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl<'a> Jwt<'a> {
    pub(super) fn parse(token: &'a [u8]) -> Result<Jwt<'a>, Refused> {
        if token.len() > MOST_BYTES {
            return Err(Refused::TooLong);
        }
        let mut parts = token.split(|byte| *byte == b'.');
        let header = decode(parts.next(), "its header is not JSON in base64url")?;
        let claims = decode(parts.next(), "its claims are not JSON in base64url")?;
        let header: Header =
            serde_json::from_slice(&header).map_err(|_| Refused::Malformed("its header is not JSON with alg"))?;
        let known = ALGORITHMS.iter().find(|(name, _)| *name == header.alg);
        let algorithm = known
            .map(|(_, algorithm)| *algorithm)
            .ok_or(Refused::Algorithm(header.alg))?;
        if header.crit.is_some() {
            return Err(Refused::Malformed("it asks for extensions that are not known (crit)"));
        }
        let claims: Map<String, Value> =
            serde_json::from_slice(&claims).map_err(|_| Refused::Malformed("its claims are not a JSON object"))?;
        let issuer = claims.get("iss").and_then(Value::as_str);
        Ok(Jwt {
            token,
            algorithm,
            key: header.kid.filter(|id| !id.is_empty()).ok_or(Refused::NoKeyId)?,
            issuer: issuer.ok_or(Refused::Claim("it has no issuer (iss)"))?.to_owned(),
        })
    }

    /// Its claims, if one of the keys signed it.
    pub(super) fn verify(&self, keys: &Keys) -> Result<Map<String, Value>, Refused> {
        let mut validation = Validation::new(self.algorithm);
        // Only the signature: [`check`] checks the claims, with a time that tests can choose.
        validation.required_spec_claims.clear();
        (
            validation.validate_exp,
            validation.validate_nbf,
            validation.validate_aud,
        ) = (false, false, false);
        let mut refused = Refused::UnknownKey(self.key.clone());
        for key in keys.find(&self.key, self.algorithm) {
            match jsonwebtoken::decode(self.token, key, &validation) {
                Ok(data) => return Ok(data.claims),
                Err(_) => refused = Refused::Signature,
            }
        }
        Err(refused)
    }
}

fn decode(part: Option<&[u8]>, problem: &'static str) -> Result<Vec<u8>, Refused> {
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(part.unwrap_or_default());
    decoded.map_err(|_| Refused::Malformed(problem))
}

/// The times between which claims hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    from: u64,
    pub(super) expires_at: Time,
}

impl Validity {
    pub(super) fn check(self, now: Time) -> Result<(), Refused> {
        if self.expires_at <= now {
            return Err(Refused::Expired);
        }
        match self.from > u64::from(now.seconds()) + LEEWAY {
            true => Err(Refused::NotYet),
            false => Ok(()),
        }
    }
}

/// Checks verified claims: for whom, and when they hold.
pub(super) fn check(claims: &Map<String, Value>, audiences: &[String], now: Time) -> Result<Validity, Refused> {
    let expires_at = seconds(claims, "exp", "its time of expiry (exp) is not a number")?;
    let from = seconds(claims, "nbf", "the time from which it is valid (nbf) is not a number")?;
    let expires_at = expires_at.ok_or(Refused::Claim("it does not expire (exp)"))?;
    let is_ours = |audience: &Value| {
        audience
            .as_str()
            .is_some_and(|text| audiences.iter().any(|own| own == text))
    };
    let is_for_us = match claims.get("aud") {
        Some(Value::Array(several)) => several.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => return Err(Refused::Claim("it has no audience (aud)")),
    };
    if !is_for_us {
        return Err(Refused::Audience);
    }
    let validity = Validity {
        from: from.unwrap_or(0),
        expires_at: Time::from_seconds(u32::try_from(expires_at).unwrap_or(u32::MAX)),
    };
    validity.check(now)?;
    Ok(validity)
}

/// A time of a claim, in seconds since 1970. A fraction is cut off; a time before 1970 is 1970.
fn seconds(claims: &Map<String, Value>, name: &str, problem: &'static str) -> Result<Option<u64>, Refused> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let whole = value.as_u64();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let whole = whole.or_else(|| value.as_f64().map(|time| time as u64));
    whole.map(Some).ok_or(Refused::Claim(problem))
}

/// What a token calls its bearer: the claim `preferred`, or `sub`.
pub(super) fn name(claims: &Map<String, Value>, preferred: &str) -> Result<String, Refused> {
    // An address that the issuer did not verify may be anybody's.
    let is_unverified = preferred == "email" && claims.get("email_verified") == Some(&Value::Bool(false));
    let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let subject = text("sub").ok_or(Refused::Claim("it has no subject (sub)"))?;
    let name = text(preferred).filter(|_| !is_unverified).unwrap_or(subject);
    match name.chars().count() > MOST_NAME || name.chars().any(char::is_control) {
        true => Err(Refused::Claim(
            "its subject (sub) is longer than 255 characters, or has control characters",
        )),
        false => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encoded(header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2ln", encode(header), encode(claims))
    }

    #[test]
    fn tokens_of_other_forms_are_told_apart() {
        assert!(has_form(encoded(&json!({"alg": "none"}), &json!({})).as_bytes()));
        for other in [
            "",
            "frs_a_0123",
            "ey.",
            "ey.a.b.c.d",
            "demo.read.token",
            "eyJhbGciOiJub25lIn0.e30",
        ] {
            assert!(!has_form(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn what_cannot_be_verified_is_refused_before() {
        let claims = json!({"iss": "https://issuer"});
        let refused = |header: Value| Jwt::parse(encoded(&header, &claims).as_bytes()).unwrap_err();
        for name in ["none", "None", "HS256", "HS512", "ES512", ""] {
            assert_eq!(
                refused(json!({"alg": name, "kid": "1"})),
                Refused::Algorithm(name.to_owned())
            );
        }
        assert_eq!(refused(json!({"alg": "RS256"})), Refused::NoKeyId);
        assert_eq!(refused(json!({"alg": "RS256", "kid": ""})), Refused::NoKeyId);
        let critical = json!({"alg": "RS256", "kid": "1", "crit": ["b64"], "b64": false});
        assert!(matches!(refused(critical), Refused::Malformed(_)));
        assert!(matches!(refused(json!({"kid": "1"})), Refused::Malformed(_)));
        let header = json!({"alg": "RS256", "kid": "1"});
        let parse = |claims: Value| Jwt::parse(encoded(&header, &claims).as_bytes()).map(|jwt| jwt.issuer);
        assert_eq!(parse(json!({"iss": "https://issuer"})), Ok("https://issuer".to_owned()));
        for wrong in [json!({}), json!({"iss": ["https://issuer"]}), json!({"iss": null})] {
            assert_eq!(parse(wrong), Err(Refused::Claim("it has no issuer (iss)")));
        }
        assert!(matches!(parse(json!([])), Err(Refused::Malformed(_))));
        let long = format!("{}{}", encoded(&header, &claims), "A".repeat(MOST_BYTES));
        assert_eq!(Jwt::parse(long.as_bytes()).unwrap_err(), Refused::TooLong);
    }

    #[test]
    fn claims_hold_for_us_and_for_a_time() {
        let now = 1_800_000_000;
        let audiences = ["fleet".to_owned(), "ci".to_owned()];
        let check = |claims: Value| {
            let checked = check(claims.as_object().unwrap(), &audiences, Time::from_seconds(now));
            checked.map(|validity| validity.expires_at.seconds())
        };
        assert_eq!(check(json!({"aud": "fleet", "exp": now + 60})), Ok(now + 60));
        assert_eq!(
            check(json!({"aud": ["x", "ci"], "exp": now + 60, "nbf": now})),
            Ok(now + 60)
        );
        assert_eq!(check(json!({"aud": "ci", "exp": f64::from(now) + 60.5})), Ok(now + 60));
        assert_eq!(check(json!({"aud": "ci", "exp": u64::MAX})), Ok(u32::MAX));
        // The clock of the issuer may be ahead a little.
        assert_eq!(
            check(json!({"aud": "ci", "exp": now + 1, "nbf": now + 30})),
            Ok(now + 1)
        );
        assert_eq!(check(json!({"aud": "ci", "exp": now})), Err(Refused::Expired));
        assert_eq!(check(json!({"aud": "ci", "exp": -1})), Err(Refused::Expired));
        assert_eq!(
            check(json!({"aud": "ci", "exp": now + 60, "nbf": now + 31})),
            Err(Refused::NotYet)
        );
        for audience in [json!("Fleet"), json!(["x"]), json!([]), json!(7), json!(null)] {
            assert_eq!(check(json!({"aud": audience, "exp": now + 60})), Err(Refused::Audience));
        }
        for (claims, detail) in [
            (json!({"exp": now + 60}), "it has no audience (aud)"),
            (json!({"aud": "ci"}), "it does not expire (exp)"),
            (
                json!({"aud": "ci", "exp": "tomorrow"}),
                "its time of expiry (exp) is not a number",
            ),
            (
                json!({"aud": "ci", "exp": now + 60, "nbf": []}),
                "the time from which it is valid (nbf) is not a number",
            ),
        ] {
            assert_eq!(check(claims), Err(Refused::Claim(detail)));
        }
    }

    #[test]
    fn callers_are_named_by_a_claim_or_by_their_subject() {
        let name = |claims: Value, preferred: &str| name(claims.as_object().unwrap(), preferred).ok();
        let ann = json!({"sub": "00u1", "email": "ann@example.com", "email_verified": true});
        assert_eq!(name(ann.clone(), "sub").as_deref(), Some("00u1"));
        assert_eq!(name(ann.clone(), "email").as_deref(), Some("ann@example.com"));
        assert_eq!(name(ann, "login").as_deref(), Some("00u1"));
        let unverified = json!({"sub": "00u1", "email": "root@example.com", "email_verified": false});
        assert_eq!(name(unverified, "email").as_deref(), Some("00u1"));
        for wrong in [
            json!({}),
            json!({"sub": ""}),
            json!({"sub": 7}),
            json!({"sub": "a\nb"}),
            json!({"sub": "x".repeat(256)}),
        ] {
            assert_eq!(name(wrong, "sub"), None);
        }
    }
}
