//! The columns of a kind's table: required scalar fields and labels; with `-o wide` every field.

use fleet::kind::CLUSTERS;
use serde_json::Value;

use super::items;
use crate::kinds::{Kind, Kinds};
use crate::output::{Table, Tone, cell};

pub(super) struct Columns<'a> {
    kind: &'a Kind,
    /// The arrays of references of a cluster, which are shown as counts.
    arrays: Vec<(&'a str, String)>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(kind: &'a Kind, kinds: &'a Kinds) -> Columns<'a> {
        let arrays = kinds
            .iter()
            .filter_map(|other| Some((other.references.as_deref()?, other.plural())));
        Columns {
            kind,
            arrays: arrays.filter(|_| kind.name == CLUSTERS).collect(),
        }
    }

    pub(super) fn table(&self, found: &Value, wide: bool) -> Table {
        let fields = self.fields(wide);
        let heading: Vec<String> = std::iter::once("id".to_owned())
            .chain(fields.iter().map(|name| (*name).to_owned()))
            .chain(self.arrays.iter().map(|(_, plural)| plural.clone()))
            .collect();
        let mut table = Table::new(&heading);
        for item in items(found) {
            let count = |array: &str| item[array].as_array().map_or(0, Vec::len).to_string();
            let row = std::iter::once(cell(&item["id"]))
                .chain(fields.iter().map(|name| cell(&item[*name])))
                .chain(
                    self.arrays
                        .iter()
                        .map(|(array, _)| if wide { cell(&item[*array]) } else { count(array) }),
                );
            table.row(row.map(|text| (text, Tone::Plain)));
        }
        table
    }

    fn fields(&self, wide: bool) -> Vec<&str> {
        let is_array = |name: &str| self.arrays.iter().any(|(array, _)| *array == name);
        // The name of a cluster is nearly always its id.
        let repeats_id = |name: &str| self.kind.name == CLUSTERS && name == "cluster_name";
        let fields = self.kind.fields.iter().filter(|field| !is_array(&field.name));
        let fields = fields.filter(|field| {
            wide || (field.is_scalar() && field.required && !repeats_id(&field.name)) || field.name == "labels"
        });
        fields.map(|field| field.name.as_str()).collect()
    }
}
