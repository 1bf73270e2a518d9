//! Whether a change may be made, the same for a dry run and a write. It checks, in this order: the scope of the
//! caller, the reviewed plan, protection, guards, the removal budget, demotions.

use std::sync::Arc;

use crate::budget::{Held, Recent, hold};
pub use crate::effect::Detail;
use crate::effect::Effect;
use crate::guard::{self, Guard, GuardCheck};
use crate::identity::{Reach, judge_scope};
use crate::log::{Change, Digest, Removed};
use crate::nearest::did_you_mean;
use crate::operation::Operation;
use crate::refusal::{Reason, Refusal, Removals, quote, some_of};
use crate::rollout::{self, Moved, Wanted};
use crate::snapshot::Fleet;
use crate::status::Moment;
use crate::write::{Outcome, Rules};

/// What a request confirms about its effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Confirmation {
    /// The number of clusters that lose something.
    pub removals: Option<usize>,
    /// The digest of the reviewed plan.
    pub plan: Option<Digest>,
    /// The number of clusters that leave a promoted wave.
    pub demotions: Option<usize>,
}

/// What a change is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub recent: &'a Recent,
    /// When the window of recent removals begins, in the format of revisions.
    pub since: &'a str,
    /// None: there is no budget.
    pub budget: Option<usize>,
    pub confirmation: Confirmation,
    /// How far the caller's writes may reach.
    pub reach: &'a Reach,
    /// The author's time, in the format of revisions: it decides which guards are in force.
    pub at: &'a str,
    /// The ids of guards that the request overrides.
    pub overrides: &'a [String],
    /// Whether guards do not apply. Only the server's own writes may ask for that.
    pub unguarded: bool,
}

impl Terms<'_> {
    /// The rules of a write on these terms.
    pub fn on(&self, rules: Rules) -> Rules {
        Rules {
            at: Moment::parse(self.at),
            removals: self.confirmation.removals,
            ..rules
        }
    }
}

/// A change that passed every check, except perhaps guards and the budget.
#[derive(Debug)]
pub struct Judgement {
    pub effect: Effect,
    /// The digest of the effect, if all of it was examined.
    pub digest: Option<Digest>,
    pub removed: Removed,
    pub removals: Removals,
    /// The limits of the guards in force.
    pub guards: Vec<GuardCheck>,
    /// Set if a guard refuses the change. A write is refused with it; a dry run shows the guards instead.
    pub guarded: Option<Refusal>,
    /// Set if the change exceeds the budget. A write is refused with it; a dry run shows the removals instead.
    pub over_budget: Option<Refusal>,
    /// The clusters that leave a promoted wave.
    pub demoted: Vec<Arc<str>>,
    /// Set if that was not confirmed. A write is refused with it; a dry run shows the clusters instead.
    pub demotes: Option<Refusal>,
    /// The fleet as it is when the rollouts that the change starts are complete. None: it starts none.
    pub completed: Option<Fleet>,
}

impl Judgement {
    /// The guards that the change exceeds, and that the request overrides.
    pub fn overridden(&self) -> Vec<String> {
        let overridden = self.guards.iter().filter(|check| check.exceeded && check.overridden);
        let mut ids: Vec<String> = overridden.map(|check| check.limit.id.to_string()).collect();
        ids.dedup();
        ids
    }
}

/// Checks the change from `before` to `outcome`.
pub fn judge(before: &Fleet, outcome: &Outcome, terms: Terms<'_>, detail: Detail) -> Result<Judgement, Refusal> {
    let (after, changes) = (outcome.preview(), &outcome.changes);
    let planned = terms.confirmation.plan;
    let is_scoped = matches!(terms.reach, Reach::Within(_));
    let guards = guards_in_force(before, terms)?;
    let counts_changes = guards.iter().any(|guard| guard.changes.is_some());
    let has_digest = detail == Detail::Full || planned.is_some();
    let compare = |after: &Fleet| match has_digest || is_scoped || counts_changes {
        true => Effect::of(before, after, changes),
        false => Effect::losses(before, after, changes),
    };
    let started = Started::by(after, changes)?;
    let effect = compare(started.as_ref().map_or(after, |started| &started.completed));
    let digest = has_digest.then(|| effect.digest(changes));
    if let Reach::Within(scope) = terms.reach {
        judge_scope(scope, before, after, changes, &effect)?;
    }
    if let (Some(planned), Some(now)) = (planned, digest)
        && planned != now
    {
        return Err(Refusal::plan_changed(now));
    }
    // What a rollout brought may always go again.
    if rollout::moved(before, after, changes).is_none_or(|moved| moved.forward) {
        effect.judge_protection(before)?;
    }
    // A start changes no reply yet: each promotion is guarded for itself.
    let at_once = started.as_ref().map(|_| compare(after));
    let guards = guard::check(
        &guards,
        terms.overrides,
        before,
        after,
        at_once.as_ref().unwrap_or(&effect),
    );
    let Held {
        mut removed,
        removals,
        refusal,
    } = hold_with_rollouts(before, after, changes, &effect, terms)?;
    // What was confirmed at the start is not removed yet. What was not counts from now on, so that many small rollouts are one large one.
    if let Some(effect) = at_once.as_ref().filter(|_| removed.confirmed) {
        removed = Removed::by(effect);
    }
    let demoted = rollout::demoted(before, after, changes);
    Ok(Judgement {
        effect,
        digest,
        removed,
        removals,
        guarded: guard::refusal(&guards),
        guards,
        over_budget: refusal,
        demotes: demotion(&demoted, terms.confirmation.demotions),
        demoted,
        completed: started.map(|started| started.completed),
    })
}

/// A write that starts rollouts: it is planned, and confirmed, as if they were complete.
struct Started {
    completed: Fleet,
}

impl Started {
    fn by(after: &Fleet, changes: &[Change]) -> Result<Option<Started>, Refusal> {
        let started = rollout::started(after, changes);
        if started.is_empty() {
            return Ok(None);
        }
        let completed = after.with_wave(started, Wanted::Everyone);
        let completed = completed.map_err(|detail| Refusal::new(Reason::Invalid, detail))?;
        Ok(Some(Started { completed }))
    }
}

/// Compares a change with the budget. The removals of a rollout were confirmed at its start, and what it brought may go again.
fn hold_with_rollouts(
    before: &Fleet,
    after: &Fleet,
    changes: &[Change],
    effect: &Effect,
    terms: Terms<'_>,
) -> Result<Held, Refusal> {
    let mut held = hold(effect, terms);
    if held.removals.count == 0 || terms.confirmation.removals.is_some() {
        return Ok(held);
    }
    let Some(Moved { rollout, forward }) = rollout::moved(before, after, changes) else {
        return Ok(held);
    };
    let allowed = rollout.removals.or(terms.budget).filter(|_| forward);
    held.refusal = None;
    held.removed.confirmed = true;
    if let Some(allowed) = allowed {
        let start = before.with_wave([rollout.id()], Wanted::Nobody);
        let start = start.map_err(|detail| Refusal::new(Reason::Invalid, detail))?;
        let total = Removed::by(&Effect::losses(&start, after, changes)).count();
        held.refusal = (total > allowed).then(|| {
            let detail = format!(
                "the rollout \"{}\" would have removed something from {total} clusters, and {allowed} were confirmed at its start",
                rollout.id()
            );
            let mut refusal = Refusal::new(Reason::RemovalBudget, detail);
            refusal.removals = Some(Box::new(held.removals));
            refusal
        });
    }
    Ok(held)
}

/// Why clusters may not leave their wave, unless as many were confirmed.
fn demotion(demoted: &[Arc<str>], confirmed: Option<usize>) -> Option<Refusal> {
    let count = demoted.len();
    if count == confirmed.unwrap_or_default() {
        return None;
    }
    let clusters: Vec<String> = demoted.iter().map(ToString::to_string).collect();
    let detail = match confirmed {
        Some(confirmed) => {
            let clusters = if count == 1 {
                "1 cluster".to_owned()
            } else {
                format!("{count} clusters")
            };
            format!("this takes {clusters} out of a promoted wave, but {confirmed} confirmed")
        }
        None => format!(
            "this takes clusters out of a wave that a rollout promoted ({}), so that they go back to the documents from before; \
             to go ahead, send X-Confirm-Demotions: {count}",
            some_of(&clusters)
        ),
    };
    let mut refusal = Refusal::new(Reason::Demotion, detail);
    refusal.clusters = clusters;
    Some(refusal)
}

/// The guards that apply to a write: as they stood before it. A guard that is overridden must exist.
fn guards_in_force<'a>(before: &'a Fleet, terms: Terms<'_>) -> Result<Vec<&'a Arc<Guard>>, Refusal> {
    let mut overrides = terms.overrides.iter();
    if let Some(unknown) = overrides.find(|id| before.guards().get(id).is_none()) {
        let like = did_you_mean(unknown, before.guards().iter().map(|guard| &**guard.id()));
        let like = like.map(|like| format!("; {like}")).unwrap_or_default();
        let detail = format!("X-Override-Guard: there is no guard \"{}\"{like}", quote(unknown));
        return Err(Refusal::at(Reason::Invalid, "", detail));
    }
    Ok(match terms.unguarded {
        true => Vec::new(),
        false => before.guards().in_force(terms.at),
    })
}

/// A change that passed every check.
#[derive(Debug)]
pub struct Accepted {
    pub outcome: Outcome,
    pub removed: Removed,
    /// The guards that it overrides.
    pub overridden: Vec<String>,
}

impl Fleet {
    /// The outcome of operations, and what they remove, if all checks pass.
    pub fn change(&self, operations: &[Operation], rules: Rules, terms: Terms<'_>) -> Result<Accepted, Refusal> {
        let outcome = self.write(operations, terms.on(rules))?;
        let judgement = judge(self, &outcome, terms, Detail::Losses)?;
        // A rollout keeps how much it may remove: as much as its start was accepted with.
        let outcome = match judgement.completed {
            Some(_) if terms.confirmation.removals.is_none() => {
                let removals = Some(judgement.removals.count);
                self.write(
                    operations,
                    Rules {
                        removals,
                        ..terms.on(rules)
                    },
                )?
            }
            _ => outcome,
        };
        let overridden = judgement.overridden();
        match judgement.guarded.or(judgement.over_budget).or(judgement.demotes) {
            Some(refusal) => Err(refusal),
            None => Ok(Accepted {
                outcome,
                removed: judgement.removed,
                overridden,
            }),
        }
    }
}
