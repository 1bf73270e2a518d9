use clap::Args;
use fleet::log::Head;

use super::{Failure, output, store};
use crate::app::verify::verify;
use crate::config::Options;

/// Check that log and state are unchanged since they were written; works beside a running server.
///
/// Compares rows, indexes, digests and log. Prints the head as `revision:digest`, in the form that each commit logs. Exits with 1
/// when something is damaged, edited, deleted or swapped, and lists every place (up to 100); `repair` may help. Two attacks are
/// found only with an anchor: a log whose end was cut off together with the state, and a log that was rewritten as a whole.
#[derive(Args, Debug)]
pub(super) struct Verify {
    /// A head that was recorded earlier: the log must still contain it. Can be repeated.
    #[arg(long = "anchor", value_name = "REVISION:DIGEST", value_parser = anchor)]
    anchors: Vec<Head>,
}

impl Verify {
    pub(super) async fn run(&self, options: &Options) -> Result<(), Failure> {
        let store = store::open_for_reading(options).await?;
        let outcome = verify(&*store, &self.anchors).await;
        store.close().await;
        output::print(format_args!("{}\n", outcome?))
    }
}

fn anchor(text: &str) -> Result<Head, String> {
    let problem = "expected a revision and its digest, as each commit logs them: 57:8f3c…";
    Head::parse(text).ok_or_else(|| problem.to_owned())
}
