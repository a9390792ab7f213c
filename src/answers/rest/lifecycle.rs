//! The support phases of a package's versions, from its blob of the schema
//! `io.openshift.operators.lifecycles.v1alpha1`
//! (openshift/enhancements, `olm/lifecycle-and-compatibility.md`).

use serde::{Deserialize, Serialize};

/// The schema of the blob.
pub const SCHEMA: &str = "io.openshift.operators.lifecycles.v1alpha1";

/// The phases of all versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Lifecycle {
    /// By MAJOR.MINOR.
    pub versions: Vec<VersionLifecycle>,
}

/// The phases of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VersionLifecycle {
    /// MAJOR.MINOR.
    pub name: String,
    /// Its phases.
    pub phases: Vec<Phase>,
    /// The versions of platforms that it runs on.
    pub platform_compatibility: Vec<Platform>,
}

/// A phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Phase {
    /// Its name, such as `Full support`.
    pub name: String,
    /// Its first day: YYYY-MM-DD.
    pub start_date: String,
    /// Its last day.
    pub end_date: String,
}

/// A platform.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Platform {
    /// Its name.
    pub name: String,
    /// Its versions.
    pub versions: Vec<String>,
}

/// What a lifecycle says of a version on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support<'a> {
    /// It is in this phase.
    Phase(&'a Phase, &'a VersionLifecycle),
    /// It is in none of its phases.
    Ended(&'a VersionLifecycle),
    /// There is nothing about it.
    Unknown,
    /// Several blobs contradict each other.
    Contradicted,
}

impl Lifecycle {
    /// Reads the line of a blob. Malformed ones count as absent.
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// The support of a version on a day, YYYY-MM-DD. Both ends of a phase count.
pub fn support<'a>(blobs: &'a [Lifecycle], version: &str, today: &str) -> Support<'a> {
    let lifecycle = match blobs {
        [] => return Support::Unknown,
        [one] => one,
        _ => return Support::Contradicted,
    };
    let mut numbers = version.split('.');
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        return Support::Unknown;
    };
    let name = format!("{major}.{minor}");
    let Some(version) = lifecycle.versions.iter().find(|one| one.name == name) else {
        return Support::Unknown;
    };
    // Dates of one length compare as texts do.
    let is_now = |phase: &&Phase| {
        phase.start_date.as_str() <= today
            && (phase.end_date.is_empty() || today <= phase.end_date.as_str())
    };
    match version.phases.iter().find(is_now) {
        Some(phase) => Support::Phase(phase, version),
        None => Support::Ended(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOB: &str = r#"{"schema": "io.openshift.operators.lifecycles.v1alpha1", "package": "a",
        "versions": [{"name": "1.2", "phases": [
            {"name": "Full support", "startDate": "2026-01-01", "endDate": "2026-06-30"},
            {"name": "Maintenance", "startDate": "2026-07-01", "endDate": "2026-12-31"}],
            "platformCompatibility": [{"name": "OpenShift", "versions": ["4.18", "4.19"]}]}]}"#;

    #[test]
    fn a_phase_holds_on_its_first_and_on_its_last_day() {
        let blobs = [Lifecycle::read(BLOB.as_bytes()).unwrap()];
        let phase = |version: &str, day: &str| match support(&blobs, version, day) {
            Support::Phase(phase, _) => phase.name.clone(),
            other => format!("{other:?}").split('(').next().unwrap().to_owned(),
        };
        for (day, wanted) in [
            ("2025-12-31", "Ended"),
            ("2026-01-01", "Full support"),
            ("2026-06-30", "Full support"),
            ("2026-07-01", "Maintenance"),
            ("2026-12-31", "Maintenance"),
            ("2027-01-01", "Ended"),
        ] {
            assert_eq!(phase("1.2.7", day), wanted, "{day}");
        }
        assert_eq!(phase("1.3.0", "2026-01-01"), "Unknown");
        assert_eq!(phase("", "2026-01-01"), "Unknown");
    }

    #[test]
    fn two_blobs_contradict_each_other_and_none_says_nothing() {
        let one = Lifecycle::read(BLOB.as_bytes()).unwrap();
        let two = [one.clone(), one];
        assert_eq!(support(&two, "1.2.0", "2026-01-01"), Support::Contradicted);
        assert_eq!(support(&[], "1.2.0", "2026-01-01"), Support::Unknown);
        assert_eq!(Lifecycle::read(b"{\"versions\": 1}"), None);
    }
}
