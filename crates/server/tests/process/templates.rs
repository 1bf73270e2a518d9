//! The templates of TEMPLATES_DIR, while the server runs.

use serde_json::Value;
use testkit::{Folder, Server, eventually};

/// A ResourceSet that makes one ConfigMap of each namespace.
fn template(name: &str) -> String {
    format!(
        "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {{name: ns, namespace: flux-system}}\nspec:\n  \
         inputsFrom: [{{name: namespaces}}]\n  resourcesTemplate: |\n    apiVersion: v1\n    kind: ConfigMap\n    \
         metadata: {{name: {name}, namespace: x}}\n"
    )
}

/// The names of the objects of the demo cluster.
fn names(server: &Server) -> Vec<String> {
    let headers = [("accept", "application/json")];
    let reply = server.reader().send(
        "GET",
        "/clusters/demo-cluster-01/manifests?kind=namespace",
        &headers,
        b"",
    );
    let list = reply.expect(200).json();
    let objects = list["items"].as_array().unwrap().iter();
    objects
        .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

fn metric(server: &Server) -> String {
    let text = server.reader().get("/metrics").expect(200).text().to_owned();
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("flux_resourceset_templates_current "));
    lines.next().unwrap().to_owned()
}

#[test]
fn changed_templates_are_followed_and_broken_ones_keep_the_old_in_use() {
    let folder = Folder::new();
    folder.write("templates/ns.yaml", template("first"));
    let seed: Value = serde_json::from_str(include_str!("../../../../data/seed.json")).unwrap();
    let seed = folder.seed(&seed);
    let server = folder
        .crud()
        .env("SEED_FILE", seed)
        .env("TEMPLATES_DIR", folder.path("templates"))
        .start();
    assert_eq!(
        (names(&server), metric(&server)),
        (vec!["first".to_owned()], "1".to_owned())
    );
    folder.write("templates/ns.yaml", template("second"));
    eventually("a changed file is followed", || names(&server) == ["second"]);
    server.process.line("templates changed");

    let both = format!("{}---\n{}", template("third"), template("fourth"));
    for (broken, said) in [
        (both.as_bytes(), "more than one ResourceSet is named \"ns\""),
        (
            b"apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\n",
            "a ResourceSet has no metadata.name",
        ),
        (b"kind: ConfigMap\n", "no file holds a ResourceSet"),
    ] {
        folder.write("templates/ns.yaml", broken);
        let line = server.process.line(said);
        assert!(
            line.contains("keeping the templates in use") && line.contains("TEMPLATES_DIR"),
            "{line}"
        );
        assert_eq!(
            (names(&server), metric(&server)),
            (vec!["second".to_owned()], "0".to_owned())
        );
    }
    let warned = |server: &Server| {
        server
            .process
            .log()
            .iter()
            .filter(|line| line.contains("keeping the templates"))
            .count()
    };
    assert_eq!(warned(&server), 3, "each problem is reported once");

    folder.write("templates/below/ns.yaml", template("third"));
    std::fs::remove_file(folder.path("templates/ns.yaml")).unwrap();
    eventually("a good folder is followed again", || names(&server) == ["third"]);
    assert_eq!(metric(&server), "1");
    // What was broken and comes back as it was is in use again, too.
    folder.write("templates/ns.yaml", template("fourth"));
    eventually("two files with one name are refused", || metric(&server) == "0");
    std::fs::remove_file(folder.path("templates/ns.yaml")).unwrap();
    eventually("the file is gone", || metric(&server) == "1");
    assert_eq!(names(&server), ["third"]);
    server.stop();
}
