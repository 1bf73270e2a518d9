//! The reporter against an imitated Kubernetes API and an imitated API of the fleet, both on loopback. Every wait is for a
//! condition.
#![allow(clippy::unwrap_used)]

mod fleet;
mod kubernetes;
mod nudge;
mod process;
mod reports;
mod server;
mod tls;
mod world;
