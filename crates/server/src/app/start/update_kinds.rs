//! Applies kind files to a store that is in use. A file is applied only if it changed since it was last applied, so that a
//! restart reverts no `PUT /kinds`. A built-in file replaces only what the built-in file of an older release wrote.

use std::collections::BTreeMap;

use fleet::Fleet;
use fleet::identity::Reach;
use fleet::judge::{Accepted, Confirmation, Terms};
use fleet::kind;
use fleet::log::{Author, Batch};
use fleet::operation::Operation;
use fleet::refusal::{Reason, Refusal};
use fleet::write::Rules;
use semver::Version;
use store::{CommitError, Store, StoreError};
use tracing::{error, info, warn};

use super::error::{StartError, violations};
use super::first_revision::system_author;
use super::kind_files::{self, BUILT_IN, KindFile, RELEASE, RESOURCES_DIR};
use super::prepare::load;
use crate::app::engine::recent_removals;
use crate::config::Budget;

/// The kind files to apply, and the notes that the store keeps of them.
#[derive(Default)]
struct Due {
    operations: Vec<Operation>,
    notes: Vec<(String, String)>,
}

/// The fleet with the kind files that were due. Kinds that are refused change nothing: the server starts with the old ones.
pub(super) async fn update(
    mut fleet: Fleet,
    store: &dyn Store,
    folder: &[KindFile],
    budget: Budget,
) -> Result<Fleet, StartError> {
    loop {
        let applied = match store.applied().await {
            Err(error @ StoreError::Corrupt { .. }) => {
                error!(%error, "kind files are not applied: the notes on which ones were applied are damaged");
                return Ok(fleet);
            }
            applied => applied?,
        };
        let Due { operations, notes } = due(&fleet, &applied, folder);
        if operations.is_empty() {
            return Ok(fleet);
        }
        let author = system_author("kind files that changed");
        let Accepted { outcome, removed, .. } = match judge(&fleet, store, &operations, &author, budget).await? {
            Ok(changed) => changed,
            Err(refusal) => {
                log_refusal(refusal);
                return Ok(fleet);
            }
        };
        let losing = removed.count();
        let batch = Batch {
            author,
            changes: outcome.changes.clone(),
            applied: notes,
            removed,
        };
        match store.commit(fleet.head(), std::slice::from_ref(&batch)).await {
            Ok(heads) => {
                let head = heads.last().copied().unwrap_or_default();
                info!(%head, kinds = operations.len(), "applied kind files");
                if losing > 0 {
                    warn!(
                        clusters = losing,
                        "kind files remove something from clusters, or a path that clusters poll: GET /diff shows what"
                    );
                }
                return Ok(outcome.committed(head));
            }
            Err(CommitError::Store(error)) => return Err(error.into()),
            // Another process wrote first.
            Err(_) => fleet = load(store).await?,
        }
    }
}

fn due(fleet: &Fleet, applied: &BTreeMap<String, String>, folder: &[KindFile]) -> Due {
    let mut due = Due::default();
    for kind in kind_files::built_in() {
        if replaces_built_in(&kind, fleet, applied) {
            due.operations.push(kind.operation(&kind::built_in_origin()));
            due.notes.push(kind.built_in_note());
        }
    }
    for kind in folder {
        let (key, digest) = kind.folder_note();
        if applied.get(&key) != Some(&digest) {
            due.operations.push(kind.operation(RESOURCES_DIR));
            due.notes.push((key, digest));
        }
    }
    due
}

/// What the kinds change, judged like any other write: by the rules of references, by guards and by the removal budget.
async fn judge(
    fleet: &Fleet,
    store: &dyn Store,
    operations: &[Operation],
    author: &Author,
    budget: Budget,
) -> Result<Result<Accepted, Refusal>, StoreError> {
    let recent = recent_removals(store, budget).await?;
    let terms = Terms {
        recent: &recent,
        since: &crate::before(&author.at, budget.window),
        budget: budget.clusters,
        confirmation: Confirmation::default(),
        reach: &Reach::Everything,
        at: &author.at,
        overrides: &[],
        unguarded: false,
    };
    let rules = Rules {
        batch: true,
        allow_dangling: false,
        ..Rules::PLAIN
    };
    Ok(fleet.change(operations, rules, terms))
}

fn log_refusal(refusal: Refusal) {
    match refusal.reason {
        Reason::RemovalBudget => {
            warn!("a start cannot confirm removals: put the kinds of the files over HTTP, with X-Confirm-Removals");
        }
        Reason::Guarded => {
            warn!("a start cannot override guards: put the kinds of the files over HTTP, with X-Override-Guard");
        }
        _ => {}
    }
    let errors = violations(refusal);
    warn!(
        problems = errors.len(),
        first = %format_args!("{}: {}", errors[0].pointer, errors[0].detail),
        "kind files are refused: the previous kinds stay in use"
    );
}

/// Whether this release's built-in file replaces the stored kind: only if an older release's file wrote it, and nobody
/// changed it since.
fn replaces_built_in(kind: &KindFile, fleet: &Fleet, applied: &BTreeMap<String, String>) -> bool {
    let (key, note) = kind.built_in_note();
    let stored = fleet.kinds().get(&kind.name);
    let Some((release, digest)) = applied.get(&key).and_then(|applied| applied.split_once(' ')) else {
        // No release has applied this kind before. A user's kind of the same name stays.
        return stored.is_none();
    };
    if note.ends_with(digest) || !is_older(release, RELEASE) {
        return false;
    }
    let origin = stored.and_then(|stored| stored.origin.as_deref());
    origin.is_some_and(|origin| origin.starts_with(BUILT_IN))
}

/// By semantic versioning. A release that cannot be read is not older: what it wrote stays.
fn is_older(release: &str, than: &str) -> bool {
    match (Version::parse(release), Version::parse(than)) {
        (Ok(release), Ok(than)) => release.cmp_precedence(&than).is_lt(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_older;

    #[test]
    fn releases_are_ordered_by_semantic_versioning() {
        for (older, newer) in [
            ("0.9.0", "0.10.0"),
            ("1.0.0-rc.9", "1.0.0-rc.10"),
            ("1.0.0-rc.10", "1.0.0"),
            ("1.0.0", "1.0.1-alpha"),
        ] {
            assert!(is_older(older, newer), "{older} < {newer}");
            assert!(!is_older(newer, older), "{newer} > {older}");
        }
        for same in [("1.0.0", "1.0.0"), ("1.0.0+a", "1.0.0+b"), ("unknown", "1.0.0")] {
            assert!(!is_older(same.0, same.1), "{same:?}");
        }
    }
}
