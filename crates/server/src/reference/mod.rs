//! The pages of the book that the server writes: the references of the API and of the server's command line, from the
//! definitions that the code uses.

pub mod api;
pub mod server;

/// The first line of each generated page.
fn warning(source: &str) -> String {
    format!("<!-- Written by `make generate`; `make verify` compares. Change {source} instead. -->\n")
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
