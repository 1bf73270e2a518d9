//! The dashboard: the fleet as pages of HTML, at `/ui`.
//!
//! It is a client of the API in the same process. Every page makes requests to the public routes with the caller's own token: a page
//! shows what the caller may read, and a button does what the caller may do. The dashboard has no rights of its own, and keeps nothing.

mod api;
mod assets;
mod call;
mod editor;
mod form;
mod issuer;
mod layout;
mod oidc;
mod pages;
mod parts;
mod query;
mod reply;
mod routes;
mod session;
mod sign_in;
mod visit;

use std::sync::Arc;

use axum::http::Extensions;

pub use self::api::ApiService;
pub use self::issuer::{Asked, Authorization, Issuer, IssuerError, Redemption};
pub use self::routes::router;

/// Where every page is.
pub const PREFIX: &str = "/ui";
/// Where an issuer leads people back to.
pub const CALLBACK: &str = "/ui/login/callback";

/// What the dashboard needs to know of the server that it is a part of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The API: all routes, or on a read-only server all that read.
    pub api: ApiService,
    /// Copies what a connection tells about its client, such as its address, to the requests that a page makes.
    pub carry: fn(&Extensions) -> Extensions,
    /// Whether the server speaks TLS, so that cookies are for TLS only.
    pub has_tls: bool,
    /// Whether this server takes writes.
    pub writes: bool,
    /// Whom people sign in with, beside tokens.
    pub issuer: Option<Arc<dyn Issuer>>,
    /// The address of the dashboard for browsers, without a slash at the end. None: the one that a request names.
    pub url: Option<String>,
}

/// What handlers can reach.
pub(crate) type Ui = Arc<Settings>;
