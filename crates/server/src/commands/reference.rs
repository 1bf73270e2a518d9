use clap::Args;

use super::{Failure, openapi, output};
use crate::config::Options;
use crate::reference;

/// Print a page of the book that is generated from definitions.
#[derive(Args, Debug)]
pub(super) struct Reference {
    #[arg(value_enum)]
    page: Page,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Page {
    /// docs/src/api.md
    Api,
    /// docs/src/server.md
    Server,
}

impl Reference {
    pub(super) fn run(&self, options: &Options) -> Result<(), Failure> {
        let page = match self.page {
            Page::Api => reference::api::page(&openapi::document(options)?),
            Page::Server => reference::server::page(),
        };
        output::print(format_args!("{page}"))
    }
}
