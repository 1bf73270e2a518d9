//! `whoami`.

use clap::Args;
use serde_json::Value;

use crate::client::Right;
use crate::error::Failure;
use crate::identities::scope;
use crate::output::{Table, Tone, cell};
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
    let names = || vec![text(&caller["id"]).to_owned()];
    session.printer.print(&caller, |_| table(&caller), names)
}

fn table(caller: &Value) -> Table {
    let mut table = Table::new(["id", "role", "scope", "expires"]);
    let cells = [
        cell(&caller["id"]),
        cell(&caller["role"]),
        scope(caller),
        cell(&caller["expires_at"]),
    ];
    table.row(cells.map(|text| (text, Tone::Plain)));
    table
}
