//! Rules of profiles, checked on the end state of a write.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Draft;
use super::checks::invalid_unless_empty;
use crate::inputs::{reference_id, references};
use crate::kind::{CLUSTERS, EXCLUDED, KINDS, Kind, PROFILES};
use crate::operation::Verb;
use crate::refusal::{Refusal, Violation, segment};
use crate::selector::Selector;

impl Draft<'_> {
    /// Checks the selectors and the references of profiles that are written.
    pub(super) fn check_profiles(&self) -> Result<(), Refusal> {
        let mut errors = Vec::new();
        for id in self.touched_ids(PROFILES) {
            let Some(profile) = self.now().profiles().get(id) else {
                continue;
            };
            let value = profile.value();
            let before = self.base.profiles().get(id);
            if before.is_none_or(|before| before.selector != profile.selector) {
                errors.extend(self.check_selector(PROFILES, id, value["selector"].as_str().unwrap_or_default()));
            }
            for kind in self.now().kinds().definitions() {
                self.check_exclusions(kind, id, value, &mut errors);
            }
        }
        invalid_unless_empty(errors)
    }

    /// Checks the selector of a resource that is written, if it is a new one. One that comes back was valid: it stays so when labels vanish.
    pub(super) fn check_selector(&self, kind: &str, id: &str, text: &str) -> Option<Violation> {
        let operation = self.touch(kind, id).map(|touch| &self.operations[touch.operation]);
        if operation.is_some_and(|operation| matches!(operation.verb, Verb::Restore { .. })) {
            return None;
        }
        let checked = match self.rules.allow_unknown_labels {
            true => Selector::stored_early(text, self.now()),
            false => Selector::stored(text, self.now()),
        };
        let error = checked.err()?;
        Some(Violation::new(self.blame(kind, id, "/selector"), error.to_string()))
    }

    /// A reference that excludes can say nothing else.
    fn check_exclusions(&self, kind: &Kind, profile: &str, value: &Value, errors: &mut Vec<Violation>) {
        let array = kind.references.as_deref().unwrap_or_default();
        for (n, reference) in references(kind, value).iter().enumerate() {
            if reference.get(EXCLUDED) != Some(&Value::Bool(true)) {
                continue;
            }
            let fields = reference.as_object().into_iter().flatten();
            let mut others =
                fields.filter(|(name, value)| !["id", EXCLUDED].contains(&name.as_str()) && !value.is_null());
            if let Some((name, _)) = others.next() {
                let pointer = format!("{}/{n}{}", segment(array), segment(name));
                let detail = format!(
                    "profile \"{profile}\" excludes the {} \"{}\": such a reference has no other fields",
                    kind.singular,
                    reference_id(reference)
                );
                errors.push(Violation::new(self.blame(PROFILES, profile, &pointer), detail));
            }
        }
    }

    /// Checks that no stored selector names a field that clusters no longer have: it would be read as a label.
    pub(super) fn check_stored_selectors(&self) -> Result<(), Refusal> {
        let kinds = [self.base.kinds().clusters(), self.now().kinds().clusters()];
        let [Some(before), Some(after)] = kinds else {
            return Ok(());
        };
        if before.etag == after.etag {
            return Ok(());
        }
        let mut errors = Vec::new();
        let is_dropped = |key: &&str| before.is_scalar_field(key) && !after.is_scalar_field(key);
        let mut report = |holder: String, selector: &Selector| {
            let dropped: BTreeSet<&str> = selector.keys().filter(is_dropped).collect();
            for key in dropped {
                let detail =
                    format!("the selector of {holder} names the field \"{key}\", which clusters would not have");
                errors.push(Violation::new(self.blame(KINDS, CLUSTERS, ""), detail));
            }
        };
        for profile in self.now().profiles().iter() {
            report(format!("the profile \"{}\"", profile.id()), &profile.selector);
        }
        for guard in self.now().guards().iter() {
            report(format!("the guard \"{}\"", guard.id()), &guard.selector);
        }
        for rollout in self.now().rollouts().running() {
            for selector in rollout.waves.iter().filter_map(|wave| wave.selector.as_ref()) {
                report(format!("the rollout \"{}\"", rollout.id()), selector);
            }
        }
        for (id, selector) in self.now().identities().selectors() {
            report(format!("the identity \"{id}\""), &selector);
        }
        invalid_unless_empty(errors)
    }
}
