//! A part of kubectl's JSONPath templates: text, `{.field}`, `['field']`, `\.` in names, `[n]`, `[-1]`, `[from:to]`,
//! `[*]`, `.*`, `..field`, `[?(@.field=="value")]` with `==`, `!=`, `<`, `<=`, `>`, `>=` or existence alone, combined with `&&`,
//! `||`, `!` and parentheses, several in `{.a}{"\t"}{.b}`, and `{range …}…{end}`. Lists of this API are plain arrays; `.items` on
//! one means the list itself, for users who are used to kubectl.

mod parser;

use serde_json::Value;

use self::parser::Parser;

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
    Filter(Condition),
}

/// The condition of a filter, on one item.
#[derive(Clone, Debug)]
enum Condition {
    Exists(Vec<Step>),
    Compares(Vec<Step>, Test, Value),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
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
        Ok(JsonPath(Parser::new(&wrapped).nodes(false)?))
    }

    /// Whether a path begins with the metadata of Kubernetes objects, which the resources of this API do not have.
    pub(crate) fn names_metadata(&self) -> bool {
        fn names(node: &Node) -> bool {
            let is_metadata = |step: &Step| matches!(step, Step::Field(name) if name == "metadata");
            match node {
                Node::Text(_) => false,
                Node::Path(steps) => steps.iter().any(is_metadata),
                Node::Range(steps, inner) => steps.iter().any(is_metadata) || inner.iter().any(names),
            }
        }
        self.0.iter().any(names)
    }

    /// The values that the paths of a template find.
    pub(crate) fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let paths = self.0.iter().filter_map(|node| match node {
            Node::Path(steps) => Some(walk(steps, value)),
            Node::Text(_) | Node::Range(..) => None,
        });
        paths.flatten().collect()
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
        (Step::Filter(condition), Value::Array(items)) => items.iter().filter(|item| condition.holds(item)).collect(),
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

impl Condition {
    fn holds(&self, item: &Value) -> bool {
        match self {
            Condition::Exists(path) => !walk(path, item).is_empty(),
            Condition::Compares(path, test, wanted) => {
                let found = walk(path, item);
                found.first().is_some_and(|value| test.holds(value, wanted))
            }
            Condition::Not(inner) => !inner.holds(item),
            Condition::All(parts) => parts.iter().all(|part| part.holds(item)),
            Condition::Any(parts) => parts.iter().any(|part| part.holds(item)),
        }
    }
}

impl Test {
    fn holds(self, value: &Value, wanted: &Value) -> bool {
        let order = match (value.as_f64(), wanted.as_f64()) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            _ => Some(plain(value).cmp(&plain(wanted))),
        };
        order.is_some_and(|order| match self {
            Test::Equal => order.is_eq(),
            Test::Unequal => order.is_ne(),
            Test::Less => order.is_lt(),
            Test::LessOrEqual => order.is_le(),
            Test::Greater => order.is_gt(),
            Test::GreaterOrEqual => order.is_ge(),
        })
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
            ("{.refs[?(@.w > 1 && @.w < 9)].id}", "b"),
            ("{.refs[?(@.w==1||@.w==9)].id}", "a c"),
            ("{.refs[?(@.on || @.tag==\"v2\" && @.w==1)].id}", "a"),
            ("{.refs[?((@.on || @.tag==\"v2\") && @.w==5)].id}", "b"),
            ("{.refs[?(!@.tag)].id}", "a c"),
            ("{.refs[?(!(@.tag || @.on))].id}", "c"),
            ("{.refs[?(@.on==true && @.id==a)].id}", "a"),
            ("{.refs[?(@.id=='a && b')].id}", ""),
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
            "{.a[?(@.b && )]}",
            "{.a[?(@.b || @.c]}",
            "{.a[?(@.b & @.c)]}",
            "{.a[?((@.b)]}",
        ] {
            assert!(
                JsonPath::parse(template).unwrap_err().contains("at character"),
                "{template}"
            );
        }
    }
}
