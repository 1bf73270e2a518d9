//! The life of a cluster, with the real components: Kubernetes' API server and controller manager, Flux Operator, Flux' source-,
//! kustomize-, helm- and notification-controller, and our own server, command line and reporter. All of them are plain processes on loopback.

mod account;
mod artifacts;
mod certificates;
mod cluster;
mod demo;
mod fleet;
mod kube;
mod life;
mod login;
mod manifests;
mod process;
mod report;
mod reporter;
mod setup;
mod shipped;
mod signing;
mod story;
mod wait;
mod wiring;
mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use clap::{Parser, Subcommand};

use story::Story;
use world::World;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// Walks a cluster through its life with a real Kubernetes and a real Flux.
#[derive(Debug, Parser)]
struct Args {
    /// What build.sh built: bin/ and crds/
    #[arg(long, value_name = "DIR")]
    parts: PathBuf,
    /// Our server
    #[arg(long, value_name = "PATH")]
    server: PathBuf,
    /// Our command line
    #[arg(long, value_name = "PATH")]
    cli: PathBuf,
    /// Our reporter; the demo needs none
    #[arg(long, value_name = "PATH")]
    reporter: Option<PathBuf>,
    /// What notification.sh built: bin/ and crds/; the demo needs none of it
    #[arg(long, value_name = "DIR")]
    notification: Option<PathBuf>,
    /// kubectl, which has kustomize in it
    #[arg(long, value_name = "PATH")]
    kubectl: PathBuf,
    /// The repository, for its manifests and its demo fleet
    #[arg(long, value_name = "DIR", default_value = ".")]
    repository: PathBuf,
    /// Keep the folder with logs and databases though all went well
    #[arg(long)]
    keep: bool,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum What {
    /// Start everything, say what to try, and leave it running until Ctrl-C
    Demo,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next();
    // Other tests on the same parts, with arguments of their own.
    let word = words.next();
    let rest = program.into_iter().chain(words);
    match word.as_ref().and_then(|word| word.to_str()) {
        Some("manifests") => {
            let args = shipped::Args::parse_from(rest);
            return alone("manifests", |folder| shipped::check(&args, folder));
        }
        Some("reporter") => {
            let args = reporter::Args::parse_from(rest);
            return alone("reporter", |folder| reporter::check(&args, folder));
        }
        _ => {}
    }
    let args = Args::parse();
    listen_for_interrupts();
    let prefix = match args.what {
        None => "flux-resourceset-e2e-",
        Some(What::Demo) => "flux-resourceset-demo-",
    };
    let folder = match tempfile::Builder::new().prefix(prefix).tempdir() {
        Ok(folder) => folder,
        Err(error) => return failed(&error.into()),
    };
    let result = run(&args, folder.path());
    let keep = args.keep || (result.is_err() && !wait::interrupted());
    if keep {
        println!("\nLogs and everything else are in {}", folder.keep().display());
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Ctrl-C is how a demo ends.
        Err(_) if args.what.is_some() && wait::interrupted() => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Runs a test in a folder of its own.
fn alone(name: &str, test: impl FnOnce(&Path) -> Result<()>) -> ExitCode {
    listen_for_interrupts();
    let folder = tempfile::Builder::new()
        .prefix(&format!("flux-resourceset-{name}-"))
        .tempdir();
    match folder.map_err(Error::from).and_then(|folder| test(folder.path())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> ExitCode {
    eprintln!("\ne2e: {error}");
    ExitCode::FAILURE
}

/// Everything that was started ends with `world`, however this ends.
fn run(args: &Args, folder: &Path) -> Result<()> {
    if args.what.is_none() && (args.reporter.is_none() || args.notification.is_none()) {
        return Err("the story needs --reporter and --notification".into());
    }
    let mut story = Story::new();
    let mut world = World::start(args, folder, &story)?;
    let told = match args.what {
        None => life::live(&mut story, &mut world),
        Some(What::Demo) => demo::run(args, &mut story, &mut world),
    };
    match &told {
        Ok(()) if args.what.is_none() => story.end(),
        Ok(()) => {}
        Err(_) if wait::interrupted() => {}
        Err(error) => {
            println!("  ✗ {error}");
            report::print(&mut world);
        }
    }
    told
}

/// Ctrl-C, SIGTERM and SIGHUP end the test in order: waits fail, and every process that was started is stopped.
fn listen_for_interrupts() {
    use tokio::signal::unix::{SignalKind, signal};
    thread::spawn(|| -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            let mut hangup = signal(SignalKind::hangup())?;
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                eprintln!("\nstopping everything that was started");
                wait::interrupt();
            }
        })
    });
}
