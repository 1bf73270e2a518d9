//! A page for people: fields, then sections with tables.

use serde_json::{Map, Value};

use super::{Table, Tone, cell, escaped};

#[derive(Debug, Default)]
pub(crate) struct Page {
    out: String,
    colour: bool,
}

/// How far the content of a section is moved to the right.
const INDENT: &str = "  ";

impl Page {
    pub(crate) fn new(title: &str, colour: bool) -> Page {
        let title = Tone::Head.paint(&escaped(title), colour);
        Page {
            out: format!("{title}\n"),
            colour,
        }
    }

    /// One line for each field, with the values below each other. An object of texts has one line for each text.
    pub(crate) fn fields<'v>(&mut self, fields: impl Iterator<Item = (&'v str, &'v Value)>) {
        let mut lines: Vec<(String, String)> = Vec::new();
        for (name, value) in fields {
            match value.as_object().filter(|inner| !inner.is_empty()) {
                Some(inner) => lines.extend(pairs(name, inner)),
                None => lines.push((format!("{name}:"), cell(value))),
            }
        }
        let width = lines
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or_default();
        for (name, value) in lines {
            let gap = " ".repeat(width - name.chars().count() + 2);
            self.out.push_str(&format!("{INDENT}{name}{gap}{value}\n"));
        }
    }

    /// A section with a table.
    pub(crate) fn section(&mut self, title: &str, table: &Table) {
        let title = Tone::Head.paint(&escaped(title), self.colour);
        self.out.push_str(&format!("\n{title}\n"));
        for line in table.render(self.colour, true).lines() {
            self.out.push_str(&format!("{INDENT}{line}\n"));
        }
    }

    /// A section that has nothing in it.
    pub(crate) fn empty(&mut self, title: &str, text: &str) {
        let mut table = Table::default();
        table.line(text, Tone::Quiet);
        self.section(title, &table);
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }
}

/// The name stands before the first pair only.
fn pairs(name: &str, inner: &Map<String, Value>) -> impl Iterator<Item = (String, String)> {
    inner.iter().enumerate().map(move |(n, (key, value))| {
        let name = if n == 0 { format!("{name}:") } else { String::new() };
        (name, escaped(&format!("{key}={}", cell(value))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_aligned_and_sections_indented() {
        let mut page = Page::new("clusters/a", false);
        let fields = json!({"environment": "dev", "labels": {"a": "1", "b": "x\u{1b}"}, "none": {}});
        page.fields(
            fields
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.as_str(), value)),
        );
        page.empty("Last changes", "none");
        let expected = "clusters/a\n  environment:  dev\n  labels:       a=1\n                b=x\\u{1b}\n  none:         -\n\n\
                        Last changes\n  none\n";
        assert_eq!(page.finish(), expected);
    }
}
