//! Why a read fails. The HTTP layer turns each case into a status (`http/problem.rs`).

use fleet::inputs::Breach;
use fleet::log::Revision;
use fleet::refusal::Violation;
use fleet::selector::SelectorError;
use store::StoreError;

use super::engine::WriteError;
use super::reads::Stop;

/// Why something cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// No such kind, resource or revision.
    NotFound(String),
    /// A parameter has a value that is not allowed.
    BadParameter(String),
    Selector(SelectorError),
    /// The templates fail for the cluster.
    Invalid(Vec<Violation>),
    /// What is stored breaks the contract with Flux.
    Breach(Breach),
    /// The client follows a log that is not this one.
    OtherHistory(String),
    /// Too many clients do the same.
    Busy(&'static str),
    Store(StoreError),
    Stopped(Stop),
    /// The result may depend on damaged rows of the store.
    Damaged,
    /// A bug. The log has the details.
    Internal,
}

impl ReadError {
    pub fn no_revision(revision: Revision) -> Self {
        let begin = match revision {
            Revision::ZERO => ": revisions begin at 1",
            _ => "",
        };
        ReadError::NotFound(format!("there is no revision {revision}{begin}"))
    }
}

impl From<Stop> for ReadError {
    fn from(stop: Stop) -> Self {
        ReadError::Stopped(stop)
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        ReadError::Store(error)
    }
}

impl From<SelectorError> for ReadError {
    fn from(error: SelectorError) -> Self {
        ReadError::Selector(error)
    }
}

/// Why a rollback fails: the earlier state cannot be read, or the write is refused.
#[derive(Debug)]
pub enum RollbackError {
    Read(ReadError),
    Write(WriteError),
}

impl From<ReadError> for RollbackError {
    fn from(error: ReadError) -> Self {
        RollbackError::Read(error)
    }
}

impl From<WriteError> for RollbackError {
    fn from(error: WriteError) -> Self {
        RollbackError::Write(error)
    }
}
