//! A part of kubectl's JSONPath templates: text, `{.field}`, `['field']`, `\.` in names, `[n]`, `[-1]`, `[from:to]`,
//! `[*]`, `.*`, `..field`, `[?(@.field=="value")]` with `==`, `!=`, `<`, `<=`, `>`, `>=` or existence alone, several in
//! `{.a}{"\t"}{.b}`, and `{range …}…{end}`. Lists of this API are plain arrays; `.items` on one means the list itself, for
//! users who are used to kubectl.

use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) struct JsonPath(Vec<Node>);

#[derive(Clone, Debug)]
enum Node {
    Text(String),
    Path(Vec<Step>),
    Range(Vec<Step>, Vec<Node>),
}

#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Deep(String),
    Every,
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    Filter(Vec<Step>, Option<(Test, Value)>),
}

#[derive(Clone, Copy, Debug)]
enum Test {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    pub(crate) fn parse(template: &str) -> Result<JsonPath, String> {
        // `.id` without braces means `{.id}`, as in kubectl.
        let wrapped = match template.starts_with(['.', '[', '$']) && !template.contains('{') {
            true => format!("{{{template}}}"),
            false => template.to_owned(),
        };
        let mut parser = Parser {
            text: wrapped.chars().collect(),
            at: 0,
        };
        let nodes = parser.nodes(false)?;
        Ok(JsonPath(nodes))
    }

    pub(crate) fn evaluate(&self, value: &Value) -> String {
        let mut out = String::new();
        write(&self.0, value, &mut out);
        out
    }
}

fn write(nodes: &[Node], here: &Value, out: &mut String) {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Path(steps) => {
                let found = walk(steps, here);
                let texts: Vec<String> = found.into_iter().map(plain).collect();
                out.push_str(&texts.join(" "));
            }
            Node::Range(steps, inner) => {
                for item in walk(steps, here) {
                    write(inner, item, out);
                }
            }
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn walk<'v>(steps: &[Step], from: &'v Value) -> Vec<&'v Value> {
    let mut found = vec![from];
    for step in steps {
        found = found.into_iter().flat_map(|value| advance(step, value)).collect();
    }
    found
}

fn advance<'v>(step: &Step, value: &'v Value) -> Vec<&'v Value> {
    match (step, value) {
        (Step::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
        (Step::Field(name), Value::Array(_)) if name == "items" => vec![value],
        (Step::Every, Value::Array(items)) => items.iter().collect(),
        (Step::Every, Value::Object(fields)) => fields.values().collect(),
        (Step::Deep(name), value) => {
            let mut found = Vec::new();
            deep(name, value, &mut found);
            found
        }
        (Step::Index(n), Value::Array(items)) => {
            place(*n, items.len()).and_then(|n| items.get(n)).into_iter().collect()
        }
        (Step::Slice(from, to), Value::Array(items)) => {
            let clamp = |n: i64| {
                usize::try_from(if n < 0 { n + items.len() as i64 } else { n })
                    .unwrap_or(0)
                    .min(items.len())
            };
            let (from, to) = (from.map_or(0, clamp), to.map_or(items.len(), clamp));
            items.get(from..to).unwrap_or_default().iter().collect()
        }
        (Step::Filter(path, test), Value::Array(items)) => {
            items.iter().filter(|item| holds(path, test.as_ref(), item)).collect()
        }
        _ => Vec::new(),
    }
}

fn place(n: i64, length: usize) -> Option<usize> {
    usize::try_from(if n < 0 { n + length as i64 } else { n }).ok()
}

fn deep<'v>(name: &str, value: &'v Value, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                if key == name {
                    found.push(inner);
                }
                deep(name, inner, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| deep(name, item, found)),
        _ => {}
    }
}

fn holds(path: &[Step], test: Option<&(Test, Value)>, item: &Value) -> bool {
    let found = walk(path, item);
    let Some((test, wanted)) = test else {
        return !found.is_empty();
    };
    found.first().is_some_and(|value| {
        let order = match (value.as_f64(), wanted.as_f64()) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            _ => Some(plain(value).cmp(&plain(wanted))),
        };
        order.is_some_and(|order| match test {
            Test::Equal => order.is_eq(),
            Test::Unequal => order.is_ne(),
            Test::Less => order.is_lt(),
            Test::LessOrEqual => order.is_le(),
            Test::Greater => order.is_gt(),
            Test::GreaterOrEqual => order.is_ge(),
        })
    })
}

struct Parser {
    text: Vec<char>,
    at: usize,
}

impl Parser {
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

    fn nodes(&mut self, in_range: bool) -> Result<Vec<Node>, String> {
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
                if matches!(self.peek(), None | Some('}' | ' ' | ')' | '[')) {
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
                '.' | '[' | ']' | '{' | '}' | ' ' | '=' | '!' | '<' | '>' | ')' => break,
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
                self.blanks();
                let path = self.steps()?;
                self.blanks();
                let test = self.test();
                let test = match test {
                    Some(test) => Some((test, self.literal()?)),
                    None => None,
                };
                self.blanks();
                self.expect(")")?;
                Step::Filter(path, test)
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
        while self.peek().is_some_and(|c| c != ')' && c != ' ') {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_give_what_kubectl_gives() {
        let value = json!({
            "id": "c1", "n": 3, "labels": {"a.b": "x"}, "none": null,
            "refs": [{"id": "a", "on": true, "w": 1}, {"id": "b", "tag": "v2", "w": 5}, {"id": "c", "w": 9}],
        });
        for (template, expected) in [
            ("{.id}", "c1"),
            (".id", "c1"),
            ("{$.id}", "c1"),
            (r"{.labels.a\.b}", "x"),
            ("{.labels['a.b']}", "x"),
            ("{.refs[*].id}", "a b c"),
            ("{.refs[0].id}{.refs[-1].id}", "ac"),
            ("{.refs[1:].id}", "b c"),
            ("{.refs[?(@.tag==\"v2\")].id}", "b"),
            ("{.refs[?(@.tag)].id}", "b"),
            ("{.refs[?(@.w > 1)].id}", "b c"),
            ("{.refs[?(@.id!='a')].id}", "b c"),
            ("{..tag}", "v2"),
            ("n={.n}{\"\\n\"}", "n=3\n"),
            ("{range .refs[*]}{.id}={.w};{end}", "a=1;b=5;c=9;"),
            ("{.missing}{.none}", ""),
            ("{.labels}", "{\"a.b\":\"x\"}"),
            ("{.labels.*}", "x"),
        ] {
            assert_eq!(
                JsonPath::parse(template).unwrap().evaluate(&value),
                expected,
                "{template}"
            );
        }
        let list = json!([{"id": "a"}, {"id": "b"}]);
        for template in ["{[*].id}", "{.items[*].id}", "{$[*].id}"] {
            assert_eq!(JsonPath::parse(template).unwrap().evaluate(&list), "a b", "{template}");
        }
    }

    #[test]
    fn what_does_not_parse_says_where() {
        for template in [
            "{.a",
            "{.a[}",
            "{.a[?(@.b==)]}",
            "{range .a[*]}x",
            "{end}",
            "{\"x}",
            "{.a[x]}",
        ] {
            assert!(
                JsonPath::parse(template).unwrap_err().contains("at character"),
                "{template}"
            );
        }
    }
}
