//! The description of each route, for the OpenAPI document. `routes.rs` names these functions.

pub mod changes;
pub mod clusters;
pub mod evidence;
pub mod flux;
pub mod identities;
pub mod kinds;
pub mod name_records;
pub mod resources;
pub mod rollouts;
pub mod service;
pub mod status;

pub use super::operation::Operation;
