//! Every block: marked, run, parsed.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use regex::Regex;
use serde_json::Value;

use super::markdown::{Block, Page};
use super::{chapters, expect, markdown_files, report, root, session, shown};

fn page(path: &Path) -> Page {
    Page::parse(&fs::read_to_string(path).unwrap())
}

#[test]
fn every_shell_block_says_whether_it_is_run() {
    let mut problems = Vec::new();
    for path in chapters() {
        let mut ran = false;
        for block in page(&path).blocks {
            let place = format!("{}:{}", shown(&path), block.line);
            let shell = ["sh", "bash", "shell", "console", "zsh"].contains(&block.language.as_str());
            if shell && (block.language != "sh" || block.is("run") == block.is("norun")) {
                problems.push(format!("{place}: mark it `sh run` or `sh norun`"));
            }
            if block.is("output") && !ran {
                problems.push(format!("{place}: no `sh run` block comes right before this output"));
            }
            ran = block.is("run");
        }
    }
    report(&problems);
}

#[test]
fn every_shell_block_that_can_run_does_what_the_book_says() {
    report(&session::missing_tools());
    let prelude = prelude();
    let queue: Mutex<VecDeque<PathBuf>> = Mutex::new(chapters().into());
    let problems = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(2, usize::from).min(4);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(path) = queue.lock().unwrap().pop_front() else {
                        return;
                    };
                    problems.lock().unwrap().extend(judge(&path, &prelude));
                }
            });
        }
    });
    report(&problems.into_inner().unwrap());
}

/// What chapters take for granted: the variables that "Getting started" sets.
fn prelude() -> String {
    let blocks = page(&root().join("docs/src/getting-started.md")).blocks;
    let setup = blocks.into_iter().find(|block| block.is("setup"));
    setup.expect("a block `sh run setup` in getting-started.md").text
}

/// Runs a page, and says what is not as it says.
fn judge(path: &Path, prelude: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let page = Page::parse(&text);
    let blocks: Vec<&Block> = page.blocks.iter().filter(|block| block.is("run")).collect();
    if blocks.is_empty() {
        return Vec::new();
    }
    let alone = path.ends_with("README.md") || path.ends_with("getting-started.md");
    let ran = session::run(if alone { "" } else { prelude }, &blocks);
    let mut problems = Vec::new();
    let mut news: Vec<(&Block, String)> = Vec::new();
    for (block, ran) in blocks.iter().zip(&ran) {
        let place = format!("{}:{}", shown(path), block.line);
        match ran.code {
            None => {
                problems.push(format!("{place}: failed\n{}\n--- printed\n{}", block.text, ran.output));
                break;
            }
            Some(0) if block.is("fails") => {
                problems.push(format!("{place}: must fail, and does not\n{}", block.text));
            }
            Some(_) => {}
        }
        let following = page.blocks.iter().find(|next| next.line > block.line);
        let Some(expected) = following.filter(|next| next.is("output")) else {
            continue;
        };
        if !expect::agrees(&expected.language, &expected.text, &ran.output) {
            let told = expect::written(&expected.language, &ran.output);
            problems.push(format!(
                "{}:{}: other output (UPDATE=1 writes it)\n{}\n--- expected\n{}\n--- printed\n{told}",
                shown(path),
                expected.line,
                block.text,
                expected.text
            ));
            news.push((expected, told));
        }
    }
    if std::env::var_os("UPDATE").is_some() && !news.is_empty() {
        fs::write(path, updated(&text, &news)).unwrap();
    }
    problems
}

fn updated(text: &str, news: &[(&Block, String)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (block, told) in news.iter().rev() {
        let told = told
            .lines()
            .map(|line| format!("{}{line}", block.indent).trim_end().to_owned());
        lines.splice(block.lines.clone(), told);
    }
    lines.join("\n") + "\n"
}

/// What mdBook puts in the place of `{{#include path}}`, whole files only.
fn included(text: &str, page: &Path) -> Result<String, String> {
    let include = Regex::new(r"\{\{#include ([^}]+)\}\}").unwrap();
    let mut missing = None;
    let replaced = include.replace_all(text, |found: &regex::Captures<'_>| {
        let target = page.parent().unwrap().join(found[1].trim());
        fs::read_to_string(&target).unwrap_or_else(|_| {
            missing = Some(format!("{} is not there to be included", &found[1]));
            String::new()
        })
    });
    let replaced = replaced.into_owned();
    missing.map_or(Ok(replaced), Err)
}

#[test]
fn every_json_and_yaml_block_can_be_parsed() {
    let mut problems = Vec::new();
    for path in markdown_files(&root()) {
        for block in page(&path).blocks {
            let place = format!("{}:{}", shown(&path), block.line);
            let text = match included(&block.text, &path) {
                Ok(text) => text,
                Err(problem) => {
                    problems.push(format!("{place}: {problem}"));
                    continue;
                }
            };
            let parsed = match block.language.as_str() {
                "json" => serde_json::from_str::<Value>(&text)
                    .map(|_| ())
                    .map_err(|error| error.to_string()),
                // `…` may stand where a document goes on.
                "yaml" => serde_saphyr::from_multiple::<Value>(&text.replace('…', "# "))
                    .map(|_| ())
                    .map_err(|error| error.to_string()),
                _ => Ok(()),
            };
            if let Err(error) = parsed {
                problems.push(format!("{place}: {error}"));
            }
        }
    }
    report(&problems);
}

#[test]
fn manifests_of_flux_are_the_shipped_ones() {
    let flux = Regex::new(r"(?m)^apiVersion: \S*(controlplane|toolkit\.fluxcd)\.io/").unwrap();
    let mut problems = Vec::new();
    for path in chapters() {
        for block in page(&path).blocks {
            // What a command prints is checked by running it.
            if block.language == "yaml" && !block.is("output") && flux.is_match(&block.text) {
                problems.push(format!(
                    "{}:{}: include it from k8s/ instead of copying it",
                    shown(&path),
                    block.line
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn diagrams_are_of_a_type_that_is_known_and_have_labels_that_can_be_drawn() {
    // Mermaid takes a label that begins like a list for one, and cannot draw lists.
    let list = Regex::new(r#"[\["({>|](\d+\.|[-*+]) "#).unwrap();
    let mut problems = Vec::new();
    for path in chapters() {
        for block in page(&path).blocks.iter().filter(|block| block.language == "mermaid") {
            let first = block.text.split_whitespace().next().unwrap_or_default();
            if !["flowchart", "sequenceDiagram", "stateDiagram-v2", "erDiagram"].contains(&first) {
                problems.push(format!("{}:{}: {first} is no diagram", shown(&path), block.line));
            }
            if let Some(label) = list.find(&block.text) {
                problems.push(format!(
                    "{}:{}: a label begins with {}",
                    shown(&path),
                    block.line,
                    label.as_str()
                ));
            }
        }
    }
    report(&problems);
}
