//! Loads the fleet from a store that is open.

use fleet::Fleet;
use fleet::damage::Damage;
use store::Store;
use tracing::{error, warn};

use super::error::StartError;
use super::{first_revision, kind_files, update_kinds};
use crate::config::{Config, Mode};

/// The fleet of the store. An empty store is filled first; kind files that changed are applied if the mode allows writes.
pub async fn prepare(config: &Config, store: &dyn Store, with_seed: bool) -> Result<Fleet, StartError> {
    let kind_files = kind_files::from_folder(config)?;
    first_revision::fill(config, store, with_seed).await?;
    let mut fleet = load(store).await?;
    if let Some(damage) = fleet.damage() {
        log_damage(damage);
    } else if config.mode == Mode::Crud {
        fleet = update_kinds::update(fleet, store, &kind_files, config.budget).await?;
    }
    for (kind, id, clusters) in fleet.dangling() {
        warn!(
            kind = &*kind,
            id = &*id,
            clusters,
            "references to a definition that does not exist are skipped"
        );
    }
    Ok(fleet)
}

pub(super) async fn load(store: &dyn Store) -> Result<Fleet, StartError> {
    let state = store.load().await?;
    Fleet::load(state).map_err(StartError::State)
}

/// Logs what is damaged, and what to do about it.
fn log_damage(damage: &Damage) {
    const SHOWN: usize = 20;
    for line in damage.lines().take(SHOWN) {
        error!("damaged: {line}");
    }
    let restorable = damage.rows.iter().filter(|row| row.logged.is_some()).count();
    error!(
        places = damage.count(),
        restorable,
        "the store is damaged: polls that may depend on missing data get 503, other polls are answered, and writes are \
         rejected; run flux-resourceset repair, which lists what the log can restore"
    );
}
