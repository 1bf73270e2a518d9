//! The plan of a change, as the API tells it, and as a page shows it.

use std::collections::BTreeMap;
use std::time::Duration;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::parts::{ago, cluster_link, count, document_address, grouped, now, revision_link, value};

/// What a dry run answers.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Plan {
    /// Identifies what was seen. Empty for the difference of two revisions, which has the same form otherwise.
    #[serde(default)]
    pub(crate) plan: String,
    changes: Vec<Changed>,
    clusters: Vec<ClusterChange>,
    totals: Totals,
    #[serde(default)]
    removals: Removals,
    #[serde(default)]
    guards: Vec<Guard>,
    #[serde(default)]
    rollouts: Vec<RolloutPlan>,
    #[serde(default)]
    pub(crate) demotions: Counted,
    #[serde(default)]
    warnings: Vec<Warning>,
    #[serde(default)]
    history: History,
    #[serde(default)]
    relabelled: Relabelled,
    #[serde(default)]
    profiles: Vec<Membership>,
}

/// A document that changes.
#[derive(Clone, Debug, Deserialize)]
struct Changed {
    action: String,
    kind: String,
    id: String,
    #[serde(default)]
    before: Value,
    #[serde(default)]
    after: Value,
    /// Fields that go back to a value which they had before.
    #[serde(default)]
    reverts: Vec<Revert>,
    #[serde(default)]
    last_change: Option<LastChange>,
}

/// The change that set what is overwritten.
#[derive(Clone, Debug, Deserialize)]
struct LastChange {
    revision: u64,
    at: String,
    actor: String,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Revert {
    pointer: String,
    #[serde(flatten)]
    set_by: LastChange,
}

/// How much of the log is known.
#[derive(Clone, Debug, Default, Deserialize)]
struct History {
    #[serde(default)]
    status: String,
    through: Option<u64>,
}

/// Clusters whose labels or fields change.
#[derive(Clone, Debug, Default, Deserialize)]
struct Relabelled {
    count: u64,
    keys: Vec<String>,
    clusters: Vec<String>,
}

/// A profile that clusters enter or leave.
#[derive(Clone, Debug, Deserialize)]
struct Membership {
    profile: String,
    entered: Counted,
    left: Counted,
}

#[derive(Clone, Debug, Deserialize)]
struct ClusterChange {
    id: String,
    environment: String,
    #[serde(default)]
    deleted: bool,
    inputs: BTreeMap<String, InputChanges>,
}

#[derive(Clone, Debug, Deserialize)]
struct InputChanges {
    added: Vec<Value>,
    removed: Vec<Value>,
    changed: Vec<InputChange>,
}

#[derive(Clone, Debug, Deserialize)]
struct InputChange {
    id: String,
    #[serde(default)]
    fields: Vec<FieldChange>,
}

#[derive(Clone, Debug, Deserialize)]
struct FieldChange {
    pointer: String,
    #[serde(default)]
    before: Value,
    #[serde(default)]
    after: Value,
}

#[derive(Clone, Debug, Deserialize)]
struct Totals {
    changes: u64,
    clusters: u64,
    by_environment: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Removals {
    count: u64,
    budget: Option<u64>,
    #[serde(default)]
    window: u64,
    #[serde(default)]
    clusters: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Counted {
    pub(crate) count: u64,
    #[serde(default)]
    clusters: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Guard {
    id: String,
    #[serde(default)]
    reason: Option<String>,
    /// What it limits: changes, or removals.
    #[serde(default)]
    of: String,
    #[serde(default)]
    limit: Value,
    #[serde(default)]
    count: Value,
    #[serde(default)]
    exceeded: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct RolloutPlan {
    id: String,
    waves: Vec<Wave>,
}

#[derive(Clone, Debug, Deserialize)]
struct Wave {
    name: String,
    #[serde(default)]
    approve: bool,
    members: u64,
    affected: u64,
    #[serde(default)]
    removals: u64,
    #[serde(default)]
    guards: Vec<Guard>,
}

#[derive(Clone, Debug, Deserialize)]
struct Warning {
    #[serde(default)]
    cluster: Option<String>,
    detail: String,
}

/// The most warnings, and the most names of clusters in one sentence, that are shown.
const MOST: usize = 50;
/// The most lines of two documents that are compared, and how long that may take: the rest is shown as replaced.
const MOST_LINES: usize = 20_000;
const DIFF_TIME: Duration = Duration::from_millis(100);

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.totals.changes == 0
    }

    /// The guards that refuse it.
    pub(super) fn exceeded(&self) -> impl Iterator<Item = &str> {
        let exceeded = self.guards.iter().filter(|guard| guard.exceeded);
        exceeded.map(|guard| guard.id.as_str())
    }

    /// How many clusters lose something. Whether the budget asks for it or not, somebody types the number.
    pub(super) fn removals_to_confirm(&self) -> Option<u64> {
        Some(self.removals.count).filter(|count| *count > 0)
    }

    /// The plan in one line.
    fn sentence(&self) -> String {
        let documents = count(self.totals.changes, "document");
        match self.totals.clusters {
            0 => format!("Changes {documents}. What clusters get stays the same."),
            clusters => {
                let by: Vec<String> = self
                    .totals
                    .by_environment
                    .iter()
                    .map(|(name, n)| format!("{name} {}", grouped(*n)))
                    .collect();
                format!(
                    "Changes {documents}, and what {} {}: {}.",
                    count(clusters, "cluster"),
                    if clusters == 1 { "gets" } else { "get" },
                    by.join(", ")
                )
            }
        }
    }

    /// What is shown beside an editor.
    pub(super) fn brief(&self) -> Markup {
        html! {
            @if self.is_empty() {
                p.ok { "Valid. This changes nothing." }
            } @else {
                p.ok { "Valid. " (self.sentence()) }
            }
            (self.dangers())
        }
    }

    pub(crate) fn show(&self) -> Markup {
        html! {
            p.lead { (self.sentence()) }
            (self.details())
        }
    }

    /// Documents and clusters, one by one.
    pub(crate) fn details(&self) -> Markup {
        html! {
            (self.dangers())
            (self.effects_on_labels())
            (self.history.show())
            @for rollout in &self.rollouts { (rollout.show()) }
            @if !self.is_empty() {
                section aria-labelledby="documents" {
                    h2 #documents { "Documents" }
                    @for changed in &self.changes { (changed.show()) }
                    (more(self.totals.changes, self.changes.len()))
                }
            }
            @if !self.clusters.is_empty() { (self.show_clusters()) }
        }
    }

    /// What somebody must see before they confirm.
    fn dangers(&self) -> Markup {
        html! {
            @if self.removals.count > 0 {
                div.danger {
                    p {
                        strong { (count(self.removals.count, "cluster")) (if self.removals.count == 1 { " loses" } else { " lose" }) " something, and Flux deletes it there" }
                        @if let Some(budget) = self.removals.budget { " (budget: " (budget) ", used lately: " (self.removals.window) ")" } ": "
                        (named(&self.removals.clusters, self.removals.count)) "."
                    }
                }
            }
            @for guard in &self.guards {
                p.guard.exceeded[guard.exceeded] {
                    @if guard.exceeded { "The guard " } @else { "In force, and not exceeded: the guard " }
                    a href=(document_address("guards", &guard.id)) { (guard.id) }
                    @if guard.exceeded { " refuses this" } ": limit " (value(&guard.limit)) " " (guard.of) ", this change " (value(&guard.count))
                    @if let Some(reason) = &guard.reason { " (" (reason) ")" }
                }
            }
            @if self.demotions.count > 0 {
                p.danger { strong { (count(self.demotions.count, "cluster")) (if self.demotions.count == 1 { " leaves" } else { " leave" }) " a promoted wave" } ": the old content is back there: " (named(&self.demotions.clusters, self.demotions.count)) "." }
            }
            @if !self.warnings.is_empty() {
                ul.warnings {
                    @for warning in self.warnings.iter().take(MOST) {
                        li { @if let Some(cluster) = &warning.cluster { (cluster_link(cluster)) ": " } (warning.detail) }
                    }
                }
            }
        }
    }

    /// What follows from changed labels.
    fn effects_on_labels(&self) -> Markup {
        let (relabelled, keys) = (&self.relabelled, self.relabelled.keys.join(", "));
        html! {
            @if relabelled.count > 0 {
                p {
                    "Labels or fields of " (count(relabelled.count, "cluster")) " change (" (keys) "), by which selectors choose: "
                    (named(&relabelled.clusters, relabelled.count)) "."
                }
            }
            @for membership in &self.profiles {
                @for (clusters, verb) in [(&membership.entered, "enter"), (&membership.left, "leave")] {
                    @if clusters.count > 0 {
                        p {
                            (count(clusters.count, "cluster")) " " (verb) @if clusters.count == 1 { "s" } " the profile "
                            a href=(document_address("profiles", &membership.profile)) { (membership.profile) } ": "
                            (named(&clusters.clusters, clusters.count)) "."
                        }
                    }
                }
            }
        }
    }

    fn show_clusters(&self) -> Markup {
        html! {
            section aria-labelledby="clusters" {
                h2 #clusters { "Clusters" }
                table {
                    thead { tr { th scope="col" { "Cluster" } th scope="col" { "Environment" } th scope="col" { "What changes" } } }
                    tbody {
                        @for cluster in &self.clusters {
                            tr {
                                td { (cluster_link(&cluster.id)) }
                                td { (cluster.environment) }
                                td {
                                    @if cluster.deleted { strong { "the cluster is deleted" } }
                                    @for (path, inputs) in &cluster.inputs { (inputs.show(path)) }
                                }
                            }
                        }
                    }
                }
                (more(self.totals.clusters, self.clusters.len()))
            }
        }
    }
}

/// Some clusters by name, and how many there are besides.
fn named(clusters: &[String], total: u64) -> Markup {
    let shown = &clusters[..clusters.len().min(MOST)];
    let more = total.saturating_sub(shown.len() as u64);
    html! {
        @for (n, id) in shown.iter().enumerate() { @if n > 0 { ", " } (cluster_link(id)) }
        @if more > 0 { (if shown.is_empty() { "" } else { " and " }) (grouped(more)) " more" }
    }
}

impl History {
    /// Says if what is overwritten is not known in full. A difference of revisions says nothing about it.
    fn show(&self) -> Markup {
        let through = self.through.unwrap_or_default();
        let missing = match self.status.as_str() {
            "compacted" => format!("the log no longer has revisions up to {through}"),
            "partial" => "there were too many earlier changes to compare all".to_owned(),
            "unavailable" => "the log cannot be read now".to_owned(),
            _ => return html! {},
        };
        html! { p.faint { "Not everything that this overwrites is shown: " (missing) "." } }
    }
}

impl LastChange {
    fn show(&self, now: &str) -> Markup {
        html! {
            "revision " (revision_link(self.revision)) " by " (self.actor) ", " (ago(now, Some(&self.at))) " ago"
            @if let Some(reason) = &self.reason { ": " (reason) }
        }
    }
}

/// How many there are beyond those that are shown.
fn more(total: u64, shown: usize) -> Markup {
    let more = total.saturating_sub(shown as u64);
    html! { @if more > 0 { p.faint { "and " (grouped(more)) " more" } } }
}

impl Changed {
    fn show(&self) -> Markup {
        html! {
            details.change open {
                summary { span.action.(self.action) { (self.action) } " " strong { (self.kind) "/" (self.id) } }
                (document_diff(&self.before, &self.after))
                (self.overwritten())
                @if self.action == "update" { p { a href=(document_address(&self.kind, &self.id)) { "The document as it is now" } } }
            }
        }
    }
}

impl Changed {
    /// Who changed it last, and which fields go back.
    fn overwritten(&self) -> Markup {
        let now = now();
        html! {
            @for revert in &self.reverts {
                p {
                    @if revert.pointer.is_empty() { "Takes back its deletion, " } @else { "Takes back " code { (revert.pointer) } ", set in " }
                    (revert.set_by.show(&now))
                }
            }
            @if let Some(last) = &self.last_change { p.faint { "Changed last in " (last.show(&now)) } }
        }
    }
}

impl InputChanges {
    fn show(&self, path: &str) -> Markup {
        let name = |input: &Value| input["id"].as_str().or(input.as_str()).unwrap_or_default().to_owned();
        html! {
            div.inputs {
                span.faint { (path) ": " }
                @for input in &self.added { span.added { "+ " (name(input)) } " " }
                @for input in &self.removed { span.removed { "− " (name(input)) } " " }
                @for input in &self.changed {
                    span.changed { (input.id) }
                    @for field in &input.fields {
                        " " code { (field.pointer) } " " (value(&field.before)) " → " strong { (value(&field.after)) }
                    }
                    " "
                }
            }
        }
    }
}

impl Guard {
    /// What it says about one wave.
    fn in_wave(&self) -> Markup {
        html! {
            div.failing[self.exceeded] {
                a href=(document_address("guards", &self.id)) { (self.id) } ": " (value(&self.count)) " of " (value(&self.limit)) " " (self.of)
                @if self.exceeded { ", holds the wave" }
            }
        }
    }
}

impl RolloutPlan {
    fn show(&self) -> Markup {
        html! {
            section {
                h2 { "Waves of " (self.id) }
                table {
                    thead { tr { th scope="col" { "Wave" } th.number scope="col" { "Members" } th.number scope="col" { "Change" } th.number scope="col" { "Lose something" } th scope="col" { "Approval" } th scope="col" { "Guards" } } }
                    tbody {
                        @for wave in &self.waves {
                            tr {
                                td { (wave.name) }
                                td.number { (grouped(wave.members)) }
                                td.number { (grouped(wave.affected)) }
                                td.number { (grouped(wave.removals)) }
                                td { @if wave.approve { "needed" } @else { "–" } }
                                td {
                                    @if wave.guards.is_empty() { "–" }
                                    @for guard in &wave.guards { (guard.in_wave()) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The difference of two documents, as lines of YAML. Null stands for a document that does not exist.
pub(crate) fn document_diff(before: &Value, after: &Value) -> Markup {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        value => fleet::yaml::write(value),
    };
    let (before, after) = (text(before), text(after));
    let lines = before.lines().count() + after.lines().count();
    if lines > MOST_LINES {
        return html! { p.faint { "The documents have " (grouped(lines as u64)) " lines together: too long to compare here." } };
    }
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&before, &after);
    html! {
        pre.diff tabindex="0" {
            @for (n, group) in diff.grouped_ops(3).iter().enumerate() {
                @if n > 0 { span.faint { "…\n" } }
                @for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
                    @let (class, sign) = match change.tag() {
                        ChangeTag::Delete => ("removed", "- "),
                        ChangeTag::Insert => ("added", "+ "),
                        ChangeTag::Equal => ("same", "  "),
                    };
                    span.(class) { (sign) (change.value().trim_end_matches('\n')) "\n" }
                }
            }
        }
    }
}
