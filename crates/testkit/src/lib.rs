//! Starts the server's binary as its users do: finds or builds it, runs it in a temporary folder on a free port, waits until it
//! answers, reads its log, stops or kills it, and cleans up.
//!
//! Every wait is for a condition (a line of the log, a reply, the end of the process), never for a time. Functions panic with
//! what went wrong: this is for tests, benchmarks and load generators only.
#![allow(clippy::unwrap_used)]

mod binary;
pub mod client;
mod fleet;
mod folder;
mod oidc;
mod process;
mod server;
mod setup;

use std::time::{Duration, Instant};

pub use self::binary::server_binary;
pub use self::fleet::{cluster, dns, poll};
pub use self::folder::{Folder, READ, WRITE};
pub use self::oidc::OidcProvider;
pub use self::process::{Ended, Process, signal};
pub use self::server::{Server, address_in};
pub use self::setup::Setup;

/// Longer than anything takes that works.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// Waits until a condition holds.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
