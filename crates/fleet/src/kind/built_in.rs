//! The kinds that ship with the server.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::registry::Source;
use crate::json::Json;
use crate::yaml;

/// The files of the built-in kinds that a store holds: operators may replace them.
pub const BUILT_IN: [&str; 4] = [
    include_str!("../../../../resources/cluster.yaml"),
    include_str!("../../../../resources/platform_component.yaml"),
    include_str!("../../../../resources/namespace.yaml"),
    include_str!("../../../../resources/rolebinding.yaml"),
];

/// The file of profiles. The merge depends on it, so it cannot be replaced, and no store holds it.
const PROFILE: &str = include_str!("../../../../resources/profile.yaml");

/// The built-in kinds that a store holds, as documents.
pub fn built_in() -> &'static [Value; 4] {
    static PARSED: LazyLock<[Value; 4]> =
        LazyLock::new(|| BUILT_IN.map(|text| yaml::parse(text).expect("built-in kinds parse")));
    &PARSED
}

/// The kind of profiles as a document.
pub fn profile_kind() -> &'static Value {
    static PARSED: LazyLock<Value> = LazyLock::new(|| yaml::parse(PROFILE).expect("the kind of profiles parses"));
    &PARSED
}

/// The kind of profiles, as the registry of every fleet has it.
pub(super) fn profile_source() -> &'static (Arc<str>, Source) {
    static SOURCE: LazyLock<(Arc<str>, Source)> = LazyLock::new(|| {
        (
            super::PROFILES.into(),
            (Json::new(profile_kind()), Some(built_in_origin())),
        )
    });
    &SOURCE
}

/// Whether a document is a built-in kind of this release.
pub(crate) fn is_built_in(document: &Value) -> bool {
    built_in().contains(document) || document == profile_kind()
}

/// The origin of the built-in kinds of this release.
pub fn built_in_origin() -> Arc<str> {
    static ORIGIN: LazyLock<Arc<str>> = LazyLock::new(|| concat!("built-in:", env!("CARGO_PKG_VERSION")).into());
    ORIGIN.clone()
}
