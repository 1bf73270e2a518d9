//! From a configuration to a fleet: opening the store, filling an empty one, bringing the kinds of files up to date.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fleet::Fleet;
use fleet::damage::Damage;
use fleet::document::Etag;
use fleet::files::Seed;
use fleet::json::Json;
use fleet::judge::{Confirmation, Guard};
use fleet::kind::{self, CLUSTERS, KINDS};
use fleet::log::{Author, Batch, Change, Head, Revision};
use fleet::operation::{Operation, Verb};
use fleet::refusal::{MOST_VIOLATIONS, Reason, Refusal, Violation};
use fleet::write::{Outcome, Rules};
use fleet::yaml;
use serde_json::Value;
use store::{CommitError, Store, StoreError};
use tracing::{error, info, warn};

use super::engine::recent;
use crate::config::{Backend, Budget, Config, ConfigError, Mode, Seed as Seeding};

/// This release, as it signs the kinds it brings.
const RELEASE: &str = env!("CARGO_PKG_VERSION");
const BUILT_IN: &str = "built-in";
const RESOURCES_DIR: &str = "resources-dir";
/// The actor of our own writes.
pub const SYSTEM: &str = "system";

/// Why a start failed: one line that names the variable, and for files a line for each place.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("DATABASE_URL: {0}")]
    Store(#[from] StoreError),
    #[error("{variable}: {file}: {}{}", summary(.errors), places(.errors))]
    File {
        variable: &'static str,
        file: String,
        errors: Vec<Violation>,
    },
    #[error("DATABASE_URL: what the database holds cannot be served: {0}")]
    State(String),
    #[error(
        "DATABASE_URL: the database is empty, and SNAPSHOT_FILE holds a fleet at revision {0}: restore a backup, or remove that file to begin anew"
    )]
    Emptied(Revision),
}

fn summary(errors: &[Violation]) -> String {
    match errors {
        [one] if one.pointer.is_empty() => one.detail.clone(),
        many => format!("{} problem{}", many.len(), if many.len() == 1 { "" } else { "s" }),
    }
}

fn places(errors: &[Violation]) -> String {
    match errors {
        [one] if one.pointer.is_empty() => String::new(),
        many => many
            .iter()
            .map(|error| format!("\n  {}: {}", error.pointer, error.detail))
            .collect(),
    }
}

/// A kind from a file.
struct KindFile {
    name: String,
    document: Value,
    file: String,
}

impl KindFile {
    fn digest(&self) -> String {
        format!("{:032x}", Etag::of(&Json::new(&self.document)).0)
    }

    fn operation(&self, origin: &str) -> Operation {
        let verb = Verb::Apply {
            id: Some(self.name.clone()),
            value: self.document.clone(),
        };
        Operation::new(KINDS, verb).from(&origin.into())
    }
}

/// The fleet of the store: filled if it was empty, its kinds as the files say if this process may write them.
pub async fn prepare(config: &Config, store: &dyn Store, with_seed: bool) -> Result<Fleet, StartError> {
    let directory = directory_of(config)?;
    fill(config, store, with_seed).await?;
    let mut fleet = load(store).await?;
    if let Some(damage) = fleet.damage() {
        report(damage);
    } else if config.mode == Mode::Crud {
        fleet = refresh(fleet, store, &directory, config.budget).await?;
    }
    for (kind, id, clusters) in fleet.dangling() {
        warn!(
            kind = &**kind,
            id = &**id,
            clusters,
            "references to a definition that does not exist are skipped"
        );
    }
    Ok(fleet)
}

/// Fills an empty store.
pub async fn fill(config: &Config, store: &dyn Store, with_seed: bool) -> Result<(), StartError> {
    let directory = directory_of(config)?;
    if let Seeding::Named(path) = &config.seed
        && store.head().await? != Head::default()
        && !path.exists()
    {
        warn!(
            "SEED_FILE: {} is not there; the store holds a fleet, so it is not needed",
            path.display()
        );
    }
    // Several processes may start together: whoever comes second follows the first.
    while store.head().await? == Head::default() {
        if config.backend == Backend::Postgres && config.mode == Mode::ReadOnly {
            return Err(StartError::Store(StoreError::NotReady {
                place: "the PostgreSQL database".to_owned(),
                detail: "nobody has filled it yet, which takes a process in crud mode".to_owned(),
            }));
        }
        if !store.load().await?.damage.is_empty() {
            // It only looks empty: its log is lost, and resources are there.
            break;
        }
        // Judged on their own first, so that what is wrong with a kind is not blamed on the seed.
        kinds_only(config)?;
        let seed = if with_seed { read_seed(config)? } else { None };
        commit_first(store, &directory, seed).await?;
    }
    Ok(())
}

fn directory_of(config: &Config) -> Result<Vec<KindFile>, StartError> {
    config.resources_dir.as_deref().map_or(Ok(Vec::new()), read_directory)
}

/// Says what is damaged, and what to do about it.
fn report(damage: &Damage) {
    const SHOWN: usize = 20;
    for line in damage.lines().take(SHOWN) {
        error!("damaged: {line}");
    }
    let restorable = damage.rows.iter().filter(|row| row.logged.is_some()).count();
    error!(
        places = damage.count(),
        restorable,
        "the store is damaged: polls that may depend on what is missing get 503, the others are answered, and nothing is \
         written; run flux-resourceset repair, which lists what the log can restore"
    );
}

async fn load(store: &dyn Store) -> Result<Fleet, StartError> {
    let state = store.load().await?;
    Fleet::load(state).map_err(StartError::State)
}

fn system(reason: &str) -> Author {
    Author {
        at: crate::now(),
        actor: SYSTEM.into(),
        request_id: crate::request_id(),
        reason: Some(reason.to_owned()),
    }
}

fn built_in() -> Vec<KindFile> {
    let kinds = kind::built_in().iter();
    let kinds = kinds.map(|document| KindFile {
        name: kind::name_of(document).expect("built-in kinds are named"),
        document: document.clone(),
        file: BUILT_IN.to_owned(),
    });
    kinds.collect()
}

fn built_in_note(kind: &KindFile) -> (String, String) {
    (
        format!("{BUILT_IN}/{}", kind.name),
        format!("{RELEASE} {}", kind.digest()),
    )
}

fn directory_note(kind: &KindFile) -> (String, String) {
    (format!("{RESOURCES_DIR}/{}", kind.name), kind.digest())
}

/// A seed as it was read from its file.
struct SeedFile {
    path: PathBuf,
    text: String,
}

impl SeedFile {
    fn error(&self, errors: Vec<Violation>) -> StartError {
        seed_error(&self.path, errors)
    }
}

/// Commits the first revision: built-in kinds, then those of the folder, then the seed. Another process may have been faster.
async fn commit_first(store: &dyn Store, directory: &[KindFile], seed: Option<SeedFile>) -> Result<(), StartError> {
    let reason = match seed {
        Some(_) => "built-in kinds and seed",
        None => "built-in kinds",
    };
    let built_in = built_in();
    let notes = built_in
        .iter()
        .map(built_in_note)
        .chain(directory.iter().map(directory_note));
    let applied = notes.collect();
    let changes = first_revision(directory, seed.as_ref())?;
    drop(seed);
    let batch = Batch {
        author: system(reason),
        changes,
        applied,
        ..Batch::default()
    };
    match store.commit(Head::default(), std::slice::from_ref(&batch)).await {
        Ok(heads) => {
            let head = heads.last().copied().unwrap_or_default();
            info!(
                %head,
                resources = batch.changes.len(),
                "filled the empty store"
            );
            Ok(())
        }
        Err(CommitError::Conflict | CommitError::Duplicate { .. }) => Ok(()),
        Err(CommitError::Store(error)) => Err(error.into()),
    }
}

/// What the first revision changes. Clusters are judged in parts, each on what the one before left: as operations, a fleet
/// takes ten times the memory of its text.
fn first_revision(directory: &[KindFile], seed: Option<&SeedFile>) -> Result<Vec<Change>, StartError> {
    let empty = Fleet::default();
    let rules = Rules {
        batch: true,
        allow_dangling: true,
    };
    let built_in = built_in();
    let origin = kind::built_in_origin();
    let mut operations: Vec<Operation> = built_in.iter().map(|kind| kind.operation(&origin)).collect();
    operations.extend(directory.iter().map(|kind| kind.operation(RESOURCES_DIR)));
    let Some(file) = seed else {
        let outcome = empty.write(&operations, rules).map(|outcome| outcome.changes);
        return outcome.map_err(|refusal| directory_error(directory, built_in.len(), violations(refusal)));
    };
    let documents = Seed::read(&file.text).map_err(|errors| file.error(errors))?;
    let mut outcome: Option<Outcome> = None;
    let mut changes = Vec::new();
    let mut errors = Vec::new();
    for part in documents.parts() {
        let (first, kinds) = (part.start, operations.len());
        match documents.operations(part) {
            Ok(seeded) => operations.extend(seeded),
            Err(found) => errors.extend(found),
        }
        let base = outcome.as_ref().map_or(&empty, Outcome::preview);
        match base.write(&std::mem::take(&mut operations), rules) {
            Ok(mut next) => {
                changes.append(&mut next.changes);
                outcome = Some(next);
            }
            Err(refusal) => errors.extend(violations(refusal).into_iter().map(|error| {
                let place = |n: usize| documents.place(first + n.checked_sub(kinds)?);
                in_seed(error, place)
            })),
        }
        // Without kinds, nothing else can be judged.
        if errors.len() >= MOST_VIOLATIONS || outcome.is_none() {
            break;
        }
    }
    if !errors.is_empty() {
        errors.sort();
        errors.truncate(MOST_VIOLATIONS);
        return Err(file.error(errors));
    }
    // As one write would have them: clusters last, by id.
    changes.sort_by(|a, b| match (&*a.kind == CLUSTERS, &*b.kind == CLUSTERS) {
        (true, true) => a.id.cmp(&b.id),
        (a, b) => a.cmp(&b),
    });
    Ok(changes)
}

/// Brings kinds of files into a store that is in use: only files that changed since they were last applied, so that a
/// restart undoes nothing; and built-in ones only over what an older release wrote.
async fn refresh(
    mut fleet: Fleet,
    store: &dyn Store,
    directory: &[KindFile],
    budget: Budget,
) -> Result<Fleet, StartError> {
    loop {
        let applied = match store.applied().await {
            Err(error @ StoreError::Corrupt { .. }) => {
                error!(%error, "kinds of files are not applied: it is not known which were");
                return Ok(fleet);
            }
            applied => applied?,
        };
        let mut operations = Vec::new();
        let mut notes = Vec::new();
        for kind in built_in() {
            if built_in_is_newer(&kind, &fleet, &applied) {
                operations.push(kind.operation(&fleet::kind::built_in_origin()));
                notes.push(built_in_note(&kind));
            }
        }
        for kind in directory {
            let (key, digest) = directory_note(kind);
            if applied.get(&key) != Some(&digest) {
                operations.push(kind.operation(RESOURCES_DIR));
                notes.push((key, digest));
            }
        }
        if operations.is_empty() {
            return Ok(fleet);
        }
        let author = system("kinds of files that changed");
        let since = crate::before(&author.at, budget.window);
        let recent = recent(store, budget).await?;
        let rules = Rules {
            batch: true,
            allow_dangling: false,
        };
        let guard = Guard {
            recent: &recent,
            since: &since,
            budget: budget.clusters,
            confirmation: Confirmation::default(),
        };
        let (outcome, removed) = match fleet.change(&operations, rules, guard) {
            Ok(changed) => changed,
            Err(refusal) => {
                if refusal.reason == Reason::RemovalBudget {
                    warn!(
                        "a start cannot confirm removals: put the kinds of the files over HTTP, with X-Confirm-Removals"
                    );
                }
                let errors = violations(refusal);
                warn!(
                    problems = errors.len(),
                    first = %format_args!("{}: {}", errors[0].pointer, errors[0].detail),
                    "kinds of files are refused: the old ones go on serving"
                );
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
                info!(
                    %head,
                    kinds = operations.len(),
                    "applied kinds of files"
                );
                if losing > 0 {
                    warn!(
                        clusters = losing,
                        "kinds of files take something from clusters, or give up a path that they poll: GET /diff says what"
                    );
                }
                return Ok(outcome.committed(head));
            }
            Err(CommitError::Store(error)) => return Err(error.into()),
            Err(_) => fleet = load(store).await?,
        }
    }
}

/// Whether this release's built-in file replaces what is there: a kind that an older release's file wrote, and nobody since.
fn built_in_is_newer(kind: &KindFile, fleet: &Fleet, applied: &BTreeMap<String, String>) -> bool {
    let (key, note) = built_in_note(kind);
    let Some((release, digest)) = applied.get(&key).and_then(|applied| applied.split_once(' ')) else {
        // This release's is the first to have the kind, unless a user's has the name.
        return fleet.kinds().get(&kind.name).is_none();
    };
    if note.ends_with(digest) || version(release) >= version(RELEASE) {
        return false;
    }
    let present = fleet.kinds().get(&kind.name);
    present.is_some_and(|present| {
        present
            .origin
            .as_deref()
            .is_some_and(|origin| origin.starts_with(BUILT_IN))
    })
}

/// A release as it is ordered: by its numbers, and a pre-release before its release.
fn version(text: &str) -> (Vec<u64>, bool, String) {
    let text = text.split('+').next().unwrap_or_default();
    let (numbers, suffix) = text.split_once('-').unwrap_or((text, ""));
    let numbers = numbers.split('.').map_while(|part| part.parse().ok()).collect();
    (numbers, suffix.is_empty(), suffix.to_owned())
}

fn violations(refusal: Refusal) -> Vec<Violation> {
    match refusal.errors.is_empty() {
        true => vec![Violation::new("", refusal.detail)],
        false => refusal.errors,
    }
}

fn read_seed(config: &Config) -> Result<Option<SeedFile>, StartError> {
    let (path, named) = match &config.seed {
        Seeding::Named(path) => (path, true),
        Seeding::Default(path) => (path, false),
    };
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(SeedFile {
            path: path.clone(),
            text,
        })),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => {
            warn!(
                "SEED_FILE: {} is not there: starting with an empty fleet",
                path.display()
            );
            Ok(None)
        }
        Err(error) => Err(seed_error(path, vec![Violation::new("", error.to_string())])),
    }
}

fn seed_error(path: &Path, errors: Vec<Violation>) -> StartError {
    StartError::File {
        variable: "SEED_FILE",
        file: path.display().to_string(),
        errors,
    }
}

fn directory_error(directory: &[KindFile], offset: usize, errors: Vec<Violation>) -> StartError {
    let errors = errors.into_iter().map(|mut error| {
        if let Some((n, rest)) = operation_of(&error.pointer)
            && let Some(kind) = n.checked_sub(offset).and_then(|n| directory.get(n))
        {
            error.pointer = format!("{} {rest}", kind.file);
        }
        error
    });
    StartError::File {
        variable: "RESOURCES_DIR",
        file: "the kinds cannot be used".into(),
        errors: errors.collect(),
    }
}

/// `/operations/3/value/x` is the operation 3 at `/x`. Its kind is not in a document, but around it.
fn operation_of(pointer: &str) -> Option<(usize, &str)> {
    let rest = pointer.strip_prefix("/operations/")?;
    let (number, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let inside = rest.strip_prefix("/value").or_else(|| rest.strip_prefix("/kind"));
    Some((number.parse().ok()?, inside.unwrap_or(rest)))
}

fn in_seed(mut error: Violation, place: impl Fn(usize) -> Option<String>) -> Violation {
    if let Some((n, rest)) = operation_of(&error.pointer)
        && let Some(place) = place(n)
    {
        error.pointer = format!("{place}{rest}");
    }
    error
}

/// The kinds of a folder, by name of their files. Clusters come last: their schema may name the others.
fn read_directory(directory: &Path) -> Result<Vec<KindFile>, StartError> {
    let problem = |file: &Path, detail: String| StartError::File {
        variable: "RESOURCES_DIR",
        file: file.display().to_string(),
        errors: vec![Violation::new("", detail)],
    };
    let entries = std::fs::read_dir(directory).map_err(|error| problem(directory, error.to_string()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| problem(directory, error.to_string()))?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut kinds: Vec<KindFile> = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|error| problem(&path, error.to_string()))?;
        let document = yaml::parse(&text).map_err(|error| problem(&path, error))?;
        let name =
            kind::name_of(&document).map_err(|error| problem(&path, format!("{}: {}", error.pointer, error.detail)))?;
        if let Some(other) = kinds.iter().find(|kind| kind.name == name) {
            return Err(problem(&path, format!("is the kind \"{name}\", as {} is", other.file)));
        }
        kinds.push(KindFile {
            name,
            document,
            file: path.display().to_string(),
        });
    }
    kinds.sort_by_key(|kind| kind.name == kind::CLUSTERS);
    Ok(kinds)
}

/// The fleet of the files alone, without a store: what the OpenAPI document is generated from.
pub fn kinds_only(config: &Config) -> Result<Fleet, StartError> {
    let directory = directory_of(config)?;
    let built_in = built_in();
    let mut operations: Vec<Operation> = built_in.iter().map(|kind| kind.operation(BUILT_IN)).collect();
    operations.extend(directory.iter().map(|kind| kind.operation(RESOURCES_DIR)));
    let rules = Rules {
        batch: true,
        ..Rules::default()
    };
    let outcome = Fleet::default().write(&operations, rules);
    outcome
        .map(|outcome| outcome.committed(Default::default()))
        .map_err(|refusal| directory_error(&directory, built_in.len(), violations(refusal)))
}
