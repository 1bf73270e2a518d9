//! As much of Markdown as is needed to find blocks, headings and links.

use std::ops::Range;

use regex::Regex;

/// A fenced block.
pub(super) struct Block {
    /// The first word behind the fence.
    pub(super) language: String,
    /// The other words.
    pub(super) marks: Vec<String>,
    pub(super) text: String,
    /// The line of the fence, from 1.
    pub(super) line: usize,
    /// The lines of the text, from 0.
    pub(super) lines: Range<usize>,
    /// What stands before each of its lines.
    pub(super) indent: String,
}

impl Block {
    pub(super) fn is(&self, mark: &str) -> bool {
        self.marks.iter().any(|known| known == mark)
    }
}

pub(super) struct Page {
    pub(super) blocks: Vec<Block>,
    /// The text outside of blocks, with the number of each line.
    prose: Vec<(usize, String)>,
}

impl Page {
    pub(super) fn parse(text: &str) -> Page {
        let lines: Vec<&str> = text.lines().collect();
        let mut page = Page {
            blocks: Vec::new(),
            prose: Vec::new(),
        };
        let mut at = 0;
        while at < lines.len() {
            let trimmed = lines[at].trim_start();
            let fence: String = trimmed.chars().take_while(|c| *c == '`').collect();
            let info = &trimmed[fence.len()..];
            if fence.len() < 3 || info.contains('`') {
                page.prose.push((at + 1, lines[at].to_owned()));
                at += 1;
                continue;
            }
            let indent = &lines[at][..lines[at].len() - trimmed.len()];
            let first = at + 1;
            let end = (first..lines.len())
                .find(|n| lines[*n].trim() == fence)
                .unwrap_or(lines.len());
            let text: Vec<&str> = lines[first..end]
                .iter()
                .map(|line| line.strip_prefix(indent).unwrap_or(line.trim_start()))
                .collect();
            let mut words = info.split_whitespace().map(str::to_owned);
            page.blocks.push(Block {
                language: words.next().unwrap_or_default(),
                marks: words.collect(),
                text: text.join("\n"),
                line: at + 1,
                lines: first..end,
                indent: indent.to_owned(),
            });
            at = end + 1;
        }
        page
    }

    /// The anchors of the headings, as mdBook and GitHub make them.
    pub(super) fn anchors(&self) -> Vec<String> {
        // A link in a heading counts with its text.
        let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
        let mut anchors: Vec<String> = Vec::new();
        for (_, line) in &self.prose {
            let level = line.chars().take_while(|c| *c == '#').count();
            if !(1..=6).contains(&level) || !line[level..].starts_with(' ') {
                continue;
            }
            let heading = link.replace_all(line[level..].trim(), "$1").to_lowercase();
            let anchor: String = heading
                .chars()
                .filter_map(|c| match c {
                    c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
                    ' ' => Some('-'),
                    _ => None,
                })
                .collect();
            let again = anchors.iter().filter(|known| **known == anchor).count();
            anchors.push(match again {
                0 => anchor,
                n => format!("{anchor}-{n}"),
            });
        }
        anchors
    }

    /// Where links and images lead, each with its line.
    pub(super) fn links(&self) -> Vec<(usize, String)> {
        let code = Regex::new(r"`+[^`]*`+").unwrap();
        let link = Regex::new(r#"\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)"#).unwrap();
        let html = Regex::new(r#"(?:href|src)="([^"]+)""#).unwrap();
        let mut found = Vec::new();
        for (number, line) in &self.prose {
            let line = code.replace_all(line, "``");
            for pattern in [&link, &html] {
                found.extend(pattern.captures_iter(&line).map(|found| (*number, found[1].to_owned())));
            }
        }
        found
    }
}
