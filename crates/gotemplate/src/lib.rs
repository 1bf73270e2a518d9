//! Go's `text/template` in Rust, with the same output and the same errors, byte for byte.
//!
//! ```
//! use gotemplate::{MissingKey, Options, Template, Value, sprig};
//!
//! let options = Options::new()
//!     .missing_key(MissingKey::Error)
//!     .functions(sprig::functions());
//! let template = Template::parse_with(
//!     "service",
//!     r#"{{ range $i, $port := .ports }}{{ .name | upper }}-{{ $i }}: {{ printf "%05d" .port }}
//! {{ end }}"#,
//!     &options,
//! )?;
//! let data = serde_json::json!({"ports": [{"name": "http", "port": 80}, {"name": "tls", "port": 443}]});
//! assert_eq!(template.execute(&Value::from(&data))?, b"HTTP-0: 00080\nTLS-1: 00443\n");
//! # Ok::<(), gotemplate::Error>(())
//! ```
//!
//! # Parts
//!
//! - [`Template`] parses and executes, with [`Options`] for delimiters, missing keys, functions and limits.
//! - [`Value`] is a Go value with its dynamic type; build it by hand or from JSON.
//! - [`Functions`] is a set of functions that templates may call. [`sprig`] has slim-sprig's; [`Function`] declares your own.
//! - The other modules are the Go packages that templates and functions rely on, under the names that they have in Go:
//!   [`fmt`], [`json`], [`regexp`], [`strconv`], [`strings`], [`time`], [`unicode`], [`url`], and [`yaml`] as
//!   Kubernetes' tools use it.
//!
//! # Faithful to
//!
//! Go 1.26 for the standard library (Unicode 15), slim-sprig v3.0.0, sigs.k8s.io/yaml 1.6 on go.yaml.in/yaml/v2 2.4. The
//! README lists the differences.
//!
//! # Safe for untrusted templates
//!
//! The crate does no I/O, reads no clock and no environment, and has no unsafe code. The same input gives the same output. No
//! template, value or text makes it panic or overflow the stack, and work and memory are limited ([`Limits`]); exceeding a
//! limit is an error. Enter a [`Scope`] to free the memory of templates that build cyclic values.

#![warn(missing_docs)]

pub mod fmt;
mod function;
pub mod json;
pub mod regexp;
pub mod sprig;
pub mod strconv;
pub mod strings;
mod template;
pub mod time;
pub mod unicode;
pub mod url;
mod value;
pub mod yaml;

pub use self::{
    function::{Args, Failure, Function, Functions, Param},
    template::{Error, Limits, MissingKey, Options, Template},
    value::{Elem, IntType, List, Map, Scope, Str, Value},
};

/// Runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
