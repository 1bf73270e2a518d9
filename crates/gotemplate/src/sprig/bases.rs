//! Go's decoders for base64 and base32.

/// Go's base64 decoder, which skips line breaks and ignores stray bits at the end. The error is the offset.
pub(super) fn base64(text: &[u8]) -> Result<Vec<u8>, usize> {
    let is_break = |byte: u8| matches!(byte, b'\r' | b'\n');
    let mut bytes = text
        .iter()
        .copied()
        .enumerate()
        .filter(|&(_, byte)| !is_break(byte))
        .peekable();
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    loop {
        let mut group: u32 = 0;
        let mut digits = 0;
        let mut padding = None;
        while digits < 4 {
            let Some((at, byte)) = bytes.next() else {
                // The start of the group, unless there is a line break in it.
                return if digits == 0 { Ok(out) } else { Err(text.len() - digits) };
            };
            if byte == b'=' {
                padding = Some(at);
                break;
            }
            group = group << 6 | base64_digit(byte).ok_or(at)?;
            digits += 1;
        }
        let Some(at) = padding else {
            out.extend_from_slice(&group.to_be_bytes()[1..]);
            continue;
        };
        match digits {
            0 | 1 => return Err(at),
            2 => match bytes.next() {
                None => return Err(text.len()),
                Some((_, b'=')) => {}
                Some((next, _)) => return Err(next - 1),
            },
            _ => {}
        }
        if let Some((at, _)) = bytes.next() {
            return Err(at);
        }
        let group = group << (6 * (4 - digits));
        out.extend_from_slice(&group.to_be_bytes()[1..digits]);
        return Ok(out);
    }
}

fn base64_digit(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// Go's base32 decoder, which removes line breaks first. The error is the offset without them.
pub(super) fn base32(text: &[u8]) -> Result<Vec<u8>, usize> {
    let text: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let mut at = 0;
    while at < text.len() {
        let mut group: u64 = 0;
        for digits in 0..8 {
            let Some(&byte) = text.get(at) else {
                return Err(at - digits);
            };
            at += 1;
            let left = text.len() - at;
            if byte == b'=' && digits >= 2 && left < 8 {
                if left + digits < 7 {
                    return Err(text.len());
                }
                if let Some(wrong) = text[at..].iter().take(7 - digits).position(|&byte| byte != b'=') {
                    return Err(at + wrong - 1);
                }
                if matches!(digits, 3 | 6) {
                    return Err(at - 1);
                }
                let group = group << (5 * (8 - digits));
                out.extend_from_slice(&group.to_be_bytes()[3..3 + digits * 5 / 8]);
                return Ok(out);
            }
            group = group << 5 | base32_digit(byte).ok_or(at - 1)?;
        }
        out.extend_from_slice(&group.to_be_bytes()[3..]);
    }
    Ok(out)
}

fn base32_digit(byte: u8) -> Option<u64> {
    Some(u64::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'2'..=b'7' => byte - b'2' + 26,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_lenient_as_in_go() {
        for (text, expected) in [
            ("YWJj", Ok(&b"abc"[..])),
            ("YQ==", Ok(b"a")),
            ("Y\nQ=\r=\n", Ok(b"a")),
            ("YR==", Ok(b"a")),
            ("YQ", Err(0)),
            ("YWJjZA", Err(4)),
            ("YQ=", Err(3)),
            ("YQ==x", Err(4)),
            ("YW=j", Err(2)),
            ("a$", Err(1)),
            ("=", Err(0)),
        ] {
            assert_eq!(
                base64(text.as_bytes()).as_deref(),
                expected.as_ref().map(|bytes| *bytes),
                "{text}"
            );
        }
    }

    #[test]
    fn base32_is_that_of_go() {
        for (text, expected) in [
            ("NBSWY3DP", Ok(&b"hello"[..])),
            ("ME======", Ok(b"a")),
            ("ME\n======", Ok(b"a")),
            ("ME=====", Err(7)),
            ("MFR=====", Err(3)),
            ("mfrgg===", Err(0)),
            ("MF", Err(0)),
        ] {
            assert_eq!(
                base32(text.as_bytes()).as_deref(),
                expected.as_ref().map(|bytes| *bytes),
                "{text}"
            );
        }
    }
}
