//! The columns of a kind's table: required scalar fields and labels; with `-o wide` every field.

use fleet::kind::{CLUSTERS, GUARDS, ROLLOUTS};
use serde_json::Value;

use super::items;
use crate::commands::resource::rollout;
use crate::kinds::{Kind, Kinds};
use crate::output::{Table, Tone, cell};
use crate::session::text;
use crate::status::{Rows, state_cell};

/// What is shown of the state of a cluster.
const STATES: [&str; 2] = ["state", "last poll"];

pub(super) struct Columns<'a> {
    kind: &'a Kind,
    /// The arrays of references of a cluster, which are shown as counts.
    arrays: Vec<(&'a str, String)>,
    /// The states of clusters, where the server tells them.
    states: Option<Rows>,
    /// The guards that are in force now.
    in_force: Option<Vec<String>>,
}

/// The fields of a guard: few, and each says what it does.
const GUARD: [&str; 6] = ["selector", "changes", "removals", "from", "until", "reason"];

/// The heading of [`Columns::in_force`].
const IN_FORCE: &str = "in force";

impl<'a> Columns<'a> {
    pub(super) fn new(kind: &'a Kind, kinds: &'a Kinds) -> Columns<'a> {
        let arrays = kinds
            .iter()
            .filter_map(|other| Some((other.references.as_deref()?, other.plural())));
        Columns {
            kind,
            arrays: arrays.filter(|_| kind.name == CLUSTERS).collect(),
            states: None,
            in_force: None,
        }
    }

    /// The same columns, and the states of clusters.
    #[must_use]
    pub(super) fn with_states(self, states: Option<Rows>) -> Columns<'a> {
        Columns { states, ..self }
    }

    /// The same columns, and which guards are in force.
    #[must_use]
    pub(super) fn with_in_force(self, in_force: Vec<String>) -> Columns<'a> {
        Columns {
            in_force: Some(in_force),
            ..self
        }
    }

    pub(super) fn table(&self, found: &Value, wide: bool) -> Table {
        if self.kind.name == ROLLOUTS {
            return rollouts(found, wide);
        }
        let fields = self.fields(wide);
        let states = self.states.iter().flat_map(|_| STATES.map(str::to_owned));
        let heading: Vec<String> = std::iter::once("id".to_owned())
            .chain(self.in_force.iter().map(|_| IN_FORCE.to_owned()))
            .chain(states)
            .chain(fields.iter().map(|name| (*name).to_owned()))
            .chain(self.arrays.iter().map(|(_, plural)| plural.clone()))
            .collect();
        let mut table = Table::new(&heading);
        for item in items(found) {
            let count = |array: &str| item[array].as_array().map_or(0, Vec::len).to_string();
            let plain = |text: String| (text, Tone::Plain);
            let fields = fields.iter().map(|name| plain(cell(&item[*name])));
            let arrays = self
                .arrays
                .iter()
                .map(|(array, _)| plain(if wide { cell(&item[*array]) } else { count(array) }));
            let states = self.states.iter().flat_map(|states| state_cells(states, item));
            let in_force = self
                .in_force
                .iter()
                .map(|ids| match ids.iter().any(|id| item["id"] == id.as_str()) {
                    true => ("yes".to_owned(), Tone::Attention),
                    false => ("no".to_owned(), Tone::Quiet),
                });
            table.row(
                std::iter::once(plain(cell(&item["id"])))
                    .chain(in_force)
                    .chain(states)
                    .chain(fields)
                    .chain(arrays),
            );
        }
        table
    }

    fn fields(&self, wide: bool) -> Vec<&str> {
        let is_array = |name: &str| self.arrays.iter().any(|(array, _)| *array == name);
        // The name of a cluster is nearly always its id.
        let repeats_id = |name: &str| self.kind.name == CLUSTERS && name == "cluster_name";
        let fields = self.kind.fields.iter().filter(|field| !is_array(&field.name));
        if self.kind.name == GUARDS {
            return GUARD.to_vec();
        }
        let fields = fields.filter(|field| {
            wide || (field.is_scalar() && field.required && !repeats_id(&field.name)) || field.name == "labels"
        });
        fields.map(|field| field.name.as_str()).collect()
    }
}

/// Rollouts: where each is, and what it waits for.
fn rollouts(found: &Value, wide: bool) -> Table {
    let mut heading = vec!["id", "state", "wave", "since", "waiting for"];
    if wide {
        heading.extend(["message", "description"]);
    }
    let mut table = Table::new(heading);
    for item in items(found) {
        let mut cells = vec![
            cell(&item["id"]),
            cell(&item["state"]),
            rollout::wave(item),
            cell(&item["since"]),
            rollout::waiting_for(item),
        ];
        if wide {
            cells.extend(["message", "description"].map(|name| cell(&item[name])));
        }
        table.row(cells.into_iter().map(|text| (text, Tone::Plain)));
    }
    table
}

fn state_cells(states: &Rows, cluster: &Value) -> [(String, Tone); 2] {
    let id = text(&cluster["id"]);
    [state_cell(states.state(id)), (states.last_poll(id), Tone::Plain)]
}
