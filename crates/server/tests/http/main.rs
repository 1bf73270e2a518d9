//! The HTTP side as a client sees it: the real router over a real store, without a socket. Each test has an app of its own.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, unreachable_pub)]

mod auth;
mod away;
mod backup;
mod batch;
mod catalog;
mod crud;
mod dashboard;
mod feed;
mod fuzz;
mod guards;
mod identities;
mod instructions;
mod kinds;
mod manifests;
mod metrics;
mod openapi;
mod overwrites;
mod polls;
mod problems;
mod profiles;
mod reads;
mod revisions;
mod rollout_driver;
mod rollouts;
mod safety;
mod status;
mod support;
