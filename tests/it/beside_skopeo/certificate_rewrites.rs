//! Rewritings of `certs.d`.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::case::Case;
use super::certificate_cases::FOLDER;
use super::network::{Connection, TOKEN_HOST};
use super::pki::client;

/// The files in the folder of a host, by their ends.
fn files<'c>(case: &'c Case, end: &str) -> Vec<&'c (String, Vec<u8>)> {
    let files = case.files.iter();
    let files = files.filter(|(path, _)| path.starts_with(FOLDER) && path.ends_with(end));
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

/// almanac shows the first certificate of a folder.
pub(super) fn first_pair(case: &Case) -> Option<Case> {
    let found = files(case, ".cert");
    let others: Vec<&str> = found
        .iter()
        .skip(1)
        .map(|(path, _)| path.strip_suffix(".cert").unwrap())
        .collect();
    if others.is_empty() {
        return None;
    }
    let mut rewritten = case.clone();
    rewritten.files.retain(|(path, _)| {
        let stem = path.trim_end_matches(".cert").trim_end_matches(".key");
        !others.contains(&stem)
    });
    Some(rewritten)
}

/// almanac contacts no registry for which no authority can be used. skopeo
/// contacts none with a broken certificate of its own.
pub(super) fn refuse_unusable(case: &Case) -> Option<Case> {
    let authorities = files(case, ".crt");
    let is_usable = |(_, pem): &&(String, Vec<u8>)| {
        CertificateDer::pem_slice_iter(pem).any(|found| found.is_ok())
    };
    if authorities.is_empty() || authorities.iter().any(is_usable) {
        return None;
    }
    let (folder, _) = authorities[0].0.rsplit_once('/').unwrap();
    let mut rewritten = case.clone();
    rewritten.file(&format!("{folder}/a.cert"), "no certificate");
    rewritten.file(&format!("{folder}/a.key"), client().key);
    Some(rewritten)
}

/// almanac shows the certificate of a registry to no other host.
pub(super) fn hide_from_token_service(case: &Case) -> Option<Case> {
    let mut rewritten = case.clone();
    let host = rewritten.world.get_mut(TOKEN_HOST)?;
    if !host.wants_certificate {
        return None;
    }
    host.wants_certificate = false;
    host.connection = Connection::Refused;
    Some(rewritten)
}
