//! `components`: a repository of version directories, as it should be and as it should not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fixture::World;
use crate::transcript;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/platform-components");

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// A world without kustomize and kubectl: only these programs are on the PATH.
fn without_builder() -> World {
    let world = World::demo();
    let tools = world.home.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let path = std::env::var("PATH").unwrap();
    for tool in ["sh", "cat", "grep", "head", "ls", "rm", "sed"] {
        let found = path
            .split(':')
            .map(|folder| Path::new(folder).join(tool))
            .find(|file| file.exists());
        symlink(found.unwrap(), tools.join(tool)).unwrap();
    }
    let path = format!("{}/bin:{}", world.home.path().display(), tools.display());
    world.with("PATH", &path)
}

/// The same, with a builder on the PATH: `kustomize` or `kubectl`.
fn with_builder(name: &str, program: &str) -> World {
    let world = without_builder();
    symlink(program, world.home.path().join("tools").join(name)).unwrap();
    world
}

/// A world without a builder, and with a copy of the example in `repo`.
fn with_example() -> World {
    let world = without_builder();
    copy(Path::new(EXAMPLE), &world.work().join("repo"));
    world
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// What a check without a builder prints, and its exit code.
fn checked(world: &World, arguments: &str) -> (i32, Value) {
    let ran = world.sh(&format!("flux-resourceset-cli components check {arguments}"));
    assert!(
        ran.stderr
            .starts_with("warning: neither kustomize nor kubectl is on the PATH"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    (ran.code, serde_json::from_str(&ran.stdout).unwrap())
}

fn problems(found: &Value) -> Vec<String> {
    let told = |problem: &Value| {
        let part = |name: &str| problem[name].as_str().unwrap().to_owned();
        format!("{} {}: {}", part("file"), part("place"), part("detail"))
    };
    found["problems"].as_array().unwrap().iter().map(told).collect()
}

#[test]
fn the_example_is_as_it_should_be() {
    transcript!(
        with_example(),
        "flux-resourceset-cli components check repo -o table",
        "flux-resourceset-cli components check repo --catalog repo/catalog.yaml",
        "flux-resourceset-cli components prune repo --catalog repo/catalog.yaml -o table",
        "flux-resourceset-cli components prune repo --older-than 1 --catalog repo/catalog.yaml -o table",
        "flux-resourceset-cli components prune repo --keep 1 --catalog repo/catalog.yaml",
    );
}

#[test]
fn a_repository_is_held_against_the_fleet() {
    let world = with_example();
    world.file(
        "clusters.yaml",
        "kind: cluster\nid: one\ncluster_name: one\ncluster_dns: one.example.com\nenvironment: dev\n\
         platform_components: [{id: grafana, component_path: observability/grafana/17.1.0, oci_tag: v1.1.0}, {id: welcome}]\n\
         patches: {grafana: {GRAFANA_REPLICAS: \"3\", GRAFANA_REPLICA: \"3\"}}\n",
    );
    transcript!(
        world,
        "flux-resourceset-cli components check repo --server -o table",
        "flux-resourceset-cli apply -f repo/catalog.yaml -f clusters.yaml --yes -o name 2>/dev/null",
        "flux-resourceset-cli components check repo --server -o table",
        "flux-resourceset-cli component override grafana --cluster one --component-path observability/grafana/18.0.0 -o name",
        "flux-resourceset-cli component override welcome --cluster one --oci-tag 2.0.0 -o name",
        "flux-resourceset-cli component update ingress-nginx --cluster-env-enabled -o name",
        "flux-resourceset-cli component update cert-manager --component-path core/nothing/1.0.0 -o name",
        "flux-resourceset-cli components check repo --server -o table",
        "flux-resourceset-cli component update grafana --cluster-env-enabled=false -o name",
        "flux-resourceset-cli components check repo --server -o jsonpath='{range .problems[*]}{.place}: {.detail}{\"\\n\"}{end}'",
        "flux-resourceset-cli components check repo --server --source oci://mirror.example/platform-components --charts oci://mirror.example/charts -o table",
        "flux-resourceset-cli export -o yaml > fleet.yaml; flux-resourceset-cli components check repo --catalog fleet.yaml -o name",
        "FLUX_API_URL=http://127.0.0.1:1 flux-resourceset-cli components check repo --server",
    );
}

#[test]
fn what_is_wrong_is_named() {
    let world = with_example();
    let repo = world.work().join("repo");
    let edit = |path: &str, from: &str, to: &str| {
        let text = fs::read_to_string(repo.join(path)).unwrap();
        assert!(text.contains(from), "{path}");
        fs::write(repo.join(path), text.replace(from, to)).unwrap();
    };
    edit("COMPONENTS.yaml", "- 17.1.0", "- 17.2.0\n      - 17.10");
    edit("COMPONENTS.yaml", "owner: observability-team", "team: observability");
    edit(
        "core/cert-manager/1.14.0/base/kustomization.yaml",
        "source.yaml",
        "sources.yaml",
    );
    edit(
        "core/cert-manager/1.14.1/base/release.yaml",
        "${CERT_MANAGER_REPLICAS:=1}",
        "${CERT-MANAGER}",
    );
    edit(
        "core/cert-manager/1.14.1/prod/kustomization.yaml",
        "name: cert-manager",
        "name: cert-manger",
    );
    edit(
        "core/cert-manager/1.14.1/qa/kustomization.yaml",
        "../base",
        "../../../../..",
    );
    edit(
        "networking/ingress-nginx/4.9.0/release.yaml",
        "interval: 10m",
        "interval: 10m\n   releaseName: x",
    );
    edit("apps/welcome/1.0.0/Chart.yaml", "version: 1.0.0", "version: 1.0.1");
    fs::remove_dir_all(repo.join("core/cert-manager/1.14.0/uat")).unwrap();
    write(&repo, "core/external-dns/1.0.0/kustomization.yaml", "resources: []\n");
    write(&repo, "core/cert-manager/next/kustomization.yaml", "resources: []\n");
    write(
        &repo,
        "networking/ingress-nginx/4.9.0/forgotten.yaml",
        "kind: ConfigMap\n",
    );
    transcript!(
        world,
        "flux-resourceset-cli components check repo -o table",
        "sed -i s/17.10/\\'17.10.0\\'/ repo/COMPONENTS.yaml && sed -i '/team:/d' repo/COMPONENTS.yaml",
        "flux-resourceset-cli components check repo -o table",
        "flux-resourceset-cli components prune repo --catalog repo/catalog.yaml",
        "rm repo/COMPONENTS.yaml; flux-resourceset-cli components check repo -o json | head -n 8",
        "flux-resourceset-cli components check nowhere",
        "flux-resourceset-cli components check repo/catalog.yaml",
        "flux-resourceset-cli components check repo --catalog nowhere.yaml",
        "flux-resourceset-cli components check repo --catalog repo/apps/welcome/1.0.0/Chart.yaml",
        "flux-resourceset-cli components check repo --server --catalog repo/catalog.yaml",
        "flux-resourceset-cli components prune repo --keep 0",
        "flux-resourceset-cli components check repo --build",
        "FLUX_API_URL= flux-resourceset-cli components prune repo",
    );
}

#[test]
fn what_nothing_needs_is_removed() {
    let world = with_example();
    let repo = world.work().join("repo");
    for version in ["1.12.0", "1.13.0", "1.13.1"] {
        copy(
            &repo.join("core/cert-manager/1.14.0"),
            &repo.join("core/cert-manager").join(version),
        );
    }
    // 1.14.0 takes in what 1.13.0 has, and a cluster runs 1.13.1.
    let text = "resources:\n  - ../../1.13.0/base\n";
    write(&repo, "core/cert-manager/1.14.0/qa/kustomization.yaml", text);
    let registry = fs::read_to_string(repo.join("COMPONENTS.yaml")).unwrap();
    let versions = "      - 1.12.0\n      - \"1.13.0\" # shared\n      - 1.13.1\n      - 1.14.0\n";
    fs::write(
        repo.join("COMPONENTS.yaml"),
        registry.replacen("      - 1.14.0\n", versions, 1),
    )
    .unwrap();
    world.file(
        "clusters.yaml",
        "kind: clusters\nid: old\ncluster_name: old\ncluster_dns: old.example.com\nenvironment: prod\n\
         platform_components: [{id: cert-manager, component_path: core/cert-manager/1.13.1}]\n",
    );
    transcript!(
        world,
        "flux-resourceset-cli components prune repo --keep 2 --catalog repo/catalog.yaml --catalog clusters.yaml -o table",
        "flux-resourceset-cli components prune repo --keep 2 --catalog repo/catalog.yaml --yes",
        "flux-resourceset-cli components prune repo --keep 2 --yes",
        "flux-resourceset-cli components prune repo --keep 2 --catalog repo/catalog.yaml --catalog clusters.yaml --yes",
        "ls repo/core/cert-manager && grep -A8 'id: cert-manager' repo/COMPONENTS.yaml",
        "flux-resourceset-cli components check repo --catalog repo/catalog.yaml --catalog clusters.yaml -o table",
        "flux-resourceset-cli components prune repo --keep 2 --catalog repo/catalog.yaml --catalog clusters.yaml --yes -o table",
        "flux-resourceset-cli apply -f repo/catalog.yaml --yes -o name 2>/dev/null",
        "flux-resourceset-cli components prune repo --keep 1 --yes -o table",
        "ls repo/core/cert-manager && flux-resourceset-cli components check repo --server -o table",
    );
}

/// A registry that is not written line by line is not touched, and neither are the directories.
#[test]
fn nothing_is_removed_when_the_registry_cannot_follow() {
    let world = without_builder();
    let repo = world.work().join("repo");
    write(
        &repo,
        "COMPONENTS.yaml",
        "components: [{id: a, path: a, versions: [1.0.0, 1.1.0]}]\n",
    );
    for version in ["1.0.0", "1.1.0"] {
        write(
            &repo,
            &format!("a/{version}/kustomization.yaml"),
            "resources: [a.yaml]\n",
        );
        write(
            &repo,
            &format!("a/{version}/a.yaml"),
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        );
    }
    let make = "flux-resourceset-cli component create a --component-path a/1.1.0 --oci-url oci://x/y --oci-tag v1";
    assert_eq!(world.sh(make).code, 0);
    let ran = world.sh("flux-resourceset-cli components prune repo --keep 1 --yes");
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(ran.stderr.contains("remove these yourself: a 1.0.0"), "{}", ran.stderr);
    assert!(repo.join("a/1.0.0/a.yaml").exists());
}

/// Nothing is followed out of the repository, nothing is waited for, and nothing is read that is too long.
#[test]
fn hostile_trees_are_neither_followed_nor_read_whole() {
    let world = with_example();
    let repo = world.work().join("repo");
    let version = repo.join("networking/ingress-nginx/4.9.0");
    let outside = world.work().join("outside");
    write(
        &outside,
        "secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n",
    );
    symlink(&repo, version.join("loop")).unwrap();
    symlink("self", version.join("self")).unwrap();
    symlink(&outside, repo.join("core/outside")).unwrap();
    symlink(outside.join("secret.yaml"), version.join("link.yaml")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(version.join("pipe.yaml"))
            .status()
            .unwrap()
            .success()
    );
    fs::File::create(version.join("huge.yaml"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    fs::write(version.join("binary.yaml"), [0xff, 0xfe, 0, 1]).unwrap();
    fs::write(version.join("deep.yaml"), "[".repeat(1_000_000)).unwrap();
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        bomb.push_str(&format!(
            "a{n}: &a{n} [{}]\n",
            vec![format!("*a{}", n - 1); 9].join(", ")
        ));
    }
    fs::write(version.join("bomb.yaml"), bomb).unwrap();
    let mut nested = version.clone();
    (0..40).for_each(|_| nested.push("n"));
    fs::create_dir_all(nested).unwrap();
    let names = [
        "link.yaml",
        "pipe.yaml",
        "huge.yaml",
        "binary.yaml",
        "deep.yaml",
        "bomb.yaml",
        "loop",
        "self",
        "../../../../outside/secret.yaml",
        "/etc/passwd",
        "../../../../../../../../etc/passwd",
        "https://example.com/x.yaml",
        "a\\u0000b",
    ];
    let listed: String = names.iter().map(|name| format!("  - \"{name}\"\n")).collect();
    fs::write(version.join("kustomization.yaml"), format!("resources:\n{listed}")).unwrap();
    let start = Instant::now();
    let (code, found) = checked(&world, "repo");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(code, 1);
    let found = problems(&found);
    for (n, name) in names.iter().enumerate() {
        let place = format!("networking/ingress-nginx/4.9.0/kustomization.yaml /resources/{n}:");
        let file = format!("networking/ingress-nginx/4.9.0/{name} ");
        let told = found
            .iter()
            .any(|line| line.starts_with(&place) || line.starts_with(&file));
        assert!(told, "{name}: {found:#?}");
    }
    assert!(!found.iter().any(|line| line.contains("root:")), "{found:#?}");
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("core/outside : is a symbolic link")),
        "{found:#?}"
    );
    assert!(
        found.iter().any(|line| line.contains("nested too deeply")),
        "{found:#?}"
    );

    let ran = world.sh("flux-resourceset-cli components prune repo --keep 1 --yes --catalog repo/catalog.yaml");
    assert_eq!(ran.code, 1, "a tree with problems is left alone");
    assert!(outside.join("secret.yaml").exists());
}

#[test]
fn paths_of_the_registry_and_the_catalog_stay_within() {
    let world = without_builder();
    let repo = world.work().join("repo");
    for path in ["../outside", "/etc", "a/../b", "a//b", "", ".git", "a/./b"] {
        write(
            &repo,
            "COMPONENTS.yaml",
            &format!("components: [{{id: a, path: \"{path}\", versions: []}}]\n"),
        );
        let (code, found) = checked(&world, "repo");
        assert_eq!(
            (code, found["problems"][0]["place"].as_str()),
            (1, Some("/components/0/path")),
            "{path}"
        );
    }
    write(
        &repo,
        "COMPONENTS.yaml",
        "components: [{id: a, path: a, versions: [1.0.0]}, {id: b, path: a/1.0.0, versions: []}]\n",
    );
    write(&repo, "a/1.0.0/kustomization.yaml", "resources: []\n");
    let (_, found) = checked(&world, "repo");
    assert_eq!(
        found["problems"][0]["place"], "/components/1/path",
        "one within the other: {found}"
    );
    world.file(
        "catalog.yaml",
        "kind: platform_components\nid: a\ncomponent_path: a/../../outside\noci_url: oci://x/y\noci_tag: v1\n",
    );
    let (_, found) = checked(&world, "repo --catalog catalog.yaml");
    let told = found["problems"]
        .as_array()
        .unwrap()
        .iter()
        .any(|problem| problem["file"] == "catalog.yaml");
    assert!(told, "{found}");
}

/// A directory, and whether kustomize builds it.
struct Case {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    builds: bool,
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
const ONE: &str = "resources: [map.yaml]\n";

macro_rules! case {
    ($name:literal, $builds:literal, $kustomization:expr $(, $path:literal: $text:expr)*) => {
        Case {
            name: $name,
            builds: $builds,
            files: &[("kustomization.yaml", $kustomization), ("map.yaml", MAP), ("base/kustomization.yaml", ONE), ("base/map.yaml", MAP) $(, ($path, $text))*],
        }
    };
}

/// What kustomize says of each.
const CASES: &[Case] = &[
    case!("a file", true, ONE),
    case!("a directory", true, "resources: [base]\n"),
    case!("nothing at all", false, ""),
    case!("only a comment", false, "# later\n"),
    case!("no resources", true, "resources: []\n"),
    case!("a list", false, "- map.yaml\n"),
    case!("an unknown field", false, "resources: [map.yaml]\nnope: 1\n"),
    case!("a file that is not there", false, "resources: [nope.yaml]\n"),
    case!("a directory without a kustomization", false, "resources: [sub]\n", "sub/map.yaml": MAP),
    case!("the same file twice", false, "resources: [map.yaml, map.yaml]\n"),
    case!("the same object twice", false, "resources: [map.yaml, base]\n"),
    case!("the same name in another namespace", true, "resources: [map.yaml, n.yaml]\n", "n.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: n}\n"),
    case!("the same name in the namespace default", false, "resources: [map.yaml, n.yaml]\n", "n.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}\n"),
    case!("itself", false, "resources: [.]\n"),
    case!("a cycle", false, "resources: [base]\n", "base/kustomization.yaml": "resources: [../other]\n", "other/kustomization.yaml": "resources: [../base]\n"),
    case!("two kustomization files", false, ONE, "kustomization.yml": ONE),
    case!(
        "a wrong apiVersion",
        false,
        "apiVersion: v1\nkind: Kustomization\nresources: [map.yaml]\n"
    ),
    case!("a wrong kind", false, "kind: Kust\nresources: [map.yaml]\n"),
    case!("a component among resources", false, "resources: [base]\n", "base/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"),
    case!("a component", true, "resources: [map.yaml]\ncomponents: [base]\n", "base/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{patch: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}\"}]\n"),
    case!("no component", false, "components: [base]\n"),
    case!("an empty file", true, "resources: [map.yaml, e.yaml]\n", "e.yaml": "# nothing\n---\n"),
    case!("no name", false, "resources: [e.yaml]\n", "e.yaml": "apiVersion: v1\nkind: ConfigMap\n"),
    case!("no kind", false, "resources: [e.yaml]\n", "e.yaml": "apiVersion: v1\nmetadata: {name: e}\n"),
    case!("a text", false, "resources: [e.yaml]\n", "e.yaml": "hello\n"),
    case!("no YAML", false, "resources: [e.yaml]\n", "e.yaml": "a: [1\n"),
    case!("a tab", false, "resources: [e.yaml]\n", "e.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: e\n"),
    case!("a key twice", false, "resources: [e.yaml]\n", "e.yaml": "apiVersion: v1\nkind: ConfigMap\nkind: ConfigMap\nmetadata: {name: e}\n"),
    case!("a list of objects", true, "resources: [e.yaml]\n", "e.yaml": "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: e}}]\n"),
    case!("JSON", true, "resources: [e.json]\n", "e.json": "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"e\"}}\n"),
    case!("a patch", true, "resources: [map.yaml]\npatches: [{path: p.yaml}]\n", "p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\n"),
    case!("a patch for nothing", false, "resources: [map.yaml]\npatches: [{path: p.yaml}]\n", "p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {a: b}\n"),
    case!("a patch in the old form", true, "resources: [map.yaml]\npatchesStrategicMerge: [p.yaml]\n", "p.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\n"),
    case!(
        "a patch that is not there",
        false,
        "resources: [map.yaml]\npatches: [{path: p.yaml}]\n"
    ),
    case!(
        "a patch for another namespace",
        false,
        "resources: [map.yaml]\npatches: [{patch: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: n}}\"}]\n"
    ),
    case!(
        "a patch for another version",
        false,
        "resources: [map.yaml]\npatches: [{patch: \"{apiVersion: v2, kind: ConfigMap, metadata: {name: x}}\"}]\n"
    ),
    case!(
        "a patch with a target that is not there",
        true,
        "resources: [map.yaml]\npatches: [{patch: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: y}}\", target: {kind: Nope}}]\n"
    ),
    case!(
        "a patch with path and patch",
        false,
        "resources: [map.yaml]\npatches: [{path: map.yaml, patch: \"{}\"}]\n"
    ),
    case!(
        "a patch with neither",
        false,
        "resources: [map.yaml]\npatches: [{target: {kind: ConfigMap}}]\n"
    ),
    case!(
        "a JSON patch",
        true,
        "resources: [map.yaml]\npatches: [{patch: '[{\"op\": \"add\", \"path\": \"/data\", \"value\": {}}]', target: {kind: ConfigMap}}]\n"
    ),
    case!(
        "a JSON patch as YAML",
        true,
        "resources: [map.yaml]\npatches:\n  - target: {kind: ConfigMap}\n    patch: |\n      - {op: add, path: /data, value: {}}\n"
    ),
    case!(
        "a JSON patch that is half YAML",
        false,
        "resources: [map.yaml]\npatches: [{patch: \"[{op: add, path: /data, value: {}}]\", target: {kind: ConfigMap}}]\n"
    ),
    case!(
        "a patch of what is generated",
        true,
        "configMapGenerator: [{name: g, literals: [a=b]}]\npatches: [{patch: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: g}, data: {c: d}}\"}]\n"
    ),
    case!(
        "a JSON patch without a target",
        false,
        "resources: [map.yaml]\npatches: [{patch: \"[{op: add, path: /data, value: {}}]\"}]\n"
    ),
    case!(
        "a patch of what a base has",
        true,
        "resources: [base]\npatches: [{patch: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}\"}]\n"
    ),
    case!(
        "a generator",
        true,
        "configMapGenerator: [{name: g, files: [map.yaml, other=map.yaml], literals: [a=b]}]\n"
    ),
    case!(
        "a generator without its file",
        false,
        "configMapGenerator: [{name: g, files: [nope.txt]}]\n"
    ),
    case!(
        "a generator without a name",
        false,
        "configMapGenerator: [{literals: [a=b]}]\n"
    ),
    case!("an absolute path", false, "resources: [/etc/hostname]\n"),
    case!("a file of another folder", false, "resources: [dev]\n", "dev/kustomization.yaml": "resources: [../map.yaml]\n"),
    case!(
        "a chart to inflate",
        false,
        "helmCharts: [{name: x, repo: \"https://charts.example.com\"}]\n"
    ),
];

fn lay_out(root: &Path, files: &[(&str, &str)]) -> PathBuf {
    write(
        root,
        "COMPONENTS.yaml",
        "components: [{id: a, path: a, versions: [1.0.0]}]\n",
    );
    let folder = root.join("a/1.0.0");
    for (path, text) in files {
        write(&folder, path, text);
    }
    folder
}

/// What a kustomization names is checked without kustomize, and a folder with a problem is never built.
#[test]
fn what_a_kustomization_names_must_be_in_the_repository() {
    let world = without_builder();
    let cases = [
        (
            "resources: [nope.yaml]",
            "/resources/0",
            "nope.yaml does not exist, or is not a regular file",
        ),
        (
            "resources: [/etc/hostname]",
            "/resources/0",
            "/etc/hostname is an absolute path",
        ),
        (
            "resources: [../../../x]",
            "/resources/0",
            "../../../x is outside of the repository",
        ),
        ("resources: [sub]", "/resources/0", "sub has no kustomization.yaml"),
        (
            "patches: [{path: p.yaml}]",
            "/patches/0/path",
            "p.yaml does not exist, or is not a regular file",
        ),
        (
            "patchesStrategicMerge: [p.yaml]",
            "/patchesStrategicMerge/0",
            "p.yaml does not exist, or is not a regular file",
        ),
        (
            "replacements: [{path: r.yaml}]",
            "/replacements/0/path",
            "r.yaml does not exist, or is not a regular file",
        ),
        (
            "openapi: {path: o.json}",
            "/openapi/path",
            "o.json does not exist, or is not a regular file",
        ),
        (
            "crds: [c.yaml]",
            "/crds/0",
            "c.yaml does not exist, or is not a regular file",
        ),
        (
            "configMapGenerator: [{files: [a=b.txt]}]",
            "/configMapGenerator/0/files/0",
            "b.txt does not exist, or is not a regular file",
        ),
        (
            "secretGenerator: [{envs: [b.txt]}]",
            "/secretGenerator/0/envs/0",
            "b.txt does not exist, or is not a regular file",
        ),
        ("resources: [a: b", "line 1 column 12", "unclosed bracket '['"),
    ];
    let remote = [
        "https://example.com/x.yaml",
        "github.com/org/repo",
        "git@example.com:org/repo",
        "git::https://example.com/repo",
        "example.com/org/repo//base?ref=v1",
        "ssh://git@example.com/repo",
    ];
    let remote = remote.map(|path| {
        let detail = format!("{path} is remote; a version folder must build without the network");
        // kustomize ignores the case of names.
        (format!("Resources: [{path}]"), "/Resources/0", detail)
    });
    let cases = cases.map(|(text, place, detail)| (text.to_owned(), place, detail.to_owned()));
    for (n, (text, place, detail)) in cases.into_iter().chain(remote).enumerate() {
        let root = format!("repo-{n}");
        let folder = lay_out(
            &world.work().join(&root),
            &[("kustomization.yaml", &text), ("sub/map.yaml", MAP)],
        );
        assert!(folder.is_dir());
        let (code, found) = checked(&world, &root);
        let first = &found["problems"][0];
        assert_eq!(
            (code, first["file"].as_str()),
            (1, Some("a/1.0.0/kustomization.yaml")),
            "{text}: {found:#}"
        );
        assert_eq!(first["place"], place, "{text}: {found:#}");
        assert!(
            first["detail"].as_str().unwrap().ends_with(&detail),
            "{text}: {found:#}"
        );
        assert_eq!(
            (&found["directories"], &found["builder"]),
            (&0.into(), &Value::Null),
            "{text}"
        );
    }
}

/// The builders that `make e2e` provides, each with its name on the PATH.
fn builders() -> [(&'static str, String); 2] {
    let program = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} must name a program"));
    [("kustomize", program("KUSTOMIZE")), ("kubectl", program("KUBECTL"))]
}

#[test]
#[ignore = "needs kustomize in KUSTOMIZE and kubectl in KUBECTL"]
fn kustomize_decides_whether_a_folder_builds() {
    for (name, program) in builders() {
        let world = with_builder(name, &program);
        for (n, case) in CASES.iter().enumerate() {
            let root = format!("case-{n}");
            lay_out(&world.work().join(&root), case.files);
            let ran = world.sh(&format!("flux-resourceset-cli components check {root}"));
            let found: Value = serde_json::from_str(&ran.stdout).unwrap();
            assert_eq!(ran.code == 0, case.builds, "{name}: {}: {found:#}", case.name);
            assert_eq!(ran.stderr, "", "{name}: {}", case.name);
        }
    }
}

#[test]
#[ignore = "needs kustomize in KUSTOMIZE and kubectl in KUBECTL"]
fn kustomize_builds_the_example_and_reports_failures_by_folder() {
    for (name, program) in builders() {
        let world = with_builder(name, &program);
        copy(Path::new(EXAMPLE), &world.work().join("repo"));
        let ran = world.sh("flux-resourceset-cli components check repo --build");
        let found: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((ran.code, &found["built"]), (0, &found["directories"]), "{found:#}");
        assert!(found["builder"].as_str().unwrap().starts_with(name), "{found:#}");
        write(
            &world.work().join("repo"),
            "networking/ingress-nginx/4.9.0/kustomization.yaml",
            "resources: [release.yaml, source.yaml]\nnope: 1\n",
        );
        let ran = world.sh("flux-resourceset-cli components check repo");
        assert_eq!(ran.code, 1);
        let found: Value = serde_json::from_str(&ran.stdout).unwrap();
        let [problem] = problems(&found).try_into().unwrap();
        let start = format!(
            "networking/ingress-nginx/4.9.0 : {} failed: ",
            found["builder"].as_str().unwrap()
        );
        assert!(problem.starts_with(&start) && problem.contains("nope"), "{problem}");
        assert!(!problem.contains(world.home.path().to_str().unwrap()), "{problem}");
    }
}
