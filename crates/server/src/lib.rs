//! The server of flux-resourceset: configuration, use cases, HTTP.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod app;
pub mod auth;
pub mod commands;
pub mod config;
pub mod healthcheck;
pub mod http;
pub mod metrics;
mod outbound;
pub mod reference;

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The current time in the form of the log: UTC with microseconds, always the same length.
pub fn now() -> String {
    let now = jiff::Timestamp::now();
    format!("{now:.6}")
}

/// The time that is `span` before `at`. Empty, which sorts before every time, if `at` is not a time.
pub fn before(at: &str, span: std::time::Duration) -> String {
    let earlier = at
        .parse::<jiff::Timestamp>()
        .ok()
        .and_then(|at| at.checked_sub(span).ok());
    earlier.map(|earlier| format!("{earlier:.6}")).unwrap_or_default()
}

/// A time in the form of the log, from RFC 3339; from a date: its first moment in UTC; or from an age, such as 24h. None if it
/// is none of them.
pub fn moment(text: &str) -> Option<String> {
    let time = text.parse::<jiff::Timestamp>().ok();
    let day = || {
        let date = text.parse::<jiff::civil::Date>().ok()?;
        Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let age = || config::values::age(text).ok().map(|age| before(&now(), age));
    time.or_else(day).map(|time| format!("{time:.6}")).or_else(age)
}

/// An id for a request. A counter makes it unique in this process, a random start between processes.
pub fn request_id() -> String {
    static START: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:016x}", START.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}
