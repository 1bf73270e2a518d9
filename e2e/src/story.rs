//! What the test tells: chapters, a tick for each thing that came true, and how long each change took.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fleet::Fleet;
use crate::{Result, wait};

#[derive(Debug)]
pub(crate) struct Story {
    start: Instant,
    changes: Vec<Change>,
}

/// A change that was asked for, and when each of its effects was there.
#[derive(Debug)]
struct Change {
    /// What the change is called in the table.
    name: String,
    effects: Vec<(String, Duration)>,
}

/// A change that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    at: Instant,
    change: usize,
}

impl Asked {
    pub(crate) fn elapsed(self) -> Duration {
        self.at.elapsed()
    }
}

impl Story {
    pub(crate) fn new() -> Story {
        Story {
            start: Instant::now(),
            changes: Vec::new(),
        }
    }

    pub(crate) fn chapter(&self, title: &str) {
        println!("\n{title}");
    }

    pub(crate) fn tick(&self, fact: &str) {
        println!("  ✓ {fact}");
    }

    /// Waits for what must come to be, without counting it as a change.
    pub(crate) fn until<T>(&self, fact: &str, look: impl FnMut() -> Result<T>) -> Result<T> {
        let found = wait::until(fact, look)?;
        self.tick(fact);
        Ok(found)
    }

    /// Asks for a change as an operator does, on the command line: words, and arguments that are more than a word. From here
    /// on the clock runs.
    pub(crate) fn ask(&mut self, fleet: &Fleet, words: &str, more: &[&str]) -> Result<Asked> {
        let arguments = typed(words, more);
        let (at, name) = (Instant::now(), words.split(" --").next().unwrap_or_default());
        fleet.cli(&arguments)?;
        Ok(self.asked(name, at))
    }

    /// The same for a change that is made in another way.
    pub(crate) fn asked(&mut self, name: &str, at: Instant) -> Asked {
        self.changes.push(Change {
            name: name.to_owned(),
            effects: Vec::new(),
        });
        let change = self.changes.len() - 1;
        Asked { at, change }
    }

    /// Waits for an effect of a change, and notes how long it took.
    pub(crate) fn then<T>(&mut self, asked: Asked, effect: &str, look: impl FnMut() -> Result<T>) -> Result<T> {
        let found = wait::until(effect, look)?;
        self.saw(asked, effect, asked.at.elapsed());
        Ok(found)
    }

    /// Notes an effect of a change that was seen so long after it.
    pub(crate) fn saw(&mut self, asked: Asked, effect: &str, took: Duration) {
        println!("  ✓ {effect} ({:.1} s)", took.as_secs_f32());
        if let Some(change) = self.changes.get_mut(asked.change) {
            change.effects.push((effect.to_owned(), took));
        }
    }

    /// A command that only shows something.
    pub(crate) fn show(&self, fleet: &Fleet, words: &str) -> Result<Value> {
        fleet.cli(&typed(words, &[]))
    }

    /// A command that must be refused; gives the reason.
    pub(crate) fn refused(&self, fleet: &Fleet, words: &str, more: &[&str]) -> Result<String> {
        fleet.refused(&typed(words, more))
    }

    /// The last page: how long each change took, from the API call to the object.
    pub(crate) fn end(&self) {
        println!("\nFrom the API call to the object\n");
        let rows = self.changes.iter().flat_map(|change| {
            let effects = change.effects.iter();
            effects.map(|(effect, took)| (change.name.as_str(), effect.as_str(), took.as_secs_f32()))
        });
        let rows: Vec<_> = rows.collect();
        let widest = |column: fn(&(&str, &str, f32)) -> usize| rows.iter().map(column).max().unwrap_or_default();
        let (first, second) = (widest(|row| row.0.chars().count()), widest(|row| row.1.chars().count()));
        for (change, effect, seconds) in rows {
            println!("  {change:first$}  {effect:second$}  {seconds:5.1} s");
        }
        println!("\nAll true, after {} s.", self.start.elapsed().as_secs());
    }
}

/// Prints a command line, and gives its arguments.
fn typed<'a>(words: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let arguments: Vec<&str> = words.split_whitespace().chain(more.iter().copied()).collect();
    println!("  $ flux-resourceset-cli {}", shown(&arguments));
    arguments
}

/// A command line for people: quoted where it has to be, cut where it is long.
fn shown(arguments: &[&str]) -> String {
    const LONGEST: usize = 200;
    let shown = arguments.iter().map(|argument| {
        let argument: String = match argument.char_indices().nth(60) {
            Some((end, _)) => format!("{}…", &argument[..end]),
            None => (*argument).to_owned(),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:".contains(c);
        match argument.chars().all(plain) {
            true => argument,
            false => format!("'{}'", argument.replace('\n', "\\n")),
        }
    });
    let line = shown.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_command_is_shown_as_it_could_be_typed() {
        assert_eq!(
            shown(&["component", "patch", "--set", "a=b c"]),
            "component patch --set 'a=b c'"
        );
        assert_eq!(shown(&["--set=two\nlines"]), r"'--set=two\nlines'");
    }

    #[test]
    fn what_is_long_is_cut() {
        let long = "ä".repeat(1000);
        assert!(shown(&[&long]).chars().count() < 70);
        assert!(shown(&["argument"; 100]).chars().count() < 210);
    }
}
