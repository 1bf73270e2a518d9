//! The kinds that ship with the server.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::yaml;

/// The files of the four built-in kinds.
pub const BUILT_IN: [&str; 4] = [
    include_str!("../../../../resources/cluster.yaml"),
    include_str!("../../../../resources/platform_component.yaml"),
    include_str!("../../../../resources/namespace.yaml"),
    include_str!("../../../../resources/rolebinding.yaml"),
];

/// The built-in kinds as documents.
pub fn built_in() -> &'static [Value; 4] {
    static PARSED: LazyLock<[Value; 4]> =
        LazyLock::new(|| BUILT_IN.map(|text| yaml::parse(text).expect("built-in kinds parse")));
    &PARSED
}

/// Whether a document is a built-in kind of this release.
pub(crate) fn is_built_in(document: &Value) -> bool {
    built_in().contains(document)
}

/// The origin of the built-in kinds of this release.
pub fn built_in_origin() -> Arc<str> {
    static ORIGIN: LazyLock<Arc<str>> = LazyLock::new(|| concat!("built-in:", env!("CARGO_PKG_VERSION")).into());
    ORIGIN.clone()
}
