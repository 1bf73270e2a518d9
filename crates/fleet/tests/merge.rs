//! The merge, by data: each `merge/CASE.yaml` holds a fleet and the polls to make, `merge/CASE.golden.yaml` the answers.
//! `UPDATE_GOLDEN=1 cargo test -p fleet --test merge` rewrites the answers: review the diff.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use fleet::inputs::{Breach, cluster_list};
use fleet::kind::KINDS;
use fleet::operation::{BatchRequest, Operation, Verb};
use fleet::{Fleet, yaml};
use serde_json::{Value, json};

use common::{BATCH, SEED, commit, empty, poll};

#[test]
fn every_case_gets_its_golden_answers() {
    let folder = root().join("crates/fleet/tests/merge");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_case = |path: &PathBuf| !path.to_str().unwrap().ends_with(".golden.yaml");
    let mut cases: Vec<_> = files.filter(is_case).collect();
    cases.sort();
    assert!(cases.len() >= 11, "only {} cases were found", cases.len());
    let failures: Vec<_> = cases.iter().filter_map(|case| check(case).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_list_of_clusters_is_that_of_the_api_reference() {
    let fleet = common::demo();
    let list = cluster_list(fleet.clusters().values().map(AsRef::as_ref)).unwrap();
    let expected = json!({"inputs": [{
        "id": "demo-cluster-01",
        "cluster_name": "demo-cluster-01",
        "cluster_dns": "demo-cluster-01.k8s.example.com",
        "environment": "dev",
    }]});
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap(), expected);
    let one = fleet.cluster("demo-cluster-01").unwrap();
    assert_eq!(
        cluster_list(std::iter::repeat_n(&**one, 10_001)),
        Err(Breach::TooMany(10_001))
    );
    assert!(matches!(
        cluster_list(std::iter::repeat_n(&**one, 9_000)),
        Err(Breach::TooLarge(_))
    ));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn check(case: &Path) -> Result<(), String> {
    let given =
        yaml::parse(&fs::read_to_string(case).unwrap()).map_err(|error| format!("{}: {error}", case.display()))?;
    let fleet = build(&given);
    let polls = given["polls"].as_array().unwrap().iter().map(|asked| {
        let asked = asked.as_str().unwrap();
        let (dns, path) = asked.split_once(' ').unwrap();
        (asked.to_owned(), poll(&fleet, dns, path))
    });
    let answers = yaml::write(&Value::Object(polls.collect()));
    let golden = case.with_extension("golden.yaml");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &answers).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    match answers == expected {
        true => Ok(()),
        false => Err(format!(
            "{} expected:\n{expected}\nand got:\n{answers}",
            golden.display()
        )),
    }
}

/// The fleet of a case: the built-in kinds, `kinds` (each the text of a file), then the `seed` (or the file
/// that it names), then a batch of `operations`.
fn build(given: &Value) -> Fleet {
    let step = |fleet: Fleet, operations: &[Operation], rules| commit(&fleet, operations, rules).unwrap().0;
    let mut fleet = empty();
    for text in given["kinds"].as_array().into_iter().flatten() {
        let value = yaml::parse(text.as_str().unwrap()).unwrap();
        fleet = step(fleet, &[Operation::new(KINDS, Verb::Apply { id: None, value })], BATCH);
    }
    let seed = match &given["seed"] {
        Value::String(file) => yaml::parse(&fs::read_to_string(root().join(file)).unwrap()).unwrap(),
        seed => seed.clone(),
    };
    fleet = step(fleet, &common::seed_operations(&seed).unwrap(), SEED);
    match given.get("operations") {
        Some(operations) => step(
            fleet,
            &BatchRequest::parse(json!({ "operations": operations }))
                .unwrap()
                .operations,
            BATCH,
        ),
        None => fleet,
    }
}
