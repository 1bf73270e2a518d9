//! The one judgement of a change, for a dry run and for a write: the plan that it was reviewed with, protection, the removal
//! budget, in this order. Pure.

use crate::budget::{Held, Recent, hold};
pub use crate::effect::Detail;
use crate::effect::Effect;
use crate::log::{Digest, Removed};
use crate::operation::Operation;
use crate::refusal::{Refusal, Removals};
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

/// A change that no rule but the budget is against.
#[derive(Debug)]
pub struct Judgement {
    pub effect: Effect,
    /// Stands for the effect. None where only losses were looked at.
    pub digest: Option<Digest>,
    pub removed: Removed,
    pub removals: Removals,
    /// Why a write is refused. A dry run shows the removals instead.
    pub over_budget: Option<Refusal>,
}

/// Judges what `outcome` makes of `before`.
pub fn judge(before: &Fleet, outcome: &Outcome, guard: Guard<'_>, detail: Detail) -> Result<Judgement, Refusal> {
    let (after, changes) = (outcome.preview(), &outcome.changes);
    let planned = guard.confirmation.plan;
    let (effect, digest) = match detail == Detail::Full || planned.is_some() {
        true => {
            let effect = Effect::of(before, after, changes);
            let digest = effect.digest(changes);
            (effect, Some(digest))
        }
        false => (Effect::losses(before, after, changes), None),
    };
    if let (Some(planned), Some(now)) = (planned, digest)
        && planned != now
    {
        return Err(Refusal::plan_changed(now));
    }
    effect.judge_protection(before)?;
    let Held {
        removed,
        removals,
        refusal,
    } = hold(&effect, guard);
    Ok(Judgement {
        effect,
        digest,
        removed,
        removals,
        over_budget: refusal,
    })
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
        let judgement = judge(self, &outcome, guard, Detail::Losses)?;
        match judgement.over_budget {
            Some(refusal) => Err(refusal),
            None => Ok((outcome, judgement.removed)),
        }
    }
}
