//! `-o custom-columns=NAME:.id,TAG:.oci_tag`, as in kubectl: a heading and a path for each column.

use serde_json::Value;

use super::jsonpath::JsonPath;
use super::{Table, Tone, cell};

#[derive(Clone, Debug)]
pub(crate) struct CustomColumns(Vec<(String, JsonPath)>);

/// What kubectl prints for a field that an object does not have.
const ABSENT: &str = "<none>";

impl CustomColumns {
    pub(crate) fn parse(text: &str) -> Result<CustomColumns, String> {
        let columns: Result<Vec<_>, String> = split(text).into_iter().map(column).collect();
        columns.map(CustomColumns)
    }

    /// One row for each resource.
    pub(crate) fn table(&self, value: &Value) -> Table {
        let mut table = Table::as_written(self.0.iter().map(|(heading, _)| heading));
        for item in rows(value) {
            table.row(self.0.iter().map(|(_, path)| (text(&path.find(item)), Tone::Plain)));
        }
        table
    }
}

/// The resources of an output: a list, or the list within it that `inputs`, `render` and `status` print.
fn rows(value: &Value) -> &[Value] {
    let within = ["items", "inputs", "clusters"]
        .iter()
        .find_map(|name| value.get(name)?.as_array());
    match (value, within) {
        (Value::Array(items), _) => items,
        (_, Some(items)) => items,
        (one, None) => std::slice::from_ref(one),
    }
}

fn text(found: &[&Value]) -> String {
    match found {
        [] | [Value::Null] => ABSENT.to_owned(),
        several => several.iter().map(|value| cell(value)).collect::<Vec<_>>().join(","),
    }
}

/// Reads `HEADING:PATH`. The path may stand without the dot at its start, and with braces.
fn column(text: &str) -> Result<(String, JsonPath), String> {
    let usage = || format!("\"{text}\" must be HEADING:PATH, as in custom-columns=NAME:.id,TAG:.oci_tag");
    let (heading, path) = text.split_once(':').ok_or_else(usage)?;
    if heading.is_empty() || path.is_empty() {
        return Err(usage());
    }
    let path = match path.starts_with(['.', '[', '{', '$']) {
        true => path.to_owned(),
        false => format!(".{path}"),
    };
    Ok((heading.to_owned(), JsonPath::parse(&path)?))
}

/// Splits at the commas that are not within brackets or quotes of a path.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut from, mut depth, mut quote) = (0, 0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '(' | '{') => depth += 1,
            (None, ']' | ')' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_those_of_kubectl() {
        let list = json!([
            {"id": "a", "labels": {"t.x": "1"}, "refs": [{"id": "p", "tag": "v1"}, {"id": "q"}]},
            {"id": "b", "on": true, "none": null},
        ]);
        for (columns, expected) in [
            ("NAME:.id", "NAME\na\nb\n"),
            ("Name:id,ON:{.on}", "Name   ON\na      <none>\nb      true\n"),
            (
                r"T:.labels.t\.x,N:.none",
                "T        N\n1        <none>\n<none>   <none>\n",
            ),
            ("R:.refs[*].id", "R\np,q\n<none>\n"),
            (
                "TAG:.refs[?(@.id=='p' && @.tag)].tag,ID:.id",
                "TAG      ID\nv1       a\n<none>   b\n",
            ),
        ] {
            let table = CustomColumns::parse(columns).unwrap().table(&list);
            assert_eq!(table.render(false, true), expected, "{columns}");
        }
    }

    #[test]
    fn every_column_needs_a_heading_and_a_path() {
        for columns in [
            "",
            "NAME",
            "NAME:",
            ":.id",
            "NAME:.id,",
            "NAME:.id[",
            "A:.a[?(@.b=='x,y')],B",
        ] {
            assert!(CustomColumns::parse(columns).is_err(), "{columns}");
        }
    }
}
