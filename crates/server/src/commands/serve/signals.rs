//! The signals that matter to a server.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGTERM or SIGINT, and returns its name. The handlers are installed by the call, not when it is awaited: process 1
/// of a container receives no signal that it has no handler for.
pub(super) fn stop_signal() -> impl Future<Output = &'static str> {
    let handlers = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async {
        let (Ok(mut terminate), Ok(mut interrupt)) = handlers else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    }
}

/// Turns a write beyond the limit on file sizes into an error, like that of a full disk. By default the signal ends the process.
pub(super) fn ignore_file_size_limit() {
    const SIGXFSZ: i32 = 25;
    let _ = signal(SignalKind::from_raw(SIGXFSZ));
}
