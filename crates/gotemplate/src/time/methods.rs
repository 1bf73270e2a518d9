//! The exported methods that a template can call on times, durations, months, weekdays and locations.

use std::rc::Rc;

use super::{
    Duration, Location, Time,
    duration::{self, HOUR, MINUTE, SECOND},
    named,
};
use crate::{
    function::{Failure, Function, Param},
    value::{Elem, IntType, List, Value},
};

/// A method of a `time` type. `None` for other values and unknown names.
pub(crate) fn method(receiver: &Value, name: &str) -> Option<Function> {
    match receiver {
        Value::Time(_) => of_time(name),
        Value::Int(IntType::Duration, _) => of_duration(name),
        Value::Int(IntType::Month | IntType::Weekday, _) => (name == "String").then_some(Function::new(&[], |args| {
            number(args).map(|(kind, n)| name_of(kind, n))
        })),
        Value::Location(_) => (name == "String").then_some(Function::new(&[], |args| match args {
            [Value::Location(location), ..] => Ok(Value::str(location.to_string())),
            _ => Err(mismatch()),
        })),
        _ => None,
    }
}

fn of_time(name: &str) -> Option<Function> {
    arithmetic(name)
        .or_else(|| part(name))
        .or_else(|| zone(name))
        .or_else(|| encoding(name))
        .or_else(|| uncallable(name))
}

/// Methods that compute with times or compare them.
fn arithmetic(name: &str) -> Option<Function> {
    let with_time = |body| Function::new(&[Param::Time], body);
    let with_duration = |body| Function::new(&[Param::Duration], body);
    Some(match name {
        "Add" => with_duration(|args| timed(args, |t, args| Ok(time(t.add(duration_of(args)?))))),
        "AddDate" => Function::new(&[Param::Int, Param::Int, Param::Int], |args| {
            timed(args, |t, args| match args {
                [Value::Int(_, years), Value::Int(_, months), Value::Int(_, days)] => {
                    Ok(time(t.add_date(*years, *months, *days)))
                }
                _ => Err(mismatch()),
            })
        }),
        "After" => with_time(|args| compared(args, |order| Value::Bool(order > 0))),
        "Before" => with_time(|args| compared(args, |order| Value::Bool(order < 0))),
        "Compare" => with_time(|args| compared(args, Value::int)),
        "Equal" => with_time(|args| compared(args, |order| Value::Bool(order == 0))),
        "Sub" => with_time(|args| {
            timed(args, |t, args| match args {
                [Value::Time(other)] => Ok(Value::Int(IntType::Duration, t.sub(other))),
                _ => Err(mismatch()),
            })
        }),
        "Round" => with_duration(|args| timed(args, |t, args| Ok(time(t.round(duration_of(args)?))))),
        "Truncate" => with_duration(|args| timed(args, |t, args| Ok(time(t.truncate(duration_of(args)?))))),
        _ => return None,
    })
}

/// Methods that return a part of a time.
fn part(name: &str) -> Option<Function> {
    let plain = |body| Function::new(&[], body);
    Some(match name {
        "Year" => plain(|args| timed(args, |t, _| Ok(Value::int(t.civil().year)))),
        "Month" => plain(|args| timed(args, |t, _| Ok(Value::Int(IntType::Month, t.civil().month)))),
        "Day" => plain(|args| timed(args, |t, _| Ok(Value::int(t.civil().day)))),
        "YearDay" => plain(|args| timed(args, |t, _| Ok(Value::int(t.civil().year_day)))),
        "Weekday" => plain(|args| timed(args, |t, _| Ok(Value::Int(IntType::Weekday, t.civil().weekday)))),
        "Hour" => plain(|args| timed(args, |t, _| Ok(Value::int(t.civil().hour)))),
        "Minute" => plain(|args| timed(args, |t, _| Ok(Value::int(t.civil().minute)))),
        "Second" => plain(|args| timed(args, |t, _| Ok(Value::int(t.civil().second)))),
        "Nanosecond" => plain(|args| timed(args, |t, _| Ok(Value::int(i64::from(t.nanos))))),
        "Unix" => plain(|args| timed(args, |t, _| Ok(Value::int64(t.unix())))),
        "UnixMilli" => plain(|args| timed(args, |t, _| Ok(Value::int64(since_epoch(t, 1_000))))),
        "UnixMicro" => plain(|args| timed(args, |t, _| Ok(Value::int64(since_epoch(t, 1_000_000))))),
        "UnixNano" => plain(|args| timed(args, |t, _| Ok(Value::int64(since_epoch(t, 1_000_000_000))))),
        "IsZero" => plain(|args| timed(args, |t, _| Ok(Value::Bool(t.seconds == 0 && t.nanos == 0)))),
        _ => return None,
    })
}

/// Methods about the zone of a time.
fn zone(name: &str) -> Option<Function> {
    let plain = |body| Function::new(&[], body);
    Some(match name {
        // No zone that this crate knows has daylight saving time.
        "IsDST" => plain(|args| timed(args, |_, _| Ok(Value::Bool(false)))),
        "UTC" => plain(|args| timed(args, |t, _| Ok(time(t.with_location(Location::Utc))))),
        "Local" => plain(|args| timed(args, |t, _| Ok(time(t.with_location(Location::Local))))),
        "In" => Function::new(&[Param::Location], |args| {
            timed(args, |t, args| match args {
                [Value::Location(location)] => Ok(time(t.with_location(location.clone()))),
                _ => Err(Failure::Panic("time: missing Location in call to Time.In".to_owned())),
            })
        }),
        "Location" => plain(|args| timed(args, |t, _| Ok(Value::Location(t.location.clone())))),
        _ => return None,
    })
}

/// Methods that write a time as text or bytes.
fn encoding(name: &str) -> Option<Function> {
    let plain = |body| Function::new(&[], body);
    Some(match name {
        "Format" => Function::new(&[Param::Str], |args| {
            timed(args, |t, args| match args {
                [Value::Str(layout)] => bounded(t.format(layout)).map(Value::str),
                _ => Err(mismatch()),
            })
        }),
        "AppendFormat" => Function::new(&[Param::Bytes, Param::Str], |args| {
            timed(args, |t, args| match args {
                [Value::List(list), Value::Str(layout)] => appended(list, bounded(t.format(layout))?),
                _ => Err(mismatch()),
            })
        }),
        "AppendText" => Function::new(&[Param::Bytes], |args| {
            timed(args, |t, args| appended(list_of(args)?, text(t, "Time.AppendText: ")?))
        }),
        "AppendBinary" => Function::new(&[Param::Bytes], |args| {
            timed(args, |t, args| appended(list_of(args)?, binary(t)?))
        }),
        "MarshalText" => plain(|args| timed(args, |t, _| text(t, "Time.MarshalText: ").map(bytes))),
        "MarshalJSON" => plain(|args| {
            timed(args, |t, _| {
                text(t, "Time.MarshalJSON: ").map(|text| bytes([b"\"", text.as_slice(), b"\""].concat()))
            })
        }),
        "MarshalBinary" | "GobEncode" => plain(|args| timed(args, |t, _| binary(t).map(bytes))),
        "GoString" => plain(|args| timed(args, |t, _| Ok(Value::str(t.go_string())))),
        "String" => plain(|args| {
            timed(args, |t, _| {
                Ok(Value::str(t.format(b"2006-01-02 15:04:05.999999999 -0700 MST")))
            })
        }),
        _ => return None,
    })
}

/// Methods with more than one result, which a template cannot call.
fn uncallable(name: &str) -> Option<Function> {
    let problem = match name {
        "Clock" => "function Clock has 3 return values; should be 1 or 2",
        "Date" => "function Date has 3 return values; should be 1 or 2",
        "ISOWeek" => "invalid function signature for ISOWeek: second return value should be error; is int",
        "Zone" => "invalid function signature for Zone: second return value should be error; is int",
        "ZoneBounds" => "invalid function signature for ZoneBounds: second return value should be error; is time.Time",
        _ => return None,
    };
    Some(Function {
        uncallable: Some(problem),
        ..Function::new(&[], |_| Err(mismatch()))
    })
}

fn of_duration(name: &str) -> Option<Function> {
    let plain = |body| Function::new(&[], body);
    let with_duration = |body| Function::new(&[Param::Duration], body);
    Some(match name {
        "Abs" => plain(|args| number(args).map(|(_, d)| span(d.checked_abs().unwrap_or(i64::MAX)))),
        "Hours" => plain(|args| number(args).map(|(_, d)| parts(d, HOUR))),
        "Minutes" => plain(|args| number(args).map(|(_, d)| parts(d, MINUTE))),
        "Seconds" => plain(|args| number(args).map(|(_, d)| parts(d, SECOND))),
        "Milliseconds" => plain(|args| number(args).map(|(_, d)| Value::int64(d / 1_000_000))),
        "Microseconds" => plain(|args| number(args).map(|(_, d)| Value::int64(d / 1_000))),
        "Nanoseconds" => plain(|args| number(args).map(|(_, d)| Value::int64(d))),
        "Round" => with_duration(|args| {
            let (_, duration) = number(args)?;
            Ok(span(duration::round(duration, duration_of(&args[1..])?)))
        }),
        "Truncate" => with_duration(|args| {
            let (_, duration) = number(args)?;
            let to = duration_of(&args[1..])?;
            Ok(span(if to > 0 { duration - duration % to } else { duration }))
        }),
        "String" => plain(|args| number(args).map(|(kind, d)| name_of(kind, d))),
        _ => return None,
    })
}

/// Calls the body with the receiver and the other arguments.
fn timed(args: &[Value], body: impl Fn(&Time, &[Value]) -> Result<Value, Failure>) -> Result<Value, Failure> {
    match args {
        [Value::Time(time), args @ ..] => body(time, args),
        _ => Err(mismatch()),
    }
}

fn compared(args: &[Value], result: impl Fn(i64) -> Value) -> Result<Value, Failure> {
    timed(args, |time, args| match args {
        [Value::Time(other)] => Ok(result(time.since_start().cmp(&other.since_start()) as i64)),
        _ => Err(mismatch()),
    })
}

fn number(args: &[Value]) -> Result<(IntType, i64), Failure> {
    match args {
        [Value::Int(kind, number), ..] => Ok((*kind, *number)),
        _ => Err(mismatch()),
    }
}

fn duration_of(args: &[Value]) -> Result<Duration, Failure> {
    number(args).map(|(_, duration)| duration)
}

fn list_of(args: &[Value]) -> Result<&List, Failure> {
    match args {
        [Value::List(list)] => Ok(list),
        _ => Err(mismatch()),
    }
}

/// Not reached: arguments are checked before the call.
fn mismatch() -> Failure {
    Failure::Panic("reflect: call with a wrong argument".to_owned())
}

fn time(time: Time) -> Value {
    Value::Time(Rc::new(time))
}

fn span(duration: Duration) -> Value {
    Value::Int(IntType::Duration, duration)
}

fn name_of(kind: IntType, number: i64) -> Value {
    Value::str(named(kind, number).unwrap_or_default())
}

/// A duration in units. Whole units and the rest are converted separately, as in Go, which decides the rounding.
fn parts(duration: Duration, unit: Duration) -> Value {
    Value::Float((duration / unit) as f64 + (duration % unit) as f64 / unit as f64)
}

/// Units since 1970. Wraps around like Go.
fn since_epoch(time: &Time, units: i64) -> i64 {
    let rest = i64::from(time.nanos) / (1_000_000_000 / units);
    time.unix().wrapping_mul(units).wrapping_add(rest)
}

fn bytes(bytes: Vec<u8>) -> Value {
    let items = bytes
        .into_iter()
        .map(|byte| Value::Int(IntType::Uint8, i64::from(byte)))
        .collect();
    Value::List(List::new(Elem::Byte, items))
}

fn appended(list: &List, more: Vec<u8>) -> Result<Value, Failure> {
    let mut all = list.to_bytes();
    all.extend(more);
    bounded(all).map(bytes)
}

fn bounded(bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if bytes.len() > crate::function::MAX_ITEMS {
        Err(Failure::size())
    } else {
        Ok(bytes)
    }
}

fn text(time: &Time, method: &str) -> Result<Vec<u8>, Failure> {
    time.rfc3339()
        .map_err(|problem| Failure::Error(format!("{method}{problem}")))
}

/// `MarshalBinary`: version, seconds, nanoseconds, and the offset in minutes (-1 for UTC).
fn binary(time: &Time) -> Result<Vec<u8>, Failure> {
    let offset = time.location.offset();
    let minutes = if time.is_utc() { -1 } else { offset / 60 };
    let with_seconds = !time.is_utc() && offset % 60 != 0;
    let minutes = i16::try_from(minutes)
        .ok()
        .filter(|&minutes| time.is_utc() || minutes != -1)
        .ok_or_else(|| Failure::Error("Time.MarshalBinary: unexpected zone offset".to_owned()))?;
    let mut out = vec![if with_seconds { 2 } else { 1 }];
    out.extend(time.seconds.to_be_bytes());
    out.extend(time.nanos.to_be_bytes());
    out.extend(minutes.to_be_bytes());
    if with_seconds {
        out.push((offset % 60) as u8);
    }
    Ok(out)
}
