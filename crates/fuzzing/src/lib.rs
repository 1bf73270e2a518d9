//! The bodies of the fuzz targets. Each takes any bytes, and panics when the product breaks a promise.
//!
//! They are a library without libFuzzer, so that two callers can share them: the programs in `fuzz/`, which cargo-fuzz builds
//! with instrumentation, and `tests/corpus.rs`, which runs the committed inputs in every `cargo test`.
#![allow(clippy::expect_used)]

mod accepted;
mod demo;
mod documents;
mod patches;
mod poll;
mod selectors;
mod stored_rows;
mod templates;
mod yaml;

pub use self::{
    documents::documents, patches::patches, poll::poll, selectors::selectors, stored_rows::stored_rows,
    templates::templates, yaml::yaml,
};

/// The body of a target.
pub type Body = fn(&[u8]);

/// Every target by its name, which is also that of its folder in `fuzz/corpus` and of its program.
pub const TARGETS: [(&str, Body); 7] = [
    ("documents", documents),
    ("patches", patches),
    ("poll", poll),
    ("selectors", selectors),
    ("stored_rows", stored_rows),
    ("templates", templates),
    ("yaml", yaml),
];
