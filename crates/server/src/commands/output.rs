//! Standard output is for data, standard error for people.

use std::fmt;
use std::io::{self, Write};

use super::Failure;

/// Writes to standard output. A reader that closed the pipe has read enough.
pub(super) fn print(text: fmt::Arguments<'_>) -> Result<(), Failure> {
    match io::stdout().write_fmt(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Writes a line to standard error: standard output may be the file that the command writes.
pub(super) fn report(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}
