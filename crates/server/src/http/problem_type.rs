//! The types of problems: one row each, with its name on the wire, its status and when it is returned. The reference of the
//! API lists these rows.

use axum::http::StatusCode;
use fleet::refusal::Reason;

/// What kind of problem a response reports: the last segment of its `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemType {
    BadRequest,
    Unauthorized,
    Forbidden,
    OutOfScope,
    NotFound,
    MethodNotAllowed,
    Timeout,
    Exists,
    InUse,
    Conflict,
    Protected,
    Guarded,
    RemovalBudget,
    RolloutActive,
    WrongState,
    Demotion,
    Compacted,
    Stale,
    PlanChanged,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    Contract,
    TooManyFailures,
    Crowded,
    Internal,
    Unavailable,
}

use ProblemType as T;

impl ProblemType {
    /// All types, sorted by status.
    pub const ALL: [ProblemType; 27] = [
        T::BadRequest,
        T::Unauthorized,
        T::Forbidden,
        T::OutOfScope,
        T::NotFound,
        T::MethodNotAllowed,
        T::Timeout,
        T::Exists,
        T::InUse,
        T::Conflict,
        T::Protected,
        T::Guarded,
        T::RemovalBudget,
        T::RolloutActive,
        T::WrongState,
        T::Demotion,
        T::Compacted,
        T::Stale,
        T::PlanChanged,
        T::TooLarge,
        T::UnsupportedMediaType,
        T::Invalid,
        T::Contract,
        T::TooManyFailures,
        T::Crowded,
        T::Internal,
        T::Unavailable,
    ];

    pub const fn name(self) -> &'static str {
        self.row().0
    }

    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.row().1).expect("a status code of the table")
    }

    /// When it is returned.
    pub const fn description(self) -> &'static str {
        self.row().2
    }

    #[rustfmt::skip]
    const fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            T::BadRequest => ("bad-request", 400, "The request cannot be parsed: its syntax, a parameter, a header or a selector."),
            T::Unauthorized => ("unauthorized", 401, "The token is missing or not valid."),
            T::Forbidden => ("forbidden", 403, "The token is valid and does not have the right."),
            T::OutOfScope => (Reason::OutOfScope.name(), 403, "The write reaches beyond the scope of the caller; `clusters` and `documents` name what is outside."),
            T::NotFound => (Reason::NotFound.name(), 404, "No such resource, route, revision or DNS name."),
            T::MethodNotAllowed => ("method-not-allowed", 405, "The path exists with other methods; `Allow` lists them."),
            T::Timeout => ("timeout", 408, "The body did not arrive in time."),
            T::Exists => (Reason::Exists.name(), 409, "The id, or the DNS name of a cluster, is taken."),
            T::InUse => (Reason::InUse.name(), 409, "Clusters or other definitions refer to it; `clusters` and `resources` name them."),
            T::Conflict => (Reason::Conflict.name(), 409, "The revision to undo was changed again, with `resources` naming what; the revision to redo is not undone; or the client follows the log of another history."),
            T::Protected => (Reason::Protected.name(), 409, "A protected cluster would be deleted, lose its DNS name, or get an empty list of inputs."),
            T::Guarded => (Reason::Guarded.name(), 409, "A guard in force allows less than the write does; `guards` has each limit and the number of clusters that count, `clusters` names them."),
            T::RemovalBudget => (Reason::RemovalBudget.name(), 409, "More clusters would lose something than the removal budget allows; `removals` has the numbers."),
            T::RolloutActive => (Reason::RolloutActive.name(), 409, "A rollout that has not ended changes the same document or field; `resources` names it."),
            T::WrongState => (Reason::WrongState.name(), 409, "The rollout is in a state that does not allow that."),
            T::Demotion => (Reason::Demotion.name(), 409, "Clusters would leave the wave that a rollout promoted them with, and go back unseen; `clusters` names them."),
            T::Compacted => ("compacted", 410, "Some of these revisions were compacted and are no longer kept."),
            T::Stale => (Reason::Stale.name(), 412, "`If-Match` names a version that is not the current one."),
            T::PlanChanged => (Reason::PlanChanged.name(), 412, "`If-Plan-Match` names a plan that is out of date."),
            T::TooLarge => ("too-large", 413, "The body is too large."),
            T::UnsupportedMediaType => ("unsupported-media-type", 415, "The content type or content encoding is not supported here."),
            T::Invalid => (Reason::Invalid.name(), 422, "The document can be parsed and is not valid; `errors` has each pointer and reason."),
            T::Contract => (Reason::Contract.name(), 422, "Flux would refuse the reply of some cluster, or cut it off. (500 if such a reply is already stored.)"),
            T::TooManyFailures => ("too-many-failures", 429, "Too many requests of this address, or with this token, had no valid token. `Retry-After` says when to try again."),
            T::Crowded => ("crowded", 429, "Too many clusters wait for changes at once. `Retry-After` says when to try again."),
            T::Internal => ("internal", 500, "A bug in the server; the log has details."),
            T::Unavailable => ("unavailable", 503, "The store is unavailable, or the fleet is still being loaded. `Retry-After` says when to try again."),
        }
    }
}

impl From<Reason> for ProblemType {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Invalid => T::Invalid,
            Reason::NotFound => T::NotFound,
            Reason::Exists => T::Exists,
            Reason::InUse => T::InUse,
            Reason::Contract => T::Contract,
            Reason::Protected => T::Protected,
            Reason::Stale => T::Stale,
            Reason::Guarded => T::Guarded,
            Reason::RemovalBudget => T::RemovalBudget,
            Reason::PlanChanged => T::PlanChanged,
            Reason::Conflict => T::Conflict,
            Reason::OutOfScope => T::OutOfScope,
            Reason::RolloutActive => T::RolloutActive,
            Reason::WrongState => T::WrongState,
            Reason::Demotion => T::Demotion,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_types_are_sorted_by_status() {
        let names: BTreeSet<&str> = T::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), T::ALL.len());
        assert!(T::ALL.is_sorted_by_key(|one| one.status()));
    }
}
