//! The dashboard as people use it: the server's binary, and pages in a real Chromium (scripts/chromium.sh installs it).
//!
//! Every test has its own server. At its end, the browser's console must be empty, and every request must have gone to that server.
#![allow(clippy::unwrap_used)]

mod browser;
mod changes;
mod driver;
mod fleet;
mod large;
mod live;
mod map;
mod pages;
mod permissions;
mod rollouts;
mod screenshots;
mod sign_in;
mod without_script;
