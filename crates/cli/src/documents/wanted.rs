//! What `apply`, `plan` and `diff` make of files: documents that are applied, and resources that are pruned.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use fleet::kind::CLUSTERS;
use fleet::operation::MOST_OPERATIONS;
use fleet::refusal::LEAVES_OUT;

use super::Applied;
use super::files::{Reading, read_as};
use super::prune::{self, Prune, PruneArgs};
use crate::client::Operation;
use crate::error::{ApiError, Failure};
use crate::session::{Session, blame};

// The documents of files, and what else is written.
#[derive(Args, Clone, Debug)]
pub(crate) struct DocumentArgs {
    /// A file or folder of documents, YAML or JSON, or - for stdin (can be repeated)
    #[arg(short, long, value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    pub(crate) filename: Vec<PathBuf>,
    /// Also read the folders within folders
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Keep the arrays of references that the document of a cluster leaves out
    #[arg(long, requires = "filename")]
    keep_missing: bool,
    #[command(flatten)]
    prune: PruneArgs,
}

/// The documents of files, and what may be pruned.
pub(crate) struct Files<'a> {
    applied: Vec<Applied>,
    prune: Option<Prune<'a>>,
}

/// The operations of files: documents that are applied, and resources that are pruned.
pub(crate) struct Wanted {
    pub(crate) operations: Vec<Operation>,
    /// How many of the operations are deletions.
    pruned: usize,
}

impl DocumentArgs {
    pub(crate) fn prunes(&self) -> bool {
        self.prune.prune
    }

    /// Reads the files.
    pub(crate) fn read<'a>(&self, session: &'a Session<'_>, selector: Option<&'a str>) -> Result<Files<'a>, Failure> {
        self.prune.check()?;
        let reading = Reading {
            recursive: self.recursive,
            complete: self.prune.prune,
        };
        let documents = read_as(&self.filename, reading)?;
        let prune = Prune::read(session, &self.prune, selector, &documents)?;
        let mut applied = Applied::read_all(session, &documents)?;
        if self.keep_missing {
            for cluster in applied.iter_mut().filter(|applied| applied.kind == CLUSTERS) {
                cluster.operation.body["keep_missing"] = true.into();
            }
        }
        Ok(Files { applied, prune })
    }
}

impl Files<'_> {
    /// The operations; to prune, the lists of the server are read.
    pub(crate) fn wanted(&self, session: &Session<'_>) -> Result<Wanted, Failure> {
        let deletions = match &self.prune {
            Some(prune) => prune.operations(session, &self.applied)?,
            None => Vec::new(),
        };
        let (documents, pruned) = (self.applied.len(), deletions.len());
        if documents + pruned > MOST_OPERATIONS {
            return Err(too_many(documents, pruned));
        }
        let applied = self.applied.iter().map(|applied| applied.operation.clone());
        Ok(Wanted {
            operations: applied.chain(deletions).collect(),
            pruned,
        })
    }

    /// How many documents of a kind there are.
    pub(crate) fn held(&self, kind: &str) -> u64 {
        self.applied.iter().filter(|applied| applied.kind == kind).count() as u64
    }
}

fn too_many(documents: usize, pruned: usize) -> Failure {
    let deletions = match pruned {
        0 => String::new(),
        count => format!(" and {count} deletions"),
    };
    let failure = Failure::refused(format!(
        "{documents} documents{deletions} are more than the {MOST_OPERATIONS} operations of one revision"
    ));
    failure.hint("apply the files in parts; with --prune, each part with its own -l or --kind")
}

impl Wanted {
    /// Explains a refusal.
    pub(crate) fn explain(&self, error: ApiError) -> Failure {
        let in_use = error.is("in-use") && self.pruned > 0;
        let failure = blame(&self.operations, error);
        match in_use {
            true => prune::in_use(failure),
            false => keeping(failure),
        }
    }
}

/// Arrays that documents leave out are the same problem for all clusters: the place is the array, not one of the files.
fn keeping(mut failure: Failure) -> Failure {
    let mut found = false;
    let short = |text: &str| {
        let end = text.find(": to remove them").unwrap_or(text.len());
        text[..end].replace(LEAVES_OUT, "that the documents leave out")
    };
    for (place, detail) in &mut failure.details {
        if detail.contains(LEAVES_OUT) {
            found = true;
            if let Some((_, array)) = place.rsplit_once(" /").filter(|_| !detail.starts_with("the cluster")) {
                *place = array.to_owned();
            }
            *detail = short(detail);
        }
    }
    if !found {
        return failure;
    }
    if let [(place, detail)] = failure.details.as_slice() {
        failure.message = format!("{place}: {detail}");
    }
    failure.hint("use --keep-missing to keep these references; [] in a document removes them")
}
