//! How the story looks at a cluster, and what it compares.

use serde_json::Value;

use super::FLUX;
use crate::cluster::Cluster;
use crate::kube::{self, Inventory, Kind, readiness, text};
use crate::{Result, wait};

impl Cluster {
    /// What a chart was installed with: succeeds when Helm says that the release is there, and the release says so too.
    pub(crate) fn installed(&self, component: &str) -> Result<Installed> {
        self.installed_in(component, component)
    }

    /// The same for a chart that has another namespace than its id.
    pub(super) fn installed_in(&self, component: &str, namespace: &str) -> Result<Installed> {
        let release = self
            .kube
            .need(kube::HELM_RELEASE, FLUX, &format!("platform-{component}"))?;
        kube::ready(&release)?;
        let made = self.kube.need(kube::CONFIG_MAP, namespace, component)?;
        Ok(Installed {
            version: text(&made["data"]["version"]).to_owned(),
            values: serde_json::from_str(text(&made["data"]["values"]))?,
        })
    }

    /// The ConfigMap that a component's patches become.
    pub(super) fn patches(&self, component: &str) -> Result<Value> {
        let name = format!("values-{component}-{}", self.name);
        Ok(self.kube.need(kube::CONFIG_MAP, FLUX, &name)?["data"].take())
    }

    /// Flux' objects of a kind whose names begin so. Names of sources, and of the values that Flux reads, end in a hash.
    pub(super) fn named(&self, kind: Kind, prefix: &str) -> Result<Vec<Value>> {
        let mut objects = self.kube.list(kind)?;
        objects.retain(|object| {
            let metadata = &object["metadata"];
            metadata["namespace"] == FLUX && text(&metadata["name"]).starts_with(prefix)
        });
        Ok(objects)
    }

    /// Every provider, asked to poll now.
    pub(crate) fn poll(&self) -> Result<()> {
        for provider in self.kube.list(kube::PROVIDER)? {
            self.kube
                .reconcile(kube::PROVIDER, FLUX, text(&provider["metadata"]["name"]))?;
        }
        Ok(())
    }

    /// Waits until every provider has failed with such a message. One after the other: while one polls, it is neither.
    pub(super) fn poll_failed(&self, message: &str) -> Result<()> {
        for provider in self.kube.list(kube::PROVIDER)? {
            let name = text(&provider["metadata"]["name"]);
            wait::until(&format!("provider {name} of {} to fail", self.name), || {
                let (status, said) = readiness(&self.kube.need(kube::PROVIDER, FLUX, name)?);
                match status == "False" && said.contains(message) {
                    true => Ok(()),
                    false => Err(format!("ready {status}, {said}").into()),
                }
            })?;
        }
        Ok(())
    }

    /// Succeeds when every provider is ready and has done what it was last asked to.
    pub(super) fn polled(&self) -> Result<()> {
        self.kube.list(kube::PROVIDER)?.iter().try_for_each(|provider| {
            kube::handled(provider)?;
            kube::ready(provider)
        })
    }

    /// Makes every ResourceSet render and apply, and waits until it has.
    pub(super) fn render_again(&self) -> Result<()> {
        for set in self.kube.list(kube::RESOURCE_SET)? {
            let name = text(&set["metadata"]["name"]);
            self.kube.reconcile(kube::RESOURCE_SET, FLUX, name)?;
            wait::until(&format!("ResourceSet {name} to render"), || {
                let set = self.kube.need(kube::RESOURCE_SET, FLUX, name)?;
                kube::handled(&set)?;
                kube::ready(&set)
            })?;
        }
        Ok(())
    }
}

/// What a chart of the test says that it was given.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) version: String,
    pub(crate) values: Value,
}

/// Succeeds when two things are equal; says how they differ otherwise.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(is: &T, should: &T) -> Result<()> {
    match is == should {
        true => Ok(()),
        false => Err(format!("it is {is:?}, and should be {should:?}").into()),
    }
}

/// Succeeds when the two inventories hold the same objects with the same desired state.
pub(super) fn unchanged(before: &Inventory, after: &Inventory) -> Result<()> {
    let lost = before
        .keys()
        .filter(|key| !after.contains_key(*key))
        .map(|key| format!("lost {key}"));
    let new = after
        .keys()
        .filter(|key| !before.contains_key(*key))
        .map(|key| format!("new {key}"));
    let other = before
        .iter()
        .filter(|(key, text)| after.get(*key).is_some_and(|now| now != *text));
    let differences: Vec<String> = lost
        .chain(new)
        .chain(other.map(|(key, _)| format!("changed {key}")))
        .collect();
    match differences.is_empty() {
        true => Ok(()),
        false => Err(differences.join(", ").into()),
    }
}

/// Succeeds when every pair of `part` is in `whole`.
pub(super) fn contains(whole: &Value, part: &Value) -> Result<()> {
    let mut pairs = part.as_object().into_iter().flatten();
    match pairs.find(|(key, value)| whole[key.as_str()] != **value) {
        Some((key, value)) => Err(format!("{key} is {}, and should be {value}", whole[key.as_str()]).into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Inventory, unchanged};

    fn inventory(objects: &[(&str, &str)]) -> Inventory {
        objects
            .iter()
            .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn what_differs_between_two_inventories_is_named() {
        let before = inventory(&[("ConfigMap a", "1"), ("ConfigMap b", "1"), ("ConfigMap c", "1")]);
        assert!(unchanged(&before, &before).is_ok());
        let after = inventory(&[("ConfigMap b", "2"), ("ConfigMap c", "1"), ("ConfigMap d", "1")]);
        let said = unchanged(&before, &after).map_err(|error| error.to_string());
        assert_eq!(
            said,
            Err("lost ConfigMap a, new ConfigMap d, changed ConfigMap b".to_owned())
        );
    }
}
