//! From what is damaged to what the log can restore.

use fleet::damage::{Damage, Hides, Replay};
use fleet::integrity::{Total, item};
use fleet::log::{Change, Digest, Head, Resource};

use crate::rows::creation;
use crate::{Repair, Unique};

/// The resources that a repair leaves, and what it does about the rest.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) repair: Repair,
    /// All resources, as what creates them. None: the rows are as they should be, or nothing can be said of them.
    pub(crate) resources: Option<Vec<Change>>,
    /// What they add up to, where the store does not say so.
    pub(crate) total: Option<Total>,
}

/// The items of the documents that a repair needs from the log.
pub(crate) fn wanted(damage: &Damage) -> impl Iterator<Item = Digest> {
    damage.rows.iter().filter_map(|row| row.logged.map(|(_, item)| item))
}

/// What to do about `damage`, with the log that was read for it.
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
                repair.steps.push(format!("tidy up: {row}"));
                // Its document is right; what else is in the row may not be.
                if let Some((body, origin)) = document {
                    let same = resources.iter_mut().filter(|one| one.body == *body);
                    same.for_each(|one| one.origin.clone_from(origin));
                }
            }
            (Hides::Resource(kind, id), Some((body, origin))) => {
                repair.steps.push(format!("write again: {row}"));
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
        "remove: the note {key:?} is damaged; a kind of RESOURCES_DIR that it was of is applied again at the next start"
    )
}
