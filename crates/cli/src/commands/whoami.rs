//! `whoami`.

use clap::Args;
use serde_json::Value;

use crate::client::Right;
use crate::error::Failure;
use crate::identities::scope;
use crate::output::{Printer, Table, Tone, cell};
use crate::session::{Session, text};

#[derive(Args, Clone, Debug)]
pub(crate) struct WhoamiArgs {
    /// Who the token for reading belongs to [default: the one for writing]
    #[arg(long)]
    reading: bool,
}

pub(crate) fn run(session: &Session<'_>, args: &WhoamiArgs) -> Result<(), Failure> {
    let right = if args.reading { Right::Read } else { Right::Write };
    let caller = session.client.whoami(right)?;
    show(session.printer, &caller)
}

/// Shows the reply of the server.
pub(crate) fn show(printer: &Printer, caller: &Value) -> Result<(), Failure> {
    let names = || vec![text(&caller["id"]).to_owned()];
    printer.print(caller, |_| table(caller), names)
}

fn table(caller: &Value) -> Table {
    let mut columns = vec![
        ("id", cell(&caller["id"])),
        ("role", cell(&caller["role"])),
        ("scope", scope(caller)),
        ("expires", cell(&caller["expires_at"])),
    ];
    // Of callers with a JWT.
    if caller["subject"].is_string() {
        columns.insert(1, ("subject", cell(&caller["subject"])));
    }
    let mut table = Table::new(columns.iter().map(|(name, _)| name));
    table.row(columns.iter().map(|(_, text)| (text.clone(), Tone::Plain)));
    table
}
