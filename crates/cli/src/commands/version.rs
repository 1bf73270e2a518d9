//! `version`.

use serde_json::json;

use crate::cli::NAME;
use crate::error::Failure;
use crate::output::{Printer, Table, Tone};

pub(crate) fn run(printer: &Printer) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let mut all = json!({ "version": version });
    let build = [("commit", env!("COMMIT")), ("commit_date", env!("COMMIT_DATE"))];
    for (name, value) in build.into_iter().filter(|(_, value)| !value.is_empty()) {
        all[name] = value.into();
    }
    let mut table = Table::default();
    table.line(format!("{NAME} {}", env!("VERSION")), Tone::Plain);
    printer.print(&all, |_| table, || vec![version.to_owned()])
}
