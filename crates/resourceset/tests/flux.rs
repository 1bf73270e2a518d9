//! The shipped templates with thousands of generated inputs, compared with the real Flux Operator CLI: the same objects, or the
//! same error. Needs the CLI (`FLUX_OPERATOR_CLI`), so only `make test-flux` runs it.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path, process::Command, sync::Mutex, thread};

use resourceset::offline::{self, Offline};
use serde_json::{Map, Value, json};

/// How many times the CLI runs; `FLUX_CASES` overrides it.
const RUNS: usize = 1500;
const TEMPLATES: [&str; 4] = [
    "resourcesets/platform-components.yaml",
    "resourcesets/namespaces.yaml",
    "resourcesets/rolebindings.yaml",
    "examples/network-policies/resourceset.yaml",
];

/// Texts that break templates, YAML or names.
const TEXTS: [&str; 64] = [
    "",
    " ",
    "a",
    "plain-text",
    "podinfo",
    "it's",
    "\"quoted\"",
    "a: b",
    "a:b",
    "- a",
    "#comment",
    "a #b",
    "<< inputs.id >>",
    "<<",
    ">>",
    "{{ .Values }}",
    "${VAR}",
    "$key",
    "$$",
    "a,b,c",
    "{a,b}",
    "{}",
    "[]",
    "[a]",
    "line\nbreak",
    "\n",
    "trailing\n",
    "\ttab",
    "two  blanks",
    " lead",
    "trail ",
    "---",
    "---\napiVersion: v1\nkind: Secret\nmetadata: {name: injected}",
    "...",
    "null",
    "~",
    "true",
    "false",
    "yes",
    "no",
    "y",
    "n",
    "on",
    "off",
    "0",
    "1",
    "-1",
    "007",
    "0x1F",
    "0o17",
    "1_000",
    "1e3",
    "1.0",
    ".inf",
    ".nan",
    "2026-01-01",
    "12:30:45",
    "%",
    "@at",
    "`tick`",
    "back\\slash",
    "žluťoučký",
    "漢字",
    "🦀",
];
const KEYS: [&str; 16] = [
    "replicaCount",
    "ui.color",
    "ingress.hosts[0].host",
    "a.b\\.c",
    "y",
    "n",
    "on",
    "123",
    "GRAFANA_REPLICAS",
    "with space",
    "a/b",
    "ünï",
    "-",
    "k9",
    "k10",
    "very.long.path.to.a.value.that.goes.on.and.on.and.on.and.on.and.on.and.on.until.it.is.longer.than.a.line.of.text",
];
const SOURCES: [&str; 6] = [
    "https://charts.example.com",
    "http://charts.example.com",
    "oci://registry.example.com/platform",
    "oci://registry.example.com/charts/",
    "OCI://upper",
    "",
];

/// A small generator (splitmix64): the same cases every time.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most as u64).unwrap()
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    fn text(&mut self) -> String {
        match self.below(8) {
            0 => format!("{}{}", self.pick(&TEXTS), self.pick(&TEXTS)),
            1 => self.pick(&TEXTS).repeat(1 + self.below(40)),
            2 => (0..self.below(12))
                .filter_map(|_| char::from_u32(u32::try_from(self.next() % 0x3000).ok()?))
                .collect(),
            _ => self.pick(&TEXTS).to_owned(),
        }
    }

    fn id(&mut self) -> String {
        match self.below(6) {
            0 => self.text(),
            1 => format!("{}-{}", "long-name".repeat(1 + self.below(9)), self.below(100)),
            _ => format!("id-{}", self.below(1000)),
        }
    }

    /// A value of any type.
    fn any(&mut self, depth: usize) -> Value {
        match self.below(if depth > 2 { 7 } else { 9 }) {
            0 => json!(self.one_in(2)),
            1 => json!(self.below(10_000) as i64 - 5000),
            2 => json!(self.next() as i64),
            3 => json!(f64::from(u32::try_from(self.below(1_000_000)).unwrap()) / 8.0 - 1000.0),
            4..=6 => json!(self.text()),
            7 => (0..self.below(4)).map(|_| self.any(depth + 1)).collect(),
            _ => {
                let entries = (0..self.below(4)).map(|_| (self.pick(&KEYS).to_owned(), self.any(depth + 1)));
                Value::Object(entries.collect::<Vec<_>>().into_iter().collect())
            }
        }
    }

    fn scalar(&mut self) -> Value {
        match self.below(6) {
            0 => json!(self.below(100)),
            1 => json!(self.one_in(2)),
            2 => json!(0.5),
            _ => json!(self.text()),
        }
    }

    fn strings(&mut self) -> Value {
        let entries: Vec<_> = (0..self.below(5))
            .map(|_| (self.pick(&KEYS).to_owned(), json!(self.text())))
            .collect();
        Value::Object(entries.into_iter().collect())
    }

    /// An input as the API returns it. A hostile one has a value of another type, or lacks a value.
    fn input(&mut self, template: &str, hostile: bool) -> Value {
        let cluster =
            json!({"name": self.id(), "dns": "c.example.com", "environment": self.pick(&["dev", "prod", "qa"])});
        let mut input = match template {
            path if path.contains("platform-components") => {
                let mut source =
                    json!({"oci_url": self.pick(&SOURCES), "oci_tag": self.pick(&["latest", "v1.2.3", "1.0"])});
                if self.one_in(3) {
                    source["oci_artifact"] = self.pick(&["chart", "manifests"]).into();
                }
                let patches: Map<String, Value> = (0..self.below(5))
                    .map(|_| (self.pick(&KEYS).to_owned(), self.scalar()))
                    .collect();
                let depends: Vec<String> = (0..self.below(3)).map(|_| self.id()).collect();
                json!({
                    "component_path": self.pick(&["podinfo", "a/b/c", "./x", "1e3"]), "component_version": self.pick(&["latest", "6.5.0"]),
                    "cluster_env_enabled": self.one_in(2), "depends_on": depends, "enabled": !self.one_in(4), "patches": patches, "source": source,
                })
            }
            path if path.contains("namespaces") => json!({"labels": self.strings(), "annotations": self.strings()}),
            path if path.contains("rolebindings") => {
                let mut subject = json!({"kind": self.pick(&["Group", "User", "ServiceAccount"]), "name": self.text(), "apiGroup": "rbac.authorization.k8s.io"});
                if self.one_in(2) {
                    subject["namespace"] = self.id().into();
                }
                json!({"role": self.text(), "subjects": [subject]})
            }
            _ => {
                json!({"target_namespace": self.id(), "ingress_rules": [{"from_namespace": self.text(), "port": self.below(70_000)}]})
            }
        };
        input["id"] = self.id().into();
        input["cluster"] = cluster;
        if self.one_in(2) {
            input["desired"] = json!({"input": format!("{:016x}", self.next())});
        }
        if hostile {
            let names: Vec<String> = input.as_object().unwrap().keys().cloned().collect();
            let name = &names[self.below(names.len())];
            match self.below(3) {
                0 => drop(input.as_object_mut().unwrap().remove(name)),
                _ => input[name] = self.any(0),
            }
        }
        input
    }
}

#[test]
#[ignore = "needs the real Flux Operator CLI: make test-flux"]
fn the_shipped_templates_render_as_flux_operator_renders_them() {
    let judge = std::env::var("FLUX_OPERATOR_CLI").expect("FLUX_OPERATOR_CLI names the judge");
    let runs = std::env::var("FLUX_CASES").map_or(RUNS, |text| text.parse().expect("FLUX_CASES is a number"));
    let found = Mutex::new((0, 0, Vec::new()));
    let workers = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for worker in 0..workers {
            let (judge, found) = (&judge, &found);
            scope.spawn(move || {
                let folder = tempfile::tempdir().unwrap();
                for run in (worker..runs).step_by(workers) {
                    let (inputs, failed, difference) = compare(judge, folder.path(), run);
                    let mut found = found.lock().unwrap();
                    found.0 += inputs;
                    found.1 += usize::from(failed);
                    found.2.extend(difference);
                }
            });
        }
    });
    let (inputs, failed, differences) = found.into_inner().unwrap();
    println!(
        "{runs} runs with {inputs} inputs, {failed} of which fail; {} differ",
        differences.len()
    );
    assert!(failed > 0 && failed < runs, "the cases are one-sided");
    assert!(
        differences.is_empty(),
        "{}",
        differences.iter().take(5).map(String::as_str).collect::<String>()
    );
}

/// Runs both: how many inputs there were, whether rendering failed, and how the results differ.
fn compare(judge: &str, folder: &Path, run: usize) -> (usize, bool, Option<String>) {
    let mut rng = Rng(run as u64);
    let template = TEMPLATES[run % TEMPLATES.len()];
    // An error hides everything after it, so there is only one hostile input per run.
    let (count, hostile) = if rng.one_in(3) { (1, true) } else { (4, false) };
    let inputs: Vec<Value> = (0..count).map(|_| rng.input(template, hostile)).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s").join(template);
    let inputs_file = folder.join("inputs.yaml");
    let text = serde_json::to_string(&inputs).unwrap();
    fs::write(&inputs_file, &text).unwrap();
    let output = Command::new(judge)
        .args(["build", "resourceset", "--filename"])
        .arg(&file)
        .arg("--inputs-from")
        .arg(&inputs_file)
        .env("KUBECONFIG", "/dev/null")
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let theirs = match output.status.success() {
        true => String::from_utf8(output.stdout).unwrap(),
        false => format!(
            "error: {}",
            String::from_utf8_lossy(&output.stderr).trim_start_matches("✗ ")
        ),
    };
    let resource_set = fs::read(&file).unwrap();
    let ours = offline::build(&Offline {
        resource_set: &resource_set,
        inputs: Some(text.as_bytes()),
        providers: None,
        namespace: "default",
    });
    let ours = ours.unwrap_or_else(|error| format!("error: {error}\n"));
    // The CLI crashes on null and prints a stack trace.
    let crash = |text: &str| text.starts_with("error: panic:");
    let same = ours == theirs || (crash(&ours) && crash(&theirs));
    let difference = (!same).then(|| format!("\n=== {template} with {text}\n--- judge\n{theirs}--- ours\n{ours}"));
    (count, !output.status.success(), difference)
}
