//! Rules of guards, checked on the end state of a write.

use super::Draft;
use super::checks::invalid_unless_empty;
use crate::kind::GUARDS;
use crate::refusal::Refusal;

impl Draft<'_> {
    /// Checks the selectors of guards that are written.
    pub(super) fn check_guards(&self) -> Result<(), Refusal> {
        let mut errors = Vec::new();
        for id in self.touched_ids(GUARDS) {
            let Some(guard) = self.now().guards().get(id) else {
                continue;
            };
            let before = self.base.guards().get(id);
            if before.is_none_or(|before| before.selector != guard.selector) {
                errors.extend(self.check_selector(GUARDS, id, guard.selector_text()));
            }
        }
        invalid_unless_empty(errors)
    }
}
