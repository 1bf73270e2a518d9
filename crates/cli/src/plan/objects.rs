//! The Kubernetes objects that a plan changes, as a unified diff.

use serde_json::Value;
use similar::TextDiff;

use super::effect::{items, lines};
use super::groups::group;
use super::section;
use crate::output::{Table, Tone};
use crate::session::text;

/// Shows the objects of the clusters, if the plan has any. Of clusters whose inputs change in the same way, one is shown as an
/// example; `-o wide` shows all.
pub(super) fn changes(document: &Value, wide: bool, table: &mut Table) {
    let all = items(&document["clusters"]);
    let is_rendered = |cluster: &Value| cluster.get("objects").is_some();
    if document["unrendered"] != true && !all.iter().any(is_rendered) {
        return;
    }
    let groups: Vec<Vec<usize>> = match wide {
        true => (0..all.len()).map(|n| vec![n]).collect(),
        false => alike(all),
    };
    section(table, &groups, wide, |table, group| {
        let rendered = group.iter().map(|n| &all[*n]).find(|cluster| is_rendered(cluster));
        let shown = rendered.or_else(|| group.first().map(|n| &all[*n]));
        let id = shown.map(|cluster| text(&cluster["id"])).unwrap_or_default();
        let alike = match group.len() {
            0 | 1 => String::new(),
            many => format!(", and in the same way on {} more; -o wide shows all", many - 1),
        };
        table.line(format!("objects on {id}{alike}"), Tone::Head);
        match rendered {
            Some(cluster) => of_cluster(cluster, table),
            None => table.line("not rendered", Tone::Attention),
        }
    });
}

/// Groups clusters whose inputs change in the same way, the largest group first; by position.
pub(super) fn alike(clusters: &[Value]) -> Vec<Vec<usize>> {
    let numbered = clusters.iter().enumerate();
    let groups = group(numbered.map(|(n, cluster)| (lines(cluster), n))).into_iter();
    let mut groups: Vec<Vec<usize>> = groups.map(|(_, members)| members).collect();
    groups.sort_by_key(|members| std::cmp::Reverse(members.len()));
    groups
}

fn of_cluster(cluster: &Value, table: &mut Table) {
    if let Some(error) = cluster["objects"]["error"].as_str() {
        table.line(format!("cannot be rendered: {error}"), Tone::Bad);
        return;
    }
    let manifests = items(&cluster["manifests"]);
    if manifests.is_empty() {
        table.line("no object changes", Tone::Quiet);
    }
    for manifest in manifests {
        for line in unified(manifest).lines() {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                Some(b'@') => Tone::Quiet,
                _ => Tone::Plain,
            };
            table.line(line, tone);
        }
    }
}

/// One object before and after, as `diff -u` shows it.
fn unified(manifest: &Value) -> String {
    let id = text(&manifest["id"]);
    let side = |name: &str| match &manifest[name] {
        Value::Null => ("/dev/null", String::new()),
        object => (
            id,
            resourceset::to_yaml(object).unwrap_or_else(|_| format!("{object}\n")),
        ),
    };
    let ((old_name, old), (new_name, new)) = (side("before"), side("after"));
    let diff = TextDiff::from_lines(&old, &new);
    diff.unified_diff().header(old_name, new_name).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_compared_line_by_line() {
        let object = |tag: &str| json!({"kind": "ConfigMap", "data": {"tag": tag, "other": "x"}});
        let changed = json!({"id": "ConfigMap/a/b", "before": object("1"), "after": object("2")});
        assert_eq!(
            unified(&changed),
            "--- ConfigMap/a/b\n+++ ConfigMap/a/b\n@@ -1,4 +1,4 @@\n data:\n   other: x\n-  tag: \"1\"\n+  tag: \"2\"\n kind: ConfigMap\n"
        );
        let added = json!({"id": "ConfigMap/a/b", "before": null, "after": {"kind": "ConfigMap"}});
        assert_eq!(
            unified(&added),
            "--- /dev/null\n+++ ConfigMap/a/b\n@@ -0,0 +1 @@\n+kind: ConfigMap\n"
        );
        let removed = json!({"id": "ConfigMap/a/b", "before": {"kind": "ConfigMap"}, "after": null});
        assert_eq!(
            unified(&removed),
            "--- ConfigMap/a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-kind: ConfigMap\n"
        );
    }
}
