//! The pages, a file each.

pub(crate) mod cluster;
pub(crate) mod documents;
pub(crate) mod fleet;
pub(crate) mod problems;
pub(crate) mod revisions;
pub(crate) mod rollouts;
pub(crate) mod versions;
