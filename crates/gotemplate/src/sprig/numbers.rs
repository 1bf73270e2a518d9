//! Numbers.

use super::{
    Table,
    convert::{float_of, int_of, nearest_int},
};
use crate::{
    fmt,
    function::{Args, Failure, Function, MAX_ITEMS, Param},
    strconv::parse_int,
    value::{Elem, List, Value},
};

pub(super) const FUNCTIONS: Table = {
    use Param::{Any, Float64, Int, Str};
    &[
        (
            &["atoi"],
            Function::new(&[Str], |args| Ok(Value::int(nearest_int(args.text(0)?)))),
        ),
        (
            &["int64"],
            Function::new(&[Any], |args| Ok(Value::int64(int_of(args.any(0))))),
        ),
        (
            &["int"],
            Function::new(&[Any], |args| Ok(Value::int(int_of(args.any(0))))),
        ),
        (
            &["float64"],
            Function::new(&[Any], |args| Ok(Value::Float(float_of(args.any(0))))),
        ),
        (
            &["toDecimal"],
            Function::new(&[Any], |args| {
                let octal = fmt::display(args.any(0))?;
                let number = str::from_utf8(&octal).ok().and_then(|octal| parse_int(octal, 8).ok());
                Ok(Value::int64(number.unwrap_or_default()))
            }),
        ),
        (&["seq"], Function::variadic(&[], Int, seq)),
        (
            &["until"],
            Function::new(&[Int], |args| {
                let count = args.int(0)?;
                ints(steps(0, count, if count < 0 { -1 } else { 1 })?)
            }),
        ),
        (
            &["untilStep"],
            Function::new(&[Int, Int, Int], |args| {
                ints(steps(args.int(0)?, args.int(1)?, args.int(2)?)?)
            }),
        ),
        (
            &["add1"],
            Function::new(&[Any], |args| Ok(Value::int64(int_of(args.any(0)).wrapping_add(1)))),
        ),
        (
            &["add"],
            Function::variadic(&[], Any, |args| {
                Ok(Value::int64(args.iter().map(int_of).fold(0, i64::wrapping_add)))
            }),
        ),
        (
            &["sub"],
            Function::new(&[Any, Any], |args| {
                Ok(Value::int64(int_of(args.any(0)).wrapping_sub(int_of(args.any(1)))))
            }),
        ),
        (
            &["mul"],
            Function::variadic(&[Any], Any, |args| {
                Ok(Value::int64(args.iter().map(int_of).fold(1, i64::wrapping_mul)))
            }),
        ),
        (
            &["div"],
            Function::new(&[Any, Any], |args| divided(args, i64::wrapping_div)),
        ),
        (
            &["mod"],
            Function::new(&[Any, Any], |args| divided(args, i64::wrapping_rem)),
        ),
        (
            &["max", "biggest"],
            Function::variadic(&[Any], Any, |args| {
                Ok(Value::int64(args.iter().map(int_of).max().unwrap_or_default()))
            }),
        ),
        (
            &["min"],
            Function::variadic(&[Any], Any, |args| {
                Ok(Value::int64(args.iter().map(int_of).min().unwrap_or_default()))
            }),
        ),
        (
            &["maxf"],
            Function::variadic(&[Any], Any, |args| Ok(extreme(args, larger))),
        ),
        (
            &["minf"],
            Function::variadic(&[Any], Any, |args| Ok(extreme(args, |a, b| -larger(-a, -b)))),
        ),
        (
            &["floor"],
            Function::new(&[Any], |args| Ok(Value::Float(float_of(args.any(0)).floor()))),
        ),
        (
            &["ceil"],
            Function::new(&[Any], |args| Ok(Value::Float(float_of(args.any(0)).ceil()))),
        ),
        (&["round"], Function::variadic(&[Any, Int], Float64, round)),
        // Deterministic: always the lower bound.
        (
            &["randInt"],
            Function::new(&[Int, Int], |args| {
                let (min, max) = (args.int(0)?, args.int(1)?);
                if max.wrapping_sub(min) <= 0 {
                    return Err(Failure::Panic("invalid argument to Intn".to_owned()));
                }
                Ok(Value::int(min))
            }),
        ),
    ]
};

fn divided(args: &[Value], operation: fn(i64, i64) -> i64) -> Result<Value, Failure> {
    let (a, b) = (int_of(args.any(0)), int_of(args.any(1)));
    if b == 0 {
        return Err(Failure::Panic("runtime error: integer divide by zero".to_owned()));
    }
    Ok(Value::int64(operation(a, b)))
}

fn extreme(args: &[Value], choose: impl Fn(f64, f64) -> f64) -> Value {
    Value::Float(args.iter().map(float_of).reduce(choose).unwrap_or_default())
}

/// `math.Max`: infinity before NaN before any other number, 0 before -0.
fn larger(a: f64, b: f64) -> f64 {
    if a == f64::INFINITY || b == f64::INFINITY {
        f64::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() { b } else { a }
    } else if a > b {
        a
    } else {
        b
    }
}

/// The numbers from `start` up or down to `stop`, exclusive.
fn steps(start: i64, stop: i64, step: i64) -> Result<Vec<i64>, Failure> {
    let distance = i128::from(stop) - i128::from(start);
    if step == 0 || distance == 0 || (distance < 0) != (step < 0) {
        return Ok(Vec::new());
    }
    let step = i128::from(step);
    let count = (distance.abs() + step.abs() - 1) / step.abs();
    if count > MAX_ITEMS as i128 {
        return Err(Failure::size());
    }
    Ok((0..count)
        .filter_map(|index| i64::try_from(i128::from(start) + index * step).ok())
        .collect())
}

fn ints(numbers: Vec<i64>) -> Result<Value, Failure> {
    Ok(Value::List(List::appended(
        Elem::Int,
        numbers.into_iter().map(Value::int).collect(),
    )))
}

/// The numbers that the shell command `seq` prints, separated by blanks.
fn seq(args: &[Value]) -> Result<Value, Failure> {
    let towards = |start: i64, end: i64| if end < start { -1 } else { 1 };
    let numbers = match args.len() {
        1 => {
            let end = args.int(0)?;
            let step = towards(1, end);
            steps(1, end.wrapping_add(step), step)?
        }
        2 => {
            let (start, end) = (args.int(0)?, args.int(1)?);
            let step = towards(start, end);
            steps(start, end.wrapping_add(step), step)?
        }
        3 => {
            let (start, step, end) = (args.int(0)?, args.int(1)?, args.int(2)?);
            let direction = towards(start, end);
            if direction < 0 && step > 0 {
                Vec::new()
            } else {
                steps(start, end.wrapping_add(direction), step)?
            }
        }
        _ => Vec::new(),
    };
    Ok(Value::str(
        numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" "),
    ))
}

/// Rounds to a number of decimal places. Rounds up if the part that is cut off is at least `on` (default: a half).
fn round(args: &[Value]) -> Result<Value, Failure> {
    let on = match args.get(2) {
        Some(Value::Float(on)) => *on,
        _ => 0.5,
    };
    let power = power_of_ten(args.int(1)?);
    let shifted = power * float_of(args.any(0));
    let part = if shifted.is_infinite() {
        f64::NAN
    } else {
        shifted.fract()
    };
    let rounded = if part >= on { shifted.ceil() } else { shifted.floor() };
    Ok(Value::Float(rounded / power))
}

/// `math.Pow(10, places)`. Like in Go, the last bit is not always correctly rounded.
fn power_of_ten(places: i64) -> f64 {
    // 10 = 0.625 * 2^4
    let (mut factor, mut factor_exponent) = (0.625_f64, 4_i64);
    let (mut product, mut exponent) = (1.0_f64, 0_i64);
    let mut left = places.unsigned_abs();
    while left != 0 {
        if factor_exponent.abs() > 1 << 12 {
            // Go stops at exponents that large.
            return if places < 0 { 0.0 } else { f64::INFINITY };
        }
        if left & 1 == 1 {
            product *= factor;
            exponent += factor_exponent;
        }
        factor *= factor;
        factor_exponent <<= 1;
        if factor < 0.5 {
            factor += factor;
            factor_exponent -= 1;
        }
        left >>= 1;
    }
    if places < 0 {
        product = 1.0 / product;
        exponent = -exponent;
    }
    // In two steps, because 2^exponent may be out of range.
    let half = i32::try_from(exponent / 2).unwrap_or_default();
    let rest = i32::try_from(exponent - exponent / 2).unwrap_or_default();
    product * 2_f64.powi(half) * 2_f64.powi(rest)
}
