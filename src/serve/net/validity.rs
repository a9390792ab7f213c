//! When a certificate is valid (RFC 5280, section 4.1): the one field that we
//! need of it and that rustls does not tell.

use std::ops::RangeInclusive;
use std::time::SystemTime;

/// The tags on the way (X.690).
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// From when until when a certificate is valid; `None` when that cannot be
/// read.
pub fn validity(certificate: &[u8]) -> Option<RangeInclusive<SystemTime>> {
    let (certificate, _) = expect(SEQUENCE, certificate)?;
    let (mut fields, _) = expect(SEQUENCE, certificate)?;
    if let Some((_, rest)) = expect(VERSION, fields) {
        fields = rest;
    }
    let (_, fields) = expect(INTEGER, fields)?;
    let (_signature, fields) = expect(SEQUENCE, fields)?;
    let (_issuer, fields) = expect(SEQUENCE, fields)?;
    let (validity, _) = expect(SEQUENCE, fields)?;
    let (start, start_text, end) = element(validity)?;
    let (end, end_text, _) = element(end)?;
    Some(time(start, start_text)?..=time(end, end_text)?)
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &[u8]) -> Option<SystemTime> {
    let digits = str::from_utf8(text).ok()?.strip_suffix('Z')?;
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
    fn start_and_end_of_a_certificate_are_found() {
        for year in [2031, 2061] {
            let mut parameters = rcgen::CertificateParams::new(vec!["a".into()]).unwrap();
            parameters.not_before = rcgen::date_time_ymd(2021, 3, 4);
            parameters.not_after = rcgen::date_time_ymd(year, 2, 28);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = parameters.self_signed(&key).unwrap();
            let validity = super::validity(certificate.der()).unwrap();
            let text = |time| humantime::format_rfc3339_seconds(time).to_string();
            assert_eq!(text(*validity.start()), "2021-03-04T00:00:00Z");
            assert_eq!(text(*validity.end()), format!("{year}-02-28T00:00:00Z"));
            // Cut anywhere it is none, or the same.
            for length in 0..certificate.der().len() {
                super::validity(&certificate.der()[..length]);
            }
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        assert!(time(UTC_TIME, b"260101000000Z").is_some());
        for text in ["", "Z", "2601010000Z", "26010100000éZ", "269901000000Z"] {
            assert_eq!(time(UTC_TIME, text.as_bytes()), None, "{text}");
        }
    }
}
