use std::time::Duration;

use clap::Args;

use super::{Failure, output};
use crate::config::{Options, values};
use crate::healthcheck;

/// Ask the server at LISTEN_ADDR, on this machine, whether it is ready: exit code 0 or 1, and a line that says why.
#[derive(Args, Debug)]
pub(super) struct Healthcheck {
    /// Ask whether it is alive (/health) instead.
    #[arg(long)]
    live: bool,
    /// How long the answer may take, in seconds or as 500ms, 3s.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = values::timeout)]
    timeout: Duration,
}

impl Healthcheck {
    pub(super) fn run(&self, options: &Options) -> Result<(), Failure> {
        let answer = healthcheck::ask(options.listen()?, options.speaks_tls(), self.live, self.timeout)?;
        output::print(format_args!("{answer}\n"))
    }
}
