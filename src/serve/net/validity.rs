//! The validity of a certificate (RFC 5280, section 4.1): rustls does not expose
//! it.

use std::ops::RangeInclusive;
use std::time::SystemTime;

use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// From when until when a certificate is valid; `None` if it cannot be decoded.
pub fn validity(certificate: &[u8]) -> Option<RangeInclusive<SystemTime>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate().validity();
    Some(validity.not_before.to_system_time()..=validity.not_after.to_system_time())
}

#[cfg(test)]
mod tests {
    #[test]
    fn start_and_end_of_a_certificate_are_read() {
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
            for length in 0..certificate.der().len() {
                assert_eq!(super::validity(&certificate.der()[..length]), None);
            }
        }
    }
}
