//! Templates: any text as `resourcesTemplate`, rendered with fixed inputs. Time and memory are bounded by libFuzzer's options.

use resourceset::ResourceSet;
use serde_json::json;

pub fn templates(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let set = json!({
        "metadata": {"name": "set", "namespace": "default"},
        "spec": {"inputs": [input()], "resourcesTemplate": text},
    });
    // Whatever the template is, these two succeed; if they did not, no template would ever be rendered.
    let set = ResourceSet::from_json(&set).expect("a valid ResourceSet");
    let inputs = set.combine(Vec::new()).expect("valid inputs");
    let Ok(steps) = set.render(&inputs) else { return };
    for object in steps.iter().flat_map(|step| &step.objects) {
        // Go cannot write every object either.
        let _refused = resourceset::to_yaml(object);
    }
}

/// A value of every type that templates meet.
fn input() -> serde_json::Value {
    json!({
        "id": "podinfo",
        "enabled": true,
        "count": 3,
        "ratio": 0.5,
        "list": ["a", "b", "c"],
        "patches": {"replicaCount": "2", "ingress.host": "example.com"},
        "source": {"oci_url": "oci://registry.example.com/podinfo", "oci_tag": "1.2.3"},
        "at": "2026-01-02T03:04:05Z",
    })
}
