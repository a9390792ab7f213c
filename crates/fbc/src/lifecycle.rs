//! The support phases of a package's versions: the blob of the schema
//! `io.openshift.operators.lifecycles.v1alpha1`
//! (openshift/enhancements, `olm/lifecycle-and-compatibility.md`).

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::document::Defect;
use crate::problem::Code;
use crate::text::display::quoted;

/// The schema of the blob.
pub const SCHEMA: &str = "io.openshift.operators.lifecycles.v1alpha1";

/// The longest line that is read, in bytes.
const MAX_LINE: usize = 1 << 20;
/// How many defects of a blob are listed.
const MAX_DEFECTS: usize = 20;

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
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct VersionLifecycle {
    /// MAJOR.MINOR.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub name: String,
    /// Its phases.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub phases: Vec<Phase>,
    /// The versions of platforms that it runs on.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub platform_compatibility: Vec<Platform>,
}

/// A phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Phase {
    /// Its name, such as `Full support`.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub name: String,
    /// Its first day: YYYY-MM-DD.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub start_date: String,
    /// Its last day; empty when it is open.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub end_date: String,
}

/// A platform.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Platform {
    /// Its name.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub name: String,
    /// Its versions.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub versions: Vec<String>,
}

/// Support of a version on a day.
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

impl Phase {
    /// Whether it holds on a day, YYYY-MM-DD. Both of its ends count.
    pub fn holds_on(&self, day: &str) -> bool {
        // Dates of one length compare as texts do.
        self.start_date.as_str() <= day
            && (self.end_date.is_empty() || day <= self.end_date.as_str())
    }
}

/// Why a line is no lifecycle.
#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    /// It is too long.
    #[error("is larger than 1 MiB")]
    TooLarge,
    /// Its fields have other types.
    #[error("does not fit its schema: {0}")]
    Shape(#[from] serde_json::Error),
}

impl Lifecycle {
    /// Reads the line of a blob.
    ///
    /// # Errors
    /// When it is too large, or has fields of other types.
    pub fn read(line: &[u8]) -> Result<Self, LifecycleError> {
        if line.len() > MAX_LINE {
            return Err(LifecycleError::TooLarge);
        }
        Ok(serde_json::from_slice(line)?)
    }

    /// Contradictions of the schema, or of itself.
    fn defects(&self) -> Vec<Defect> {
        let mut found = Vec::new();
        let mut add = |code, message: String| {
            if found.len() < MAX_DEFECTS {
                found.push(Defect::new(code, message));
            }
        };
        let mut names = HashSet::new();
        for version in &self.versions {
            let name = quoted(&version.name);
            if !is_major_minor(&version.name) {
                let text = format!("has the version {name}; write it as MAJOR.MINOR, such as 1.2");
                add(Code::LifecycleInvalid, text);
            } else if !names.insert(&version.name) {
                let text = format!("has the version {name} more than once; keep one");
                add(Code::LifecycleDuplicate, text);
            }
            for phase in &version.phases {
                let which = format!("the phase {} of the version {name}", quoted(&phase.name));
                let mut dates = [&phase.start_date, &phase.end_date].into_iter();
                if let Some(date) = dates.find(|date| !date.is_empty() && !is_date(date)) {
                    let text = format!(
                        "has in {which} the date {}; write it as YYYY-MM-DD",
                        quoted(date)
                    );
                    add(Code::LifecycleInvalid, text);
                } else if !phase.end_date.is_empty() && phase.end_date < phase.start_date {
                    let text = format!(
                        "has {which}, which ends before it starts; write the earlier date first"
                    );
                    add(Code::LifecycleInvalid, text);
                }
            }
            if let Some((one, other)) = overlap(&version.phases) {
                let text = format!(
                    "has two phases of the version {name} on the same days, {} and {}; let one \
                     end before the other starts",
                    quoted(&one.name),
                    quoted(&other.name)
                );
                add(Code::LifecycleInvalid, text);
            }
        }
        found
    }
}

/// The defects of a blob, given as its canonical line.
pub(crate) fn defects(line: &[u8]) -> Vec<Defect> {
    match Lifecycle::read(line) {
        Ok(lifecycle) => lifecycle.defects(),
        Err(error) => {
            let text = format!("{error}; correct it, or no support phase is shown");
            vec![Defect::new(Code::LifecycleInvalid, text)]
        }
    }
}

/// Two phases that hold on one day.
fn overlap(phases: &[Phase]) -> Option<(&Phase, &Phase)> {
    let mut sorted: Vec<&Phase> = phases.iter().collect();
    sorted.sort_by_key(|phase| &phase.start_date);
    let pair = sorted.windows(2).find(|pair| {
        let end = &pair[0].end_date;
        is_date(&pair[1].start_date)
            && (end.is_empty() || (is_date(end) && *end >= pair[1].start_date))
    })?;
    Some((pair[0], pair[1]))
}

fn is_major_minor(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('.')
        .is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// Whether a text is a day of the calendar: YYYY-MM-DD.
pub fn is_date(text: &str) -> bool {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        let good = digits.bytes().all(|byte| byte.is_ascii_digit());
        good.then(|| digits.parse::<u32>().ok())?
    };
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return false;
    };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap),
        _ => 0,
    };
    (1..=days).contains(&day)
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
    match version.phases.iter().find(|phase| phase.holds_on(today)) {
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
        assert!(Lifecycle::read(b"{\"versions\": 1}").is_err());
    }

    #[test]
    fn what_contradicts_the_schema_is_told() {
        let found = |versions: &str| {
            let line = format!("{{\"versions\":{versions}}}");
            let found = defects(line.as_bytes()).into_iter();
            found
                .map(|one| one.message.into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(defects(BLOB.as_bytes()), []);
        assert_eq!(
            found(r#"[{"name":"1.2","phases":[{"name":"a","startDate":"2024-02-29"}]}]"#),
            Vec::<String>::new()
        );
        for (versions, wanted) in [
            ("1", "does not fit its schema"),
            (r#"[{"name":"1"}]"#, "MAJOR.MINOR"),
            (r#"[{"name":"1.2"},{"name":"1.2"}]"#, "more than once"),
            (
                r#"[{"name":"1.2","phases":[{"startDate":"2026-02-29"}]}]"#,
                "YYYY-MM-DD",
            ),
            (
                r#"[{"name":"1.2","phases":[{"startDate":"2026-03-01","endDate":"2026-02-01"}]}]"#,
                "before it starts",
            ),
            (
                r#"[{"name":"1.2","phases":[{"name":"a","startDate":"2026-01-01","endDate":"2026-03-01"},{"name":"b","startDate":"2026-03-01"}]}]"#,
                "on the same days",
            ),
        ] {
            let found = found(versions);
            assert!(
                found.len() == 1 && found[0].contains(wanted),
                "{versions}: {found:?}"
            );
        }
        let long = format!("{{\"versions\":[],\"x\":\"{}\"}}", "x".repeat(MAX_LINE));
        assert!(
            defects(long.as_bytes())[0]
                .message
                .contains("larger than 1 MiB")
        );
    }
}
