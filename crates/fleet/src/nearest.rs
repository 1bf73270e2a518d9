//! The names that a misspelt one may stand for: "did you mean".

/// How many names are proposed at most.
const MOST_PROPOSED: usize = 3;
/// How many names are compared at most, so that the answer to a typo stays cheap in any fleet.
const MOST_COMPARED: usize = 20_000;
/// A longer name is no typo of anything.
const MOST_CHARACTERS: usize = 128;

/// `did you mean "prod"?`: the known names most like one that does not exist. None if no name is like it.
pub fn did_you_mean<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    ask(&nearest(wanted, known))
}

/// `did you mean "dev" or "prod"?`; none without names.
pub fn ask(names: &[&str]) -> Option<String> {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let (last, others) = quoted.split_last()?;
    Some(match others.is_empty() {
        true => format!("did you mean {last}?"),
        false => format!("did you mean {} or {last}?", others.join(", ")),
    })
}

/// The known names with the least distance to the wanted one; else the few that begin with it. Case, and dashes for underscores,
/// do not count.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = folded(wanted);
    if wanted.is_empty() || wanted.len() > MOST_CHARACTERS {
        return Vec::new();
    }
    // With one character, every other character would be as near.
    let mut best = match wanted.len() {
        1 => 0,
        length => (length / 3).clamp(1, 3),
    };
    let mut near = Vec::new();
    let mut longer = Vec::new();
    for name in known.into_iter().take(MOST_COMPARED) {
        let characters = folded(name);
        if wanted.len() > 1 && characters.starts_with(&wanted) {
            longer.push(name);
        }
        let Some(distance) = distance(&wanted, &characters, best) else {
            continue;
        };
        if distance < best {
            near.clear();
            best = distance;
        }
        near.push(name);
    }
    let mut found = match near.is_empty() {
        true if longer.len() > MOST_PROPOSED => Vec::new(),
        true => longer,
        false => near,
    };
    found.sort_unstable();
    found.dedup();
    found.truncate(MOST_PROPOSED);
    found
}

fn folded(name: &str) -> Vec<char> {
    let lower = name.chars().flat_map(char::to_lowercase);
    lower.map(|c| if c == '_' { '-' } else { c }).collect()
}

/// How many characters must be inserted, removed, replaced or swapped with their neighbour; none if more than `most`.
fn distance(one: &[char], other: &[char], most: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > most {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (n, c) in one.iter().enumerate() {
        let mut row = vec![n + 1];
        for (m, d) in other.iter().enumerate() {
            let mut least = (last[m] + usize::from(c != d)).min(last[m + 1] + 1).min(row[m] + 1);
            if n > 0 && m > 0 && *c == other[m - 1] && one[n - 1] == *d {
                least = least.min(before[m - 1] + 1);
            }
            row.push(least);
        }
        if row.iter().all(|distance| *distance > most) {
            return None;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(wanted: &str, known: &[&str]) -> String {
        did_you_mean(wanted, known.iter().copied()).unwrap_or_default()
    }

    #[test]
    fn typos_find_their_name() {
        let tiers = ["dev", "qa", "uat", "prod"];
        let fields = ["component_path", "oci_tag", "oci_url", "depends_on"];
        for (wanted, known, expected) in [
            ("prd", &tiers[..], "did you mean \"prod\"?"),
            ("PROD", &tiers, "did you mean \"prod\"?"),
            ("dve", &tiers, "did you mean \"dev\"?"),
            ("oci_tga", &fields, "did you mean \"oci_tag\"?"),
            ("oci-tag", &fields, "did you mean \"oci_tag\"?"),
            ("dependson", &fields, "did you mean \"depends_on\"?"),
            ("component", &fields, "did you mean \"component_path\"?"),
            ("production", &tiers, ""),
            ("x", &tiers, ""),
            ("x", &["a", "b"], ""),
            ("X", &["x", "b"], "did you mean \"x\"?"),
            ("", &tiers, ""),
            ("labels", &fields, ""),
        ] {
            assert_eq!(proposed(wanted, known), expected, "{wanted}");
        }
    }

    #[test]
    fn the_nearest_come_first_and_there_are_few() {
        let ids: Vec<String> = (0..400).map(|n| format!("c-{n:03}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        assert_eq!(nearest("C-001", ids.iter().copied()), ["c-001"]);
        assert_eq!(nearest("c-0001", ids.iter().copied()), ["c-000", "c-001"]);
        assert_eq!(
            proposed("c-01", &ids),
            "did you mean \"c-001\", \"c-010\" or \"c-011\"?"
        );
        // Of many that are as near, the first; of many that begin with it, none.
        let four = ["d", "c-1", "c-2", "c-3", "c-4"];
        assert_eq!(proposed("c-", &four), "did you mean \"c-1\", \"c-2\" or \"c-3\"?");
        assert_eq!(
            proposed("cl", &["cluster-1", "cluster-2", "cluster-3", "cluster-4"]),
            ""
        );
    }

    #[test]
    fn distances_are_those_of_the_definition() {
        let of = |one: &str, other: &str| distance(&folded(one), &folded(other), 9);
        for (one, other, expected) in [
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("", "abc", 3),
            ("a", "a", 0),
            ("podinfo", "podinof", 1),
        ] {
            assert_eq!(of(one, other), Some(expected), "{one} {other}");
            assert_eq!(of(other, one), Some(expected), "{other} {one}");
        }
        assert_eq!(distance(&folded("abcdef"), &folded("uvwxyz"), 3), None);
    }
}
