//! The issuer that people sign in with (OpenID Connect). The server makes the requests to it: the dashboard knows no network.

use std::fmt;
use std::pin::Pin;

/// What an issuer answers, in time.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, IssuerError>> + Send + 'a>>;

/// An issuer of ID tokens, by the code flow with PKCE.
pub trait Issuer: fmt::Debug + Send + Sync {
    /// What people know it by: its host.
    fn name(&self) -> &str;

    /// The address of the page where a person signs in.
    fn sign_in_page<'a>(&'a self, authorization: &'a Authorization) -> Asked<'a, String>;

    /// The ID token that it gives for a code.
    fn redeem<'a>(&'a self, redemption: &'a Redemption) -> Asked<'a, String>;
}

/// What a sign-in begins with.
#[derive(Clone, Debug)]
pub struct Authorization {
    /// Where the issuer leads the person back to.
    pub redirect: String,
    pub state: String,
    pub nonce: String,
    /// The digest of the verifier (PKCE, `S256`).
    pub challenge: String,
}

/// What a sign-in ends with.
#[derive(Clone)]
pub struct Redemption {
    pub code: String,
    /// The same as at the beginning.
    pub redirect: String,
    pub verifier: String,
}

/// Debug output never contains a code.
impl fmt::Debug for Redemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redemption")
            .field("redirect", &self.redirect)
            .finish_non_exhaustive()
    }
}

/// Why an issuer gave no answer that can be used. The server logs the details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssuerError {
    /// It cannot be reached, or not now.
    Unavailable,
    /// Its answer is not one of OpenID Connect.
    Unusable,
    /// It refuses, in its own words.
    Refused(String),
}
