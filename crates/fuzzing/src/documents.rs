//! Documents as `import` and `apply` read them: one JSON object per line, each with its kind.

use fleet::{files, json};

use crate::accepted;

const MOST_LINES: usize = 8;

pub fn documents(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').take(MOST_LINES);
    let operations = lines
        .filter_map(|line| json::parse(line).ok())
        .filter_map(|document| files::apply(document).ok());
    let operations: Vec<_> = operations.collect();
    if !operations.is_empty() {
        accepted::write(&operations);
    }
}
