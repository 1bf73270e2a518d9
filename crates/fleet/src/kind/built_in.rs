//! The kinds that ship with the server.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::registry::Source;
use super::{GUARDS, PROFILES, ROLLOUTS};
use crate::json::Json;
use crate::yaml;

/// The files of the built-in kinds that a store holds: operators may replace them.
pub const BUILT_IN: [&str; 4] = [
    include_str!("../../../../resources/cluster.yaml"),
    include_str!("../../../../resources/platform_component.yaml"),
    include_str!("../../../../resources/namespace.yaml"),
    include_str!("../../../../resources/rolebinding.yaml"),
];

/// The files of the kinds that are a part of the server: the merge and the judgement of writes depend on them, so they cannot be
/// replaced, and no store holds them.
const SERVER: [(&str, &str); 3] = [
    (PROFILES, include_str!("../../../../resources/profile.yaml")),
    (GUARDS, include_str!("../../../../resources/guard.yaml")),
    (ROLLOUTS, include_str!("../../../../resources/rollout.yaml")),
];

/// The built-in kinds that a store holds, as documents.
pub fn built_in() -> &'static [Value; 4] {
    static PARSED: LazyLock<[Value; 4]> =
        LazyLock::new(|| BUILT_IN.map(|text| yaml::parse(text).expect("built-in kinds parse")));
    &PARSED
}

/// The kinds that are a part of the server, by name, as documents.
pub fn server_kinds() -> &'static [(&'static str, Value); 3] {
    static PARSED: LazyLock<[(&str, Value); 3]> =
        LazyLock::new(|| SERVER.map(|(name, text)| (name, yaml::parse(text).expect("kinds of the server parse"))));
    &PARSED
}

/// Whether a kind is a part of the server.
pub fn is_server_kind(name: &str) -> bool {
    SERVER.iter().any(|(own, _)| *own == name)
}

/// The kind of profiles as a document.
pub fn profile_kind() -> &'static Value {
    &server_kinds()[0].1
}

/// The kinds that are a part of the server, as the registry of every fleet has them.
pub(super) fn server_sources() -> &'static [(Arc<str>, Source); 3] {
    static SOURCES: LazyLock<[(Arc<str>, Source); 3]> = LazyLock::new(|| {
        let source = |(name, document): &(&str, Value)| -> (Arc<str>, Source) {
            ((*name).into(), (Json::new(document), Some(built_in_origin())))
        };
        server_kinds().each_ref().map(source)
    });
    &SOURCES
}

/// The name of the kind of the server that a document is.
pub(super) fn server_kind_of(document: &Value) -> Option<&'static str> {
    let mut kinds = server_kinds().iter();
    kinds.find(|(_, own)| own == document).map(|(name, _)| *name)
}

/// Whether a document is a built-in kind of this release.
pub(crate) fn is_built_in(document: &Value) -> bool {
    built_in().contains(document) || server_kind_of(document).is_some()
}

/// The origin of the built-in kinds of this release.
pub fn built_in_origin() -> Arc<str> {
    static ORIGIN: LazyLock<Arc<str>> = LazyLock::new(|| concat!("built-in:", env!("CARGO_PKG_VERSION")).into());
    ORIGIN.clone()
}

/// The built-in kinds, for tests.
#[cfg(test)]
pub(crate) fn built_in_kinds() -> Arc<super::Kinds> {
    let resources = built_in().iter().map(|document| crate::log::Resource {
        kind: super::KINDS.into(),
        id: super::name_of(document).expect("it has a name").into(),
        body: Json::new(document),
        origin: None,
    });
    let state = crate::log::State {
        resources: resources.collect(),
        ..Default::default()
    };
    crate::Fleet::load(state).expect("they are valid").kinds().clone()
}
