//! The pure domain of flux-resourceset: what a fleet is, what each cluster is told, and what a write may do.
//!
//! No I/O, no clock, no environment: everything here is a function of its arguments.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod audit;
pub mod budget;
pub mod damage;
pub mod dangling;
pub mod diagnose;
pub mod diff;
pub mod document;
pub mod effect;
pub mod files;
mod graph;
pub mod guard;
pub mod history;
pub mod identity;
pub mod inputs;
pub mod integrity;
pub mod json;
pub mod judge;
pub mod kind;
pub mod log;
pub mod nearest;
pub mod operation;
pub mod overwrites;
pub mod patch;
pub mod profile;
pub mod refusal;
pub mod released;
pub mod reversal;
pub mod rollout;
pub mod selector;
pub mod snapshot;
pub mod status;
pub mod summary;
pub mod usage;
pub mod versions;
pub mod write;
pub mod yaml;

pub use snapshot::Fleet;
