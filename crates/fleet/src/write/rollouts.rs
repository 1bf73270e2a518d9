//! What operations do to rollouts, and what rollouts that run ask of every write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::overlap::{Parts, overlap};
use super::{Draft, Fault, Rules};
use crate::kind::{KINDS, Kind, PROFILES, ROLLOUTS};
use crate::operation::{Operation, Target, Verb};
use crate::patch::{self, Form};
use crate::refusal::{Reason, Refusal, Violation, segment};
use crate::rollout::{self, Action, Gate, Patch, Percent, Promoted, Rollout, SERVER_FIELDS, State, Step};
use crate::selector::Selector;
use crate::snapshot::{Edit, Fleet};

/// The fields of a rollout that may change after its start.
const CHANGEABLE: [&str; 3] = ["gate", "on_failure", "description"];

impl Draft<'_> {
    /// Runs the current operation, which is on rollouts.
    pub(super) fn run_on_rollouts(&mut self, kind: &Kind) -> Result<(), Fault> {
        match &self.operation().verb {
            Verb::Create { id, value } => self.start_rollout(kind, id.as_deref(), value),
            Verb::Replace { id, value } => self.put_rollout(kind, Some(id), value),
            Verb::Apply { id, value } => self.put_rollout(kind, id.as_deref(), value),
            Verb::Merge {
                on: Target::Id(id),
                form,
                value,
            } => {
                self.check_version(ROLLOUTS, id)?;
                let mut merged = self.rollout(id)?.document.body.parse();
                patch::apply(*form, &[], &mut merged, value).map_err(Fault::Value)?;
                self.change_rollout(kind, id, merged)
            }
            Verb::Delete { id, .. } => {
                self.check_version(ROLLOUTS, id)?;
                let rollout = self.rollout(id)?;
                if rollout.is_active() {
                    let state = rollout.state.name();
                    let detail = format!("the rollout \"{id}\" is {state}: complete or abort it first");
                    return Err(Refusal::new(Reason::WrongState, detail).into());
                }
                Ok(self.put(ROLLOUTS, id.as_str().into(), None)?)
            }
            Verb::Restore { id, value, .. } => {
                let value = value.clone().map(brought_back);
                Ok(self.put(ROLLOUTS, id.as_str().into(), value)?)
            }
            Verb::Step { id, step, wave } => self.step(id, step, wave.as_deref()),
            _ => {
                let detail = "a rollout is created, changed in its gate, acted on and deleted; nothing else";
                Err(Refusal::at(Reason::Invalid, "/op", detail).into())
            }
        }
    }

    fn rollout(&self, id: &str) -> Result<Arc<Rollout>, Refusal> {
        let found = self.now().rollouts().get(id).cloned();
        found.ok_or_else(|| self.not_found(ROLLOUTS, id))
    }

    /// Starts a rollout, or changes the one that exists.
    fn put_rollout(&mut self, kind: &Kind, id: Option<&str>, value: &Value) -> Result<(), Fault> {
        let given = id.or_else(|| value.get("id")?.as_str()).unwrap_or_default();
        let exists = self.now().rollouts().get(given).is_some();
        if !exists && self.operation().if_match.is_none() {
            return self.start_rollout(kind, id, value);
        }
        self.check_version(ROLLOUTS, given)?;
        self.change_rollout(kind, given, value.clone())
    }

    fn start_rollout(&mut self, kind: &Kind, id: Option<&str>, value: &Value) -> Result<(), Fault> {
        let mut value = value.clone();
        let id = self.complete(kind, id, &mut value).map_err(Fault::Value)?;
        if self.now().rollouts().get(&id).is_some() {
            let detail = format!("rollout \"{id}\" already exists");
            return Err(Refusal::at(Reason::Exists, "/id", detail).into());
        }
        let given = value.clone();
        let at = self.rules.at.map(|at| at.to_string());
        rollout::begin(&mut value, at.as_deref(), self.rules.removals);
        let mut errors = self.check_shape(&value);
        errors.extend(server_fields(&given, &value));
        if !errors.is_empty() {
            return Err(Fault::Value(errors));
        }
        Ok(self.put(ROLLOUTS, id, Some(value))?)
    }

    /// Changes what may change. What the request leaves out of the server's fields stays.
    fn change_rollout(&mut self, kind: &Kind, id: &str, mut value: Value) -> Result<(), Fault> {
        let present = self.rollout(id)?.document.body.parse();
        if let Some(fields) = value.as_object_mut() {
            for name in SERVER_FIELDS {
                fields.entry(name).or_insert_with(|| present[name].clone());
            }
        }
        self.complete(kind, Some(id), &mut value).map_err(Fault::Value)?;
        rollout::complete_gate(&mut value);
        let mut errors = self.check_shape(&value);
        errors.extend(server_fields(&value, &present));
        if !errors.is_empty() {
            return Err(Fault::Value(errors));
        }
        let names: BTreeSet<&String> = [&value, &present]
            .into_iter()
            .filter_map(Value::as_object)
            .flat_map(|all| all.keys())
            .collect();
        let fixed = names
            .into_iter()
            .find(|name| value.get(name) != present.get(name) && !CHANGEABLE.contains(&name.as_str()));
        if let Some(name) = fixed {
            let detail = format!(
                "the rollout \"{id}\" has started: its {name} cannot change; only gate, on_failure and description can"
            );
            let pointer = format!("{}{}", self.value_pointer(), segment(name));
            return Err(Refusal::at(Reason::WrongState, &pointer, detail).into());
        }
        Ok(self.put(ROLLOUTS, id.into(), Some(value))?)
    }

    /// What the schema of a rollout cannot say.
    fn check_shape(&self, value: &Value) -> Vec<Violation> {
        let mut errors = Vec::new();
        let mistakes = Gate::read(&value["gate"]).map_or_else(|error| vec![error], |gate| gate.mistakes());
        errors.extend(
            mistakes
                .iter()
                .map(|wrong| Violation::new(format!("/gate/{}", wrong.field), wrong.detail)),
        );
        self.check_waves(value["waves"].as_array().map_or(&[][..], Vec::as_slice), &mut errors);
        let mut patched = BTreeSet::new();
        for (n, operation) in value["operations"].as_array().into_iter().flatten().enumerate() {
            let text = |field: &str| operation[field].as_str().unwrap_or_default();
            let (kind, id) = (text("kind"), text("id"));
            let is_shared = kind == PROFILES || self.now().definitions(kind).is_some();
            if !is_shared {
                let detail =
                    format!("\"{kind}\" is not a kind of shared documents: a rollout changes definitions and profiles");
                errors.push(Violation::new(format!("/operations/{n}/kind"), detail));
            } else if self.now().document(kind, id).is_none() {
                let detail = format!("there is no {kind} \"{id}\": a rollout changes documents that exist");
                errors.push(Violation::new(format!("/operations/{n}/id"), detail));
            }
            if !patched.insert((kind, id)) {
                let detail = format!("{kind} \"{id}\" is patched twice: put both into one operation");
                errors.push(Violation::new(format!("/operations/{n}"), detail));
            }
        }
        errors
    }

    fn check_waves(&self, waves: &[Value], errors: &mut Vec<Violation>) {
        let mut names = BTreeSet::new();
        let mut sum = 0;
        for (n, wave) in waves.iter().enumerate() {
            let at = |field: &str| format!("/waves/{n}{field}");
            if !names.insert(wave["name"].as_str()) {
                errors.push(Violation::new(at("/name"), "two waves have this name"));
            }
            let (selector, percent) = (wave["selector"].as_str(), wave["percent"].as_f64());
            let is_last = n + 1 == waves.len();
            match (selector, percent) {
                (None, None) if !is_last => {
                    errors.push(Violation::new(
                        at(""),
                        "only the last wave has neither selector nor percent",
                    ));
                }
                (Some(_), _) | (_, Some(_)) if is_last => {
                    let detail = "the last wave has neither selector nor percent: it takes everyone who is left";
                    errors.push(Violation::new(at(""), detail));
                }
                (Some(_), Some(_)) => errors.push(Violation::new(
                    at(""),
                    "a wave has a selector or a percentage, not both",
                )),
                _ => {}
            }
            if let Some(Err(error)) = selector.map(|text| Selector::stored(text, self.now())) {
                errors.push(Violation::new(at("/selector"), error.to_string()));
            }
            let percent = percent.and_then(Percent::new).map_or(0, |percent| u32::from(percent.0));
            sum += percent;
            if percent > 0 && sum > u32::from(Percent::ALL.0) {
                errors.push(Violation::new(at("/percent"), "the waves add up to more than 100 %"));
            }
        }
    }

    fn step(&mut self, id: &str, step: &Step, wave: Option<&str>) -> Result<(), Fault> {
        self.check_version(ROLLOUTS, id)?;
        let rollout = self.rollout(id)?;
        let at = self.rules.at.map(|at| at.to_string());
        let after = rollout.after(step, wave, at.as_deref(), self.base.revision().next())?;
        if *step == Step::Action(Action::Complete) {
            for patch in &rollout.patches {
                let kind = self.kind(&patch.kind)?;
                self.merge(&kind, &patch.id, Form::Merge, &patch.value)?;
            }
        }
        Ok(self.put(ROLLOUTS, id.into(), Some(after))?)
    }

    /// Checks that no two rollouts change the same document, and that none of their fields is written besides.
    pub(super) fn check_rollouts(&self) -> Result<(), Refusal> {
        self.check_exclusive()?;
        for rollout in self.now().rollouts().running() {
            let was_running = self
                .base
                .rollouts()
                .get(rollout.id())
                .is_some_and(|then| then.is_active());
            for patch in rollout.patches.iter().filter(|_| was_running) {
                self.check_fields(rollout, patch)?;
            }
        }
        Ok(())
    }

    fn check_exclusive(&self) -> Result<(), Refusal> {
        let mut holders: BTreeMap<(&str, &str), &Arc<Rollout>> = BTreeMap::new();
        let mut count = 0;
        for rollout in self.now().rollouts().running() {
            count += 1;
            for patch in &rollout.patches {
                let Some(other) = holders.insert((&patch.kind, &patch.id), rollout) else {
                    continue;
                };
                let (blamed, other) = match self.touch(ROLLOUTS, rollout.id()) {
                    Some(_) => (rollout, other),
                    None => (other, rollout),
                };
                let detail = format!(
                    "the rollout \"{}\" changes {} \"{}\" already, and is {}: complete or abort it first",
                    other.id(),
                    patch.kind,
                    patch.id,
                    other.state.name()
                );
                return Err(self.rollout_active(other, &self.blame(ROLLOUTS, blamed.id(), ""), detail));
            }
        }
        match count > Promoted::MOST {
            true => {
                let detail = format!(
                    "{} rollouts have not ended, and no more can run at a time",
                    Promoted::MOST
                );
                Err(Refusal::new(Reason::RolloutActive, detail))
            }
            false => Ok(()),
        }
    }

    /// A direct write to a document under rollout goes to both sides, but not to the fields that the rollout changes.
    fn check_fields(&self, rollout: &Arc<Rollout>, patch: &Patch) -> Result<(), Refusal> {
        let document = |fleet: &Fleet| fleet.document(&patch.kind, &patch.id).map(|document| document.body);
        let (before, after) = (document(self.base), document(self.now()));
        if before == after {
            return Ok(());
        }
        let (kind, id) = (&patch.kind, &patch.id);
        let (Some(before), Some(after)) = (before, after) else {
            let detail = format!(
                "{kind} \"{id}\" is changed by the rollout \"{}\": complete or abort it first",
                rollout.id()
            );
            let mut refusal = Refusal::at(Reason::InUse, &self.blame(kind, id, ""), detail);
            refusal.resources = vec![format!("{ROLLOUTS}/{}", rollout.id())];
            return Err(refusal);
        };
        let kinds = self.now().kinds().definitions().filter(|_| **kind == *PROFILES);
        let references: Vec<&str> = kinds.filter_map(|kind| kind.references.as_deref()).collect();
        let parts = Parts {
            references: &references,
        };
        let written = parts.changed(&before.parse(), &after.parse());
        let clash = overlap(written, parts.patched(&patch.value));
        match clash {
            None => Ok(()),
            Some(pointer) => {
                let detail = format!(
                    "{pointer} of {kind} \"{id}\" is under the rollout \"{}\": complete or abort it first, or change other fields",
                    rollout.id()
                );
                // References are named by id here, and by position in the request: the array is close enough.
                let field = pointer[1..].find('/').map_or(pointer.as_str(), |end| &pointer[..=end]);
                Err(self.rollout_active(rollout, &self.blame(kind, id, field), detail))
            }
        }
    }

    fn rollout_active(&self, rollout: &Rollout, pointer: &str, detail: String) -> Refusal {
        let mut refusal = Refusal::at(Reason::RolloutActive, pointer, detail);
        refusal.resources = vec![format!("{ROLLOUTS}/{}", rollout.id())];
        refusal
    }

    /// Whether a write can change what becomes of rollouts that run: it starts one, or changes what they are made of. A promotion does
    /// not, and must not take longer in a larger fleet.
    pub(super) fn concerns_rollouts(&self) -> bool {
        let is_started = |id: &str| {
            let (before, now) = (self.base.rollouts().get(id), self.now().rollouts().get(id));
            let goes_on =
                |before: &Arc<Rollout>| before.is_active() && now.is_some_and(|now| now.is_same_change(before));
            !before.is_some_and(goes_on)
        };
        let concerns = |(kind, id): &(Arc<str>, Arc<str>)| match &**kind {
            ROLLOUTS => is_started(id),
            PROFILES | KINDS => true,
            kind => self.now().definitions(kind).is_some(),
        };
        self.now().rollouts().running().next().is_some() && self.touched.keys().any(concerns)
    }

    /// Checks that every rollout that runs can be completed, each alone and all of them: what they make of the shared documents must
    /// be valid for every cluster.
    pub(super) fn check_completions(&self, fleet: &Fleet) -> Result<(), Refusal> {
        let running: Vec<&Arc<Rollout>> = fleet.rollouts().running().collect();
        let Ok(plain) = without_rollouts(fleet) else {
            return Ok(());
        };
        let started = running
            .iter()
            .filter(|rollout| self.touch(ROLLOUTS, rollout.id()).is_some());
        for rollout in started.filter(|_| running.len() > 1) {
            plain
                .write(&completion(rollout), Rules::default().in_batch())
                .map_err(|refusal| self.unfit(&[rollout], refusal))?;
        }
        let all: Vec<Operation> = running.iter().flat_map(|rollout| completion(rollout)).collect();
        plain
            .write(&all, Rules::default().in_batch())
            .map_err(|refusal| self.unfit(&running, refusal))?;
        Ok(())
    }

    /// The refusal of a completion, in terms of this write.
    fn unfit(&self, rollouts: &[&Arc<Rollout>], mut refusal: Refusal) -> Refusal {
        let started = rollouts
            .iter()
            .find(|rollout| self.touch(ROLLOUTS, rollout.id()).is_some());
        if let Some(rollout) = started {
            // The pointers are into its operations, if it is the only one.
            let at = self.blame(ROLLOUTS, rollout.id(), "");
            refusal.errors.iter_mut().for_each(|error| match rollouts.len() {
                1 => error.pointer.insert_str(0, &at),
                _ => error.pointer.clone_from(&at),
            });
            if refusal.reason == Reason::NotFound {
                refusal.reason = Reason::Invalid;
            }
            return refusal;
        }
        let names: Vec<&str> = rollouts.iter().map(|rollout| &**rollout.id()).collect();
        let detail = format!(
            "rollouts that run could no longer be completed ({}): {}",
            names.join(", "),
            refusal.detail
        );
        let mut unfit = Refusal::new(Reason::RolloutActive, detail);
        unfit.clusters = refusal.clusters;
        unfit.resources = names.iter().map(|name| format!("{ROLLOUTS}/{name}")).collect();
        unfit
    }
}

/// The operations that complete a rollout, without the rollout's own document.
fn completion(rollout: &Rollout) -> Vec<Operation> {
    let merge = |patch: &Patch| {
        let verb = Verb::Merge {
            on: Target::Id(patch.id.to_string()),
            form: Form::Merge,
            value: patch.value.clone(),
        };
        Operation::new(&*patch.kind, verb)
    };
    rollout.patches.iter().map(merge).collect()
}

/// The same fleet as if no rollout had started.
fn without_rollouts(fleet: &Fleet) -> Result<Fleet, String> {
    let mut edit = Edit::new(fleet.clone());
    for rollout in fleet.rollouts().running() {
        edit.put(ROLLOUTS, rollout.id().clone(), None, None)?;
    }
    edit.settle()
}

/// A rollout that rollback or undo brings back does not go on by itself.
fn brought_back(mut value: Value) -> Value {
    let state = value["state"].as_str();
    if [State::Running, State::Halted]
        .iter()
        .any(|active| state == Some(active.name()))
    {
        value["state"] = State::Paused.name().into();
        value["waiting_for"] = Value::Null;
    }
    value
}

/// The server's fields that a request gives other values.
fn server_fields(given: &Value, right: &Value) -> Vec<Violation> {
    let wrong = SERVER_FIELDS
        .into_iter()
        .filter(|name| given.get(name).is_some_and(|value| Some(value) != right.get(name)));
    let detail = "is the server's: leave it out, or use the rollout's actions";
    wrong.map(|name| Violation::new(segment(name), detail)).collect()
}
