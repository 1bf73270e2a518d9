use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use flux_resourceset::commands::{Cli, Failure};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail([format_args!("cannot start: {error}")]),
    };
    let outcome = runtime.block_on(cli.run());
    // A write that is still being judged was not acknowledged, so the exit does not wait for it.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Config(problems)) => fail(problems.iter()),
        Err(failure) => fail([failure]),
    }
}

fn fail(problems: impl IntoIterator<Item = impl fmt::Display>) -> ExitCode {
    for problem in problems {
        // When standard error is closed, the exit code still tells.
        let _ = writeln!(io::stderr(), "error: {problem}");
    }
    ExitCode::FAILURE
}
