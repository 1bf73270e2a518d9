//! Opens a page in the browser of this machine, if there is one.

use std::env;
use std::process::{Command, Stdio};

/// Opens a page. What goes wrong does not matter: the address was printed.
pub(super) fn open(url: &str) {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = match env::var("BROWSER") {
        Ok(program) if !program.is_empty() => program,
        _ if cfg!(target_os = "macos") => "open".to_owned(),
        _ if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") => "xdg-open".to_owned(),
        _ => return,
    };
    let mut command = Command::new(program);
    command
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _ = command.spawn();
}
