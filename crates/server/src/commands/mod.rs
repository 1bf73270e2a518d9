//! The commands of the server, a file each: its arguments, and what it does with them.

mod backup;
mod compact;
mod healthcheck;
mod identity;
mod import;
mod logging;
mod mirror;
mod openapi;
mod output;
mod reference;
mod repair;
mod restore;
mod serve;
mod store;
mod verify;

use std::io;

use clap::{Parser, Subcommand};

use crate::app::backup::{BackupError, RestoreError};
use crate::app::compact::CompactError;
use crate::app::import::ImportError;
use crate::app::mirror::MirrorError;
use crate::app::repair::RepairError;
use crate::app::start::StartError;
use crate::app::verify::VerifyError;
use crate::config::{ConfigError, ConfigErrors, Options};
use crate::healthcheck::Unhealthy;

/// The desired state of a whole fleet of Kubernetes clusters behind one API.
///
/// Without a command, the server runs. Every flag can be given as an environment variable instead.
#[derive(Debug, Parser)]
#[command(name = "flux-resourceset", version = env!("VERSION"))]
pub struct Cli {
    #[command(flatten)]
    pub options: Options,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (the default).
    Serve,
    Import(import::Import),
    Identity(identity::IdentityCommand),
    Verify(verify::Verify),
    Repair(repair::Repair),
    Compact(compact::Compact),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Mirror(mirror::Mirror),
    /// Print the OpenAPI document of the built-in kinds and of RESOURCES_DIR.
    Openapi,
    #[command(hide = true)]
    Reference(reference::Reference),
    Healthcheck(healthcheck::Healthcheck),
}

/// Why a command fails.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Config(ConfigErrors),
    #[error(transparent)]
    Start(StartError),
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A write on the store that was refused, or could not be done.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Repair(#[from] RepairError),
    #[error(transparent)]
    Compact(#[from] CompactError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error(transparent)]
    Unhealthy(#[from] Unhealthy),
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error("cannot write: {0}")]
    Output(io::Error),
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Failure::Config(errors)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::Config(error.into())
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Config(errors) => Failure::Config(errors),
            error => Failure::Start(error),
        }
    }
}

impl Cli {
    pub async fn run(&self) -> Result<(), Failure> {
        let options = &self.options;
        match &self.command {
            None | Some(Command::Serve) => serve::run(options, None).await,
            Some(Command::Mirror(command)) => command.run(options).await,
            Some(Command::Import(command)) => command.run(options).await,
            Some(Command::Identity(command)) => command.run(options).await,
            Some(Command::Verify(command)) => command.run(options).await,
            Some(Command::Repair(command)) => command.run(options).await,
            Some(Command::Compact(command)) => command.run(options).await,
            Some(Command::Backup(command)) => command.run(options).await,
            Some(Command::Restore(command)) => command.run(options).await,
            Some(Command::Openapi) => openapi::run(options),
            Some(Command::Reference(command)) => command.run(options),
            Some(Command::Healthcheck(command)) => command.run(options),
        }
    }
}
