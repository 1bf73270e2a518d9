//! Who is in which wave of a rollout, and what it changes for them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fleet::Fleet;
use fleet::log::Revision;
use fleet::rollout::{Rollout, Wave};
use fleet::snapshot::Cluster;

use crate::app::changed_inputs::{ChangedInputs, Shared};

/// A cluster that a rollout affects.
#[derive(Clone, Debug)]
pub(super) struct Affected {
    pub(super) id: Arc<str>,
    pub(super) wave: usize,
    /// Path, and the inputs that are new or other. Clusters with the same share it.
    pub(super) inputs: Arc<ChangedInputs>,
}

/// The clusters of a rollout. Most of it stays as it is when the fleet changes.
#[derive(Debug)]
pub(super) struct Members {
    fleet: Arc<Fleet>,
    /// Identifies the documents that the rollout patches.
    documents: u64,
    /// Identifies the other rollouts.
    others: u64,
    /// The waves that clusters were divided into.
    waves: Vec<Wave>,
    counts: Vec<usize>,
    /// Sorted by id.
    affected: Arc<[Affected]>,
}

impl Members {
    /// Who is in which wave now. `known` is what was found before.
    pub(super) fn of(fleet: &Arc<Fleet>, rollout: &Arc<Rollout>, known: Option<&Members>) -> Result<Members, String> {
        let mut counts = vec![0; rollout.waves.len()];
        let last = counts.len().saturating_sub(1);
        // What one that ended did is in the log.
        let Some(active) = fleet.rollouts().active().filter(|_| rollout.is_active()) else {
            let waves = fleet.waves_of(rollout);
            fleet
                .clusters()
                .values()
                .for_each(|cluster| counts[waves.of(cluster)] += 1);
            return Ok(Members {
                fleet: fleet.clone(),
                documents: 0,
                others: 0,
                waves: Vec::new(),
                counts,
                affected: Arc::default(),
            });
        };
        let documents = active.documents_of(rollout.id());
        let others = active.others(rollout.id());
        let known = known.filter(|known| known.is_comparable(fleet, documents, others) && known.waves == rollout.waves);
        let wave_of = |cluster: &Cluster| active.wave_of(rollout.id(), cluster).unwrap_or(last);
        let (mut gone, mut waves) = (HashSet::new(), HashMap::new());
        match known {
            Some(known) => {
                counts.clone_from(&known.counts);
                for (old, new) in fleet.clusters_since(&known.fleet) {
                    if let Some(old) = old {
                        counts[wave_of(old)] -= 1;
                        gone.insert(&*old.document().id);
                    }
                    if let Some(new) = new {
                        waves.insert(new.document().id.clone(), wave_of(new));
                    }
                }
            }
            None => waves.extend(
                fleet
                    .clusters()
                    .iter()
                    .map(|(id, cluster)| (id.clone(), wave_of(cluster))),
            ),
        }
        waves.values().for_each(|wave| counts[*wave] += 1);
        let found = find(fleet, rollout, &waves)?;
        let affected = match known {
            Some(known) if gone.is_empty() && found.is_empty() => known.affected.clone(),
            _ => {
                let before = known.map_or(&[][..], |known| &known.affected);
                let kept = before.iter().filter(|one| !gone.contains(&*one.id)).cloned();
                let mut affected: Vec<Affected> = kept.chain(found).collect();
                affected.sort_by(|one, other| one.id.cmp(&other.id));
                affected.into()
            }
        };
        Ok(Members {
            fleet: fleet.clone(),
            documents,
            others,
            waves: rollout.waves.clone(),
            counts,
            affected,
        })
    }

    /// Whether what is known of clusters that stay the same is still so.
    fn is_comparable(&self, fleet: &Fleet, documents: u64, others: u64) -> bool {
        let same_profiles = || {
            let all = |fleet: &Fleet| {
                fleet
                    .profiles()
                    .iter()
                    .map(|profile| profile.document.etag)
                    .collect::<Vec<_>>()
            };
            all(&self.fleet) == all(fleet)
        };
        self.documents == documents
            && self.others == others
            && Arc::ptr_eq(self.fleet.kinds(), fleet.kinds())
            && same_profiles()
    }

    pub(super) fn is_of(&self, fleet: &Fleet) -> bool {
        self.fleet.head() == fleet.head()
    }

    /// How many clusters are in a wave.
    pub(super) fn count(&self, wave: usize) -> usize {
        self.counts[wave]
    }

    pub(super) fn affected(&self) -> &[Affected] {
        &self.affected
    }

    /// The same, without clusters that joined after their wave was promoted: its gate is about those that were there.
    pub(super) fn present_at(&self, existed: impl Fn(&str, usize) -> bool) -> Members {
        let affected = self.affected.iter().filter(|one| existed(&one.id, one.wave)).cloned();
        Members {
            fleet: self.fleet.clone(),
            documents: self.documents,
            others: self.others,
            waves: self.waves.clone(),
            counts: self.counts.clone(),
            affected: affected.collect(),
        }
    }
}

/// What the rollout changes for some clusters, with their waves.
fn find(fleet: &Fleet, rollout: &Rollout, waves: &HashMap<Arc<str>, usize>) -> Result<Vec<Affected>, String> {
    if waves.is_empty() {
        return Ok(Vec::new());
    }
    let among = (waves.len() < fleet.clusters().len()).then(|| {
        let mut ids: Vec<Arc<str>> = waves.keys().cloned().collect();
        ids.sort_unstable();
        ids
    });
    let effect = fleet.rollout_effect(rollout.id(), among.as_deref())?;
    let mut shared = Shared::default();
    let affected = effect.clusters.iter().filter(|cluster| !cluster.inputs.is_empty());
    let affected = affected.filter_map(|cluster| {
        Some(Affected {
            wave: *waves.get(cluster.id())?,
            inputs: shared.of(cluster),
            id: cluster.id().clone(),
        })
    });
    Ok(affected.collect())
}

/// The revision at which a wave was promoted.
pub(super) fn promotion(rollout: &Rollout, wave: usize) -> Option<Revision> {
    rollout.promotions.get(&rollout.waves.get(wave)?.name).copied()
}

#[cfg(test)]
mod tests {
    use fleet::kind::KINDS;
    use fleet::log::{Batch, RevisionRecord};
    use fleet::operation::{BatchRequest, Operation, Verb};
    use fleet::rollout::{Action, Step};
    use fleet::write::Rules;
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::{Value, json};

    use super::*;

    const BATCH: Rules = Rules {
        batch: true,
        ..Rules::PLAIN
    };

    fn write(fleet: &Fleet, operations: &[Operation]) -> Option<Fleet> {
        let outcome = fleet.write(operations, BATCH).ok()?;
        let batch = Batch {
            changes: outcome.changes.clone(),
            ..Batch::default()
        };
        let head = RevisionRecord::on(fleet.head(), &batch).head();
        Some(outcome.committed(head))
    }

    fn parse(operations: &[Value]) -> Vec<Operation> {
        BatchRequest::parse(json!({ "operations": operations }))
            .unwrap()
            .operations
    }

    fn create(kind: &str, value: &Value) -> Value {
        json!({"op": "create", "kind": kind, "value": value})
    }

    fn cluster(id: &str, ring: &str) -> Value {
        json!({
            "id": id, "cluster_name": id, "cluster_dns": format!("{id}.example.com"), "environment": "dev",
            "labels": {"ring": ring}, "platform_components": [{"id": "a"}],
        })
    }

    /// Six clusters, and two rollouts that run.
    fn fleet() -> Fleet {
        let kind = |document: &Value| {
            let verb = Verb::Apply {
                id: None,
                value: document.clone(),
            };
            Operation::new(KINDS, verb)
        };
        let kinds: Vec<_> = fleet::kind::built_in().iter().map(kind).collect();
        let component = |id: &str| json!({"id": id, "component_path": id, "oci_url": "https://charts.example.com", "oci_tag": "v1"});
        let rollout = |id: &str, component: &str| {
            let waves = json!([{"name": "canary", "selector": "ring=canary"}, {"name": "half", "percent": 50}, {"name": "rest"}]);
            let patch =
                json!({"op": "merge", "kind": "platform_components", "id": component, "value": {"oci_tag": "v2"}});
            create("rollouts", &json!({"id": id, "waves": waves, "operations": [patch]}))
        };
        let mut all: Vec<Value> = ["a", "b"]
            .map(|id| create("platform_components", &component(id)))
            .into();
        all.extend((0..6).map(|n| {
            create(
                "clusters",
                &cluster(&format!("c{n}"), if n == 0 { "canary" } else { "main" }),
            )
        }));
        all.extend([rollout("r", "a"), rollout("s", "b")]);
        let empty = write(&Fleet::default(), &kinds).unwrap();
        write(&empty, &parse(&all)).unwrap()
    }

    fn a_write() -> impl Strategy<Value = Vec<Operation>> {
        let id = || select(vec!["c0", "c1", "c2", "c3", "c7", "c8"]);
        let ring = || select(vec!["canary", "main"]);
        let on_clusters = prop_oneof![
            (id(), ring()).prop_map(|(id, ring)| create("clusters", &cluster(id, ring))),
            (id(), ring()).prop_map(
                |(id, ring)| json!({"op": "merge", "kind": "clusters", "id": id, "value": {"labels": {"ring": ring}}})
            ),
            (id(), select(vec![json!("v7"), Value::Null])).prop_map(|(id, tag)| {
                let references = json!([{"id": "a", "oci_tag": tag}, {"id": "b"}]);
                json!({"op": "merge", "kind": "clusters", "id": id, "value": {"platform_components": references}})
            }),
            id().prop_map(|id| json!({"op": "delete", "kind": "clusters", "id": id})),
        ];
        let other = select(vec![
            json!({"op": "merge", "kind": "platform_components", "id": "a", "value": {"oci_url": "https://other.example.com"}}),
            create(
                "profiles",
                &json!({"id": "p", "selector": "ring=main", "platform_components": [{"id": "b"}]}),
            ),
        ]);
        let action = select(vec![Action::Promote, Action::Revert]);
        let step = (select(vec!["r", "s"]), action).prop_map(|(id, action)| {
            let verb = Verb::Step {
                id: id.to_owned(),
                step: Step::Action(action),
                wave: None,
            };
            vec![Operation::new(fleet::kind::ROLLOUTS, verb)]
        });
        let writes = prop_oneof![4 => on_clusters, 1 => other].prop_map(|one| parse(&[one]));
        prop_oneof![4 => writes, 1 => step]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        /// The numbers that users see: everyone is in a wave, and what is found from what changed is what is found anew.
        #[test]
        fn what_is_found_from_the_changes_is_what_is_found_anew(writes in proptest::collection::vec(a_write(), 1..20)) {
            let mut fleet = Arc::new(fleet());
            let mut known: Option<Members> = None;
            for operations in writes {
                let Some(next) = write(&fleet, &operations) else { continue };
                fleet = Arc::new(next);
                let rollout = fleet.rollouts().get("r").unwrap().clone();
                let anew = Members::of(&fleet, &rollout, None).unwrap();
                let found = Members::of(&fleet, &rollout, known.as_ref()).unwrap();
                prop_assert_eq!(anew.counts.iter().sum::<usize>(), fleet.clusters().len());
                prop_assert_eq!(&found.counts, &anew.counts);
                let listed = |members: &Members| -> Vec<_> {
                    members.affected().iter().map(|one| (one.id.clone(), one.wave, one.inputs.clone())).collect()
                };
                prop_assert_eq!(listed(&found), listed(&anew));
                known = Some(found);
            }
        }
    }
}
