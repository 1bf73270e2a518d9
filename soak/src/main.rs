//! Runs the real server for a long time under everything that can happen to it, and checks its promises all the while.
//!
//! A [`site::Site`] is one database with the processes on it and the [`model`] of what they must serve. [`actors`] work on it at
//! the same time, each from a fixed seed. Every now and then they pause for a quiet point ([`quiet`]), where all processes
//! must agree with each other, with the model and with the log.

mod actors;
mod client;
mod disturbance;
mod findings;
mod ledger;
mod memory;
mod model;
mod process;
mod quiet;
mod report;
mod run;
mod site;
mod tally;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bench::Result;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use run::Run;
use site::Site;

/// Runs flux-resourceset under load, restarts, kills, database faults and attacks, and checks what it promises.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// How long, as in 90s, 10m, 1h
    #[arg(long, env = "DURATION", default_value = "1h", value_parser = duration)]
    duration: Duration,
    /// How many clusters each fleet has
    #[arg(long, default_value_t = 2000)]
    clusters: usize,
    /// The random numbers of all actors follow from it
    #[arg(long, default_value_t = 14)]
    seed: u64,
    /// The server binary [default: flux-resourceset beside this program]
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Leave PostgreSQL out
    #[arg(long)]
    no_postgres: bool,
    /// Also write the report as a page of the documentation
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Keep databases and logs in this folder [default: a temporary one that is removed at the end]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

fn duration(text: &str) -> std::result::Result<Duration, String> {
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let number: u64 = number
        .parse()
        .map_err(|_| "a number and its unit, as in 90s, 10m, 1h")?;
    match unit {
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number * 60)),
        "h" => Ok(Duration::from_secs(number * 3600)),
        _ => Err("the unit is s, m or h".to_owned()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let done = tokio::select! {
        done = soak(&args) => done,
        () = interrupted() => Err("interrupted".into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::from(2)
        }
    }
}

async fn interrupted() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// True: every check passed.
async fn soak(args: &Args) -> Result<bool> {
    rlimit::increase_nofile_limit(16 * 1024)?;
    let folder = tempfile::Builder::new().prefix("soak-").tempdir()?;
    let base = args.keep.clone().unwrap_or_else(|| folder.path().to_owned());
    std::fs::create_dir_all(&base)?;
    let binary = binary(args)?;
    eprintln!("soak: filling {}", base.display());
    let mut sites = vec![Arc::new(Site::sqlite(&binary, &base.join("sqlite"), args).await?)];
    if !args.no_postgres {
        sites.push(Arc::new(Site::postgres(&binary, &base.join("postgres"), args).await?));
    }
    let run = Arc::new(Run::new(args, sites));
    run::drive(&run).await?;
    let report = report::Report::of(&run);
    println!("{}", report.text());
    if let Some(out) = &args.out {
        std::fs::write(out, report.page())?;
        eprintln!("soak: written to {}", out.display());
    }
    for site in &run.sites {
        site.stop().await;
    }
    Ok(run.findings.is_empty())
}

fn binary(args: &Args) -> Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("flux-resourceset");
    let binary = std::path::absolute(args.server.as_ref().unwrap_or(&beside))?;
    match binary.is_file() {
        true => Ok(binary),
        false => Err(format!("no server at {}: build it, or name it with --server", binary.display()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        for bad in ["", "5", "m", "5d", "-1s", "1é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
