//! The pages of the book that are written by the program: what the API and the server's command line are, from the same
//! definitions that serve them.

pub mod api;
pub mod server;

/// What each generated page begins with.
fn warning(source: &str) -> String {
    format!("<!-- Written by `make generate`; `make verify` compares. Change {source} instead. -->\n")
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
