//! Plans a repair: what of the damage the log can restore.

use fleet::damage::{Damage, Hides, Replay};
use fleet::integrity::{Total, item};
use fleet::log::{Change, Digest, Head, Resource};

use crate::rows::creation;
use crate::{Repair, Unique};

/// The plan of a repair.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) repair: Repair,
    /// All resources after the repair, as creations. None if the rows need no change, or cannot be repaired.
    pub(crate) resources: Option<Vec<Change>>,
    /// The total of the resources, if the store's is wrong.
    pub(crate) total: Option<Total>,
}

/// The items of the documents that a repair needs from the log.
pub(crate) fn wanted(damage: &Damage) -> impl Iterator<Item = Digest> {
    damage.rows.iter().filter_map(|row| row.logged.map(|(_, item)| item))
}

/// Plans the repair of `damage`, with the log that was read for it.
pub(crate) fn plan(
    head: Head,
    total: Option<Total>,
    kept: Vec<Resource>,
    damage: &Damage,
    log: &Replay,
    unique: Unique,
) -> Plan {
    let mut repair = Repair {
        head,
        ..Repair::default()
    };
    if let Some(detail) = &damage.everywhere {
        repair.lost.push(detail.clone());
        repair.lost.extend(damage.rows.iter().map(ToString::to_string));
        return Plan {
            repair,
            resources: None,
            total: None,
        };
    }
    let mut resources = kept;
    for row in &damage.rows {
        let document = row.logged.and_then(|(_, item)| log.document(item));
        match (&row.hides, document) {
            (Hides::Nothing, document) => {
                repair.steps.push(format!("clean up: {row}"));
                // Its document is correct; other columns of the row may not be.
                if let Some((body, origin)) = document {
                    let same = resources.iter_mut().filter(|one| one.body == *body);
                    same.for_each(|one| one.origin.clone_from(origin));
                }
            }
            (Hides::Resource(kind, id), Some((body, origin))) => {
                repair.steps.push(format!("rewrite: {row}"));
                resources.push(Resource {
                    kind: kind.clone(),
                    id: id.clone(),
                    body: body.clone(),
                    origin: origin.clone(),
                });
            }
            _ => repair.lost.push(row.to_string()),
        }
    }
    let mut sum = Total::default();
    sum.extend(resources.iter().map(|one| item(&one.kind, &one.id, &one.body)));
    let whole = repair.lost.is_empty();
    let changed = !repair.steps.is_empty();
    let created = resources.into_iter().map(|resource| {
        let unique = unique(&resource.kind, &resource.body);
        creation(resource, unique)
    });
    Plan {
        resources: (changed && whole).then(|| created.collect()),
        total: (whole && total != Some(sum)).then_some(sum),
        repair,
    }
}

/// The step that removes a damaged note.
pub(crate) fn without_note(key: &str) -> String {
    format!(
        "remove: the note {key:?} is damaged; if it is about a file of RESOURCES_DIR, the next start applies that file again"
    )
}
