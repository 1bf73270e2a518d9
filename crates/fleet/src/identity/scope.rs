//! Whether a change stays within the scope of who asks for it. It is checked on the effect, so that every kind of write is covered:
//! batches, cascades, rollback and undo.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{IDENTITIES, OperatorScope, cluster_of};
use crate::effect::Effect;
use crate::kind::{CLUSTERS, GUARDS, KINDS, PROFILES, ROLLOUTS, name_record};
use crate::log::Change;
use crate::refusal::{Reason, Refusal, some_of};
use crate::selector::Selector;
use crate::snapshot::Fleet;

/// How far the writes of a caller may reach.
#[derive(Clone, Debug, Default)]
pub enum Reach {
    #[default]
    Everything,
    Within(Arc<OperatorScope>),
}

/// Refuses changes beyond the scope of an operator. `effect` has every cluster whose reply changes.
pub fn judge_scope(
    scope: &OperatorScope,
    before: &Fleet,
    after: &Fleet,
    changes: &[Change],
    effect: &Effect,
) -> Result<(), Refusal> {
    let unreadable = |error| {
        Refusal::new(
            Reason::OutOfScope,
            format!("the selector of the scope cannot be used: {error}"),
        )
    };
    let selector = Selector::parse(&scope.clusters).map_err(unreadable)?;
    let judge = Judge {
        scope,
        selector: &selector,
        fleets: [before, after],
        written: changes
            .iter()
            .filter(|change| &*change.kind == CLUSTERS)
            .map(|change| &change.id)
            .collect(),
    };
    let outside = changes.iter().filter(|change| !judge.covers(change));
    let (mut clusters, mut documents) = (BTreeSet::new(), Vec::new());
    for change in outside {
        match &*change.kind {
            CLUSTERS => drop(clusters.insert(change.id.to_string())),
            kind => documents.push(format!("{kind}/{}", change.id)),
        }
    }
    judge_approvals(scope, before, after, changes)?;
    let rollouts = rollout_effects(before, changes)?;
    let changed = effect
        .clusters
        .iter()
        .chain(rollouts.iter().flat_map(|effect| &effect.clusters));
    for cluster in changed.filter(|cluster| cluster.deleted || !cluster.inputs.is_empty()) {
        let ids = cluster.before().into_iter().chain([cluster.id()]);
        clusters.extend(ids.filter(|id| !judge.has_cluster(id)).map(ToString::to_string));
    }
    if clusters.is_empty() && documents.is_empty() {
        return Ok(());
    }
    let clusters: Vec<String> = clusters.into_iter().collect();
    Err(refusal(scope, clusters, documents))
}

/// Refuses to promote a wave that waits for an approval, on whatever road, unless the caller may approve.
fn judge_approvals(scope: &OperatorScope, before: &Fleet, after: &Fleet, changes: &[Change]) -> Result<(), Refusal> {
    let needs_approval = |change: &&Change| {
        let (old, new) = (before.rollouts().get(&change.id), after.rollouts().get(&change.id));
        let Some(new) = new else { return false };
        let (wave, approved) = (
            old.and_then(|old| old.wave),
            old.and_then(|old| old.approved.as_deref()),
        );
        let first = wave.map_or(0, |wave| wave + 1);
        let end = new.wave.map_or(0, |wave| wave + 1);
        let promoted = new.waves.iter().take(end).skip(first);
        let skips = promoted
            .filter(|wave| wave.approve)
            .any(|wave| approved != Some(&*wave.name));
        skips || (new.approved.is_some() && new.approved.as_deref() != approved)
    };
    let mut moved = changes.iter().filter(|change| &*change.kind == ROLLOUTS);
    match moved.find(needs_approval).filter(|_| !scope.approve) {
        None => Ok(()),
        Some(change) => {
            let detail = format!(
                "the scope of the caller does not include approving the rollout \"{}\"",
                change.id
            );
            let mut refusal = Refusal::new(Reason::OutOfScope, detail);
            refusal.resources = vec![format!("{ROLLOUTS}/{}", change.id)];
            Err(refusal)
        }
    }
}

/// What the rollouts that a write acts on change when they are complete: each action is judged by that. A rollout that the write
/// starts is planned so anyway.
fn rollout_effects(before: &Fleet, changes: &[Change]) -> Result<Vec<Effect>, Refusal> {
    let acted_on = changes.iter().filter(|change| &*change.kind == ROLLOUTS);
    let active = acted_on.filter(|change| before.rollouts().get(&change.id).is_some_and(|one| one.is_active()));
    let effects = active.map(|change| before.rollout_effect(&change.id, None));
    let effects: Result<Vec<Effect>, String> = effects.collect();
    effects.map_err(|detail| Refusal::new(Reason::Invalid, detail))
}

/// The most clusters and documents that a refusal lists.
const MOST_LISTED: usize = 20;

fn refusal(scope: &OperatorScope, mut clusters: Vec<String>, mut documents: Vec<String>) -> Refusal {
    let mut parts = Vec::new();
    if !clusters.is_empty() {
        parts.push(format!("the clusters {}", some_of(&clusters)));
    }
    if !documents.is_empty() {
        parts.push(format!("the documents {}", some_of(&documents)));
    }
    let kinds = match scope.kinds.as_slice() {
        [] => "no other kinds".to_owned(),
        kinds => kinds.join(", "),
    };
    let detail = format!(
        "the write reaches beyond your scope (clusters {}; {kinds}): it changes {}",
        scope.clusters,
        parts.join(" and ")
    );
    clusters.truncate(MOST_LISTED);
    documents.truncate(MOST_LISTED);
    let mut refusal = Refusal::new(Reason::OutOfScope, detail);
    refusal.clusters = clusters;
    refusal.resources = documents;
    refusal
}

struct Judge<'a> {
    scope: &'a OperatorScope,
    selector: &'a Selector,
    fleets: [&'a Fleet; 2],
    /// The clusters that the write changes.
    written: BTreeSet<&'a Arc<str>>,
}

impl Judge<'_> {
    fn covers(&self, change: &Change) -> bool {
        match &*change.kind {
            CLUSTERS => self.has_cluster(&change.id),
            // Else an operator could delete the guard that holds a write.
            KINDS | GUARDS => false,
            IDENTITIES => {
                cluster_of(&change.id).is_some_and(|cluster| self.has_cluster(cluster) || self.took_name_of(cluster))
            }
            kind if name_record(kind).is_some() => self.has_name(&change.id),
            PROFILES if !self.has_profile(&change.id) => false,
            ROLLOUTS if !self.has_rollout(&change.id) => false,
            kind => self.scope.kinds.iter().any(|own| own == kind),
        }
    }

    /// Whether the selector that a patch gives a profile, if it gives one, can only match clusters in scope.
    fn selects_within(&self, patch: &serde_json::Value) -> bool {
        let selector = patch.get("selector").and_then(serde_json::Value::as_str);
        selector.is_none_or(|text| Selector::parse(text).is_ok_and(|selector| selector.is_within(self.selector)))
    }

    /// Whether a rollout changes only documents in scope.
    fn has_rollout(&self, id: &str) -> bool {
        let rollouts = self.fleets.iter().filter_map(|fleet| fleet.rollouts().get(id));
        let mut patches = rollouts.flat_map(|rollout| &rollout.patches);
        patches.all(|patch| {
            let is_own = self.scope.kinds.iter().any(|own| **own == *patch.kind);
            is_own && (&*patch.kind != PROFILES || (self.has_profile(&patch.id) && self.selects_within(&patch.value)))
        })
    }

    /// Whether a profile can only match clusters in scope, before and after.
    fn has_profile(&self, id: &str) -> bool {
        let mut profiles = self.fleets.iter().filter_map(|fleet| fleet.profiles().get(id));
        profiles.all(|profile| profile.selector.is_within(self.selector))
    }

    /// Whether a cluster is in scope, before and after. One that is in neither fleet is not: nothing says what it was.
    fn has_cluster(&self, id: &str) -> bool {
        let mut exists = false;
        let in_scope = self
            .fleets
            .iter()
            .all(|fleet| match (fleet.cluster(id), fleet.kinds().clusters()) {
                (Some(cluster), Some(kind)) => {
                    exists = true;
                    self.selector.on(kind).matches(cluster)
                }
                _ => true,
            });
        exists && in_scope
    }

    /// Whether a decommissioned cluster lost its identity because the write gives its DNS name to another cluster. That cluster is
    /// judged itself.
    fn took_name_of(&self, cluster: &str) -> bool {
        let [before, after] = self.fleets;
        let is_its_name = |dns: &&Arc<str>| before.decommissioned_cluster(dns).as_deref() == Some(cluster);
        let mut names = before.decommissions().keys().filter(is_its_name).peekable();
        names.peek().is_some()
            && names.all(|dns| {
                let taker = after.cluster_at(dns);
                taker.is_some_and(|taker| self.written.contains(&taker.document().id))
            })
    }

    /// Whether the record of a DNS name follows from a cluster that the write changes, because the cluster gives up the name or takes it.
    /// That cluster is judged itself. The cluster that a record names does not count: another one may have its id by now.
    fn has_name(&self, dns: &str) -> bool {
        let mut holders = self.fleets.iter().filter_map(|fleet| fleet.cluster_at(dns));
        holders.any(|cluster| self.written.contains(&cluster.document().id))
    }
}
