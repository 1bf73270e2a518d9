//! Checks that no API server does: whether the objects of one rendering fit together. A selector that selects nothing, or a volume
//! whose claim has another name, is valid but does not work.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::kube::text;

/// The prefix of names that others create: the chart's values files use them.
const ELSEWHERE: &str = "my-";
/// What the manifests need but do not create: Secrets, which never come from Git.
const SECRETS: [&str; 3] = ["flux-api-tokens", "flux-api-database", "flux-api-tls"];

/// Every reference without a target.
pub(crate) fn problems(objects: &[Value]) -> Vec<String> {
    let all = All(objects);
    let mut problems = Vec::new();
    for object in objects {
        let (kind, spec) = (text(&object["kind"]), &object["spec"]);
        let missing: Vec<String> = match kind {
            "Deployment" => all.missing_of_pods(&spec["template"]["spec"]),
            // A file of Services alone is half of something.
            "Service" if all.pods().next().is_some() => all.missing_of_service(spec),
            "PodDisruptionBudget" => all.unselected(&spec["selector"]),
            "NetworkPolicy" => all.unselected(&spec["podSelector"]),
            "HorizontalPodAutoscaler" => {
                let target = &spec["scaleTargetRef"];
                all.absent(text(&target["kind"]), text(&target["name"]))
                    .into_iter()
                    .collect()
            }
            "Ingress" => {
                let rules = list(&spec["rules"]).flat_map(|rule| list(&rule["http"]["paths"]));
                let names = rules.map(|path| text(&path["backend"]["service"]["name"]));
                names.filter_map(|name| all.absent("Service", name)).collect()
            }
            "HTTPRoute" => {
                let backends = list(&spec["rules"]).flat_map(|rule| list(&rule["backendRefs"]));
                backends
                    .filter_map(|backend| all.absent("Service", text(&backend["name"])))
                    .collect()
            }
            "CronJob" => all.missing_of_pods(&spec["jobTemplate"]["spec"]["template"]["spec"]),
            "ServiceMonitor" => all.unmonitored(spec),
            "PrometheusRule" => all.jobs_of_nobody(spec),
            _ => continue,
        };
        let name = text(&object["metadata"]["name"]);
        problems.extend(missing.into_iter().map(|problem| format!("{kind} {name}: {problem}")));
    }
    problems
}

struct All<'a>(&'a [Value]);

impl<'a> All<'a> {
    fn of(&self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |object| object["kind"] == kind)
    }

    fn absent(&self, kind: &str, name: &str) -> Option<String> {
        let known = self
            .0
            .iter()
            .any(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        let elsewhere = name.starts_with(ELSEWHERE) || (kind == "Secret" && SECRETS.contains(&name));
        (!known && !elsewhere).then(|| format!("there is no {kind} {name}"))
    }

    /// The templates of pods.
    fn pods(&self) -> impl Iterator<Item = &'a Value> {
        self.of("Deployment").map(|object| &object["spec"]["template"])
    }

    fn missing_of_pods(&self, pod: &Value) -> Vec<String> {
        let mut wanted = vec![("ServiceAccount", text(&pod["serviceAccountName"]))];
        for volume in list(&pod["volumes"]) {
            wanted.push((
                "PersistentVolumeClaim",
                text(&volume["persistentVolumeClaim"]["claimName"]),
            ));
            wanted.push(("ConfigMap", text(&volume["configMap"]["name"])));
            if volume["secret"]["optional"] != true {
                wanted.push(("Secret", text(&volume["secret"]["secretName"])));
            }
        }
        for container in list(&pod["containers"]) {
            for from in list(&container["envFrom"]) {
                wanted.push(("ConfigMap", text(&from["configMapRef"]["name"])));
            }
            for variable in list(&container["env"]) {
                let from = &variable["valueFrom"];
                wanted.push(("Secret", text(&from["secretKeyRef"]["name"])));
                wanted.push(("ConfigMap", text(&from["configMapKeyRef"]["name"])));
            }
        }
        wanted.retain(|(_, name)| !name.is_empty());
        let missing = wanted.into_iter().filter_map(|(kind, name)| self.absent(kind, name));
        missing.collect()
    }

    fn missing_of_service(&self, spec: &Value) -> Vec<String> {
        let selected: Vec<_> = self
            .pods()
            .filter(|pod| has(&pod["metadata"]["labels"], &spec["selector"]))
            .collect();
        if selected.is_empty() {
            return vec![format!("no pod has the labels {}", spec["selector"])];
        }
        let named = |pod: &Value, port: &str| {
            list(&pod["spec"]["containers"])
                .flat_map(|container| list(&container["ports"]))
                .any(|it| it["name"] == port)
        };
        let ports = list(&spec["ports"]).map(|port| text(&port["targetPort"]));
        ports
            .filter(|port| !selected.iter().all(|pod| named(pod, port)))
            .map(|port| format!("its pods have no port {port}"))
            .collect()
    }

    fn unselected(&self, selector: &Value) -> Vec<String> {
        let found = self.pods().any(|pod| selects(selector, &pod["metadata"]["labels"]));
        problem_unless(found, || format!("no pod is selected by {selector}"))
    }

    fn unmonitored(&self, spec: &Value) -> Vec<String> {
        let services: Vec<_> = self
            .of("Service")
            .filter(|service| selects(&spec["selector"], &service["metadata"]["labels"]))
            .collect();
        let exposed = |port: &str| {
            let mut ports = services.iter().flat_map(|service| list(&service["spec"]["ports"]));
            ports.any(|it| it["name"] == port)
        };
        list(&spec["endpoints"])
            .map(|endpoint| text(&endpoint["port"]))
            .filter(|port| !exposed(port))
            .map(|port| format!("no Service that it selects has a port {port}"))
            .collect()
    }

    /// The job that Prometheus gives to what the ServiceMonitors select: the value of a label, else the Service's name.
    fn jobs(&self) -> BTreeSet<&'a str> {
        let monitors = self.of("ServiceMonitor").map(|monitor| &monitor["spec"]);
        let jobs = monitors.flat_map(|spec| {
            let services = self.of("Service").map(|service| &service["metadata"]);
            let selected = services.filter(|metadata| selects(&spec["selector"], &metadata["labels"]));
            selected.map(|metadata| match text(&metadata["labels"][text(&spec["jobLabel"])]) {
                "" => text(&metadata["name"]),
                job => job,
            })
        });
        jobs.collect()
    }

    /// Jobs that rules name and no ServiceMonitor gives: such a rule never fires.
    fn jobs_of_nobody(&self, spec: &Value) -> Vec<String> {
        let rules = list(&spec["groups"]).flat_map(|group| list(&group["rules"]));
        let expressions = rules.map(|rule| text(&rule["expr"]));
        let named = expressions.flat_map(|text| text.split("job=\"").skip(1).filter_map(|rest| rest.split('"').next()));
        let named: BTreeSet<&str> = named.collect();
        let given = self.jobs();
        let unknown = named.into_iter().filter(|job| !given.contains(job));
        unknown
            .map(|job| format!("no ServiceMonitor gives the job {job}"))
            .collect()
    }
}

fn problem_unless(fine: bool, problem: impl Fn() -> String) -> Vec<String> {
    (!fine).then(problem).into_iter().collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Whether labels have all that is wanted.
fn has(labels: &Value, wanted: &Value) -> bool {
    let wanted: BTreeMap<_, _> = wanted.as_object().into_iter().flatten().collect();
    !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key.as_str()] == **value)
}

/// A label selector, of which we write `matchLabels` and `In` alone.
fn selects(selector: &Value, labels: &Value) -> bool {
    let among = |rule: &Value| list(&rule["values"]).any(|value| *value == labels[text(&rule["key"])]);
    has(labels, &selector["matchLabels"])
        && list(&selector["matchExpressions"]).all(|rule| rule["operator"] == "In" && among(rule))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::problems;

    fn rendering() -> Vec<Value> {
        let volumes = json!([
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "tokens", "secret": {"secretName": "flux-api-tokens"}},
            {"name": "more", "configMap": {"name": "my-kinds"}},
            {"name": "tls", "secret": {"secretName": "absent", "optional": true}}
        ]);
        let env = json!([{"name": "DNS", "valueFrom": {"configMapKeyRef": {"name": "my-identity", "key": "DNS"}}}]);
        let containers = json!([{"name": "a", "ports": [{"name": "http", "containerPort": 8080}], "env": env}]);
        let template = json!({"metadata": {"labels": {"app": "a", "tier": "x"}}, "spec": {"volumes": volumes, "containers": containers}});
        vec![
            json!({"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": template}}),
            json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}),
            json!({"kind": "Service", "metadata": {"name": "a", "labels": {"app": "a"}},
                "spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "targetPort": "http"}]}}),
            json!({"kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"app": "a"}}}}),
            json!({"kind": "NetworkPolicy", "metadata": {"name": "a"}, "spec": {"podSelector": {"matchLabels": {"app": "a"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}]}}}),
            json!({"kind": "ServiceMonitor", "metadata": {"name": "a"},
                "spec": {"jobLabel": "app", "selector": {"matchLabels": {"app": "a"}}, "endpoints": [{"port": "http"}]}}),
            json!({"kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "a"}}}),
            json!({"kind": "PrometheusRule", "metadata": {"name": "a"},
                "spec": {"groups": [{"rules": [{"expr": "up{job=\"a\"} == 0"}, {"expr": "x > 0"}]}]}}),
            json!({"kind": "CronJob", "metadata": {"name": "a"}, "spec": {"jobTemplate": {"spec": {"template": {"spec":
                {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "my-backups"}}]}}}}}}),
        ]
    }

    #[test]
    fn what_fits_together_is_fine() {
        assert_eq!(problems(&rendering()), Vec::<String>::new());
    }

    #[test]
    fn what_leads_nowhere_is_found() {
        let broken = |place: usize, pointer: &str, value: &str| {
            let mut objects = rendering();
            *objects[place].pointer_mut(pointer).expect("the place is there") = value.into();
            problems(&objects)
        };
        let claim = broken(1, "/metadata/name", "date");
        assert_eq!(claim, ["Deployment a: there is no PersistentVolumeClaim data"]);
        assert_eq!(
            broken(0, "/spec/template/spec/volumes/2/configMap/name", "kinds"),
            ["Deployment a: there is no ConfigMap kinds"]
        );
        let variable = "/spec/template/spec/containers/0/env/0/valueFrom/configMapKeyRef/name";
        assert_eq!(
            broken(0, variable, "identity"),
            ["Deployment a: there is no ConfigMap identity"]
        );
        assert_eq!(
            broken(2, "/spec/ports/0/targetPort", "web"),
            ["Service a: its pods have no port web"]
        );
        assert_eq!(
            broken(2, "/spec/selector/app", "b"),
            [r#"Service a: no pod has the labels {"app":"b"}"#]
        );
        assert_eq!(broken(3, "/spec/selector/matchLabels/app", "b").len(), 1);
        assert_eq!(broken(4, "/spec/podSelector/matchExpressions/0/key", "team").len(), 1);
        assert_eq!(
            broken(5, "/spec/endpoints/0/port", "web"),
            ["ServiceMonitor a: no Service that it selects has a port web"]
        );
        assert_eq!(
            broken(6, "/spec/scaleTargetRef/name", "b"),
            ["HorizontalPodAutoscaler a: there is no Deployment b"]
        );
        assert_eq!(
            broken(5, "/spec/jobLabel", "tier"),
            Vec::<String>::new(),
            "without that label, the job is the Service's name"
        );
        assert_eq!(
            broken(7, "/spec/groups/0/rules/0/expr", "up{job=\"b\"} == 0"),
            ["PrometheusRule a: no ServiceMonitor gives the job b"]
        );
        assert_eq!(
            broken(
                8,
                "/spec/jobTemplate/spec/template/spec/volumes/0/persistentVolumeClaim/claimName",
                "backups"
            ),
            ["CronJob a: there is no PersistentVolumeClaim backups"]
        );
    }
}
