//! The program as a whole, against a real server: exit code, stdout and stderr of every command.
#![allow(clippy::unwrap_used)]

mod access;
mod book;
mod bootstrap;
mod components;
mod confirm;
mod docs;
mod documented;
mod documents;
mod every;
mod fixture;
mod guards;
mod hints;
mod identities;
mod kinds;
mod kubectl;
mod login;
mod output;
mod overrides;
mod plans;
mod play;
mod profiles;
mod prune;
mod races;
mod refusals;
mod register;
mod rollback;
mod rollout;
mod rollouts;
mod status;
mod tls;
