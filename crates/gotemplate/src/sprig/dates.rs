//! Dates and durations.

use std::rc::Rc;

use super::{Table, convert::nearest_int};
use crate::{
    function::{Args, Failure, Function, Param},
    time::{self, Time},
    value::{IntType, Value},
};

pub(super) const FUNCTIONS: Table = {
    use Param::{Any, Str};
    &[
        // There is no clock: the current time is always the given time.
        (&["ago"], Function::new(&[Any], |_| Ok(duration_text(0)))),
        (
            &["duration"],
            Function::new(&[Any], |args| {
                let seconds = match args.any(0) {
                    Value::Str(text) => nearest_int(text),
                    Value::Int(IntType::Int64, seconds) => *seconds,
                    _ => 0,
                };
                Ok(duration_text(seconds.wrapping_mul(1_000_000_000)))
            }),
        ),
        (
            &["durationRound"],
            Function::new(&[Any], |args| {
                Ok(Value::str(rounded(match args.any(0) {
                    Value::Str(text) => time::parse_duration(text).unwrap_or_default(),
                    Value::Int(IntType::Int64, nanos) => *nanos,
                    _ => 0,
                })))
            }),
        ),
        (
            &["toDate"],
            Function::new(&[Str, Str], |args| {
                Ok(date(time::parse(args.text(0)?, args.text(1)?).unwrap_or(Time::ZERO)))
            }),
        ),
        (
            &["mustToDate"],
            Function::new(&[Str, Str], |args| {
                time::parse(args.text(0)?, args.text(1)?)
                    .map(date)
                    .map_err(Failure::Error)
            }),
        ),
        (
            &["mustDateModify", "must_date_modify"],
            Function::new(&[Str, Param::Time], |args| {
                let duration = time::parse_duration(args.text(0)?).map_err(Failure::Error)?;
                Ok(date(args.time(1)?.add(duration)))
            }),
        ),
        (
            &["unixEpoch"],
            Function::new(&[Param::Time], |args| Ok(Value::str(args.time(0)?.unix().to_string()))),
        ),
    ]
};

fn date(time: Time) -> Value {
    Value::Time(Rc::new(time))
}

fn duration_text(nanos: i64) -> Value {
    Value::str(time::named(IntType::Duration, nanos).unwrap_or_default())
}

/// The duration in the largest unit that it exceeds.
fn rounded(nanos: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    const UNITS: [(u64, &str); 6] = [
        (365 * 24 * 3600 * SECOND, "y"),
        (30 * 24 * 3600 * SECOND, "mo"),
        (24 * 3600 * SECOND, "d"),
        (3600 * SECOND, "h"),
        (60 * SECOND, "m"),
        (SECOND, "s"),
    ];
    let size = nanos.unsigned_abs();
    let unit = UNITS.iter().find(|(unit, _)| size > *unit);
    unit.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", size / unit))
}
