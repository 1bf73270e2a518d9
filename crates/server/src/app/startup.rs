//! From a configuration to a fleet: opening the store, filling an empty one, bringing the kinds of files up to date.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fleet::Fleet;
use fleet::budget::{Confirmation, Guard};
use fleet::document::Etag;
use fleet::json::Json;
use fleet::kind::{self, KINDS};
use fleet::log::{Author, Batch, Revision};
use fleet::operation::{Operation, Verb};
use fleet::refusal::{Reason, Refusal, Violation};
use fleet::write::Rules;
use fleet::{files, yaml};
use serde_json::Value;
use store::{CommitError, Store, StoreError};
use tracing::{info, warn};

use super::engine::recent;
use crate::config::{Backend, Budget, Config, ConfigError, Mode, Seed};

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
    let directory = match &config.resources_dir {
        Some(directory) => read_directory(directory)?,
        None => Vec::new(),
    };
    let mut fleet = load(store).await?;
    if let Seed::Named(path) = &config.seed
        && fleet.revision() != Revision::ZERO
        && !path.exists()
    {
        warn!(
            "SEED_FILE: {} is not there; the store holds a fleet, so it is not needed",
            path.display()
        );
    }
    // Several processes may start together: whoever comes second follows the first.
    while fleet.revision() == Revision::ZERO {
        if config.backend == Backend::Postgres && config.mode == Mode::ReadOnly {
            return Err(StartError::Store(StoreError::NotReady {
                place: "the PostgreSQL database".to_owned(),
                detail: "nobody has filled it yet, which takes a process in crud mode".to_owned(),
            }));
        }
        // Judged on their own first, so that what is wrong with a kind is not blamed on the seed.
        kinds_only(config)?;
        let seed = if with_seed { read_seed(config)? } else { None };
        fleet = fill(&fleet, store, &directory, seed.as_ref()).await?;
    }
    if config.mode == Mode::Crud {
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

/// The first revision: built-in kinds, then those of the folder, then the seed.
async fn fill(
    empty: &Fleet,
    store: &dyn Store,
    directory: &[KindFile],
    seed: Option<&(PathBuf, Value)>,
) -> Result<Fleet, StartError> {
    let built_in = built_in();
    let origin = kind::built_in_origin();
    let mut operations: Vec<Operation> = built_in.iter().map(|kind| kind.operation(&origin)).collect();
    operations.extend(directory.iter().map(|kind| kind.operation(RESOURCES_DIR)));
    let kinds = operations.len();
    if let Some((path, document)) = seed {
        let seeded = files::seed(document).map_err(|errors| seed_error(path, errors))?;
        operations.extend(seeded);
    }
    let rules = Rules {
        batch: true,
        allow_dangling: true,
    };
    let outcome = empty.write(&operations, rules).map_err(|refusal| {
        let errors = violations(refusal);
        match seed {
            Some((path, document)) => {
                seed_error(path, errors.into_iter().map(|e| in_seed(e, kinds, document)).collect())
            }
            None => directory_error(directory, built_in.len(), errors),
        }
    })?;
    let notes = built_in
        .iter()
        .map(built_in_note)
        .chain(directory.iter().map(directory_note));
    let batch = Batch {
        author: system(if seed.is_some() {
            "built-in kinds and seed"
        } else {
            "built-in kinds"
        }),
        changes: outcome.changes.clone(),
        applied: notes.collect(),
        ..Batch::default()
    };
    match store.commit(empty.head(), std::slice::from_ref(&batch)).await {
        Ok(heads) => {
            let head = heads.last().copied().unwrap_or_default();
            info!(
                %head,
                resources = batch.changes.len(),
                "filled the empty store"
            );
            Ok(outcome.committed(head))
        }
        Err(CommitError::Conflict | CommitError::Duplicate { .. }) => load(store).await,
        Err(CommitError::Store(error)) => Err(error.into()),
    }
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
        let applied = store.applied().await?;
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

fn read_seed(config: &Config) -> Result<Option<(PathBuf, Value)>, StartError> {
    let (path, named) = match &config.seed {
        Seed::Named(path) => (path, true),
        Seed::Default(path) => (path, false),
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => {
            warn!(
                "SEED_FILE: {} is not there: starting with an empty fleet",
                path.display()
            );
            return Ok(None);
        }
        Err(error) => return Err(seed_error(path, vec![Violation::new("", error.to_string())])),
    };
    let document = fleet::json::parse(text.as_bytes())
        .map_err(|error| seed_error(path, vec![Violation::new("", format!("is not JSON: {error}"))]))?;
    Ok(Some((path.clone(), document)))
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

fn in_seed(mut error: Violation, offset: usize, seed: &Value) -> Violation {
    if let Some((n, rest)) = operation_of(&error.pointer)
        && let Some(place) = n.checked_sub(offset).and_then(|n| files::seed_place(seed, n))
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
    let directory = match &config.resources_dir {
        Some(directory) => read_directory(directory)?,
        None => Vec::new(),
    };
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
