//! Which inputs an effect changes on clusters. Most clusters have the same, and share them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use fleet::effect::{ClusterEffect, ListEffect};

/// Path, and the inputs that are new or other; none if something is removed.
pub(in crate::app) type ChangedInputs = Vec<(Arc<str>, BTreeSet<String>)>;

/// The changed inputs of the clusters of one effect.
#[derive(Default)]
pub(in crate::app) struct Shared {
    /// By the addresses of the lists: most equal lists are one.
    known: HashMap<Vec<(Arc<str>, usize)>, Arc<ChangedInputs>>,
    all: HashSet<Arc<ChangedInputs>>,
}

impl Shared {
    pub(in crate::app) fn of(&mut self, cluster: &ClusterEffect) -> Arc<ChangedInputs> {
        let lists = cluster.inputs.iter();
        let key: Vec<_> = lists
            .map(|(path, list)| (path.clone(), Arc::as_ptr(list).addr()))
            .collect();
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let inputs = present(&cluster.inputs);
        let inputs = self.all.get(&inputs).cloned().unwrap_or_else(|| Arc::new(inputs));
        self.all.insert(inputs.clone());
        self.known.insert(key, inputs.clone());
        inputs
    }
}

fn present(lists: &[(Arc<str>, Arc<ListEffect>)]) -> ChangedInputs {
    let present = lists.iter().map(|(path, list)| {
        let ids = list.present().map(str::to_owned).collect();
        (path.clone(), ids)
    });
    present.collect()
}
