//! Every state that a component has deployed, in order: the API server replays them, so that none is missed.

use std::fmt;

use serde_json::{Value, json};

use super::FLUX;
use super::look::same;
use crate::Result;
use crate::cluster::Cluster;
use crate::kube::{self, Kind, text};

/// What a component has deployed: its version, and the value of `n` that reached it. `1.0.7` and `7` belong together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    version: String,
    n: Value,
}

impl State {
    /// The charts and files of this test deploy a ConfigMap that says both.
    fn read(deployed: &Value) -> Result<State> {
        let data = &deployed["data"];
        let values: Value = serde_json::from_str(text(&data["values"]))?;
        // Flux adds the artifact's digest to the version of a chart in an OCI registry.
        let version = text(&data["version"]).split('+').next().unwrap_or_default();
        Ok(State {
            version: version.to_owned(),
            n: values["n"].clone(),
        })
    }

    fn of(n: u32) -> State {
        State {
            version: version(n),
            n: json!(n),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with n={}", self.version, self.n)
    }
}

/// The version that is published for a number.
pub(super) fn version(n: u32) -> String {
    format!("1.0.{n}")
}

/// Succeeds when the states are those of one upgrade to `n`.
pub(super) fn one_upgrade(states: &[State], n: u32) -> Result<()> {
    if *states == [State::of(n)] {
        return Ok(());
    }
    let states: Vec<String> = states.iter().map(State::to_string).collect();
    Err(format!(
        "deployed {}; it should be {} alone",
        states.join(", then "),
        State::of(n)
    )
    .into())
}

/// One component on a cluster, in a namespace of its own name, and how far its history was read.
pub(super) struct Deployed<'a> {
    pub(super) component: &'static str,
    /// The kind of Flux object that deploys it.
    pub(super) kind: Kind,
    cluster: &'a Cluster,
    /// The last state that was read, and its resource version.
    last: Option<(State, String)>,
}

impl<'a> Deployed<'a> {
    pub(super) fn new(cluster: &'a Cluster, component: &'static str, kind: Kind) -> Deployed<'a> {
        Deployed {
            component,
            kind,
            cluster,
            last: None,
        }
    }

    /// The Flux object that deploys it.
    pub(super) fn object(&self) -> Result<Value> {
        let name = format!("platform-{}", self.component);
        self.cluster.kube.need(self.kind, FLUX, &name)
    }

    /// Has Flux look at it now.
    pub(super) fn reconcile(&self) -> Result<()> {
        let name = format!("platform-{}", self.component);
        self.cluster.kube.reconcile(self.kind, FLUX, &name)
    }

    /// What is deployed now, and its resource version.
    fn now(&self) -> Result<(State, String)> {
        let kube = &self.cluster.kube;
        let object = kube.need(kube::CONFIG_MAP, self.component, self.component)?;
        let version = text(&object["metadata"]["resourceVersion"]).to_owned();
        Ok((State::read(&object)?, version))
    }

    /// Succeeds when `n` is deployed, and Flux says so; gives the states since the last call. The first call only begins to count.
    pub(super) fn states_until(&mut self, n: u32) -> Result<Vec<State>> {
        kube::ready(&self.object()?)?;
        same(&self.now()?.0, &State::of(n))?;
        self.states()
    }

    /// The states since the last call, without repetitions.
    pub(super) fn states(&mut self) -> Result<Vec<State>> {
        let now = self.now()?;
        let Some((last, since)) = &self.last else {
            self.last = Some(now);
            return Ok(Vec::new());
        };
        if now.1 == *since {
            return Ok(Vec::new());
        }
        let kube = &self.cluster.kube;
        let written = kube.history(kube::CONFIG_MAP, self.component, self.component, since)?;
        if !written
            .iter()
            .any(|object| object["metadata"]["resourceVersion"] == now.1)
        {
            return Err("the API server has not replayed everything yet".into());
        }
        let mut states = vec![last.clone()];
        for object in &written {
            states.push(State::read(object)?);
        }
        states.dedup();
        states.remove(0);
        self.last = Some(now);
        Ok(states)
    }

    /// How many releases Helm has made.
    pub(super) fn releases(&self) -> Result<u32> {
        let prefix = format!("sh.helm.release.v1.{}.v", self.component);
        let secrets = self.cluster.kube.list(kube::SECRET)?;
        let numbers = secrets.iter().filter_map(|secret| {
            let number = text(&secret["metadata"]["name"]).strip_prefix(&prefix)?;
            number.parse().ok()
        });
        Ok(numbers.max().unwrap_or_default())
    }

    /// Succeeds when of values and sources only the current ones are left: the values that Flux reads, the copy for people, and
    /// one source.
    pub(super) fn tidy(&self) -> Result<()> {
        let (cluster, component) = (self.cluster, self.component);
        let copy = format!("values-{component}-{}", cluster.name);
        let values = cluster.named(kube::CONFIG_MAP, &copy)?;
        let mut sources = cluster.named(kube::OCI_REPOSITORY, &format!("platform-{component}-"))?;
        sources.extend(cluster.named(kube::HELM_REPOSITORY, &format!("charts-{component}-"))?);
        same(&(values.len(), sources.len()), &(2, 1))?;
        same(&values[0]["data"], &values[1]["data"])?;
        let used = self.object()?["spec"].to_string();
        let names = values
            .iter()
            .chain(&sources)
            .map(|object| text(&object["metadata"]["name"]));
        let unused: Vec<&str> = names.filter(|name| !used.contains(&format!("\"{name}\""))).collect();
        same(&unused, &vec![copy.as_str()])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{State, one_upgrade};

    #[test]
    fn a_state_in_between_is_no_single_upgrade() {
        let state = |version: &str, n: u32| {
            let values = json!({"n": n}).to_string();
            State::read(&json!({"data": {"version": version, "values": values}})).expect("a state")
        };
        let verdict = |states: &[State]| one_upgrade(states, 4).map_err(|error| error.to_string());
        assert_eq!(verdict(&[state("1.0.4+sha256.0123", 4)]), Ok(()));
        assert_eq!(
            verdict(&[state("1.0.3", 4), state("1.0.4", 4)]),
            Err("deployed 1.0.3 with n=4, then 1.0.4 with n=4; it should be 1.0.4 with n=4 alone".to_owned())
        );
        assert!(verdict(&[state("1.0.4", 3), state("1.0.4", 4)]).is_err());
        assert!(verdict(&[]).is_err());
    }
}
