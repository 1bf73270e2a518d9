//! YAML: text in, JSON value out.

use serde_json::Value;

use crate::refusal::shorten;

/// Parses one YAML or JSON document. Booleans are those of YAML 1.2: `no` is a string.
pub fn parse(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        // Deeper documents could overflow the stack: a level takes 16 KiB in a debug build.
        budget: serde_saphyr::budget! { max_depth: 64 },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        // The message may quote the document.
        shorten(line.strip_prefix("error: ").unwrap_or(line).to_owned(), 300)
    })
}

/// Writes a value as YAML, keys sorted.
pub fn write(value: &Value) -> String {
    let sorted: Value = serde_json::from_str(crate::json::Json::new(value).as_str()).expect("canonical JSON parses");
    serde_saphyr::to_string(&sorted).expect("a JSON value is writable as YAML")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_true_and_false_are_booleans() {
        assert_eq!(
            parse("a: no\nb: on\nc: true").unwrap(),
            serde_json::json!({"a": "no", "b": "on", "c": true})
        );
    }

    #[test]
    fn depth_and_aliases_are_bounded() {
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&format!("{}{}", "[".repeat(200), "]".repeat(200))).is_err());
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for n in 1..12 {
            let aliases = vec![format!("*a{}", n - 1); 9].join(", ");
            bomb.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
        }
        assert!(parse(&bomb).is_err());
    }

    #[test]
    fn an_error_is_one_line_with_its_place() {
        assert_eq!(parse("a: [1,\n").unwrap_err().lines().count(), 1);
        assert!(parse("a: 1\nb: [1,\n").unwrap_err().starts_with("line "));
    }
}
