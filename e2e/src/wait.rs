//! Waits for conditions: each is checked again and again until it holds, or the time is up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result, process};

/// Much longer than anything takes: a machine that is busy with other work should not fail the test.
const LONGEST: Duration = Duration::from_secs(120);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes every wait fail from now on, so that the test ends and tidies up.
pub(crate) fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Looks until the look succeeds. An error is what is still missing; the last one is reported when the time is up.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Result<T>) -> Result<T> {
    until_within(LONGEST, what, look)
}

pub(crate) fn until_within<T>(longest: Duration, what: &str, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        let missing: Error = match look() {
            Ok(found) => return Ok(found),
            Err(missing) => missing,
        };
        if interrupted() {
            return Err("interrupted".into());
        }
        if let Err(ended) = process::all_alive() {
            return Err(format!("waited for {what} ({missing}), but {ended}").into());
        }
        if start.elapsed() > longest {
            return Err(format!("waited {} s for {what}, in vain: {missing}", longest.as_secs()).into());
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// The pause between two looks of who looks for something else than an end. Fails when somebody interrupts, or a process has ended.
pub(crate) fn pause() -> Result<()> {
    if interrupted() {
        return Err("interrupted".into());
    }
    process::all_alive()?;
    thread::sleep(BETWEEN_LOOKS);
    Ok(())
}

/// Waits until somebody interrupts, which is an error here as everywhere, or a process ends that should run.
pub(crate) fn for_ever(what: &str) -> Result<()> {
    until_within(Duration::MAX, what, || Err("it still runs".into()))
}
