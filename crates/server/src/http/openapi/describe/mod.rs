//! The description of each route, for the OpenAPI document. `routes.rs` names these functions.

mod changes;
mod clusters;
mod flux;
mod kinds;
mod name_records;
mod resources;
mod service;

pub use self::changes::{backup, batch, batch_schemas, changes, diff, rollback, stream_changes};
pub use self::clusters::{cluster_diagnostics, cluster_inputs, cluster_manifests};
pub use self::flux::{flux_clusters, flux_inputs};
pub use self::kinds::{delete_kind, get_kind, history_kind, list_kinds, put_kind};
pub use self::name_records::{
    delete_decommission, delete_released_name, get_decommission, get_released_name, list_decommissions,
    list_released_names,
};
pub use self::resources::{create, delete, get, history, list, patch, references, replace};
pub use self::service::{health, metrics, openapi, ready};
pub use super::operation::Operation;
