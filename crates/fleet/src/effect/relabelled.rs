//! Clusters that selectors may see differently after a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::json::Fields;
use crate::kind::CLUSTERS;
use crate::log::Change;
use crate::snapshot::Fleet;

/// A cluster with changed labels or fields that selectors can name. Which lists it leaves or joins depends on the selectors of
/// the readers, which are not known here.
#[derive(Clone, Debug)]
pub struct Relabelled {
    pub id: Arc<str>,
    /// The labels and fields that change.
    pub keys: Vec<String>,
}

/// The clusters that exist before and after, with their changed keys. Compares texts: reading whole documents would take most of
/// the time of a plan.
pub(super) fn relabelled(before: &Fleet, after: &Fleet, changes: &[Change]) -> Vec<Relabelled> {
    let is_field = |name: &str| {
        let kinds = [before, after].map(|fleet| fleet.kinds().clusters());
        kinds.into_iter().flatten().any(|kind| kind.is_scalar_field(name))
    };
    let of = |change: &Change| {
        let (old, new) = (change.before.as_ref()?.fields()?, change.after.as_ref()?.fields()?);
        let names = differing(&old, &new);
        let mut keys: BTreeSet<&str> = names.iter().copied().filter(|name| is_field(name)).collect();
        let (old, new) = (labels(&old), labels(&new));
        keys.extend(differing(&old, &new));
        let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
        let id = change.id.clone();
        (!keys.is_empty()).then_some(Relabelled { id, keys })
    };
    let clusters = changes.iter().filter(|change| &*change.kind == CLUSTERS);
    clusters.filter_map(of).collect()
}

fn labels<'a>(all: &Fields<'a>) -> Fields<'a> {
    all.text("labels").and_then(Fields::of).unwrap_or_default()
}

fn differing<'f>(old: &'f Fields<'_>, new: &'f Fields<'_>) -> BTreeSet<&'f str> {
    let names = old.names().chain(new.names());
    names.filter(|name| old.text(name) != new.text(name)).collect()
}
