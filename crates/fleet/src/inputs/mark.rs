//! Marks: a short digest in each input, by which evidence from a cluster names the very content that it is about.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use super::merge::Part;

/// The field of an input that holds its mark, as `{"input": "…"}`.
pub(crate) const DESIRED: &str = "desired";
/// What a mark adds to an input: `"desired":{"input":"0123456789abcdef"},`.
pub(crate) const MARK_BYTES: usize = 39;

/// The digest of one input. The same input of the same kind has the same mark on every cluster, replica and revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark(pub u64);

/// The mark of an input at a Flux path. `plain_input` is its JSON as in the plain reply.
pub fn mark(path: &str, plain_input: &str) -> Mark {
    let digest = Sha256::new()
        .chain_update(path)
        // No path has one, so that no two pairs of path and input are the same bytes.
        .chain_update("\n")
        .chain_update(plain_input)
        .finalize();
    Mark(u64::from_be_bytes(
        digest[..8].try_into().expect("SHA-256 has 32 bytes"),
    ))
}

/// Appends an input with its mark. One that has a field `desired` stays as it is: its kind is from before the name was reserved.
pub(super) fn write_marked(input: Part<'_>, mark: Mark, out: &mut String) {
    let mark = mark.to_string();
    let mut input = input;
    if let Part::Object(fields) = &mut input
        && let Err(place) = fields.binary_search_by_key(&DESIRED, |(name, _)| name)
    {
        fields.insert(place, (DESIRED, Part::Object(vec![("input", Part::Text(&mark))])));
    }
    input.write(out);
}

/// As 16 hexadecimal digits, in lower case.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The text is not a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a mark has 16 hexadecimal digits, in lower case")]
pub struct NotAMark;

impl FromStr for Mark {
    type Err = NotAMark;

    fn from_str(text: &str) -> Result<Self, NotAMark> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 16 || !text.bytes().all(is_digit) {
            return Err(NotAMark);
        }
        u64::from_str_radix(text, 16).map(Mark).map_err(|_| NotAMark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_the_same_on_every_replica_and_release() {
        let input = r#"{"cluster":{"name":"a"},"id":"podinfo"}"#;
        assert_eq!(mark("namespaces", input).to_string(), "89e77a1f39bcdd80");
        assert_ne!(mark("namespaces", input), mark("rolebindings", input));
        assert_ne!(mark("namespaces", input), mark("namespaces", &input[1..]));
    }

    #[test]
    fn a_mark_is_read_as_it_is_written() {
        for mark in [Mark(0), Mark(0xab), Mark(u64::MAX)] {
            assert_eq!(mark.to_string().parse(), Ok(mark));
        }
        for text in ["", "ab", "00000000000000AB", "+000000000000001", "0123456789abcdef0"] {
            assert_eq!(text.parse::<Mark>(), Err(NotAMark), "{text}");
        }
    }

    #[test]
    fn a_marked_input_is_longer_by_what_is_counted() {
        let fields = |names: &[&'static str]| Part::Object(names.iter().map(|name| (*name, Part::Text("x"))).collect());
        for names in [&["id"][..], &["cluster", "id"], &["a", "b"]] {
            let plain = fields(names).to_text();
            let mut marked = String::new();
            write_marked(fields(names), Mark(7), &mut marked);
            assert_eq!(marked.len(), plain.len() + MARK_BYTES);
        }
        let mut marked = String::new();
        write_marked(fields(&["cluster", "id"]), Mark(7), &mut marked);
        assert_eq!(
            marked,
            r#"{"cluster":"x","desired":{"input":"0000000000000007"},"id":"x"}"#
        );
        let mut own = String::new();
        write_marked(fields(&["desired", "id"]), Mark(7), &mut own);
        assert_eq!(own, r#"{"desired":"x","id":"x"}"#);
    }
}
