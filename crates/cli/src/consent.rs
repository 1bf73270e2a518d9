//! A plan is shown before it is carried out, and whoever sits at the terminal is asked. The write is bound to what was shown: if
//! it would do something else by then, it is planned anew.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Args;
use serde_json::{Value, json};

use crate::args::WriteArgs;
use crate::client::Conditions;
use crate::error::{ApiError, Failure};
use crate::plan::{Plan, clusters};
use crate::session::{ATTEMPTS, Outcome, Session};

/// For the help of every command that asks.
pub(crate) const RULE: &str = "\
At a terminal the plan is shown, and you are asked; your yes also confirms the removals that it shows.
Elsewhere nobody can be asked: what only adds and changes is done, and what removes something from
clusters is refused unless --yes, or --confirm-removals with the right number, says that it is meant.
With --yes the plan is shown, on stderr, and not asked about. --yes is no word about the removal budget:
beyond it, the count has to be confirmed. What was shown is what happens: if the effect is another one
by the time of the write, it is planned, shown and asked about again.";

#[derive(Args, Clone, Debug)]
pub(crate) struct ConsentArgs {
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// A write that can be tried first.
pub(crate) struct Proposal<'a> {
    /// `Apply these changes`
    pub(crate) question: &'a str,
    pub(crate) send: &'a dyn Fn(&Conditions) -> Result<Value, ApiError>,
    /// What a refusal means for what the user said.
    pub(crate) explain: &'a dyn Fn(ApiError) -> Failure,
}

/// What is known about the will of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Will {
    /// Somebody can be asked.
    Ask,
    /// `--yes`
    Yes,
    /// Nobody can be asked, and nothing was said.
    Unsaid,
}

impl Will {
    fn of(consent: &ConsentArgs) -> Will {
        // A question that nobody sees would wait for ever.
        let person = io::stdin().is_terminal() && io::stderr().is_terminal();
        match (consent.yes, person) {
            (true, _) => Will::Yes,
            (false, true) => Will::Ask,
            (false, false) => Will::Unsaid,
        }
    }
}

impl Proposal<'_> {
    /// Shows the plan, asks where somebody can be asked, and does it.
    pub(crate) fn carry_out(
        &self,
        session: &Session<'_>,
        how: &WriteArgs,
        consent: &ConsentArgs,
    ) -> Result<(), Failure> {
        let send = self.send;
        if how.dry_run {
            let reply = send(&how.conditions()).map_err(self.explain)?;
            return session.show(&Outcome::Planned(Plan::read(reply)));
        }
        if how.if_plan.is_some() {
            // Somebody has seen this plan and says so.
            let reply = send(&how.conditions()).map_err(self.explain)?;
            return session.show(&Outcome::Done(reply));
        }
        let will = Will::of(consent);
        let mut attempt = 1;
        loop {
            let plan = Plan::read(send(&Conditions::dry_run()).map_err(self.explain)?);
            if plan.is_empty() {
                return session.show(&Outcome::Done(json!({"revision": plan.base(), "changes": []})));
            }
            let conditions = Conditions {
                dry_run: false,
                plan: plan.digest().map(str::to_owned),
                removals: self.settle(session, &plan, how, will)?,
            };
            match send(&conditions) {
                Ok(reply) => return session.show(&Outcome::Done(reply)),
                // Whoever is asked each time ends this when they like.
                Err(error) if error.is("plan-changed") && (will == Will::Ask || attempt < ATTEMPTS) => attempt += 1,
                Err(error) => return Err((self.explain)(error)),
            }
            if will != Will::Unsaid {
                session
                    .printer
                    .note("the fleet changed meanwhile, and so did the plan:");
            }
        }
    }

    /// The removals that are confirmed, if the plan is to be carried out.
    fn settle(&self, session: &Session<'_>, plan: &Plan, how: &WriteArgs, will: Will) -> Result<Option<u64>, Failure> {
        let (printer, count) = (session.printer, plan.removals());
        let show = || printer.aside(&plan.table(printer.is_wide()));
        match will {
            Will::Yes => show(),
            Will::Ask => {
                show();
                printer.ask(&question(self.question, count));
                let answer = answer()?;
                if answer.is_empty() {
                    // Nobody ended the line of the question.
                    printer.note("");
                }
                if !agrees(&answer) {
                    return Err(Failure::refused("this was not agreed to, and nothing was changed"));
                }
                return Ok(how.confirm_removals.or(Some(count)));
            }
            Will::Unsaid if count > 0 && how.confirm_removals.is_none() => {
                show();
                let failure = Failure::refused(format!(
                    "this removes something from {}, and nobody can be asked: nothing was changed",
                    clusters(count)
                ));
                return Err(failure.hint("--yes says that it is meant"));
            }
            Will::Unsaid => {}
        }
        Ok(how.confirm_removals)
    }
}

fn question(words: &str, removals: u64) -> String {
    match removals {
        0 => format!("{words}? [y/N] "),
        count => format!("{words}, and remove something from {}? [y/N] ", clusters(count)),
    }
}

/// One line from the terminal; its end is a no.
fn answer() -> Result<String, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::file(std::path::Path::new("stdin"), &error))?;
    Ok(line)
}

fn agrees(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for yes in ["y\n", "Y\n", "yes\r\n", " YES \n"] {
            assert!(agrees(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no\n", "yeah\n", "y es\n", "1\n"] {
            assert!(!agrees(no), "{no:?}");
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
