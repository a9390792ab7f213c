//! The TLS profile of the cluster (`APIServer/cluster` of OpenShift) as rules for the
//! ports. They are a file, which the ports check like their certificates.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::sync::watch;

use crate::kubernetes::stored;
use crate::kubernetes::watched::Objects;

/// The rules of the profile Intermediate, which is the default: all suites.
const INTERMEDIATE: &str = "1.2\n";

/// The suites below TLS 1.3 that the ports have: the names of OpenSSL, which a
/// profile has, and those of the standard.
const SUITES: [(&str, &str); 6] = [
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
];

/// The file with the rules: the lowest version, then the suites below TLS 1.3, a
/// line each. Without suites, all are allowed.
pub fn tls_rules_file(data_dir: &Path) -> PathBuf {
    data_dir.join(stored::FOLDER).join("tls-rules")
}

/// Writes the default rules if there are none from an earlier start.
///
/// # Errors
/// When the file cannot be written.
pub fn prepare_tls_rules(data_dir: &Path) -> io::Result<()> {
    let file = tls_rules_file(data_dir);
    if file.exists() {
        return Ok(());
    }
    stored::write(&file, INTERMEDIATE.as_bytes())
}

/// Keeps the file up to date. A profile that leaves nothing changes nothing, and nor
/// does a missing object: the profile of an object that comes back would be unknown
/// until then, and the default may allow more than it.
pub(super) async fn keep(mut servers: watch::Receiver<Option<Objects>>, file: PathBuf) {
    let mut last = None;
    loop {
        let mut is_kept = true;
        let objects = servers.borrow_and_update().clone();
        if let Some(objects) = objects {
            let server = objects.values().next();
            let found = server.ok_or("there is no APIServer \"cluster\"");
            match found.and_then(|server| rules(&server.data["spec"]["tlsSecurityProfile"])) {
                Ok(rules) if last.as_ref() == Some(&rules) => {}
                Ok(rules) => {
                    tracing::info!(
                        rules = rules.replace('\n', " "),
                        "TLS by the profile of the cluster"
                    );
                    is_kept = stored::keep(&file, rules.clone().into_bytes()).await;
                    if is_kept {
                        last = Some(rules);
                    }
                }
                Err(problem) => tracing::warn!(
                    problem,
                    "the TLS profile of the cluster cannot be followed; the last rules stay"
                ),
            }
        }
        tokio::select! {
            changed = servers.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = stored::retry(is_kept) => {}
        }
    }
}

/// The rules of a profile.
fn rules(profile: &Value) -> Result<String, &'static str> {
    match profile["type"].as_str() {
        None | Some("" | "Intermediate" | "Old") => return Ok(INTERMEDIATE.to_owned()),
        Some("Modern") => return Ok("1.3\n".to_owned()),
        Some("Custom") => {}
        Some(_) => return Err("its type is unknown"),
    }
    let custom = &profile["custom"];
    if custom["minTLSVersion"] == "VersionTLS13" {
        return Ok("1.3\n".to_owned());
    }
    let ciphers = custom["ciphers"].as_array().into_iter().flatten();
    let ciphers: Vec<&str> = ciphers.filter_map(Value::as_str).collect();
    let is_listed = |(openssl, standard): &&(&str, &str)| {
        ciphers.contains(openssl) || ciphers.contains(standard)
    };
    let suites: Vec<&str> = SUITES
        .iter()
        .filter(is_listed)
        .map(|(_, name)| *name)
        .collect();
    if suites.is_empty() {
        // Its suites are not chosen.
        let has_13 = ciphers
            .iter()
            .any(|name| name.starts_with("TLS_AES_") || name.starts_with("TLS_CHACHA20_"));
        if has_13 {
            return Ok("1.3\n".to_owned());
        }
        return Err("it lists no suite that almanac has");
    }
    Ok(format!("1.2\n{}\n", suites.join("\n")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_profile_has_its_rules() {
        let custom = |version: &str, ciphers: &[&str]| json!({"type": "Custom", "custom": {"minTLSVersion": version, "ciphers": ciphers}});
        let one = "1.2\nTLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n";
        for (profile, wanted) in [
            (Value::Null, Some("1.2\n")),
            (json!({"type": "Old"}), Some("1.2\n")),
            (json!({"type": "Intermediate"}), Some("1.2\n")),
            (json!({"type": "Modern"}), Some("1.3\n")),
            (json!({"type": "Future"}), None),
            (custom("VersionTLS13", &[]), Some("1.3\n")),
            (
                custom(
                    "VersionTLS12",
                    &["AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256"],
                ),
                Some(one),
            ),
            (
                custom("VersionTLS10", &["TLS_AES_128_GCM_SHA256"]),
                Some("1.3\n"),
            ),
            // Nothing is left.
            (custom("VersionTLS12", &["AES128-SHA"]), None),
            (custom("VersionTLS12", &[]), None),
        ] {
            assert_eq!(rules(&profile).ok().as_deref(), wanted, "{profile}");
        }
    }
}
