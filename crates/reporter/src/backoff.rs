//! How long to wait before the next try.

use std::time::Duration;

/// Doubling pauses with jitter, so that a fleet that lost its API does not come back all at once.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff {
            first,
            longest,
            next: first,
        }
    }

    /// The pause after a failure: at least half of its nominal length, and never less than what the server asked for.
    pub(crate) fn pause(&mut self, asked: Option<Duration>) -> Duration {
        let nominal = self.next;
        self.next = (nominal * 2).min(self.longest);
        let own = nominal / 2 + (nominal / 2).mul_f64(random());
        match asked {
            None => own,
            // More than asked for by up to half, since everyone was asked for the same.
            Some(asked) => own.max(asked.min(LONGEST_ASKED).mul_f64(1.0 + random() / 2.0)),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A server that asks for more is not trusted to mean it.
const LONGEST_ASKED: Duration = Duration::from_secs(600);

/// A time that differs from this one by up to a tenth.
pub(crate) fn about(time: Duration) -> Duration {
    time.mul_f64(0.9 + 0.2 * random())
}

/// From 0 up to 1.
fn random() -> f64 {
    // Without random numbers there is no jitter; that is no reason to stop.
    let number = getrandom::u32().unwrap_or(u32::MAX / 2);
    f64::from(number) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again() {
        let mut backoff = Backoff::new(SECOND, 60 * SECOND);
        for nominal in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = backoff.pause(None);
            assert!(
                pause >= nominal * SECOND / 2 && pause <= nominal * SECOND,
                "{pause:?} of {nominal} s"
            );
        }
        backoff.reset();
        assert!(backoff.pause(None) <= SECOND);
    }

    #[test]
    fn the_server_may_ask_for_more() {
        for _ in 0..100 {
            let mut backoff = Backoff::new(SECOND, 60 * SECOND);
            let pause = backoff.pause(Some(10 * SECOND));
            assert!(pause >= 10 * SECOND && pause <= 15 * SECOND, "{pause:?}");
            assert!(backoff.pause(Some(Duration::ZERO)) >= SECOND, "not less than our own");
            assert!(backoff.pause(Some(86_400 * SECOND)) <= 900 * SECOND);
        }
    }

    #[test]
    fn about_a_time_is_within_a_tenth() {
        let times: Vec<Duration> = (0..100).map(|_| about(100 * SECOND)).collect();
        assert!(
            times.iter().all(|time| *time >= 90 * SECOND && *time <= 110 * SECOND),
            "{times:?}"
        );
        assert!(times.iter().any(|time| *time != times[0]));
    }
}
