//! What is the same for many is said once.

use std::collections::HashMap;
use std::hash::Hash;

use fleet::refusal::some_of;

/// Members by what is said of them, in the order in which it was said first.
pub(super) fn group<K: Clone + Eq + Hash, M>(said: impl IntoIterator<Item = (K, M)>) -> Vec<(K, Vec<M>)> {
    let mut groups: Vec<(K, Vec<M>)> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    for (key, member) in said {
        let place = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(member);
    }
    groups
}

/// The first few names and how many more there are, or all of them.
pub(super) fn names(all: &[&str], wide: bool) -> String {
    match wide {
        true => all.join(", "),
        false => some_of(all),
    }
}

/// `1 cluster`, `48 clusters`.
pub(crate) fn clusters(count: u64) -> String {
    match count {
        1 => "1 cluster".to_owned(),
        many => format!("{many} clusters"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_their_order_and_their_members() {
        let said = [("b", 1), ("a", 2), ("b", 3)];
        assert_eq!(group(said), [("b", vec![1, 3]), ("a", vec![2])]);
    }

    #[test]
    fn few_names_are_said_and_many_are_counted() {
        let all: Vec<String> = (1..=7).map(|n| format!("c{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(names(&all[..2], false), "c1, c2");
        assert_eq!(names(&all, false), "c1, c2, c3, c4, c5 and 2 more");
        assert_eq!(names(&all, true), "c1, c2, c3, c4, c5, c6, c7");
    }
}
