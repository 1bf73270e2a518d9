//! The removal budget: how many clusters a change may take something from before a person has to say that it is meant.
//!
//! A loop of small changes is one large change, so what was removed lately counts too. Each revision keeps what it removed, so
//! all writers share one budget, across processes and restarts.

use std::collections::BTreeMap;

use crate::effect::Effect;
use crate::log::{Digest, Removed};
use crate::operation::Operation;
use crate::refusal::{Reason, Refusal, Removals, some_of};
use crate::snapshot::Fleet;
use crate::write::{Outcome, Rules};

/// What a request says about what it will do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Confirmation {
    /// The number of clusters that it knows to lose something.
    pub removals: Option<usize>,
    /// The effect that it was planned with.
    pub plan: Option<Digest>,
}

/// What a write is held against before it is done.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    pub recent: &'a Recent,
    /// When the window begins, as revisions have the time.
    pub since: &'a str,
    /// None: there is no budget.
    pub budget: Option<usize>,
    pub confirmation: Confirmation,
}

impl Fleet {
    /// What operations do, when that is what was planned and no more is removed than is meant. Gives what it removes, too.
    pub fn change(
        &self,
        operations: &[Operation],
        rules: Rules,
        guard: Guard<'_>,
    ) -> Result<(Outcome, Removed), Refusal> {
        let outcome = self.write(operations, rules)?;
        let (after, changes) = (outcome.preview(), &outcome.changes);
        if let Some(plan) = guard.confirmation.plan {
            let now = Effect::of(self, after, changes).digest(changes);
            if now != plan {
                return Err(Refusal::plan_changed(now));
            }
        }
        let losses = Effect::losses(self, after, changes);
        losses.judge_protection(self)?;
        let removed = judge(&losses, guard)?;
        Ok((outcome, removed))
    }
}

/// What was removed lately without being confirmed.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// When a cluster last lost something, and whether that was its deletion, which counts once more.
    last: BTreeMap<(String, bool), String>,
}

impl Removed {
    /// What an effect takes away.
    pub fn by(effect: &Effect) -> Removed {
        let mut removed = Removed::default();
        for cluster in effect.clusters.iter().filter(|cluster| cluster.loses()) {
            let list = if cluster.deleted {
                &mut removed.deleted
            } else {
                &mut removed.lost
            };
            list.push(cluster.dns.to_ascii_lowercase());
        }
        removed
    }

    fn marks(&self) -> impl Iterator<Item = (String, bool)> {
        let lost = self.lost.iter().map(|dns| (dns.clone(), false));
        lost.chain(self.deleted.iter().map(|dns| (dns.clone(), true)))
    }
}

impl Recent {
    /// Takes note of a revision. What was confirmed does not use up the window.
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

    /// Forgets what lies before `since`, a time as revisions have it.
    pub fn forget(&mut self, since: &str) {
        self.last.retain(|_, at| at.as_str() > since);
    }

    /// How many clusters lose something since then, with one more change.
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

/// Holds a change against the budget; gives what it removes, as the log is to keep it.
fn judge(effect: &Effect, guard: Guard<'_>) -> Result<Removed, Refusal> {
    let budget = guard.budget;
    let mut removed = Removed::by(effect);
    let count = removed.count();
    let window = guard.recent.with(guard.since, &removed);
    let refuse = |detail: String| {
        let mut refusal = Refusal::new(Reason::RemovalBudget, detail);
        let losing = effect.clusters.iter().filter(|cluster| cluster.loses());
        refusal.clusters = losing.map(|cluster| cluster.id.to_string()).collect();
        refusal.removals = Some(Box::new(Removals { count, window, budget }));
        refusal
    };
    let clusters = |count: usize| {
        if count == 1 {
            "1 cluster".to_owned()
        } else {
            format!("{count} clusters")
        }
    };
    if let Some(confirmed) = guard.confirmation.removals {
        if confirmed != count {
            let detail = format!("this removes something from {}, not from {confirmed}", clusters(count));
            return Err(refuse(detail));
        }
        removed.confirmed = count > 0;
        return Ok(removed);
    }
    let Some(most) = budget.filter(|_| count > 0) else {
        return Ok(removed);
    };
    let names: Vec<&str> = effect
        .clusters
        .iter()
        .filter(|cluster| cluster.loses())
        .map(|cluster| &*cluster.id)
        .collect();
    let how = format!("X-Confirm-Removals: {count} says that it is meant");
    if count > most {
        let detail = format!(
            "this removes something from {} ({}), more than the budget of {most}; {how}",
            clusters(count),
            some_of(&names)
        );
        return Err(refuse(detail));
    }
    if window > most {
        let detail = format!(
            "this removes something from {} ({}); with what was removed lately, that makes {window}, more than the budget of {most}; {how}",
            clusters(count),
            some_of(&names)
        );
        return Err(refuse(detail));
    }
    Ok(removed)
}
