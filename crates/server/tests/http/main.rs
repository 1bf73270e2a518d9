//! The HTTP side as a client sees it: the real router over a real store, without a socket. Each test has an app of its own.
#![allow(clippy::unwrap_used)]

mod auth;
mod away;
mod batch;
mod crud;
mod fuzz;
mod kinds;
mod metrics;
mod openapi;
mod polls;
mod problems;
mod support;
