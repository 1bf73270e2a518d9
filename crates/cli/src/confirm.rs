//! Shows a plan before it is carried out, and asks for confirmation at a terminal. The write is bound to the plan that was
//! shown: if its effect has changed by then, it is planned again.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Args;
use serde_json::{Value, json};

use crate::args::WriteArgs;
use crate::client::Conditions;
use crate::error::{ApiError, Failure};
use crate::plan::{Plan, clusters};
use crate::session::{ATTEMPTS, Outcome, Session};

/// For the help of every command that asks.
pub(crate) const AFTER_HELP: &str = "\
At a terminal, the command shows the plan and asks; answering yes also confirms the removals in the plan. Without a \
terminal, it makes changes that remove nothing, and refuses to remove anything from clusters unless --yes or \
--confirm-removals N is given. With --yes it prints the plan to stderr and does not ask. --yes does not confirm removals \
beyond the removal budget: these need --confirm-removals N. If the effect changes between the plan and the write, the \
command plans, shows and asks again.";

#[derive(Args, Clone, Debug)]
pub(crate) struct ConfirmArgs {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// A write that can be planned with a dry run.
pub(crate) struct Proposal<'a> {
    /// `Apply these changes`
    pub(crate) question: &'a str,
    pub(crate) send: &'a dyn Fn(&Conditions) -> Result<Value, ApiError>,
    /// Turns an error of the API into a failure of this command.
    pub(crate) explain: &'a dyn Fn(ApiError) -> Failure,
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
    fn of(args: &ConfirmArgs) -> Consent {
        // The question is on stderr, the answer on stdin: both must be a terminal.
        let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        match (args.yes, terminal) {
            (true, _) => Consent::Yes,
            (false, true) => Consent::Ask,
            (false, false) => Consent::Missing,
        }
    }
}

impl Proposal<'_> {
    /// Shows the plan, asks for confirmation where needed, and sends the write.
    pub(crate) fn carry_out(&self, session: &Session<'_>, how: &WriteArgs, args: &ConfirmArgs) -> Result<(), Failure> {
        let send = self.send;
        if how.dry_run {
            let reply = send(&how.conditions()).map_err(self.explain)?;
            return session.show(&Outcome::Planned(Plan::read(reply)));
        }
        if how.if_plan.is_some() {
            // The user has seen this plan already.
            let reply = send(&how.conditions()).map_err(self.explain)?;
            return session.show(&Outcome::Done(reply));
        }
        let consent = Consent::of(args);
        let mut attempt = 1;
        loop {
            let plan = Plan::read(send(&Conditions::dry_run()).map_err(self.explain)?);
            if plan.is_empty() {
                return session.show(&Outcome::Done(json!({"revision": plan.base(), "changes": []})));
            }
            let conditions = Conditions {
                dry_run: false,
                plan: plan.digest().map(str::to_owned),
                removals: self.confirmed_removals(session, &plan, how, consent)?,
            };
            match send(&conditions) {
                Ok(reply) => return session.show(&Outcome::Done(reply)),
                // At a terminal there is no limit: the user can stop by answering no.
                Err(error) if error.is("plan-changed") && (consent == Consent::Ask || attempt < ATTEMPTS) => {
                    attempt += 1;
                }
                Err(error) => return Err((self.explain)(error)),
            }
            if consent != Consent::Missing {
                session
                    .printer
                    .note("the fleet has changed since; this is the new plan:");
            }
        }
    }

    /// The number of removals that the user confirms; an error if the plan is not confirmed.
    fn confirmed_removals(
        &self,
        session: &Session<'_>,
        plan: &Plan,
        how: &WriteArgs,
        consent: Consent,
    ) -> Result<Option<u64>, Failure> {
        let (printer, count) = (session.printer, plan.removals());
        let show = || printer.aside(&plan.table(printer.is_wide()));
        match consent {
            Consent::Yes => show(),
            Consent::Ask => {
                show();
                printer.ask(&question(self.question, count));
                let answer = answer()?;
                if answer.is_empty() {
                    // Input ended without a line break, so the cursor is still on the line of the question.
                    printer.note("");
                }
                if !is_yes(&answer) {
                    return Err(Failure::refused("cancelled; nothing was changed"));
                }
                return Ok(how.confirm_removals.or(Some(count)));
            }
            Consent::Missing if count > 0 && how.confirm_removals.is_none() => {
                show();
                let failure = Failure::refused(format!(
                    "this removes something from {}, and there is no terminal to ask for confirmation; nothing was changed",
                    clusters(count)
                ));
                return Err(failure.hint("use --yes to confirm"));
            }
            Consent::Missing => {}
        }
        Ok(how.confirm_removals)
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
