//! Who does something to a site. Each works until the run is over, from random numbers of its own.

pub(crate) mod attacker;
pub(crate) mod disruptor;
pub(crate) mod planner;
pub(crate) mod poller;
pub(crate) mod stream;
pub(crate) mod writer;

/// Of an answer that nothing explains: a fault was neither in progress nor just over.
pub(crate) const WITHOUT_A_FAULT: &str = "no failures without a fault";
