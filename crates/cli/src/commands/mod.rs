//! One file per command: its arguments, its help, and what it does. The commands of the kinds are in `resource/`.

pub(crate) mod apply;
pub(crate) mod changes;
pub(crate) mod completion;
pub(crate) mod components;
pub(crate) mod config;
pub(crate) mod delete;
pub(crate) mod demo;
pub(crate) mod describe;
pub(crate) mod diff;
pub(crate) mod docs;
pub(crate) mod edit;
pub(crate) mod export;
pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod identity;
pub(crate) mod inputs;
pub(crate) mod kind;
pub(crate) mod label;
pub(crate) mod login;
pub(crate) mod man;
pub(crate) mod plan;
pub(crate) mod redo;
pub(crate) mod register;
pub(crate) mod render;
pub(crate) mod resource;
pub(crate) mod rollback;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod undo;
pub(crate) mod version;
pub(crate) mod wait;
pub(crate) mod whoami;

use std::process::ExitCode;

use crate::args::Global;
use crate::cli::BuiltIn;
use crate::client::Client;
use crate::config::Access;
use crate::error::Failure;
use crate::output::Printer;
use crate::session::Session;
use crate::suggest;

/// Runs a built-in command.
pub(crate) fn run(printer: &Printer, global: &Global, command: BuiltIn) -> Result<ExitCode, Failure> {
    let remote = |run: &dyn Fn(&Session<'_>) -> Result<(), Failure>| with_session(printer, global, run);
    match command {
        BuiltIn::Get(args) => remote(&|session| get::run(session, &args)),
        BuiltIn::Describe(args) => remote(&|session| describe::run(session, &args)),
        BuiltIn::Label(args) => remote(&|session| label::run(session, &args)),
        BuiltIn::Plan(args) => remote(&|session| plan::run(session, &args)),
        BuiltIn::Apply(args) => remote(&|session| apply::run(session, &args)),
        BuiltIn::Diff(args) => {
            let differs = with_session(printer, global, |session| diff::run(session, &args))?;
            return Ok(ExitCode::from(u8::from(differs)));
        }
        BuiltIn::Rollback(args) => remote(&|session| rollback::run(session, &args)),
        BuiltIn::Undo(args) => remote(&|session| undo::run(session, &args)),
        BuiltIn::Redo(args) => remote(&|session| redo::run(session, &args)),
        BuiltIn::Export(args) => remote(&|session| export::run(session, &args)),
        BuiltIn::Delete(args) => remote(&|session| delete::run(session, &args)),
        BuiltIn::Edit(args) => remote(&|session| edit::run(session, &args)),
        BuiltIn::Status(args) => remote(&|session| status::run(session, &args)),
        BuiltIn::Wait(args) => remote(&|session| wait::run(session, &args)),
        BuiltIn::Changes(args) => remote(&|session| changes::run(session, &args)),
        BuiltIn::History(args) => remote(&|session| history::run(session, &args)),
        BuiltIn::Inputs(args) => remote(&|session| inputs::run(session, &args)),
        BuiltIn::Render(args) => match args.offline() {
            Some(file) => render::from_files(printer, &args, file),
            None => remote(&|session| render::of_cluster(session, &args)),
        },
        BuiltIn::Kind(command) => remote(&|session| kind::run(session, &command)),
        BuiltIn::Identity(command) => remote(&|session| identity::run(session, &command)),
        BuiltIn::Token(command) => remote(&|session| token::run(session, &command)),
        BuiltIn::Register(args) => remote(&|session| register::run(session, &args)),
        BuiltIn::Login(args) => login::log_in(printer, global, &args),
        BuiltIn::Logout => login::log_out(printer, global),
        BuiltIn::Whoami(args) => remote(&|session| whoami::run(session, &args)),
        BuiltIn::Demo(command) => remote(&|session| demo::run(session, &command)),
        BuiltIn::Components(command) => {
            let passed = components::run(printer, global, &command)?;
            return Ok(ExitCode::from(u8::from(!passed)));
        }
        BuiltIn::Config(command) => config::run(printer, global.chosen().tls, command),
        BuiltIn::Completion(args) => completion::run(printer, &args),
        BuiltIn::Man(args) => man::run(printer, &args),
        BuiltIn::Version => version::run(printer),
        BuiltIn::Docs => docs::run(printer),
    }
    .map(|()| ExitCode::SUCCESS)
}

fn with_session<T>(
    printer: &Printer,
    global: &Global,
    run: impl FnOnce(&Session<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let client = Client::new(Access::settle(&global.chosen())?);
    let session = Session::new(&client, printer, None);
    run(&session).map_err(|failure| suggest::improve(&session, failure))
}
