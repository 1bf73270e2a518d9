//! Groups equal changes.

use std::collections::HashMap;
use std::hash::Hash;

use fleet::refusal::some_of;

/// Groups members by their key, in the order of the first member.
pub(super) fn group<K: Clone + Eq + Hash, M>(entries: impl IntoIterator<Item = (K, M)>) -> Vec<(K, Vec<M>)> {
    let mut groups: Vec<(K, Vec<M>)> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    for (key, member) in entries {
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
        let entries = [("b", 1), ("a", 2), ("b", 3)];
        assert_eq!(group(entries), [("b", vec![1, 3]), ("a", vec![2])]);
    }

    #[test]
    fn a_few_names_are_shown_and_the_rest_is_counted() {
        let all: Vec<String> = (1..=7).map(|n| format!("c{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(names(&all[..2], false), "c1, c2");
        assert_eq!(names(&all, false), "c1, c2, c3, c4, c5 and 2 more");
        assert_eq!(names(&all, true), "c1, c2, c3, c4, c5, c6, c7");
    }
}
