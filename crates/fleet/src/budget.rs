//! The removal budget: the number of clusters that may lose something before a person has to confirm it.
//!
//! A loop of small changes is one large change, so recent removals count too. Each revision records what it removed, so all writers
//! share one budget, across processes and restarts.

use std::collections::BTreeMap;

use crate::effect::Effect;
use crate::judge::Terms;
use crate::log::Removed;
use crate::refusal::{Reason, Refusal, Removals, some_of};

/// Recent removals that were not confirmed.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// When a cluster last lost something. The flag is set for its deletion, which counts separately.
    last: BTreeMap<(String, bool), String>,
}

impl Removed {
    /// The clusters that lose something by an effect.
    pub fn by(effect: &Effect) -> Removed {
        let mut removed = Removed::default();
        for cluster in effect.clusters.iter().filter(|cluster| cluster.loses()) {
            let list = if cluster.deleted {
                &mut removed.deleted
            } else {
                &mut removed.lost
            };
            list.push(cluster.dns().to_ascii_lowercase());
        }
        removed
    }

    fn marks(&self) -> impl Iterator<Item = (String, bool)> {
        let lost = self.lost.iter().map(|dns| (dns.clone(), false));
        lost.chain(self.deleted.iter().map(|dns| (dns.clone(), true)))
    }
}

impl Recent {
    /// Adds a revision. Confirmed removals do not count.
    pub fn add(&mut self, at: &str, removed: &Removed) {
        if removed.confirmed {
            return;
        }
        for mark in removed.marks() {
            let last = self.last.entry(mark).or_default();
            if at > last.as_str() {
                *last = at.to_owned();
            }
        }
    }

    /// Forgets removals up to `since`, in the format of revisions.
    pub fn forget(&mut self, since: &str) {
        self.last.retain(|_, at| at.as_str() > since);
    }

    /// The number of clusters that lost something after `since`, including one more change.
    pub fn with(&self, since: &str, removed: &Removed) -> usize {
        let recent = self
            .last
            .iter()
            .filter(|(_, at)| at.as_str() > since)
            .map(|(mark, _)| mark);
        let fresh = removed
            .marks()
            .filter(|mark| self.last.get(mark).is_none_or(|at| at.as_str() <= since));
        recent.count() + fresh.count()
    }
}

/// A change compared with the budget.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) removed: Removed,
    pub(crate) removals: Removals,
    /// Why it is refused, if it removes too much.
    pub(crate) refusal: Option<Refusal>,
}

/// Compares a change with the budget.
pub(crate) fn hold(effect: &Effect, terms: Terms<'_>) -> Held {
    let mut removed = Removed::by(effect);
    let removals = Removals {
        count: removed.count(),
        window: terms.recent.with(terms.since, &removed),
        budget: terms.budget,
    };
    let detail = match terms.confirmation.removals {
        Some(confirmed) => {
            removed.confirmed = removals.count > 0;
            (confirmed != removals.count).then(|| {
                format!(
                    "this removes something from {}, but {confirmed} confirmed",
                    clusters(removals.count)
                )
            })
        }
        None => excess(effect, removals),
    };
    let refusal = detail.map(|detail| {
        let mut refusal = Refusal::new(Reason::RemovalBudget, detail);
        refusal.clusters = losing(effect).map(str::to_owned).collect();
        refusal.removals = Some(Box::new(removals));
        refusal
    });
    Held {
        removed,
        removals,
        refusal,
    }
}

/// How an unconfirmed change exceeds the budget, if it does.
fn excess(effect: &Effect, removals: Removals) -> Option<String> {
    let Removals { count, window, budget } = removals;
    let most = budget.filter(|most| count > 0 && window.max(count) > *most)?;
    let names: Vec<&str> = losing(effect).collect();
    let this = format!("this removes something from {} ({})", clusters(count), some_of(&names));
    let how = format!("to go ahead, send X-Confirm-Removals: {count}");
    Some(match count > most {
        true => format!("{this}, more than the budget of {most}; {how}"),
        false => {
            format!("{this}; with recent removals that makes {window}, more than the budget of {most}; {how}")
        }
    })
}

fn losing(effect: &Effect) -> impl Iterator<Item = &str> {
    let losing = effect.clusters.iter().filter(|cluster| cluster.loses());
    losing.map(|cluster| &**cluster.id())
}

fn clusters(count: usize) -> String {
    match count {
        1 => "1 cluster".to_owned(),
        count => format!("{count} clusters"),
    }
}
