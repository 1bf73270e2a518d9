//! Every case of the corpus gives the result of the real Flux Operator: the same objects, or the same error.
//!
//! `scripts/judge.sh --write` writes the golden files. A case is `<area>/<name>.yaml`, with an optional `<name>.inputs.yaml` or
//! `<name>.providers.yaml`.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use resourceset::offline::{self, Offline};

/// The first line of the golden file of a case that fails.
const ERROR: &str = "error:\n";
/// How many differences are shown in full.
const SHOWN: usize = 10;

#[test]
fn every_case_gives_its_golden_result() {
    let cases = cases();
    assert!(!cases.is_empty(), "the corpus is empty");
    let differences: Vec<String> = cases.iter().filter_map(|case| difference(case)).collect();
    assert!(
        differences.is_empty(),
        "{} of {} cases differ\n{}",
        differences.len(),
        cases.len(),
        differences.iter().take(SHOWN).map(String::as_str).collect::<String>()
    );
}

#[test]
fn every_golden_file_has_its_case() {
    let cases: BTreeSet<PathBuf> = cases().iter().map(|case| case.with_extension("golden")).collect();
    let goldens: BTreeSet<PathBuf> = files()
        .into_iter()
        .filter(|path| has_extension(path, "golden"))
        .collect();
    assert_eq!(
        cases.symmetric_difference(&goldens).collect::<Vec<_>>(),
        Vec::<&PathBuf>::new()
    );
}

fn difference(case: &Path) -> Option<String> {
    let companion = |extension: &str| fs::read(case.with_extension(extension)).ok();
    let resource_set = fs::read(case).expect("a readable case");
    let golden = fs::read_to_string(case.with_extension("golden")).unwrap_or_else(|_| "no golden file\n".to_owned());
    let (inputs, providers) = (companion("inputs.yaml"), companion("providers.yaml"));
    let built = offline::build(&Offline {
        resource_set: &resource_set,
        inputs: inputs.as_deref(),
        providers: providers.as_deref(),
        namespace: "default",
    });
    let ours = built.unwrap_or_else(|error| format!("{ERROR}{error}\n"));
    (ours != golden).then(|| format!("\n=== {}\n--- judge\n{golden}--- ours\n{ours}", case.display()))
}

/// The ResourceSets of the corpus.
fn cases() -> Vec<PathBuf> {
    let companion = |path: &Path| {
        let stem = path.file_stem().map(Path::new);
        stem.is_some_and(|stem| has_extension(stem, "inputs") || has_extension(stem, "providers"))
    };
    files()
        .into_iter()
        .filter(|path| has_extension(path, "yaml") && !companion(path))
        .collect()
}

fn files() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<PathBuf> = entries(&corpus).iter().flat_map(|area| entries(area)).collect();
    files.sort();
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the corpus");
    entries
        .map(|entry| entry.expect("an entry of the corpus").path())
        .collect()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension() == Some(OsStr::new(extension))
}
