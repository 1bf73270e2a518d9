//! Why a JWT is not accepted.

use std::fmt;

use fleet::refusal::quote;

use super::jwt::MOST_BYTES;
use super::keys::ALGORITHMS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is a JWT, and the server has no issuer.
    NoIssuer,
    TooLong,
    /// What is wrong with its form.
    Malformed(&'static str),
    Algorithm(String),
    NoKeyId,
    /// It names another issuer.
    Issuer(String),
    /// The keys of the issuer were never fetched.
    NoKeys,
    UnknownKey(String),
    Signature,
    /// What is wrong with a claim.
    Claim(&'static str),
    Audience,
    Expired,
    NotYet,
}

impl Refused {
    /// The value of the metric label.
    pub const fn label(&self) -> &'static str {
        match self {
            Refused::Expired => "expired",
            _ => "jwt",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the token is not valid: ")?;
        match self {
            Refused::NoIssuer => f.write_str("it is a JWT, and this server accepts none (OIDC_ISSUER is not set)"),
            Refused::TooLong => write!(f, "it is a JWT of more than {MOST_BYTES} bytes"),
            Refused::Malformed(detail) => write!(f, "it is no JWT: {detail}"),
            Refused::Algorithm(name) => {
                let accepted = ALGORITHMS.map(|(name, _)| name).join(", ");
                write!(f, "its algorithm \"{}\" is not one of {accepted}", quote(name))
            }
            Refused::NoKeyId => f.write_str("it does not name its key (kid)"),
            Refused::Issuer(issuer) => write!(f, "its issuer \"{}\" is not the one of OIDC_ISSUER", quote(issuer)),
            Refused::NoKeys => f.write_str("the keys of its issuer could not be fetched yet"),
            Refused::UnknownKey(id) => write!(f, "its issuer has no key \"{}\" for its algorithm", quote(id)),
            Refused::Signature => f.write_str("its signature is wrong"),
            Refused::Claim(detail) => f.write_str(detail),
            Refused::Audience => f.write_str("its audience (aud) is not one of OIDC_AUDIENCE"),
            Refused::Expired => f.write_str("it has expired"),
            Refused::NotYet => f.write_str("it is not valid yet (nbf): do the clocks agree?"),
        }
    }
}
