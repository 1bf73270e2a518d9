use fleet::Fleet;
use serde_json::Value;

use super::{Failure, output};
use crate::app::start;
use crate::config::{ConfigErrors, Mode, Options};
use crate::http::openapi;

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let text = openapi::text(fleet(options)?.kinds(), Mode::Crud);
    output::print(format_args!("{text}"))
}

/// The document of a server in crud mode, from the kind files alone: no store is opened.
pub(super) fn document(options: &Options) -> Result<Value, ConfigErrors> {
    Ok(openapi::document(fleet(options)?.kinds(), Mode::Crud))
}

fn fleet(options: &Options) -> Result<Fleet, ConfigErrors> {
    let mut problems = ConfigErrors::default();
    let config = options.check(&mut problems);
    let fleet = problems.keep(start::fleet_of_files(&config));
    problems.into_result()?;
    Ok(fleet.unwrap_or_default())
}
