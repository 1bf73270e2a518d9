//! Reads the documents of files, folders and stdin.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Document;
use crate::error::{Code, Failure};

/// How files are read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Read the folders within folders.
    pub(super) recursive: bool,
    /// Refuse files without a document and folders that are not read: what they should hold would count as missing.
    pub(super) complete: bool,
}

/// Reads every document of files, folders and stdin.
pub(crate) fn read(paths: &[PathBuf], recursive: bool) -> Result<Vec<Document>, Failure> {
    let reading = Reading {
        recursive,
        complete: false,
    };
    read_as(paths, reading)
}

pub(super) fn read_as(paths: &[PathBuf], reading: Reading) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    let mut add = |name: &str, text: &str| {
        let before = documents.len();
        parse(name, text, &mut documents)?;
        match reading.complete && documents.len() == before {
            true => Err(incomplete(&format!("{name}: holds no document"))),
            false => Ok(()),
        }
    };
    for path in paths {
        if path == Path::new("-") {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::file(Path::new("stdin"), &error))?;
            add("stdin", &text)?;
            continue;
        }
        let mut files = Vec::new();
        collect(path, reading, &mut files)?;
        if files.is_empty() {
            return Err(no_files(path, reading));
        }
        for file in files {
            let text = fs::read_to_string(&file).map_err(|error| Failure::file(&file, &error))?;
            add(&file.display().to_string(), &text)?;
        }
    }
    match documents.is_empty() {
        true => Err(Failure::usage("no document was found")),
        false => Ok(documents),
    }
}

/// The failure about a folder without documents.
fn no_files(path: &Path, reading: Reading) -> Failure {
    let failure = Failure::usage(format!(
        "{}: the folder has no .yaml, .yml, .json or .jsonl file",
        path.display()
    ));
    match !reading.recursive && has_documents(path).unwrap_or_default() {
        true => failure.hint("the folders in it have some; use -R to read these too"),
        false => failure,
    }
}

/// The refusal to prune because documents may be missing.
fn incomplete(message: &str) -> Failure {
    Failure::refused(format!("{message}; with --prune, nothing was changed"))
}

fn collect(path: &Path, reading: Reading, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let unreadable = |error| Failure::file(path, &error);
    let entries: Result<Vec<_>, _> = fs::read_dir(path)
        .map_err(unreadable)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut entries = entries.map_err(unreadable)?;
    entries.sort();
    for entry in entries {
        let known = entry
            .extension()
            .is_some_and(|end| ["yaml", "yml", "json", "jsonl"].iter().any(|known| end == *known));
        if entry.is_dir() {
            if reading.recursive {
                collect(&entry, reading, files)?;
            } else if reading.complete && has_documents(&entry)? {
                let failure = incomplete(&format!(
                    "{}: the folder within the folder is not read",
                    entry.display()
                ));
                return Err(failure.hint("use -R to read it, or name the files one by one"));
            }
        } else if known {
            files.push(entry);
        }
    }
    Ok(())
}

/// Whether a folder, or one within it, has files that could hold documents. Hidden folders, as `.github`, hold none.
fn has_documents(folder: &Path) -> Result<bool, Failure> {
    let name = folder.file_name().unwrap_or_default();
    if name.to_string_lossy().starts_with('.') {
        return Ok(false);
    }
    let mut files = Vec::new();
    let reading = Reading {
        recursive: true,
        complete: false,
    };
    collect(folder, reading, &mut files)?;
    Ok(!files.is_empty())
}

/// Splits a text into documents: JSON values one after the other, or YAML documents. A list stands for its items.
fn parse(name: &str, text: &str, documents: &mut Vec<Document>) -> Result<(), Failure> {
    let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    let values = match json {
        Ok(values) => values,
        Err(_) => {
            let options = serde_saphyr::options! { strict_booleans: true };
            serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                let line = line.strip_prefix("error: ").unwrap_or(line);
                Failure::new(Code::Usage, format!("{name}: {line}"))
            })?
        }
    };
    let values = values.into_iter().flat_map(|value| match value {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        one => vec![one],
    });
    let values: Vec<Value> = values.collect();
    let many = values.len() > 1;
    for (n, value) in values.into_iter().enumerate() {
        let place = if many {
            format!("{name} #{}", n + 1)
        } else {
            name.to_owned()
        };
        documents.push(Document { place, value });
    }
    Ok(())
}
