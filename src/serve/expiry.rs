//! When a certificate ends (RFC 5280, section 4.1): the one field that we need
//! of it and that rustls does not tell.

use std::time::SystemTime;

/// The tags on the way (X.690).
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The end of a certificate's validity; `None` when it cannot be read.
pub(super) fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    let (certificate, _) = expect(SEQUENCE, certificate)?;
    let (mut fields, _) = expect(SEQUENCE, certificate)?;
    if let Some((_, rest)) = expect(VERSION, fields) {
        fields = rest;
    }
    let (_, fields) = expect(INTEGER, fields)?;
    let (_signature, fields) = expect(SEQUENCE, fields)?;
    let (_issuer, fields) = expect(SEQUENCE, fields)?;
    let (validity, _) = expect(SEQUENCE, fields)?;
    let (_, _, end) = element(validity)?;
    let (tag, text, _) = element(end)?;
    time(tag, str::from_utf8(text).ok()?)
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &str) -> Option<SystemTime> {
    let digits = text.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let full = match (tag, digits.len()) {
        (UTC_TIME, 12) if digits < "50" => format!("20{digits}"),
        (UTC_TIME, 12) => format!("19{digits}"),
        (GENERALIZED_TIME, 14) => digits.to_owned(),
        _ => return None,
    };
    let [year, month, day, hour, minute, second] =
        [0..4, 4..6, 6..8, 8..10, 10..12, 12..14].map(|range| &full[range]);
    humantime::parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

/// The content of the element that has to come next, and what follows it.
fn expect(wanted: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(bytes)?;
    (tag == wanted).then_some((content, rest))
}

/// The next element: tag, content and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = length
                .iter()
                .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_found() {
        for year in [2031, 2061] {
            let mut parameters = rcgen::CertificateParams::new(vec!["a".into()]).unwrap();
            parameters.not_after = rcgen::date_time_ymd(year, 2, 28);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = parameters.self_signed(&key).unwrap();
            let end = not_after(certificate.der()).unwrap();
            let text = humantime::format_rfc3339_seconds(end).to_string();
            assert_eq!(text, format!("{year}-02-28T00:00:00Z"));
            // Cut anywhere it is none, or the same.
            for length in 0..certificate.der().len() {
                not_after(&certificate.der()[..length]);
            }
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        assert!(time(UTC_TIME, "260101000000Z").is_some());
        for text in ["", "Z", "2601010000Z", "26010100000éZ", "269901000000Z"] {
            assert_eq!(time(UTC_TIME, text), None, "{text}");
        }
    }
}
