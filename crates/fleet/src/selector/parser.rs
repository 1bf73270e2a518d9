//! The grammar of selectors, which is that of Kubernetes.

use super::{Requirement, Selector, SelectorError, Test};

pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Parser { text, at: 0 }
    }

    pub(super) fn selector(mut self) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            requirements.push(self.requirement()?);
            match self.peek() {
                None => return Ok(Selector { requirements }),
                Some(',') => self.at += 1,
                Some(_) => return self.fail("a comma or the end"),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.eat("!") {
            let key = self.word("a key")?;
            return Ok(Requirement {
                key,
                test: Test::Missing,
            });
        }
        let key = self.word("a key")?;
        let test = match self.peek() {
            None | Some(',') => Test::Exists,
            Some('=') => {
                self.at += 1;
                self.eat("=");
                Test::In(vec![self.value()?])
            }
            Some('!') if self.eat("!=") => Test::NotIn(vec![self.value()?]),
            Some('i' | 'n') => match self.word("an operator")?.as_str() {
                "in" => Test::In(self.values()?),
                "notin" => Test::NotIn(self.values()?),
                _ => return self.fail("one of =, ==, !=, in, notin"),
            },
            Some(_) => return self.fail("one of =, ==, !=, in, notin"),
        };
        Ok(Requirement { key, test })
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        if !self.eat("(") {
            return self.fail("an opening parenthesis");
        }
        let mut values = vec![self.value()?];
        while self.eat(",") {
            values.push(self.value()?);
        }
        match self.eat(")") {
            true => Ok(values),
            false => self.fail("a comma or a closing parenthesis"),
        }
    }

    /// A value may be empty: `tier=` selects what has the label with an empty value.
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            None | Some(',' | ')') => Ok(String::new()),
            Some(_) => self.word("a value"),
        }
    }

    fn word(&mut self, expected: &'static str) -> Result<String, SelectorError> {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-_./:".contains(c)))
            .unwrap_or(rest.len());
        if end == 0 {
            return self.fail(expected);
        }
        self.at += end;
        Ok(rest[..end].to_owned())
    }

    fn eat(&mut self, token: &str) -> bool {
        self.peek();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// The next character that is not a blank.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, SelectorError> {
        let at = self.text[..self.at].chars().count() + 1;
        Err(SelectorError::Syntax { at, expected })
    }
}
