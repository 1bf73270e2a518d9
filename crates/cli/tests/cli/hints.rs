//! Hints name only what exists: commands, flags and ids. Every transcript is searched.

use std::collections::BTreeMap;
use std::fs;

use regex::Regex;

use crate::fixture::World;

/// A line that was typed, and a hint that followed.
struct Hint {
    typed: String,
    text: String,
}

fn hints() -> Vec<Hint> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/snapshots");
    let mut found = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let transcript = fs::read_to_string(file.unwrap().path()).unwrap();
        let mut typed = String::new();
        for line in transcript.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                command.clone_into(&mut typed);
            }
            if let Some(hint) = line.strip_prefix("hint: ") {
                found.push(Hint {
                    typed: typed.clone(),
                    text: hint.to_owned(),
                });
            }
        }
    }
    found
}

/// The help of a command: of as many of its words as are commands.
struct Helps {
    world: World,
    known: BTreeMap<String, Option<String>>,
}

impl Helps {
    fn of(&mut self, command: &str) -> Option<String> {
        let world = &self.world;
        let ask = || {
            let ran = world.sh(&format!("flux-resourceset-cli {command} --help"));
            (ran.code == 0).then_some(ran.stdout)
        };
        self.known.entry(command.to_owned()).or_insert_with(ask).clone()
    }

    /// The command that a line begins with, and its help. `get clusters` begins with the command `get`.
    fn of_line(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line
            .trim_start_matches("flux-resourceset-cli ")
            .split_whitespace()
            .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
            .take(2)
            .collect();
        let whole = words.join(" ");
        match self.of(&whole) {
            // Of a command without subcommands, the second word is an argument, and the help is its own.
            Some(help) => Some(help),
            None => self.of(words.first()?).filter(|help| !help.contains("\nCommands:")),
        }
    }
}

#[test]
fn hints_name_only_what_exists() {
    let world = World::demo();
    // The kinds that transcripts add.
    for kind in ["network_policy", "quota"] {
        let name = format!("{kind}.yaml");
        let schema = "{type: object, properties: {id: {type: string}}}";
        world.file(&name, &format!("kind: {kind}\nschema: {schema}\n"));
        world.sh(&format!("flux-resourceset-cli kind apply -f {name}")).json();
    }
    let mut helps = Helps {
        world,
        known: BTreeMap::new(),
    };
    let (command, flag) = (
        Regex::new("`([^`]+)`").unwrap(),
        Regex::new(r"(^|\s)(--?[a-zA-Z][a-z-]*)").unwrap(),
    );
    let typed = Regex::new(r"flux-resourceset-cli ([^|;&]*)").unwrap();
    let (mut commands, mut flags) = (0, 0);
    for Hint { typed: line, text } in hints() {
        // Lines that are typed at a terminal stand without the name of the program.
        let found = typed.captures(&line).map(|found| found[1].to_owned());
        let given = found.unwrap_or_else(|| line.clone());
        for named in command.captures_iter(&text) {
            let help = helps.of_line(&named[1]);
            let help = help.unwrap_or_else(|| panic!("{line}\n{text}\nthere is no command {}", &named[1]));
            for found in flag.captures_iter(&named[1]) {
                assert!(
                    help.contains(&found[2]),
                    "{line}\n{text}\n{} has no {}",
                    &named[1],
                    &found[2]
                );
            }
            commands += 1;
        }
        let plain = command.replace_all(&text, "");
        for found in flag.captures_iter(&plain).filter(|found| &found[2] != "--help") {
            let help = helps.of_line(&given).unwrap_or_default();
            assert!(
                help.contains(&found[2]),
                "{line}\n{text}\nthe command has no {}",
                &found[2]
            );
            flags += 1;
        }
    }
    assert!(
        commands > 20 && flags > 10,
        "{commands} commands and {flags} flags in hints"
    );
}
