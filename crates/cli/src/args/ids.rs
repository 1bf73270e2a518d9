//! Resources as users name them: `KIND ID...`, `KIND/ID...` as -o name prints them, and `KIND/ID` wherever an id is expected.

use fleet::kind::CLUSTERS;

use super::given;
use crate::error::Failure;
use crate::kinds::{Kind, Kinds, is_kind_of_kinds};

/// Resources of one kind.
#[derive(Debug)]
pub(crate) struct Named<'k> {
    pub(crate) kind: &'k Kind,
    /// None: all of them.
    pub(crate) ids: Vec<String>,
}

/// Parses an id of a kind that has these names.
pub(crate) fn id_of(names: Vec<String>) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |text| {
        given(text)?;
        match text.split_once('/') {
            None => Ok(text.to_owned()),
            Some((kind, id)) if is_among(kind, &names) => given(id),
            Some((kind, _)) => {
                let expected = names.first().map(String::as_str).unwrap_or_default();
                Err(format!("\"{kind}\" is another kind: this is an id of {expected}"))
            }
        }
    }
}

/// Parses the id of a cluster.
pub(crate) fn cluster_id(text: &str) -> Result<String, String> {
    id_of(vec![CLUSTERS.to_owned(), "cluster".to_owned()])(text)
}

fn is_among(kind: &str, names: &[String]) -> bool {
    let kind = kind.to_ascii_lowercase().replace('-', "_");
    names.contains(&kind)
}

/// The resources that a line names. Several kinds can be named as `KIND/ID`, or as `KIND,KIND` without ids.
pub(crate) fn resources<'k>(kinds: &'k Kinds, kind: &str, ids: &[String]) -> Result<Vec<Named<'k>>, Failure> {
    if kind.contains('/') {
        return by_full_name(kinds, std::iter::once(kind).chain(ids.iter().map(String::as_str)));
    }
    if kind.contains(',') {
        if !ids.is_empty() {
            return Err(Failure::usage(
                "ids cannot follow several kinds; name each resource as KIND/ID",
            ));
        }
        let names = kind.split(',').filter(|name| !name.is_empty());
        let all = names.map(|name| {
            Ok(Named {
                kind: kinds.get(name)?,
                ids: Vec::new(),
            })
        });
        return all.collect();
    }
    if kind == "all" && ids.is_empty() && kinds.named(kind).is_none() {
        let all = kinds.iter().map(|kind| Named { kind, ids: Vec::new() });
        return Ok(all.collect());
    }
    let kind = kinds.get(kind)?;
    let parse = id_of(kind.names());
    let ids: Result<Vec<String>, String> = ids.iter().map(|id| parse(id)).collect();
    let ids = unique(ids.map_err(Failure::usage)?);
    Ok(vec![Named { kind, ids }])
}

fn by_full_name<'k, 'w>(kinds: &'k Kinds, words: impl Iterator<Item = &'w str>) -> Result<Vec<Named<'k>>, Failure> {
    let mut all: Vec<Named<'k>> = Vec::new();
    for word in words {
        let Some((kind, id)) = word.split_once('/') else {
            let failure = Failure::usage(format!("\"{word}\" must be KIND/ID, as the first resource is"));
            return Err(failure);
        };
        let (kind, id) = (kinds.get(kind)?, given(id).map_err(Failure::usage)?);
        match all.iter_mut().find(|named| named.kind.name == kind.name) {
            Some(named) if named.ids.contains(&id) => {}
            Some(named) => named.ids.push(id),
            None => all.push(Named { kind, ids: vec![id] }),
        }
    }
    Ok(all)
}

/// The one resource that a line names: `KIND ID` or `KIND/ID`.
pub(crate) fn resource<'k>(kinds: &'k Kinds, kind: &str, id: Option<&String>) -> Result<(&'k Kind, String), Failure> {
    let ids: Vec<String> = id.into_iter().cloned().collect();
    match resources(kinds, kind, &ids)?.as_slice() {
        [Named { kind, ids }] => match ids.as_slice() {
            [id] => Ok((kind, id.clone())),
            _ => Err(one_expected()),
        },
        _ => Err(one_expected()),
    }
}

fn one_expected() -> Failure {
    Failure::usage("name one resource: KIND ID or KIND/ID")
}

/// The kind that `KIND ID` or `KIND/ID` names is `kinds`: the id is the name of a kind.
pub(crate) fn kind_of_kinds<'w>(kind: &'w str, id: Option<&'w String>) -> Option<Option<&'w str>> {
    match kind.split_once('/') {
        Some((kind, name)) => is_kind_of_kinds(kind).then_some(Some(name)),
        None => is_kind_of_kinds(kind).then(|| id.map(String::as_str)),
    }
}

/// Each id once, in the order given.
pub(crate) fn unique(ids: Vec<String>) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for id in ids {
        if !unique.contains(&id) {
            unique.push(id);
        }
    }
    unique
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn named(words: &str) -> Result<String, String> {
        let kinds = Kinds::built_in();
        let mut words = words.split(' ').map(str::to_owned);
        let kind = words.next().unwrap();
        let ids: Vec<String> = words.collect();
        let all = resources(&kinds, &kind, &ids).map_err(|failure| failure.message)?;
        let all = all
            .iter()
            .map(|named| format!("{}:{}", named.kind.name, named.ids.join("+")));
        Ok(all.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn resources_can_be_named_in_every_way() {
        for (words, expected) in [
            ("cluster", "clusters:"),
            ("cluster a b a", "clusters:a+b"),
            ("clusters clusters/a Cluster/b", "clusters:a+b"),
            ("cluster/a", "clusters:a"),
            ("cluster/a ns/b", "there is no kind \"ns\""),
            ("clusters/a component/p cluster/b", "clusters:a+b platform_components:p"),
            ("platform-components/p", "platform_components:p"),
            ("cluster,namespaces", "clusters: namespaces:"),
            (
                "cluster,namespaces a",
                "ids cannot follow several kinds; name each resource as KIND/ID",
            ),
            ("cluster/a b", "\"b\" must be KIND/ID, as the first resource is"),
            (
                "cluster namespaces/b",
                "\"namespaces\" is another kind: this is an id of clusters",
            ),
            (
                "all",
                "clusters: guards: namespaces: platform_components: profiles: rolebindings: rollouts:",
            ),
            ("all x", "there is no kind \"all\""),
            ("cluster/", "the value is empty; is a shell variable unset?"),
        ] {
            let found = named(words).unwrap_or_else(|message| message);
            assert_eq!(found, expected, "{words}");
        }
    }
}
