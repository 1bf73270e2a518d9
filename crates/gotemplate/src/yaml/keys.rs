//! The order of keys: letters after other characters, numbers by value.

use std::cmp::Ordering;

use crate::unicode::{is_digit, is_letter};

/// Sorts keys as go-yaml does.
///
/// The order has cycles (`2` < `10` < `1a` < `2`), and `slice::sort_by` may panic for those, so this is a merge sort. In Go the
/// order of such keys is random.
pub(super) fn sort<T>(entries: &mut Vec<(&str, T)>) {
    if entries.len() < 2 {
        return;
    }
    let mut right = entries.split_off(entries.len() / 2);
    sort(entries);
    sort(&mut right);
    let mut left = std::mem::take(entries).into_iter().peekable();
    let mut right = right.into_iter().peekable();
    while let (Some((first, _)), Some((second, _))) = (left.peek(), right.peek()) {
        entries.extend(if less(second, first) { right.next() } else { left.next() });
    }
    entries.extend(left);
    entries.extend(right);
}

/// Whether the key `a` comes before the key `b`.
fn less(a: &str, b: &str) -> bool {
    let common = a
        .chars()
        .zip(b.chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum();
    let (before, a, b) = (&a[..common], &a[common..], &b[common..]);
    let (Some(first), Some(second)) = (a.chars().next(), b.chars().next()) else {
        return a.is_empty() && !b.is_empty();
    };
    match (is_letter(first), is_letter(second)) {
        (true, true) => return first < second,
        (false, true) => return true,
        (true, false) => return false,
        (false, false) => {}
    }
    // A zero right after other digits is not a leading zero.
    let within = (first == '0' || second == '0')
        && before
            .chars()
            .rev()
            .take_while(|char| is_digit(*char))
            .any(|digit| digit != '0');
    let (a_number, a_digits) = number(a, within);
    let (b_number, b_digits) = number(b, within);
    a_number
        .cmp(&b_number)
        .then(a_digits.cmp(&b_digits))
        .then(first.cmp(&second))
        == Ordering::Less
}

/// The value of the leading digits, wrapping like an `int64`, and their number.
fn number(text: &str, within: bool) -> (i64, usize) {
    text.chars()
        .take_while(|char| is_digit(*char))
        .fold((i64::from(within), 0), |(value, count), digit| {
            (
                value
                    .wrapping_mul(10)
                    .wrapping_add(i64::from(u32::from(digit)) - i64::from(u32::from('0'))),
                count + 1,
            )
        })
}
