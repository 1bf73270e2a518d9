//! The story, chapter by chapter. Each chapter leaves the clusters as the next one expects them.

mod bootstrap;
mod changes;
mod deployed;
mod end;
mod identity;
mod kinds;
mod look;
mod registration;
mod registries;
mod roads;
mod rollouts;
mod status;
mod together;
mod trouble;

use crate::Result;
use crate::story::Story;
use crate::world::World;

/// Where Flux' own objects are.
const FLUX: &str = "flux-system";

pub(crate) fn live(story: &mut Story, world: &mut World) -> Result<()> {
    let mut bare = bootstrap::bootstrap(story, world)?;
    bootstrap::phone_home(story, world)?;
    bootstrap::second_cluster(story, world)?;
    identity::own_token(story, world)?;
    identity::certificate(story, world)?;
    registration::registration(story, world)?;
    status::status(story, world)?;
    status::left(world, &mut bare)?;
    rollouts::rollouts(story, world)?;
    changes::patch(story, world)?;
    changes::any_value(story, world)?;
    changes::many(story, world)?;
    changes::disable(story, world)?;
    changes::catalog(story, world)?;
    changes::canary(story, world)?;
    changes::role(story, world)?;
    changes::dependencies(story, world)?;
    roads::repository(story, world)?;
    roads::kustomization(story, world)?;
    roads::hotfix(story, world)?;
    roads::everywhere_alike(story, world)?;
    roads::chart(story, world)?;
    registries::login(story, world)?;
    registries::variables(story, world)?;
    registries::signatures(story, world)?;
    registries::left(world, &mut bare)?;
    together::together(story, world)?;
    trouble::api_down(story, world)?;
    trouble::wrong_token(story, world)?;
    status::agrees(story, world)?;
    kinds::network_policies(story, world, &mut bare)?;
    end::unassign(story, world)?;
    trouble::too_large(story, world)?;
    end::decommission(story, world, &bare)
}
