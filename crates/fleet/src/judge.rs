//! Whether a change may be made, the same for a dry run and a write. It checks, in this order: the scope of the
//! caller, the reviewed plan, protection, the removal budget.

use crate::budget::{Held, Recent, hold};
pub use crate::effect::Detail;
use crate::effect::Effect;
use crate::identity::{Reach, judge_scope};
use crate::log::{Digest, Removed};
use crate::operation::Operation;
use crate::refusal::{Refusal, Removals};
use crate::snapshot::Fleet;
use crate::write::{Outcome, Rules};

/// What a request confirms about its effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Confirmation {
    /// The number of clusters that lose something.
    pub removals: Option<usize>,
    /// The digest of the reviewed plan.
    pub plan: Option<Digest>,
}

/// What a change is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    pub recent: &'a Recent,
    /// When the window of recent removals begins, in the format of revisions.
    pub since: &'a str,
    /// None: there is no budget.
    pub budget: Option<usize>,
    pub confirmation: Confirmation,
    /// How far the caller's writes may reach.
    pub reach: &'a Reach,
}

/// A change that passed every check, except perhaps the budget.
#[derive(Debug)]
pub struct Judgement {
    pub effect: Effect,
    /// The digest of the effect. None if only losses were examined.
    pub digest: Option<Digest>,
    pub removed: Removed,
    pub removals: Removals,
    /// Set if the change exceeds the budget. A write is refused with it; a dry run shows the removals instead.
    pub over_budget: Option<Refusal>,
}

/// Checks the change from `before` to `outcome`.
pub fn judge(before: &Fleet, outcome: &Outcome, guard: Guard<'_>, detail: Detail) -> Result<Judgement, Refusal> {
    let (after, changes) = (outcome.preview(), &outcome.changes);
    let planned = guard.confirmation.plan;
    let is_scoped = matches!(guard.reach, Reach::Within(_));
    let (effect, digest) = match detail == Detail::Full || planned.is_some() || is_scoped {
        true => {
            let effect = Effect::of(before, after, changes);
            let digest = effect.digest(changes);
            (effect, Some(digest))
        }
        false => (Effect::losses(before, after, changes), None),
    };
    if let Reach::Within(scope) = guard.reach {
        judge_scope(scope, before, after, changes, &effect)?;
    }
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
    /// The outcome of operations, and what they remove, if all checks pass.
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
