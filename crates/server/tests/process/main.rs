//! The server as its users meet it: the real binary, started, asked over the wire, signalled, killed.
//!
//! Every process has a folder of its own and an address on the loopback that the system chooses, so that tests run side by
//! side. What is waited for is a condition (a line of the log, a reply, the end of the process), never a time.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod shell;

mod configuration;
mod damage;
mod durability;
mod evidence;
mod healthcheck;
mod https;
mod identity;
mod import;
mod limits;
mod logs_and_metrics;
mod mirroring;
mod oidc;
mod postgres;
mod revocations;
mod rollouts;
mod seed;
mod shared_database;
mod shutdown;
mod starting;
mod store_commands;
mod templates;
mod threats;
mod tls;
mod tokens;
