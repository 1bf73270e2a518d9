//! The actors of a site. Each runs until the run is over, with its own sequence of random numbers.

pub(crate) mod attacker;
pub(crate) mod disruptor;
pub(crate) mod planner;
pub(crate) mod poller;
pub(crate) mod stream;
pub(crate) mod writer;

/// The finding for a failure without a fault in progress or just over.
pub(crate) const WITHOUT_A_FAULT: &str = "no failures without a fault";
