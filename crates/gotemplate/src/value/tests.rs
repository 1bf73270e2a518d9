//! Sharing, capacity and cycles.

use std::collections::BTreeMap;

use super::*;

fn numbers(list: &List) -> Vec<i64> {
    list.to_vec()
        .iter()
        .map(|item| if let Value::Int(_, number) = item { *number } else { -1 })
        .collect()
}

#[test]
fn slices_share_their_memory() {
    let list = List::new(Elem::Int, (1..=4).map(Value::int).collect());
    let middle = list.slice(1, 3).expect("within bounds");
    middle.overwrite(vec![Value::int(9), Value::int(8)]);
    assert_eq!(numbers(&list), [1, 9, 8, 4]);
    assert!(list.slice(3, 5).is_none());
    assert!(list.slice(3, 2).is_none());
}

#[test]
fn appended_lists_have_capacity_that_a_slice_can_reach() {
    let list = List::appended(Elem::Int, (1..=3).map(Value::int).collect());
    assert_eq!(list.len(), 3);
    assert_eq!(
        numbers(&list.slice(0, 4).expect("Go doubled the capacity")),
        [1, 2, 3, 0]
    );
    assert!(list.slice(0, 5).is_none());
}

#[test]
fn deep_nesting_is_dropped_without_recursion() {
    let mut value = Value::Nil;
    for level in 0..200_000 {
        value = if level % 2 == 0 {
            Value::list(vec![value])
        } else {
            Value::map([("", value)])
        };
    }
    drop(value);
}

#[test]
fn a_scope_frees_maps_that_contain_themselves() {
    let scope = Scope::enter();
    let map = Map::new(Elem::Any, BTreeMap::new());
    assert!(map.insert(Str::from(*b"self"), Value::Map(map.clone())));
    let weak = map.downgrade().expect("not nil");
    drop(map);
    assert!(weak.exists());
    drop(scope);
    assert!(!weak.exists());
}

#[test]
fn the_nil_map_is_empty_and_refuses_writes() {
    let map = Map::nil(Elem::Any);
    assert!(!map.insert(Str::from(*b"a"), Value::Nil));
    map.remove(b"a");
    assert_eq!((map.len(), map.contains(b"a")), (0, false));
}
