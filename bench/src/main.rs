//! Measures the figures that the service has to reach, as ratios to a yardstick in the same run.

mod certificates;
mod heavy;
mod identities;
mod load;
mod measure;
mod pages;
mod replicas;
mod report;
mod scale;
mod server;
mod status;
mod steady;
mod tls;
mod yardstick;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bench::{Error, Result, generate, http};
use clap::{Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use certificates::Certificates;
use measure::Bench;

/// The product uses it too, so the yardstick gets the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures flux-resourceset against a bare axum server.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    /// Fewer turns: a first impression, not a verdict
    #[arg(long)]
    quick: bool,
    /// Measure only this; may be repeated
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// The server binary [default: flux-resourceset beside this program]
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Where the databases go; must be on a disk for the commits to mean anything
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Also write the table as a page of the documentation
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Exit with 0 though a target is missed
    #[arg(long)]
    no_fail: bool,
    /// Measure the yardstick against itself: is the bench level?
    #[arg(long)]
    self_check: bool,
}

#[derive(Debug, Subcommand)]
enum Sub {
    /// Serve a constant body (the bench starts this by itself)
    #[command(hide = true)]
    Yardstick {
        #[arg(long)]
        size: usize,
        #[arg(long, value_name = "FILE", requires = "key")]
        certificate: Option<PathBuf>,
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Measure the everyday load of a large fleet: 10,000 polls, 50 writes and 100 reports each second
    Steady {
        /// How many clusters
        #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
        clusters: usize,
        /// How long, after every reply was polled once
        #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
        minutes: u64,
    },
    /// Measure what a fleet takes, in several sizes
    Scale {
        /// How many clusters; may be repeated
        #[arg(long, value_name = "COUNT", default_values_t = [10_000, 100_000, 1_000_000])]
        clusters: Vec<usize>,
        /// Also write the table as a page of the documentation
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Part {
    Polls,
    Memory,
    Identities,
    IdentityMemory,
    Tls,
    Writers,
    Replicas,
    HeavyReads,
    Status,
    StatusMillion,
    Pages,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let done = tokio::select! {
        done = run(&args) => done,
        reason = interrupted() => Err(reason),
    };
    match done {
        Ok(missed) => u8::from(missed && !args.no_fail).into(),
        Err(error) => {
            eprintln!("bench: {error}");
            // Exits at once: threads of an interrupted load may run for seconds. Children and files are gone already.
            std::process::exit(2)
        }
    }
}

async fn interrupted() -> Error {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    "interrupted".into()
}

impl Args {
    fn binary(&self) -> Result<PathBuf> {
        let beside = std::env::current_exe()?.with_file_name("flux-resourceset");
        let binary = std::path::absolute(self.server.as_ref().unwrap_or(&beside))?;
        match binary.is_file() {
            true => Ok(binary),
            false => {
                let binary = binary.display();
                Err(format!("no server at {binary}: build it first, or name it with --server").into())
            }
        }
    }
}

async fn run(args: &Args) -> Result<bool> {
    // One connection per poll leaves thousands of them open, here and in the yardstick, which inherits the limit.
    rlimit::increase_nofile_limit(16 * 1024)?;
    match &args.command {
        Some(Sub::Yardstick { size, certificate, key }) => {
            let files = certificate.clone().zip(key.clone());
            let certificates = files.map(|(certificate, key)| Certificates { certificate, key });
            yardstick::serve(*size, certificates.as_ref()).await?;
        }
        Some(Sub::Steady { clusters, minutes }) => {
            let time = Duration::from_secs(60 * minutes);
            steady::run(&args.binary()?, &args.dir, *clusters, time).await?;
            return Ok(false);
        }
        Some(Sub::Scale { clusters, out }) => {
            scale::run(&args.binary()?, &args.dir, clusters, out.as_deref()).await?;
            return Ok(false);
        }
        None => {}
    }
    // Many short turns and not few long ones: what slows the machine down lasts for seconds, and should hit both sides.
    let (turns, turn) = (if args.quick { 5 } else { 21 }, Duration::from_secs(1));
    let mut bench = Bench::new(turns, turn, &args.dir);
    if args.self_check {
        bench.self_check().await?;
    } else {
        bench
            .product(&args.binary()?, |part| {
                args.only.is_empty() || args.only.contains(&part)
            })
            .await?;
    }
    println!("{}", bench.report.table());
    if let Some(out) = &args.out {
        let turns = format!("{turns} of {} s each", turn.as_secs());
        std::fs::write(out, bench.report.page(&args.dir, &turns))?;
        eprintln!("written to {}", out.display());
    }
    Ok(bench.report.missed())
}
