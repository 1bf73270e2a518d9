//! The sources of tokens: a variable, and the lines of a file, each a token or `name:token`.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fleet::identity::{Role, Token};
use fleet::log::Digest;

use super::environment::Owner;
use crate::config::{ConfigError, ConfigErrors, TokenSource};

/// Shorter tokens can be guessed: 16 random characters are about 80 bits.
const FEWEST_CHARACTERS: usize = 16;

/// A token, and where it was found.
pub(super) struct Entry {
    pub(super) digest: Digest,
    pub(super) owner: Owner,
    place: Place,
    is_short: bool,
}

#[derive(Clone, PartialEq, Eq)]
enum Place {
    Variable(&'static str),
    Line(Arc<PathBuf>, usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Variable(name) => f.write_str(name),
            Place::Line(path, number) => write!(f, "{}, line {number}", path.display()),
        }
    }
}

impl Entry {
    fn new(name: &str, token: &str, role: Role, place: Place) -> Self {
        Entry {
            digest: Token::digest_of(token.as_bytes()),
            owner: Owner {
                name: name.into(),
                role,
            },
            place,
            is_short: token.chars().count() < FEWEST_CHARACTERS,
        }
    }
}

/// The tokens of a variable and a file. Adds what is wrong with the file, or with lines of it, to `problems`.
pub(super) fn read(
    [variable, file_variable]: [&'static str; 2],
    source: &TokenSource,
    role: Role,
    problems: &mut ConfigErrors,
) -> Vec<Entry> {
    let unnamed = if role == Role::Reader { "read" } else { "write" };
    let mut entries = Vec::new();
    if let Some(token) = &source.token {
        entries.push(Entry::new(unnamed, token, role, Place::Variable(variable)));
    }
    if let Some(path) = &source.file {
        let path = Arc::new(path.clone());
        let lines = problems.keep(read_lines(file_variable, &path)).unwrap_or_default();
        for (number, line) in &lines {
            let place = Place::Line(path.clone(), *number);
            let problem = |text: &str| ConfigError::new(file_variable, format!("{place}: {text}"));
            if let Some((name, token)) = problems.keep(split(line).map_err(problem)) {
                entries.push(Entry::new(name.unwrap_or(unnamed), token, role, place));
            }
        }
    }
    entries
}

/// The name and the token of a line. Text before a colon that cannot be a name is part of the token.
fn split(line: &str) -> Result<(Option<&str>, &str), &'static str> {
    let (name, token) = match line.split_once(':') {
        Some((_, rest)) if rest.trim().is_empty() => {
            return Err("the token is empty: write name:token, or remove the line");
        }
        Some((name, _)) if name.trim().is_empty() => {
            return Err("the name before the colon is empty: write name:token, or the token alone");
        }
        Some((name, token)) if is_name(name) => (Some(name), token.trim_start()),
        _ => (None, line),
    };
    // No client could send it, and the 401 would not say why.
    if token.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("the token contains blanks or control characters, which an HTTP header cannot carry");
    }
    Ok((name, token))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-@".contains(c))
}

/// The lines of a file that are neither blank nor a comment, by number.
fn read_lines(variable: &'static str, path: &Path) -> Result<Vec<(usize, String)>, ConfigError> {
    let problem = |text: String| ConfigError::new(variable, format!("{}: {text}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    let text = text.trim_start_matches('\u{feff}');
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<_> = lines.map(|(number, line)| (number, line.to_owned())).collect();
    match lines.is_empty() {
        true => Err(problem("contains no token".into())),
        false => Ok(lines),
    }
}

/// Tokens that work but should be changed: short ones, and those that are listed twice with different effect.
pub(super) fn warnings(entries: &[Entry]) -> Vec<String> {
    let mut warnings = Vec::new();
    let short: Vec<_> = entries.iter().filter(|entry| entry.is_short).collect();
    for same in short.chunk_by(|a, b| a.place.is_beside(&b.place)) {
        warnings.push(format!(
            "{}: the token is shorter than {FEWEST_CHARACTERS} characters, so it can be guessed: use a random one, for example from openssl rand -hex 32",
            places(same)
        ));
    }
    let mut seen = HashMap::new();
    for later in entries {
        let earlier = seen.insert(later.digest, later);
        let Some(earlier) = earlier.filter(|earlier| earlier.owner != later.owner) else {
            continue;
        };
        let (first, second, name) = (&earlier.place, &later.place, &later.owner.name);
        warnings.push(match earlier.owner.role == later.owner.role {
            true => format!("{second}: the same token as {first}; its requests are logged as \"{name}\""),
            false => format!("{second}: the same token as {first}, so it allows writes"),
        });
    }
    warnings
}

impl Place {
    fn is_beside(&self, other: &Place) -> bool {
        matches!((self, other), (Place::Line(a, _), Place::Line(b, _)) if a == b)
    }
}

/// `tokens, line 3`, or `tokens, line 3 (and 2 more lines)`.
fn places(entries: &[&Entry]) -> String {
    let first = &entries[0].place;
    match entries.len() - 1 {
        0 => first.to_string(),
        1 => format!("{first} (and 1 more line)"),
        more => format!("{first} (and {more} more lines)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_a_token_or_a_name_and_a_token() {
        assert_eq!(split("secret"), Ok((None, "secret")));
        assert_eq!(split("ann:secret"), Ok((Some("ann"), "secret")));
        assert_eq!(split("ann: secret"), Ok((Some("ann"), "secret")));
        assert_eq!(split("ann:a:b"), Ok((Some("ann"), "a:b")));
        assert_eq!(split("odd+name:secret"), Ok((None, "odd+name:secret")));
        for empty in ["ann:", "ann: ", "odd+name:", ":", "::secret", ":secret", " :secret"] {
            assert!(
                split(empty).is_err_and(|problem| problem.contains("is empty")),
                "{empty}"
            );
        }
        for blank in ["two words", "ann:two words", "ann :secret", "ann:a\u{1}b"] {
            assert!(split(blank).is_err_and(|problem| problem.contains("blanks")), "{blank}");
        }
    }

    fn warned(lines: &[(Role, &str)]) -> Vec<String> {
        let path = Arc::new(PathBuf::from("tokens"));
        let entries = (1..).zip(lines).map(|(number, (role, line))| {
            let (name, token) = split(line).unwrap();
            Entry::new(name.unwrap_or("read"), token, *role, Place::Line(path.clone(), number))
        });
        warnings(&entries.collect::<Vec<_>>())
    }

    #[test]
    fn short_tokens_and_tokens_in_two_places_are_warned_about_without_showing_them() {
        use Role::{Admin as Write, Reader as Read};
        const LONG: &str = "0123456789abcdef";
        assert_eq!(warned(&[(Read, LONG), (Read, &format!("ann:{LONG}x"))]), [""; 0]);
        // Listed twice with the same effect: no warning.
        assert_eq!(warned(&[(Read, LONG), (Read, LONG)]), [""; 0]);
        let short = warned(&[(Read, LONG), (Read, "ann:123456789abcdef"), (Write, "ж123456789abcd")]);
        assert!(
            short[0].starts_with("tokens, line 2 (and 1 more line): the token is shorter than 16"),
            "{short:?}"
        );
        assert!(!short[0].contains("123456789"), "{short:?}");
        let twice = warned(&[
            (Read, LONG),
            (Read, &format!("ann:{LONG}")),
            (Write, &format!("bob:{LONG}")),
        ]);
        assert_eq!(
            twice,
            [
                "tokens, line 2: the same token as tokens, line 1; its requests are logged as \"ann\"",
                "tokens, line 3: the same token as tokens, line 2, so it allows writes"
            ]
        );
    }
}
