//! Every input of `fuzz/corpus` and `fuzz/crashes`, through its target: what fuzzing has found once is checked for ever.

use std::fs;
use std::path::{Path, PathBuf};

use fuzzing::{Body, TARGETS};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(name)
}

fn inputs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

fn replay(name: &str, body: Body) {
    let seeds = inputs(&folder("corpus").join(name));
    assert!(!seeds.is_empty(), "fuzz/corpus/{name} has no inputs");
    for file in seeds.into_iter().chain(inputs(&folder("crashes").join(name))) {
        // Captured by the test: shown only when the input fails.
        println!("{}", file.display());
        body(&fs::read(&file).expect("a readable file"));
    }
}

#[test]
fn every_committed_input_passes_its_target() {
    for (name, body) in TARGETS {
        replay(name, body);
    }
}

#[test]
fn every_target_has_a_program_and_every_folder_a_target() {
    let manifest = fs::read_to_string(folder("Cargo.toml")).expect("fuzz/Cargo.toml");
    for (name, _) in TARGETS {
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} has no program in fuzz/Cargo.toml"
        );
    }
    for parent in ["corpus", "crashes"] {
        for folder in inputs(&folder(parent)).into_iter().filter(|path| path.is_dir()) {
            let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
            assert!(
                TARGETS.iter().any(|(target, _)| *target == name),
                "{} belongs to no target",
                folder.display()
            );
        }
    }
}
