//! Shows the plan of a write before it is carried out, and asks for confirmation at a terminal. The write is bound to the plan
//! that was shown: if its effect has changed by then, it is planned again.

use std::io::{self, BufRead as _, IsTerminal as _};

use serde_json::{Value, json};

use crate::args::WriteArgs;
use crate::client::Conditions;
use crate::error::{ApiError, Failure};
use crate::offer;
use crate::output::{Table, Tone};
use crate::plan::{self, Plan, clusters};
use crate::session::{ATTEMPTS, Outcome, Session};

/// For the help of the commands that ask about every change.
pub(crate) const AFTER_HELP: &str = "\
At a terminal, the command shows the plan and asks; answering yes also confirms the removals in the plan. Without a \
terminal, it makes changes that remove nothing, and refuses to remove anything from clusters unless --yes or \
--confirm-removals N is given. With --yes it prints the plan to stderr and does not ask. --yes does not confirm removals \
beyond the removal budget, which need --confirm-removals N, nor clusters that leave a promoted wave of a rollout, which need \
--confirm-demotions N. If the effect changes between the plan and the write, the \
command plans, shows and asks again.";

/// For the help of all other writes.
pub(crate) const NAMED_HELP: &str = "\
At a terminal, the command shows the plan and asks if it changes the inputs of more than one cluster, or removes something \
from a cluster; answering yes also confirms the removals in the plan. Without a terminal, it refuses to remove something \
from more than one cluster unless --yes or --confirm-removals N is given. With --yes it prints such a plan to stderr and \
does not ask. --yes does not confirm removals beyond the removal budget, which need --confirm-removals N, nor clusters that leave a \
promoted wave of a rollout, which need --confirm-demotions N.";

/// When a command asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// About every change: the command line does not name what changes.
    Always,
    /// About what reaches several clusters or removes something: the command line names what changes.
    Beyond,
    /// At a terminal about every change, elsewhere about none: the command stops a change, and that must work everywhere.
    AtTerminal,
}

/// A write that can be planned with a dry run.
pub(crate) struct Proposal<'a> {
    /// `Apply these changes`
    pub(crate) question: &'a str,
    pub(crate) asks: Asks,
    /// Whether to warn of what goes back to an earlier value, even if nobody is asked: the author of files may not know of a change.
    pub(crate) warns_of_reverts: bool,
    /// Warnings of the command itself, in the form of a plan's.
    pub(crate) warnings: &'a [Value],
    pub(crate) send: &'a dyn Fn(&Conditions) -> Result<Value, ApiError>,
}

/// Whether and how the user confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consent {
    /// There is a terminal: ask.
    Ask,
    /// `--yes` was given.
    Yes,
    /// There is no terminal, and no `--yes`.
    Missing,
}

impl Consent {
    fn of(yes: bool) -> Consent {
        // The question is on stderr, the answer on stdin: both must be a terminal.
        let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        match (yes, terminal) {
            (true, _) => Consent::Yes,
            (false, true) => Consent::Ask,
            (false, false) => Consent::Missing,
        }
    }
}

impl Proposal<'_> {
    /// Shows the plan and asks for confirmation where needed, and sends the write.
    pub(crate) fn carry_out(&self, session: &Session<'_>, how: &WriteArgs) -> Result<Outcome, ApiError> {
        if !how.override_guard.is_empty() && how.reason.is_none() && !how.dry_run {
            let failure =
                Failure::usage("--override-guard needs --reason: why the guard is overridden is kept in the audit log");
            return Err(ApiError::Declined(failure));
        }
        if how.dry_run {
            return Ok(Outcome::Planned(self.plan(session, how)?));
        }
        if how.if_plan.is_some() {
            // The user has seen this plan already.
            return (self.send)(&how.conditions()).map(Outcome::Done);
        }
        let consent = Consent::of(how.yes);
        let mut attempt = 1;
        loop {
            let plan = self.plan(session, how)?;
            if plan.is_empty() {
                return Ok(Outcome::Done(json!({"revision": plan.base(), "changes": []})));
            }
            if let Some(failure) = plan.guarded() {
                // Nobody is asked to confirm what is refused anyway.
                if consent != Consent::Missing && self.shows(&plan, how) {
                    session.printer.aside(&plan.table(session.printer.is_wide()));
                }
                return Err(ApiError::Declined(offer::rollout(session, &plan, failure)));
            }
            let (removals, demotions) = self.confirmed(session, &plan, how, consent)?;
            let conditions = Conditions {
                plan: plan.digest().map(str::to_owned),
                removals,
                demotions,
                overrides: how.override_guard.clone(),
                ..Conditions::default()
            };
            match (self.send)(&conditions) {
                Ok(reply) => return Ok(Outcome::Done(reply)),
                // At a terminal there is no limit: the user can stop by answering no.
                Err(error) if error.is("plan-changed") && (consent == Consent::Ask || attempt < ATTEMPTS) => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
            if consent != Consent::Missing && self.shows(&plan, how) {
                session
                    .printer
                    .note("the fleet has changed since; this is the new plan:");
            }
        }
    }

    fn plan(&self, session: &Session<'_>, how: &WriteArgs) -> Result<Plan, ApiError> {
        let mut plan = Plan::read((self.send)(&how.planning(session.printer))?);
        plan.warn(self.warnings);
        Ok(plan)
    }

    /// Whether the plan is worth a question.
    fn shows(&self, plan: &Plan, how: &WriteArgs) -> bool {
        let reaches = plan.reach() > 1 || plan.removals() > 0 || plan.demotions() > 0;
        self.asks != Asks::Beyond || reaches || how.manifests || !self.warnings.is_empty()
    }

    /// The numbers of removals and of demotions that the user confirms; an error if the plan is not confirmed.
    fn confirmed(
        &self,
        session: &Session<'_>,
        plan: &Plan,
        how: &WriteArgs,
        consent: Consent,
    ) -> Result<(Option<u64>, Option<u64>), ApiError> {
        let (printer, count) = (session.printer, plan.removals());
        let show = || printer.aside(&plan.table(printer.is_wide()));
        let alone = match self.asks {
            Asks::Always => 0,
            Asks::Beyond => 1,
            Asks::AtTerminal => u64::MAX,
        };
        match consent {
            Consent::Missing if count > alone && how.confirm_removals.is_none() => {
                show();
                return Err(ApiError::Declined(unconfirmed(plan)));
            }
            Consent::Missing if how.manifests => show(),
            Consent::Missing => {
                printer.aside(&plan::warnings(self.warnings, printer.is_wide()));
                if self.warns_of_reverts {
                    printer.aside(&plan.reverts(printer.is_wide()));
                }
            }
            _ if !self.shows(plan, how) => {}
            Consent::Yes => show(),
            Consent::Ask => {
                show();
                ask(session, &question(self.question, count))?;
                let demotions = Some(plan.demotions()).filter(|count| *count > 0);
                return Ok((
                    how.confirm_removals.or(Some(count)),
                    how.confirm_demotions.or(demotions),
                ));
            }
        }
        Ok((how.confirm_removals, how.confirm_demotions))
    }
}

/// Says what a write takes away, and asks at a terminal. Without one, a command that names it is enough.
pub(crate) fn confirm_loss(session: &Session<'_>, yes: bool, losses: &[String], question: &str) -> Result<(), Failure> {
    let printer = session.printer;
    let mut table = Table::default();
    for loss in losses {
        table.line(format!("warning: {loss}"), Tone::Attention);
    }
    printer.aside(&table);
    match Consent::of(yes) {
        Consent::Ask => ask(session, &format!("{question}? [y/N] ")).map_err(Failure::from),
        Consent::Yes | Consent::Missing => Ok(()),
    }
}

/// Tells a person at a terminal why a command that may have been confirmed starts over.
pub(crate) fn note_restart(session: &Session<'_>, how: &WriteArgs) {
    if !how.dry_run && Consent::of(how.yes) == Consent::Ask {
        session.printer.note("the fleet has changed since; it is read again");
    }
}

/// The refusal of a plan that nobody can be asked about.
fn unconfirmed(plan: &Plan) -> Failure {
    let count = plan.removals();
    let failure = Failure::refused(format!(
        "this removes something from {}, and there is no terminal to ask for confirmation; nothing was changed",
        clusters(count)
    ));
    failure.hint(match plan.is_beyond_budget() {
        true => format!("it is beyond the removal budget: use --confirm-removals {count} to confirm"),
        false => "use --yes to confirm".to_owned(),
    })
}

/// Asks a question at the terminal; an error unless the answer is yes.
fn ask(session: &Session<'_>, question: &str) -> Result<(), ApiError> {
    session.printer.ask(question);
    let answer = answer().map_err(ApiError::Declined)?;
    if answer.is_empty() {
        // Input ended without a line break, so the cursor is still on the line of the question.
        session.printer.note("");
    }
    match is_yes(&answer) {
        true => Ok(()),
        false => Err(ApiError::Declined(Failure::refused("cancelled; nothing was changed"))),
    }
}

fn question(text: &str, removals: u64) -> String {
    match removals {
        0 => format!("{text}? [y/N] "),
        count => format!("{text}, and remove something from {}? [y/N] ", clusters(count)),
    }
}

/// Reads one line from the terminal; the end of input counts as no.
fn answer() -> Result<String, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::file(std::path::Path::new("stdin"), &error))?;
    Ok(line)
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_confirms() {
        for yes in ["y\n", "Y\n", "yes\r\n", " YES \n"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no\n", "yeah\n", "y es\n", "1\n"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }

    #[test]
    fn the_question_names_the_removals() {
        assert_eq!(question("Apply these changes", 0), "Apply these changes? [y/N] ");
        assert_eq!(
            question("Apply these changes", 12),
            "Apply these changes, and remove something from 12 clusters? [y/N] "
        );
    }
}
