//! Tables of text.

use serde_json::Value;

use super::Tone;

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<(String, Tone)>>,
    /// Lines after the rows.
    lines: Vec<(String, Tone)>,
}

impl Table {
    pub(crate) fn new<T: AsRef<str>>(heading: impl IntoIterator<Item = T>) -> Table {
        Table {
            heading: heading
                .into_iter()
                .map(|name| escaped(&name.as_ref().to_uppercase()))
                .collect(),
            ..Table::default()
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        let cells = cells.into_iter().map(|(text, tone)| (escaped(&text), tone));
        self.rows.push(cells.collect());
    }

    pub(crate) fn line(&mut self, text: impl AsRef<str>, tone: Tone) {
        self.lines.push((escaped(text.as_ref()), tone));
    }

    pub(crate) fn render(&self, colour: bool) -> String {
        let mut out = String::new();
        if !self.heading.is_empty() {
            let widths = self.widths();
            self.write_row(
                &mut out,
                &widths,
                self.heading.iter().map(|name| (name.as_str(), Tone::Head)),
                colour,
            );
            out.push_str(&self.rows_with(&widths, colour));
        }
        for (line, tone) in &self.lines {
            out.push_str(&tone.paint(line, colour));
            out.push('\n');
        }
        out
    }

    /// The rows of a stream, in columns of a fixed width: later rows are not known yet.
    pub(crate) fn render_rows(&self, colour: bool) -> String {
        self.rows_with(&self.fixed(), colour)
    }

    pub(crate) fn render_heading(&self, colour: bool) -> String {
        let mut out = String::new();
        self.write_row(
            &mut out,
            &self.fixed(),
            self.heading.iter().map(|name| (name.as_str(), Tone::Head)),
            colour,
        );
        out
    }

    fn fixed(&self) -> Vec<usize> {
        self.heading.iter().map(|name| name.len().max(12)).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.heading.iter().map(|name| name.chars().count()).collect();
        for row in &self.rows {
            for (width, (cell, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    fn rows_with(&self, widths: &[usize], colour: bool) -> String {
        let mut out = String::new();
        for row in &self.rows {
            self.write_row(
                &mut out,
                widths,
                row.iter().map(|(cell, tone)| (cell.as_str(), *tone)),
                colour,
            );
        }
        out
    }

    fn write_row<'a>(
        &self,
        out: &mut String,
        widths: &[usize],
        cells: impl Iterator<Item = (&'a str, Tone)>,
        colour: bool,
    ) {
        let last = widths.len().saturating_sub(1);
        for (n, ((cell, tone), width)) in cells.zip(widths).enumerate() {
            out.push_str(&tone.paint(cell, colour));
            if n < last {
                let gap = width.saturating_sub(cell.chars().count()) + 3;
                out.extend(std::iter::repeat_n(' ', gap));
            }
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }
}

/// Escapes control characters: a value must not break a row or control the terminal.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// The text of a value in a cell.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => escaped(text),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) if items.iter().all(|item| item.get("id").is_some_and(Value::is_string)) => {
            items.iter().map(|item| cell(&item["id"])).collect::<Vec<_>>().join(",")
        }
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Object(fields) if fields.is_empty() => "-".to_owned(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name}={}", cell(value)))
            .collect::<Vec<_>>()
            .join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let mut table = Table::new(["id", "text"]);
        let text = "a\u{1b}[31mb\u{7}\tc\r\nd\u{9b}e";
        table.row([(cell(&"x".into()), Tone::Plain), (text.to_owned(), Tone::Plain)]);
        table.row([(cell(&text.into()), Tone::Plain), ("ümlaut".to_owned(), Tone::Plain)]);
        table.line(text, Tone::Plain);
        let shown = table.render(false);
        assert!(!shown.replace('\n', "").contains(char::is_control), "{shown:?}");
        assert_eq!(shown.lines().count(), 4);
        assert!(shown.ends_with("a\\u{1b}[31mb\\u{7}\\tc\\r\\nd\\u{9b}e\n"), "{shown}");
        assert!(shown.contains("ümlaut"));
    }
}
