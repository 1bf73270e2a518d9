//! Fills an empty store: the first revision holds the built-in kinds, those of RESOURCES_DIR, and the seed.

use fleet::Fleet;
use fleet::files::Seed;
use fleet::kind::{self, CLUSTERS};
use fleet::log::{Author, Batch, Change, Head};
use fleet::operation::Operation;
use fleet::refusal::{MOST_VIOLATIONS, Violation};
use fleet::write::{Outcome, Rules};
use store::{CommitError, Store, StoreError};
use tracing::info;

use super::error::{StartError, violations};
use super::kind_files::{self, KindFile, RESOURCES_DIR};
use super::seed::{self, SeedFile};
use super::{SYSTEM, open_store};
use crate::config::{Backend, Config, ConfigError, Mode};

/// The first revision may leave references dangling, and has profiles before the clusters that they select: a seed is accepted as it is.
const RULES: Rules = Rules {
    batch: true,
    allow_dangling: true,
    allow_unknown_labels: true,
    ..Rules::PLAIN
};

/// Fills the store if it is empty.
pub(super) async fn fill(config: &Config, store: &dyn Store, with_seed: bool) -> Result<(), StartError> {
    if store.head().await? != Head::default() {
        seed::warn_if_missing(config);
        return Ok(());
    }
    let kind_files = kind_files::from_folder(config)?;
    // When several processes start together, one commits the first revision, and the others find it here.
    while store.head().await? == Head::default() {
        if config.backend == Backend::Postgres && config.mode == Mode::ReadOnly {
            return Err(StartError::Store(StoreError::NotReady {
                place: "the PostgreSQL database".to_owned(),
                detail: "it is empty; a server in crud mode fills it".to_owned(),
            }));
        }
        if !store.load().await?.damage.is_empty() {
            // The log is lost but resources are there: the store is damaged, not empty.
            break;
        }
        // Checked without the seed first, so that a problem of a kind is not reported as a problem of the seed.
        kind_files::fleet_of_files(config)?;
        let seed = match with_seed {
            true => SeedFile::read(config)?,
            false => None,
        };
        commit(store, &kind_files, seed).await?;
    }
    Ok(())
}

/// Fills the empty store on a thread and a connection that end afterwards. The allocator keeps the memory that a thread used
/// for as long as the thread lives, and a large seed needs several times the memory of the fleet.
pub(super) async fn fill_on_own_thread(config: Config) -> Result<(), StartError> {
    let job = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StartError::State(format!("cannot start a thread: {error}")))?;
        runtime.block_on(async {
            let store = open_store(&config).await?;
            let filled = fill(&config, &*store, true).await;
            store.close().await;
            filled
        })
    };
    let (sender, filled) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || sender.send(job()).is_ok());
    let panicked = || StartError::State("an internal error while the first revision was created".to_owned());
    filled.await.unwrap_or_else(|_| Err(panicked()))
}

pub(super) fn system_author(reason: &str) -> Author {
    Author {
        at: crate::now(),
        actor: SYSTEM.into(),
        request_id: crate::request_id(),
        reason: Some(reason.to_owned()),
        reversal: None,
        overrides: Vec::new(),
    }
}

/// Commits the first revision, unless another process was faster.
async fn commit(store: &dyn Store, folder: &[KindFile], seed: Option<SeedFile>) -> Result<(), StartError> {
    let reason = match seed {
        Some(_) => "built-in kinds and seed",
        None => "built-in kinds",
    };
    let built_in = kind_files::built_in();
    let notes = built_in.iter().map(KindFile::built_in_note);
    let applied = notes.chain(folder.iter().map(KindFile::folder_note)).collect();
    let changes = changes(&built_in, folder, seed.as_ref())?;
    drop(seed);
    let batch = Batch {
        author: system_author(reason),
        changes,
        applied,
        ..Batch::default()
    };
    match store.commit(Head::default(), std::slice::from_ref(&batch)).await {
        Ok(heads) => {
            let head = heads.last().copied().unwrap_or_default();
            info!(%head, resources = batch.changes.len(), "filled the empty store");
            Ok(())
        }
        Err(CommitError::Conflict | CommitError::Duplicate { .. }) => Ok(()),
        Err(CommitError::Store(error)) => Err(error.into()),
    }
}

/// The changes of the first revision.
fn changes(built_in: &[KindFile], folder: &[KindFile], seed: Option<&SeedFile>) -> Result<Vec<Change>, ConfigError> {
    let origin = kind::built_in_origin();
    let mut kinds: Vec<Operation> = built_in.iter().map(|kind| kind.operation(&origin)).collect();
    kinds.extend(folder.iter().map(|kind| kind.operation(RESOURCES_DIR)));
    let Some(file) = seed else {
        let outcome = Fleet::default().write(&kinds, RULES);
        let outcome =
            outcome.map_err(|refusal| kind_files::kinds_error(folder, built_in.len(), violations(refusal)))?;
        return Ok(outcome.changes);
    };
    let seed = Seed::read(&file.text).map_err(|errors| file.error(&errors))?;
    let mut changes = seed_changes(kinds, &seed).map_err(|errors| file.error(&errors))?;
    // In the order that a single write would have: clusters last, by id.
    changes.sort_by(|a, b| match (&*a.kind == CLUSTERS, &*b.kind == CLUSTERS) {
        (true, true) => a.id.cmp(&b.id),
        (a, b) => a.cmp(&b),
    });
    Ok(changes)
}

/// The changes of the kinds and the seed. The seed is written in parts, each on the outcome of the part before: as operations,
/// a fleet needs ten times the memory of its text.
fn seed_changes(mut operations: Vec<Operation>, seed: &Seed) -> Result<Vec<Change>, Vec<Violation>> {
    let empty = Fleet::default();
    let mut outcome: Option<Outcome> = None;
    let (mut changes, mut errors) = (Vec::new(), Vec::new());
    for part in seed.parts() {
        let (first, kinds) = (part.start, operations.len());
        match seed.operations(part) {
            Ok(seeded) => operations.extend(seeded),
            Err(found) => errors.extend(found),
        }
        let base = outcome.as_ref().map_or(&empty, Outcome::preview);
        match base.write(&std::mem::take(&mut operations), RULES) {
            Ok(mut next) => {
                changes.append(&mut next.changes);
                outcome = Some(next);
            }
            Err(refusal) => errors.extend(violations(refusal).into_iter().map(|error| {
                let place = |n: usize| seed.place(first + n.checked_sub(kinds)?);
                seed::locate(error, place)
            })),
        }
        // The first part holds the kinds: without them the next parts cannot be checked.
        if errors.len() >= MOST_VIOLATIONS || outcome.is_none() {
            break;
        }
    }
    if errors.is_empty() {
        return Ok(changes);
    }
    errors.sort();
    errors.truncate(MOST_VIOLATIONS);
    Err(errors)
}
