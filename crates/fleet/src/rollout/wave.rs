//! Who is in which wave.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::Rollout;
use crate::document::Etag;
use crate::kind::Kind;
use crate::selector::{Matcher, Selector, Subject};
use crate::snapshot::{Cluster, Fleet};

/// One wave, in the order in which they are promoted.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Wave {
    pub name: String,
    /// The clusters that match are in this wave, unless they match an earlier one.
    #[serde(default, deserialize_with = "selector")]
    pub selector: Option<Selector>,
    /// A share of the clusters that no wave selects.
    pub percent: Option<Percent>,
    /// Whether it waits for a person's approval.
    #[serde(default)]
    pub approve: bool,
}

fn selector<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Selector>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let parsed = text.map(|text| Selector::parse(&text)).transpose();
    parsed.map_err(serde::de::Error::custom)
}

/// A share in hundredths of a percent: the number of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u16);

impl Percent {
    /// How many buckets there are.
    pub const ALL: Percent = Percent(10_000);

    /// None: it is not a number from 0 to 100.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The range is checked.
    pub fn new(percent: f64) -> Option<Percent> {
        (0.0..=100.0)
            .contains(&percent)
            .then(|| Percent((percent * 100.0).round() as u16))
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let percent = f64::deserialize(deserializer)?;
        Percent::new(percent).ok_or_else(|| serde::de::Error::custom("a percentage is between 0 and 100"))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 100.0)
    }
}

/// The waves of a rollout with their selectors resolved.
#[derive(Debug)]
pub struct Waves {
    rollout: Arc<Rollout>,
    matchers: Vec<Option<Matcher>>,
}

impl Waves {
    pub(crate) fn new(rollout: &Arc<Rollout>, clusters: Option<&Kind>) -> Waves {
        let matcher = |wave: &Wave| Some(wave.selector.as_ref()?.on(clusters?));
        Waves {
            matchers: rollout.waves.iter().map(matcher).collect(),
            rollout: rollout.clone(),
        }
    }

    /// The position of the wave that a cluster is in: the first whose selector matches, else the one that has its bucket.
    pub fn of(&self, cluster: &Cluster) -> usize {
        let mut subject = Subject::new(cluster);
        let matches = |matcher: &Option<Matcher>| matcher.as_ref().is_some_and(|one| one.matches_subject(&mut subject));
        if let Some(selected) = self.matchers.iter().position(matches) {
            return selected;
        }
        let bucket = bucket(self.rollout.id(), &cluster.document().id);
        let mut end = 0;
        let has_bucket = |wave: &Wave| {
            end += wave.percent.map_or(0, |percent| percent.0);
            bucket < end
        };
        let last = self.rollout.waves.len().saturating_sub(1);
        self.rollout.waves.iter().position(has_bucket).unwrap_or(last)
    }

    /// Whether a cluster is promoted.
    pub(crate) fn has_promoted(&self, cluster: &Cluster) -> bool {
        match self.rollout.wave {
            None => false,
            Some(wave) if wave + 1 >= self.rollout.waves.len() => true,
            Some(wave) => self.of(cluster) <= wave,
        }
    }
}

impl Fleet {
    /// Who is in which wave of a rollout, also of one that has ended.
    pub fn waves_of(&self, rollout: &Arc<Rollout>) -> Waves {
        Waves::new(rollout, self.kinds().clusters().map(|kind| &**kind))
    }
}

impl Rollout {
    /// The bucket up to which clusters that no wave selects are promoted, if the wave at this position is.
    pub(crate) fn cutoff(waves: &[Wave], wave: Option<usize>) -> u16 {
        let Some(wave) = wave else { return 0 };
        if wave + 1 >= waves.len() {
            return Percent::ALL.0;
        }
        let promoted = waves.iter().take(wave + 1).filter_map(|wave| wave.percent);
        promoted.map(|percent| percent.0).sum()
    }
}

/// The bucket of a cluster in a rollout. Each rollout has other clusters first, and no release may ever change which.
fn bucket(rollout: &str, cluster: &str) -> u16 {
    let hash = Etag::of_bytes(format!("{rollout}\n{cluster}").as_bytes()).0;
    (hash % u128::from(Percent::ALL.0)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_fixed_for_ever_and_even() {
        assert_eq!(bucket("podinfo-6.7.1", "demo-cluster-01"), 4171);
        let below: Vec<u16> = (0..10_000).map(|n| bucket("r", &format!("c-{n}"))).collect();
        let tenth = below.iter().filter(|bucket| **bucket < 1000).count();
        assert!((900..1100).contains(&tenth), "{tenth}");
        let other = (0..10_000).filter(|n| bucket("s", &format!("c-{n}")) < 1000);
        let both = other.filter(|n| below[*n] < 1000).count();
        assert!(
            (50..150).contains(&both),
            "another rollout begins with other clusters: {both}"
        );
    }

    #[test]
    fn percentages_have_two_digits() {
        assert_eq!(
            Percent::new(2.5).map(|percent| (percent.0, percent.to_string())),
            Some((250, "2.5%".into()))
        );
        assert_eq!(Percent::new(100.0), Some(Percent::ALL));
        assert!(Percent::new(100.1).is_none() && Percent::new(-1.0).is_none() && Percent::new(f64::NAN).is_none());
    }
}
