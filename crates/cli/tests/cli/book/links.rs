//! Links lead to files and headings that exist. Addresses of the internet are not asked.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::markdown::Page;
use super::{markdown_files, report, root, shown};

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let mut problems = Vec::new();
    let mut anchors: HashMap<PathBuf, Vec<String>> = HashMap::new();
    for path in markdown_files(&root()) {
        let page = Page::parse(&fs::read_to_string(&path).unwrap());
        for (line, link) in page.links() {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link
                .split_once('#')
                .map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let place = format!("{}:{line}", shown(&path));
            let Ok(target) = target.canonicalize() else {
                problems.push(format!("{place}: {link}: no such file"));
                continue;
            };
            // The built book has nothing beside its own pages.
            let book = root().join("docs/src");
            if path.starts_with(&book) && !target.starts_with(&book) {
                problems.push(format!("{place}: {link}: not part of the book; name the file instead"));
            }
            let Some(anchor) = anchor else { continue };
            let known = anchors.entry(target.clone()).or_insert_with(|| {
                let text = fs::read_to_string(&target).unwrap();
                Page::parse(&text).anchors()
            });
            if !known.iter().any(|known| known == anchor) {
                problems.push(format!("{place}: {link}: no such heading"));
            }
        }
    }
    report(&problems);
}

#[test]
fn the_summary_has_every_chapter() {
    let book = root().join("docs/src");
    let summary = Page::parse(&fs::read_to_string(book.join("SUMMARY.md")).unwrap());
    let mut listed: Vec<PathBuf> = summary.links().into_iter().map(|(_, link)| book.join(link)).collect();
    listed.sort();
    let mut problems: Vec<String> = Vec::new();
    for twice in listed.windows(2).filter(|pair| pair[0] == pair[1]) {
        problems.push(format!("{} is listed twice", shown(&twice[0])));
    }
    for chapter in markdown_files(&book) {
        if !chapter.ends_with("SUMMARY.md") && !listed.contains(&chapter) {
            problems.push(format!("{} is not in SUMMARY.md", shown(&chapter)));
        }
    }
    for path in listed.iter().filter(|path| !Path::new(path).exists()) {
        problems.push(format!("{} is in SUMMARY.md and nowhere else", shown(path)));
    }
    report(&problems);
}
