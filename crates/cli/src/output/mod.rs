//! The printer owns stdout and stderr: stdout is data, stderr is for people.

mod columns;
pub(crate) mod jsonpath;
mod page;
mod table;

use std::cell::RefCell;
use std::env;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::styling::{AnsiColor, Style};
use serde_json::{Value, json};

use self::columns::CustomColumns;
use self::jsonpath::JsonPath;
pub(crate) use self::page::Page;
pub(crate) use self::table::{Table, cell, escaped};
use crate::error::Failure;

/// The format of stdout.
#[derive(Clone, Debug)]
pub(crate) enum Format {
    Json,
    Yaml,
    Name,
    Table {
        wide: bool,
    },
    JsonPath(JsonPath),
    CustomColumns(CustomColumns),
    /// Files in a folder, for the commands that write them.
    Folder(PathBuf),
}

/// The names of the formats, for messages.
const FORMATS: &str = "json, yaml, name, table, wide, jsonpath=TEMPLATE or custom-columns=HEADING:PATH,...";

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        Ok(match text {
            "json" => Format::Json,
            "yaml" => Format::Yaml,
            "name" => Format::Name,
            "table" => Format::Table { wide: false },
            "wide" => Format::Table { wide: true },
            _ => match text.split_once('=') {
                Some(("jsonpath", template)) => Format::JsonPath(JsonPath::parse(template)?),
                Some(("custom-columns", columns)) => Format::CustomColumns(CustomColumns::parse(columns)?),
                _ => return Err(format!("expected {FORMATS}")),
            },
        })
    }
}

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Head,
    Good,
    Bad,
    Attention,
    Quiet,
}

impl Tone {
    pub(crate) fn paint(self, text: &str, colour: bool) -> String {
        let style = match self {
            _ if !colour => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Head => Style::new().bold(),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
            Tone::Attention => AnsiColor::Yellow.on_default(),
            Tone::Quiet => Style::new().dimmed(),
        };
        format!("{}{text}{}", style.render(), style.render_reset())
    }
}

#[derive(Debug)]
pub(crate) struct Printer {
    format: Format,
    /// Whether the format was given with -o.
    explicit: bool,
    /// Whether tables have a heading.
    headings: bool,
    colour: bool,
    colour_errors: bool,
    /// The widths of the columns of a stream, so far.
    widths: RefCell<Vec<usize>>,
}

/// Whether a stream is coloured: NO_COLOR and CLICOLOR_FORCE decide, else whether it is a terminal.
fn colourful(terminal: bool) -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    if is_set("NO_COLOR") {
        return false;
    }
    is_set("CLICOLOR_FORCE") || (terminal && env::var_os("TERM").is_none_or(|term| term != "dumb"))
}

impl Printer {
    pub(crate) fn new(format: Option<Format>) -> Printer {
        let terminal = io::stdout().is_terminal();
        let usual = if terminal {
            Format::Table { wide: false }
        } else {
            Format::Json
        };
        Printer {
            explicit: format.is_some(),
            format: format.unwrap_or(usual),
            headings: true,
            colour: colourful(terminal),
            colour_errors: colourful(io::stderr().is_terminal()),
            widths: RefCell::default(),
        }
    }

    /// The same printer, without the headings of tables.
    #[must_use]
    pub(crate) fn without_headings(self, without: bool) -> Printer {
        Printer {
            headings: !without,
            ..self
        }
    }

    /// The same printer, with YAML in place of a table.
    #[must_use]
    pub(crate) fn as_document(&self) -> Printer {
        Printer {
            format: match &self.format {
                Format::Table { .. } => Format::Yaml,
                other => other.clone(),
            },
            widths: RefCell::default(),
            ..*self
        }
    }

    /// Whether the format was given with -o.
    pub(crate) fn is_explicit(&self) -> bool {
        self.explicit
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.format, Format::Table { .. })
    }

    pub(crate) fn is_wide(&self) -> bool {
        matches!(self.format, Format::Table { wide: true })
    }

    pub(crate) fn shows_yaml(&self) -> bool {
        matches!(self.format, Format::Yaml)
    }

    /// Whether manifests are printed as YAML: unless another format was given.
    pub(crate) fn is_manifests(&self) -> bool {
        !self.explicit || matches!(self.format, Format::Yaml | Format::Table { .. })
    }

    /// The folder that files are written to, if one was named with -o.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match &self.format {
            Format::Folder(path) => Some(path),
            _ => None,
        }
    }

    /// Prints a value.
    pub(crate) fn print(
        &self,
        value: &Value,
        table: impl FnOnce(bool) -> Table,
        names: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Failure> {
        let text = match &self.format {
            Format::Json | Format::Folder(_) => pretty(value),
            Format::Yaml => yaml(value),
            Format::Table { wide } => table(*wide).render(self.colour, self.headings),
            Format::CustomColumns(columns) => columns.table(value).render(self.colour, self.headings),
            Format::Name => names().into_iter().map(|name| name + "\n").collect(),
            Format::JsonPath(path) => {
                let mut text = path.evaluate(value);
                if text.trim().is_empty() && path.names_metadata() {
                    self.hint("resources have no metadata: use .id and .labels");
                }
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                text
            }
        };
        self.text(&text)
    }

    /// Prints one value of a stream; in JSON, on one line.
    pub(crate) fn stream(
        &self,
        value: &Value,
        table: impl FnOnce(bool) -> Table,
        names: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Failure> {
        match &self.format {
            Format::Json => self.text(&format!("{value}\n")),
            Format::Yaml => self.text(&format!("---\n{}", yaml(value))),
            Format::Table { wide } => {
                let rows = table(*wide).render_rows(&mut self.widths.borrow_mut(), self.colour);
                self.text(&rows)
            }
            Format::CustomColumns(columns) => {
                let rows = columns
                    .table(value)
                    .render_rows(&mut self.widths.borrow_mut(), self.colour);
                self.text(&rows)
            }
            _ => self.print(value, table, names),
        }
    }

    /// The heading of rows that are streamed; the table has the first of them, as far as they are known.
    pub(crate) fn heading(&self, table: &Table) -> Result<(), Failure> {
        match &self.format {
            Format::Table { .. } if self.headings => {
                let heading = table.render_heading(&mut self.widths.borrow_mut(), self.colour);
                self.text(&heading)
            }
            Format::CustomColumns(columns) if self.headings => {
                let heading = columns
                    .table(&json!([]))
                    .render_heading(&mut self.widths.borrow_mut(), self.colour);
                self.text(&heading)
            }
            _ => Ok(()),
        }
    }

    /// Prints a page for people: also in a pipe, unless another format was given with -o.
    pub(crate) fn page(
        &self,
        value: &Value,
        page: impl FnOnce(bool, bool) -> String,
        names: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Failure> {
        match (&self.format, self.explicit) {
            (Format::Table { wide }, _) => self.text(&page(*wide, self.colour)),
            (_, false) => self.text(&page(false, self.colour)),
            _ => self.print(value, |_| Table::default(), names),
        }
    }

    /// Prints a value whose table has several parts.
    pub(crate) fn view(
        &self,
        value: &Value,
        page: impl FnOnce(bool, bool) -> String,
        names: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Failure> {
        match &self.format {
            Format::Table { wide } => self.text(&page(*wide, self.colour)),
            _ => self.print(value, |_| Table::default(), names),
        }
    }

    /// Prints a document that has no table.
    pub(crate) fn value(&self, value: &Value) -> Result<(), Failure> {
        self.as_document().print(
            value,
            |_| Table::default(),
            || vec![value["id"].as_str().unwrap_or_default().to_owned()],
        )
    }

    /// Prints text as it is.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            // The reader has closed the pipe: `| head` is not an error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            Err(error) => Err(Failure::refused(format!("cannot write to stdout: {error}"))),
        }
    }

    /// Prints a line to stderr.
    pub(crate) fn note(&self, text: &str) {
        self.to_stderr(&format!("{text}\n"));
    }

    /// Prints a table to stderr.
    pub(crate) fn aside(&self, table: &Table) {
        self.to_stderr(&table.render(self.colour_errors, true));
    }

    /// Prints a question; the answer is typed on the same line.
    pub(crate) fn ask(&self, text: &str) {
        self.to_stderr(&Tone::Head.paint(text, self.colour_errors));
        let _ = io::stderr().flush();
    }

    pub(crate) fn hint(&self, text: &str) {
        self.to_stderr(&format!(
            "{} {text}\n",
            Tone::Attention.paint("hint:", self.colour_errors)
        ));
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        let mut text = format!(
            "{} {}\n",
            Tone::Bad.paint("error:", self.colour_errors),
            failure.message
        );
        // A single detail is not repeated if the message ends with it.
        let repeated =
            matches!(failure.details.as_slice(), [(_, detail)] if failure.message.ends_with(detail.as_str()));
        for (place, detail) in failure.details.iter().filter(|_| !repeated) {
            let place = if place.is_empty() {
                String::new()
            } else {
                format!("{place}: ")
            };
            text.push_str(&format!("  {}{detail}\n", Tone::Head.paint(&place, self.colour_errors)));
        }
        self.to_stderr(&text);
        if let Some(hint) = &failure.hint {
            self.hint(hint);
        }
        if failure.in_help && failure.hint.is_none() {
            self.hint("see --help");
        }
    }

    /// Writes to stderr. An error is ignored: there is nowhere to report it.
    fn to_stderr(&self, text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// A value as YAML, with `kind` and `id` first; in a list, with those of each resource.
pub(crate) fn yaml(value: &Value) -> String {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Array(items) if !items.is_empty() && items.iter().all(|item| item.get("id").is_some()) => {
            return items.iter().map(list_item).collect();
        }
        other => return fleet::yaml::write(other),
    };
    let mut rest = fields.clone();
    let mut out = String::new();
    for name in ["kind", "id"] {
        if let Some(first) = rest.remove(name) {
            out.push_str(&fleet::yaml::write(&json!({ name: first })));
        }
    }
    if !rest.is_empty() || out.is_empty() {
        out.push_str(&fleet::yaml::write(&Value::Object(rest)));
    }
    out
}

/// A resource as an item of a list in YAML: the first line has the dash, the others are moved to the right.
fn list_item(item: &Value) -> String {
    let text = yaml(item);
    let lines = text.lines().enumerate().map(|(n, line)| match (n, line) {
        (0, line) => format!("- {line}\n"),
        (_, "") => "\n".to_owned(),
        (_, line) => format!("  {line}\n"),
    });
    lines.collect()
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a JSON value can be written");
    text.push('\n');
    text
}
