//! A limit on failed authentications, per address and per token that has expired. A caller with a valid token is never limited: the token is checked
//! first, which costs one hash.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fleet::identity::TokenId;

/// How many failures in a row get 401; further ones get 429. And how many more are allowed per second.
const ALLOWED: f64 = 500.0;
const PER_SECOND: f64 = 10.0;
/// The most addresses and tokens that are remembered. Beyond, those whose allowance is back are forgotten, and then all.
const MOST: usize = 20_000;

/// The failures of late.
#[derive(Debug, Default)]
pub struct Failures {
    addresses: Buckets<IpAddr>,
    expired: Buckets<TokenId>,
    codes: Buckets<IpAddr>,
}

impl Failures {
    /// Counts a failure. If there were too many, the time to wait.
    pub fn count(&self, address: Option<IpAddr>, expired: Option<TokenId>) -> Option<Duration> {
        let now = Instant::now();
        let address = address.and_then(|address| self.addresses.take(network(address), now));
        let expired = expired.and_then(|token| self.expired.take(token, now));
        address.max(expired)
    }

    /// Counts a code of a sign-in that an issuer refused. Codes have an allowance of their own: many people share an address, and wrong tokens of some of them
    /// must not keep the others from signing in.
    pub fn count_code(&self, address: Option<IpAddr>) {
        if let Some(address) = address {
            self.codes.take(network(address), Instant::now());
        }
    }

    /// The time that an address must wait before its next code, if it had too many that were refused. Counts nothing.
    pub fn wait_with_code(&self, address: Option<IpAddr>) -> Option<Duration> {
        self.codes.wait(&network(address?), Instant::now())
    }
}

/// Clients with IPv6 have a whole /64 each.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            [a, b, c, d, 0, 0, 0, 0].into()
        }
    }
}

/// An allowance per key.
#[derive(Debug)]
struct Buckets<K>(Mutex<HashMap<K, (f64, Instant)>>);

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Buckets(Mutex::default())
    }
}

impl<K: Eq + Hash> Buckets<K> {
    /// Takes one from the allowance. If there is none, the time until there is.
    fn take(&self, key: K, now: Instant) -> Option<Duration> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST && !buckets.contains_key(&key) {
            buckets.retain(|_, (left, since)| refilled(*left, now - *since) < ALLOWED);
            if buckets.len() >= MOST {
                buckets.clear();
            }
        }
        let (left, since) = buckets.entry(key).or_insert((ALLOWED, now));
        *left = refilled(*left, now - *since);
        *since = now;
        if *left >= 1.0 {
            *left -= 1.0;
            return None;
        }
        Some(time_to_one(*left))
    }

    fn wait(&self, key: &K, now: Instant) -> Option<Duration> {
        let buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = buckets.get(key)?;
        let left = refilled(*left, now - *since);
        (left < 1.0).then(|| time_to_one(left))
    }
}

fn time_to_one(left: f64) -> Duration {
    Duration::from_secs_f64((1.0 - left) / PER_SECOND)
}

fn refilled(left: f64, time: Duration) -> f64 {
    (left + time.as_secs_f64() * PER_SECOND).min(ALLOWED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_used_up_and_comes_back() {
        let (buckets, start) = (Buckets::default(), Instant::now());
        let refused = (0..600).filter(|_| buckets.take("a", start).is_some()).count();
        assert_eq!(refused, 100);
        assert_eq!(buckets.take("b", start), None, "others have their own");
        assert_eq!((buckets.wait(&"b", start), buckets.wait(&"c", start)), (None, None));
        assert!(buckets.wait(&"a", start).is_some());
        let wait = buckets.take("a", start).unwrap();
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
        let later = start + Duration::from_secs(2);
        assert_eq!((buckets.wait(&"a", later), buckets.take("a", later)), (None, None));
    }

    #[test]
    fn wrong_tokens_of_an_address_do_not_keep_its_codes_out() {
        let (failures, address) = (Failures::default(), "10.0.0.1".parse().ok());
        let refused = (0..600).filter(|_| failures.count(address, None).is_some()).count();
        assert!(refused > 0);
        assert_eq!(failures.wait_with_code(address), None);
        for _ in 0..600 {
            failures.count_code(address);
        }
        assert!(failures.wait_with_code(address).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (buckets, start) = (Buckets::default(), Instant::now());
        for n in 0..3 * MOST {
            buckets.take(n, start);
        }
        assert!(buckets.0.lock().unwrap().len() <= MOST);
    }

    #[test]
    fn addresses_of_one_network_share_an_allowance() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
