//! The scrape configuration that the Prometheus Operator makes of a ServiceMonitor.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};

use crate::documents;

const FOLDER: &str = "deploy/kustomize";

/// A Service of the shipped manifests, with the labels that kustomize adds.
pub struct Service {
    pub name: String,
    labels: Map<String, Value>,
}

pub fn services() -> Vec<Service> {
    let kustomization = &documents(&format!("{FOLDER}/base/kustomization.yaml"))[0];
    let added = kustomization["labels"][0]["pairs"].as_object().unwrap();
    let all = documents(&format!("{FOLDER}/base/services.yaml"));
    let services = all.iter().map(|service| {
        let mut labels = service["metadata"]["labels"].as_object().unwrap().clone();
        labels.extend(added.clone());
        Service {
            name: service["metadata"]["name"].as_str().unwrap().to_owned(),
            labels,
        }
    });
    services.collect()
}

fn label(name: &str) -> String {
    name.replace(['.', '/', '-'], "_")
}

/// The scrape configuration of the shipped ServiceMonitor, with one target for each Service. The relabelling is what the operator
/// (v0.93, `pkg/prometheus/promcfg.go`) makes of the fields that the ServiceMonitor has.
pub fn scrape_config(targets: &[(&Service, SocketAddr)], interval: &str) -> Value {
    let monitor = &documents(&format!("{FOLDER}/production/service-monitor.yaml"))[0];
    let spec = &monitor["spec"];
    let endpoint = &spec["endpoints"][0];
    let port = endpoint["port"].as_str().unwrap();
    let mut rules = Vec::new();
    for (name, value) in spec["selector"]["matchLabels"].as_object().unwrap() {
        let source = format!("__meta_kubernetes_service_label_{}", label(name));
        rules.push(json!({"action": "keep", "source_labels": [source], "regex": value}));
    }
    rules.push(json!({"action": "keep", "source_labels": ["__meta_kubernetes_endpoint_port_name"], "regex": port}));
    for (source, target) in [
        ("namespace", "namespace"),
        ("service_name", "service"),
        ("pod_name", "pod"),
        ("service_name", "job"),
    ] {
        let source = format!("__meta_kubernetes_{source}");
        rules.push(json!({"source_labels": [source], "target_label": target}));
    }
    if let Some(name) = spec["jobLabel"].as_str() {
        let source = format!("__meta_kubernetes_service_label_{}", label(name));
        rules.push(json!({"source_labels": [source], "target_label": "job", "regex": "(.+)", "replacement": "${1}"}));
    }
    rules.push(json!({"target_label": "endpoint", "replacement": port}));
    let targets = targets.iter().map(|(service, address)| {
        let mut labels: Map<String, Value> = service
            .labels
            .iter()
            .map(|(name, value)| {
                (
                    format!("__meta_kubernetes_service_label_{}", label(name)),
                    value.clone(),
                )
            })
            .collect();
        labels.insert("__meta_kubernetes_namespace".into(), "flux-resourceset".into());
        labels.insert("__meta_kubernetes_service_name".into(), service.name.clone().into());
        labels.insert(
            "__meta_kubernetes_pod_name".into(),
            format!("{}-0", service.name).into(),
        );
        labels.insert("__meta_kubernetes_endpoint_port_name".into(), "metrics".into());
        json!({"targets": [address.to_string()], "labels": labels})
    });
    json!({
        "job_name": "serviceMonitor/flux-resourceset/flux-api/0",
        "scrape_interval": interval,
        "scrape_timeout": interval,
        "static_configs": targets.collect::<Vec<_>>(),
        "relabel_configs": rules,
    })
}
