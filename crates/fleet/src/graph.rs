//! Dependencies between the definitions of one kind, and the cycles in them.

use std::collections::{BTreeSet, HashMap};

use crate::snapshot::{Definition, Definitions};

/// The definitions of a kind, each with the ids that it depends on. An id without a definition leads nowhere.
pub(crate) struct Graph<'a, F> {
    all: &'a Definitions,
    dependencies: F,
}

impl<'a, F: Fn(&'a Definition) -> Vec<&'a str>> Graph<'a, F> {
    pub(crate) fn of(all: &'a Definitions, dependencies: F) -> Self {
        Graph { all, dependencies }
    }

    /// What a definition depends on, in the order of its document.
    pub(crate) fn next(&self, id: &str) -> Vec<&'a str> {
        let definition = self.all.get(id);
        definition.map_or_else(Vec::new, |definition| (self.dependencies)(definition))
    }

    /// The groups of definitions that depend on each other in cycles, as far as they can be reached from `starts`. Tarjan's
    /// algorithm: it visits each definition once, however many depend on it.
    pub(crate) fn cycles<'s>(&self, starts: impl Iterator<Item = &'s str>) -> Vec<BTreeSet<&'a str>> {
        let mut search = Search::default();
        for start in starts {
            let mut path = Vec::new();
            self.enter(start, &mut search, &mut path);
            while let Some((here, dependencies)) = path.last_mut() {
                let here = *here;
                match dependencies.next() {
                    Some(dependency) if search.is_visited(dependency) => search.meet(here, dependency),
                    Some(dependency) => self.enter(dependency, &mut search, &mut path),
                    None => {
                        path.pop();
                        search.leave(here, path.last().map(|(parent, _)| *parent));
                    }
                }
            }
        }
        search.cycles
    }

    /// Visits a definition for the first time. Does nothing if there is none of this id.
    fn enter(&self, id: &str, search: &mut Search<'a>, path: &mut Vec<(&'a str, std::vec::IntoIter<&'a str>)>) {
        let Some(definition) = self.all.get(id).filter(|_| !search.is_visited(id)) else {
            return;
        };
        let id = &*definition.document.id;
        search.visit(id);
        path.push((id, (self.dependencies)(definition).into_iter()));
    }

    /// A path from a definition back to itself, within its group.
    pub(crate) fn path_around(&self, group: &BTreeSet<&'a str>, id: &'a str) -> Vec<&'a str> {
        let mut came_from: HashMap<&str, &str> = HashMap::new();
        let mut open = vec![id];
        while let Some(here) = open.pop() {
            let inside = self.next(here).into_iter();
            for next in inside.filter_map(|next| group.get(next).copied()) {
                if next == id && here != id {
                    let mut path = vec![id, here];
                    while let Some(previous) = came_from.get(path[path.len() - 1]) {
                        path.push(previous);
                    }
                    path.reverse();
                    return path;
                }
                if next != id && !came_from.contains_key(next) {
                    came_from.insert(next, here);
                    open.push(next);
                }
            }
        }
        vec![id, id]
    }
}

/// The state of Tarjan's algorithm.
#[derive(Default)]
struct Search<'a> {
    /// Each visited definition with its number in the order of visits.
    numbers: HashMap<&'a str, usize>,
    /// For each definition that belongs to no group yet: the lowest number that can be reached from it.
    lowest: HashMap<&'a str, usize>,
    /// Definitions that belong to no group yet, in the order of visits.
    ungrouped: Vec<&'a str>,
    cycles: Vec<BTreeSet<&'a str>>,
}

impl<'a> Search<'a> {
    fn is_visited(&self, id: &str) -> bool {
        self.numbers.contains_key(id)
    }

    fn visit(&mut self, id: &'a str) {
        let number = self.numbers.len();
        self.numbers.insert(id, number);
        self.lowest.insert(id, number);
        self.ungrouped.push(id);
    }

    /// `id` depends on `dependency`, which was visited before.
    fn meet(&mut self, id: &'a str, dependency: &str) {
        if let Some(&reached) = self.lowest.get(dependency) {
            self.lowest.entry(id).and_modify(|own| *own = reached.min(*own));
        }
    }

    /// Everything that can be reached from `id` was visited. If none of it leads to an earlier definition, what was visited since
    /// is a group.
    fn leave(&mut self, id: &'a str, parent: Option<&'a str>) {
        if let Some(parent) = parent {
            self.meet(parent, id);
        }
        if self.lowest.get(id) != self.numbers.get(id) {
            return;
        }
        let begin = self.ungrouped.iter().rposition(|other| *other == id);
        let group: BTreeSet<&str> = self.ungrouped.drain(begin.unwrap_or_default()..).collect();
        for id in &group {
            self.lowest.remove(id);
        }
        if group.len() > 1 {
            self.cycles.push(group);
        }
    }
}
