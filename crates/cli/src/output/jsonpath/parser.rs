//! Parses templates.

use serde_json::Value;

use super::{Condition, Node, Step, Test};

pub(super) struct Parser {
    text: Vec<char>,
    at: usize,
}

impl Parser {
    pub(super) fn new(template: &str) -> Parser {
        Parser {
            text: template.chars().collect(),
            at: 0,
        }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn takes(&mut self, text: &str) -> bool {
        let wanted: Vec<char> = text.chars().collect();
        let there = self.text[self.at..].starts_with(&wanted);
        if there {
            self.at += wanted.len();
        }
        there
    }

    fn blanks(&mut self) {
        while self.peek() == Some(' ') {
            self.at += 1;
        }
    }

    fn fail<T>(&self, expected: &str) -> Result<T, String> {
        Err(format!(
            "the JSONPath is invalid at character {}: {expected}",
            self.at + 1
        ))
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        match self.takes(text) {
            true => Ok(()),
            false => self.fail(&format!("\"{text}\" is expected")),
        }
    }

    pub(super) fn nodes(&mut self, in_range: bool) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                if !text.is_empty() {
                    nodes.push(Node::Text(text));
                }
                return if in_range {
                    self.fail("{end} is missing")
                } else {
                    Ok(nodes)
                };
            };
            self.at += 1;
            if c != '{' {
                text.push(c);
                continue;
            }
            if !text.is_empty() {
                nodes.push(Node::Text(std::mem::take(&mut text)));
            }
            self.blanks();
            if self.takes("end") {
                self.expect("}")?;
                return if in_range {
                    Ok(nodes)
                } else {
                    self.fail("{end} without {range}")
                };
            }
            if self.takes("range ") {
                self.blanks();
                let steps = self.steps()?;
                self.expect("}")?;
                nodes.push(Node::Range(steps, self.nodes(true)?));
                continue;
            }
            match self.peek() {
                Some(quote @ ('"' | '\'')) => nodes.push(Node::Text(self.quoted(quote)?)),
                _ => nodes.push(Node::Path(self.steps()?)),
            }
            self.blanks();
            self.expect("}")?;
        }
    }

    fn steps(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        if matches!(self.peek(), Some('$' | '@')) {
            self.at += 1;
        }
        loop {
            if self.takes("..") {
                steps.push(Step::Deep(self.name()?));
            } else if self.takes(".*") {
                steps.push(Step::Every);
            } else if self.takes(".") {
                // A lone dot is the value itself.
                if matches!(self.peek(), None | Some('}' | ' ' | ')' | '[' | '&' | '|')) {
                    continue;
                }
                steps.push(Step::Field(self.name()?));
            } else if self.takes("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            match c {
                '\\' => {
                    self.at += 1;
                    name.extend(self.peek());
                }
                '.' | '[' | ']' | '{' | '}' | ' ' | '=' | '!' | '<' | '>' | ')' | '&' | '|' => break,
                c => name.push(c),
            }
            self.at += 1;
        }
        if name.is_empty() {
            self.fail("a field is expected")
        } else {
            Ok(name)
        }
    }

    fn bracket(&mut self) -> Result<Step, String> {
        let step = match self.peek() {
            Some('*') => {
                self.at += 1;
                Step::Every
            }
            Some(quote @ ('"' | '\'')) => Step::Field(self.quoted(quote)?),
            Some('?') => {
                self.at += 1;
                self.expect("(")?;
                let condition = self.any()?;
                self.expect(")")?;
                Step::Filter(condition)
            }
            _ => {
                let from = self.number();
                match self.takes(":") {
                    true => Step::Slice(from, self.number()),
                    false => match from {
                        Some(n) => Step::Index(n),
                        None => return self.fail("a number, *, a quoted field or ?(…) is expected"),
                    },
                }
            }
        };
        self.expect("]")?;
        Ok(step)
    }

    /// `a || b`
    fn any(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.all()?];
        while self.takes("||") {
            parts.push(self.all()?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => Condition::Any(parts),
        })
    }

    /// `a && b`, which binds closer than `||`.
    fn all(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.condition()?];
        while self.takes("&&") {
            parts.push(self.condition()?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => Condition::All(parts),
        })
    }

    /// `@.field`, `@.field == value`, `!a` or `(a)`, with the blanks around it.
    fn condition(&mut self) -> Result<Condition, String> {
        self.blanks();
        let condition = if self.takes("!") {
            Condition::Not(Box::new(self.condition()?))
        } else if self.takes("(") {
            let inner = self.any()?;
            self.expect(")")?;
            inner
        } else if self.peek() == Some('@') {
            let path = self.steps()?;
            self.blanks();
            match self.test() {
                Some(test) => Condition::Compares(path, test, self.literal()?),
                None => Condition::Exists(path),
            }
        } else {
            return self.fail("@ and a field are expected");
        };
        self.blanks();
        Ok(condition)
    }

    fn test(&mut self) -> Option<Test> {
        let tests = [
            ("==", Test::Equal),
            ("!=", Test::Unequal),
            ("<=", Test::LessOrEqual),
            (">=", Test::GreaterOrEqual),
            ("<", Test::Less),
            (">", Test::Greater),
        ];
        tests
            .into_iter()
            .find(|(text, _)| self.takes(text))
            .map(|(_, test)| test)
    }

    fn literal(&mut self) -> Result<Value, String> {
        self.blanks();
        if let Some(quote @ ('"' | '\'')) = self.peek() {
            return self.quoted(quote).map(Value::from);
        }
        let from = self.at;
        while self.peek().is_some_and(|c| !matches!(c, ')' | ' ' | '&' | '|')) {
            self.at += 1;
        }
        let text: String = self.text[from..self.at].iter().collect();
        match text.is_empty() {
            true => self.fail("a value is expected"),
            false => Ok(serde_json::from_str(&text).unwrap_or(Value::String(text))),
        }
    }

    fn number(&mut self) -> Option<i64> {
        let from = self.at;
        while self
            .peek()
            .is_some_and(|c| c.is_ascii_digit() || (c == '-' && self.at == from))
        {
            self.at += 1;
        }
        self.text[from..self.at].iter().collect::<String>().parse().ok()
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                return self.fail("a closing quote is missing");
            };
            self.at += 1;
            match c {
                c if c == quote => return Ok(text),
                '\\' => {
                    let escaped = self.peek().unwrap_or('\\');
                    self.at += 1;
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => other,
                    });
                }
                c => text.push(c),
            }
        }
    }
}
