//! The text of tokens: `frs_<role>_<43 characters><6 characters>`, 256 random bits and a checksum. The prefix lets scanners find
//! leaked tokens; the checksum tells a mistyped token from a revoked one, and a found text from a token, without asking the server.

use sha2::{Digest as _, Sha256};

use super::Role;

const PREFIX: &[u8] = b"frs_";
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 62^43 is more than 2^256.
const RANDOM: usize = 43;
/// 62^6 is more than 2^32.
const CHECKSUM: usize = 6;
/// `frs_`, the letter, `_`.
const HEAD: usize = 6;

/// The text of a token, made of random bytes.
pub fn token_text(role: Role, random: [u8; 32]) -> String {
    let mut text = format!("frs_{}_", role.letter());
    text.push_str(&base62(&random, RANDOM));
    let checksum = checksum(text.as_bytes());
    text.push_str(&checksum);
    text
}

/// The checksum of the text before it.
fn checksum(text: &[u8]) -> String {
    let digest = Sha256::digest(text);
    base62(&digest[..4], CHECKSUM)
}

/// Whether a text looks like one of our tokens, and its checksum does not match.
pub fn is_mistyped(text: &[u8]) -> bool {
    if !text.starts_with(PREFIX) {
        return false;
    }
    let whole = HEAD + RANDOM + CHECKSUM;
    match text.split_at_checked(HEAD + RANDOM) {
        Some((body, own)) if text.len() == whole => checksum(body).as_bytes() != own,
        _ => true,
    }
}

/// A number, big-endian, in base 62, with `width` digits.
fn base62(number: &[u8], width: usize) -> String {
    let mut number = number.to_vec();
    let mut digits = vec![DIGITS[0]; width];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0u32;
        for byte in &mut number {
            let value = rest * 256 + u32::from(*byte);
            *byte = u8::try_from(value / 62).expect("less than 62 * 256 / 62");
            rest = value % 62;
        }
        *digit = DIGITS[rest as usize];
    }
    digits.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_base_62() {
        assert_eq!(base62(&[0], 3), "000");
        assert_eq!(base62(&[61], 2), "0z");
        assert_eq!(base62(&[1, 0], 3), "048");
        // 2^256 - 1, computed with another program.
        assert_eq!(
            base62(&[255; 32], RANDOM),
            "yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1"
        );
    }

    #[test]
    fn a_changed_character_is_noticed() {
        let token = token_text(Role::Cluster, [7; 32]);
        assert!(token.starts_with("frs_c_") && token.len() == 55, "{token}");
        assert!(!is_mistyped(token.as_bytes()));
        assert!(is_mistyped(&token.as_bytes()[..54]));
        let mut changed = token.into_bytes();
        changed[20] = if changed[20] == b'a' { b'b' } else { b'a' };
        assert!(is_mistyped(&changed));
        assert!(!is_mistyped(b"demo-read-token"));
    }
}
