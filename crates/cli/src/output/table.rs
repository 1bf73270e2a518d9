//! Tables of text.

use serde_json::Value;

use super::Tone;

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    heading: Vec<String>,
    /// The least widths of the columns of a stream.
    least: Vec<usize>,
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

    /// Sets the least widths of the first columns of a stream, for values whose length is known.
    #[must_use]
    pub(crate) fn at_least(mut self, widths: &[usize]) -> Table {
        self.least = widths.to_vec();
        self
    }

    /// A table whose heading is not changed to upper case.
    pub(crate) fn as_written<T: AsRef<str>>(heading: impl IntoIterator<Item = T>) -> Table {
        Table {
            heading: heading.into_iter().map(|name| escaped(name.as_ref())).collect(),
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

    pub(crate) fn render(&self, colour: bool, heading: bool) -> String {
        let mut out = String::new();
        if !self.heading.is_empty() {
            let widths = self.widths(heading);
            if heading {
                self.write_row(
                    &mut out,
                    &widths,
                    self.heading.iter().map(|name| (name.as_str(), Tone::Head)),
                    colour,
                );
            }
            out.push_str(&self.rows_with(&widths, colour));
        }
        for (line, tone) in &self.lines {
            out.push_str(&tone.paint(line, colour));
            out.push('\n');
        }
        out
    }

    /// The rows of a stream. A column is as wide as its widest value so far: later rows are not known yet.
    pub(crate) fn render_rows(&self, widths: &mut Vec<usize>, colour: bool) -> String {
        self.widen(widths);
        self.rows_with(widths, colour)
    }

    /// The heading of a stream that begins with these rows.
    pub(crate) fn render_heading(&self, widths: &mut Vec<usize>, colour: bool) -> String {
        self.widen(widths);
        let mut out = String::new();
        let heading = self.heading.iter().map(|name| (name.as_str(), Tone::Head));
        self.write_row(&mut out, widths, heading, colour);
        out
    }

    fn widen(&self, widths: &mut Vec<usize>) {
        const USUAL: usize = 12;
        for (n, width) in self.widths(true).into_iter().enumerate() {
            let width = width.max(self.least.get(n).copied().unwrap_or(USUAL));
            match widths.get_mut(n) {
                Some(known) => *known = width.max(*known),
                None => widths.push(width),
            }
        }
    }

    fn widths(&self, heading: bool) -> Vec<usize> {
        let width = |name: &String| if heading { name.chars().count() } else { 0 };
        let mut widths: Vec<usize> = self.heading.iter().map(width).collect();
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
    fn the_columns_of_a_stream_stay_aligned() {
        let rows = |cells: &[(&str, &str, &str)]| {
            let mut table = Table::new(["n", "actor", "reason"]).at_least(&[3]);
            for (n, actor, reason) in cells {
                table.row([n, actor, reason].map(|cell| ((*cell).to_owned(), Tone::Plain)));
            }
            table
        };
        let mut widths = Vec::new();
        let first = rows(&[("1", "a-very-long-actor", "x")]);
        let mut shown = first.render_heading(&mut widths, false);
        shown.push_str(&first.render_rows(&mut widths, false));
        shown.push_str(&rows(&[("2", "anna", "y")]).render_rows(&mut widths, false));
        // A wider value moves the rows after it.
        shown.push_str(&rows(&[("3", "a-very-very-long-actor", "z")]).render_rows(&mut widths, false));
        shown.push_str(&rows(&[("4", "anna", "w")]).render_rows(&mut widths, false));
        let expected = [
            "N     ACTOR               REASON",
            "1     a-very-long-actor   x",
            "2     anna                y",
            "3     a-very-very-long-actor   z",
            "4     anna                     w",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn control_characters_are_escaped() {
        let mut table = Table::new(["id", "text"]);
        let text = "a\u{1b}[31mb\u{7}\tc\r\nd\u{9b}e";
        table.row([(cell(&"x".into()), Tone::Plain), (text.to_owned(), Tone::Plain)]);
        table.row([(cell(&text.into()), Tone::Plain), ("ümlaut".to_owned(), Tone::Plain)]);
        table.line(text, Tone::Plain);
        let shown = table.render(false, true);
        assert!(!shown.replace('\n', "").contains(char::is_control), "{shown:?}");
        assert_eq!(shown.lines().count(), 4);
        assert!(shown.ends_with("a\\u{1b}[31mb\\u{7}\\tc\\r\\nd\\u{9b}e\n"), "{shown}");
        assert!(shown.contains("ümlaut"));
    }
}
