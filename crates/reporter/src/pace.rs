//! How fast things happen.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A report waits until nothing has changed for this long,
    pub quiet: Duration,
    /// but not for longer than this.
    pub collect: Duration,
    /// The pause after the first failure of a call; it doubles up to the longest.
    pub first_retry: Duration,
    pub longest_retry: Duration,
    /// How often a kind that the cluster does not have is looked for.
    pub look_again: Duration,
    /// The least time between two long polls.
    pub between_polls: Duration,
    /// How many nudges of a provider may follow each other closely.
    pub nudges: u32,
    /// The time after which one more is allowed.
    pub nudge_every: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            quiet: Duration::from_millis(100),
            collect: Duration::from_millis(500),
            first_retry: Duration::from_secs(1),
            longest_retry: Duration::from_secs(60),
            look_again: Duration::from_secs(30),
            between_polls: Duration::from_millis(500),
            nudges: 5,
            nudge_every: Duration::from_secs(30),
        }
    }
}
