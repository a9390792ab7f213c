//! Problems of a catalog in the log.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use ::images::digest::Digest;
use fbc::problem::{Problem, Severity};
use fbc::text::display::{first_of, shown};

/// The most problems that are logged one by one.
const LOGGED: usize = 20;
/// The most packages with errors that are named.
const NAMED: usize = 50;

/// Logs the problems of a catalog, and again only when they differ: a refused
/// image is pulled again and again.
#[derive(Debug, Default)]
pub(crate) struct ProblemLog {
    /// A hash of the problems that were logged last.
    last: Option<u64>,
}

impl ProblemLog {
    /// Logs the problems of the source with this digest, unless they were the last
    /// ones logged.
    pub(crate) fn log(&mut self, digest: Option<Digest>, problems: &[Problem]) {
        let mut hasher = DefaultHasher::new();
        digest.hash(&mut hasher);
        for problem in problems {
            problem.to_string().hash(&mut hasher);
        }
        let now = Some(hasher.finish());
        if self.last == now {
            return;
        }
        self.last = now;
        for line in lines(problems) {
            tracing::warn!("{line}");
        }
    }
}

/// The packages with errors, then the problems, the worst first. Among equally
/// bad ones, the first of each package comes before the second of any.
fn lines(problems: &[Problem]) -> Vec<String> {
    let mut lines = Vec::new();
    let bad = problems
        .iter()
        .filter(|problem| problem.severity >= Severity::Error);
    let bad = bad.map(|problem| problem.subject.package.as_str());
    let bad: BTreeSet<&str> = bad.filter(|package| !package.is_empty()).collect();
    if !bad.is_empty() {
        let names = first_of(bad.iter().map(|name| shown(name)), NAMED, ", ");
        lines.push(format!("packages with errors: {names}"));
    }
    let mut earlier: BTreeMap<(Severity, &str), usize> = BTreeMap::new();
    let mut ordered = Vec::with_capacity(problems.len());
    for problem in problems {
        let group = (problem.severity, problem.subject.package.as_str());
        let earlier = earlier.entry(group).or_default();
        ordered.push((Reverse(problem.severity), *earlier, problem));
        *earlier += 1;
    }
    ordered.sort_by_key(|(severity, earlier, _)| (*severity, *earlier));
    let worst = ordered.into_iter().take(LOGGED);
    lines.extend(worst.map(|(.., problem)| problem.to_string()));
    if problems.len() > LOGGED {
        let more = problems.len() - LOGGED;
        lines.push(format!("{more} more problems; /status lists them"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use fbc::problem::{Code, Subject};

    fn problem(severity: Severity, package: &str, message: &str) -> Problem {
        Problem {
            code: Code::ChannelNoHead,
            severity,
            subject: Subject {
                package: package.to_owned(),
                ..Subject::default()
            },
            position: None,
            message: message.to_owned(),
        }
    }

    #[test]
    fn every_package_has_its_turn() {
        let error = |package: &str, message: &str| problem(Severity::Error, package, message);
        let mut problems = vec![problem(Severity::Warning, "z", "w")];
        problems.extend((0..30).map(|number| error("a", &format!("a{number}"))));
        problems.extend([error("c", "c0"), error("b", "b0")]);
        let lines = lines(&problems);
        assert_eq!(lines.len(), LOGGED + 2);
        assert_eq!(lines[0], "packages with errors: a, b, c");
        let messages = lines[1..6]
            .iter()
            .map(|line| line.rsplit(' ').next().unwrap());
        let messages: Vec<&str> = messages.collect();
        assert_eq!(messages, ["a0", "c0", "b0", "a1", "a2"]);
        assert_eq!(lines[LOGGED + 1], "13 more problems; /status lists them");
    }

    #[test]
    fn warnings_name_no_package_as_bad() {
        let lines = lines(&[problem(Severity::Warning, "z", "w")]);
        assert_eq!(lines, ["warning[channel-no-head]: w"]);
    }

    #[test]
    fn the_names_are_bounded() {
        let name = |number| format!("p{number:03}");
        let problems = (0..NAMED + 3).map(|number| problem(Severity::Error, &name(number), "x"));
        let lines = lines(&problems.collect::<Vec<_>>());
        assert!(lines[0].ends_with("p049 and 3 more"), "{}", lines[0]);
    }
}
