//! Collects problems: begins their sentences, sets their subjects, and bounds their
//! number and length.

use crate::document::{Defect, Located};
use crate::lifecycle::SCHEMA;
use crate::problem::{Code, DocumentPosition, Problem, Severity, Subject};
use crate::text::display::{clip_bytes, quoted, shown};

/// The number of problems of one package that are listed.
pub const MAX_PROBLEMS_PER_PACKAGE: usize = 1_000;

/// The number of problems that are listed in all.
pub const MAX_PROBLEMS: usize = 10_000;

/// The longest sentence, in bytes.
const MAX_MESSAGE: usize = 2_048;

/// The object that a sentence begins with.
#[derive(Clone, Copy)]
pub(crate) enum About<'a> {
    /// The package that is being checked.
    Package,
    /// A channel of it.
    Channel(&'a str),
    /// An entry (named second) of a channel of it.
    Entry(&'a str, &'a str),
    /// A bundle (named second) of it, with a channel that it is in, or nothing.
    Bundle(&'a str, &'a str),
    /// Its deprecations.
    Deprecations,
    /// Its lifecycle.
    Lifecycle,
}

/// The problems found so far.
pub(crate) struct Report<'a> {
    files: &'a [String],
    problems: Vec<Problem>,
    /// How many were not listed because of [`MAX_PROBLEMS`].
    omitted: usize,
    /// The worst of them.
    worst_omitted: Severity,
    package: &'a str,
    /// How many problems of the package are listed.
    in_package: usize,
    /// How many of them were not listed because of
    /// [`MAX_PROBLEMS_PER_PACKAGE`].
    omitted_in_package: usize,
    /// Whether the package has an error, listed or not.
    failed: bool,
}

impl<'a> Report<'a> {
    /// A report without problems, about a catalog with these files.
    pub(crate) fn new(files: &'a [String]) -> Self {
        Self {
            files,
            problems: Vec::new(),
            omitted: 0,
            worst_omitted: Severity::Warning,
            package: "",
            in_package: 0,
            omitted_in_package: 0,
            failed: false,
        }
    }

    /// Begins with a package.
    pub(crate) fn begin(&mut self, package: &'a str) {
        self.package = package;
        self.in_package = 0;
        self.omitted_in_package = 0;
        self.failed = false;
    }

    /// Ends with a package: counts what of it was not listed.
    pub(crate) fn end(&mut self) {
        if self.omitted_in_package > 0 {
            let text = format!(
                "has {} further problems that are not listed; correct the listed ones first",
                self.omitted_in_package
            );
            let severity = if self.failed {
                Severity::Error
            } else {
                Severity::Warning
            };
            let code = Code::ProblemsOmitted;
            let problem = self.problem(code, severity, About::Package, None, &text);
            self.push(problem);
        }
    }

    /// Whether the package has an error.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// All problems, with one that counts those not listed.
    pub(crate) fn into_problems(mut self) -> Vec<Problem> {
        if self.omitted > 0 {
            let message = format!(
                "the catalog has {} further problems that are not listed; correct the listed ones \
                 first",
                self.omitted
            );
            let problem = Problem::new(Code::ProblemsOmitted, self.worst_omitted, message);
            self.problems.push(problem);
        }
        self.problems
    }

    /// The position of a blob.
    pub(crate) fn position<T>(&self, located: &Located<T>) -> Option<DocumentPosition> {
        located.position(self.files)
    }

    /// Adds an error. `text` continues the sentence that begins with `about`.
    pub(crate) fn error<T>(
        &mut self,
        code: Code,
        about: About<'_>,
        located: &Located<T>,
        text: &str,
    ) {
        let position = self.position(located);
        self.error_at(code, about, position, text);
    }

    /// Adds an error with a position, or without one.
    pub(crate) fn error_at(
        &mut self,
        code: Code,
        about: About<'_>,
        position: Option<DocumentPosition>,
        text: &str,
    ) {
        self.failed = true;
        self.add(code, Severity::Error, about, position, text);
    }

    /// Adds a warning, which does not touch the package.
    pub(crate) fn warning<T>(
        &mut self,
        code: Code,
        about: About<'_>,
        located: &Located<T>,
        text: &str,
    ) {
        let position = self.position(located);
        self.add(code, Severity::Warning, about, position, text);
    }

    /// Adds the defects of a blob as errors.
    pub(crate) fn defects<T>(
        &mut self,
        about: About<'_>,
        located: &Located<T>,
        defects: &[Defect],
    ) {
        for defect in defects {
            self.error(defect.code, about, located, &defect.message);
        }
    }

    fn add(
        &mut self,
        code: Code,
        severity: Severity,
        about: About<'_>,
        position: Option<DocumentPosition>,
        text: &str,
    ) {
        // Blobs without a package have nothing in common but the empty name.
        if self.in_package == MAX_PROBLEMS_PER_PACKAGE && !self.package.is_empty() {
            self.omitted_in_package += 1;
            return;
        }
        self.in_package += 1;
        let problem = self.problem(code, severity, about, position, text);
        self.push(problem);
    }

    fn push(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.omitted += 1;
            self.worst_omitted = self.worst_omitted.max(problem.severity);
        }
    }

    fn problem(
        &self,
        code: Code,
        severity: Severity,
        about: About<'_>,
        position: Option<DocumentPosition>,
        text: &str,
    ) -> Problem {
        let mut subject = Subject {
            package: shown(self.package),
            ..Subject::default()
        };
        let within = if self.package.is_empty() {
            String::new()
        } else {
            format!("package {}: ", quoted(self.package))
        };
        let object = match about {
            About::Package if self.package.is_empty() => {
                "olm.package".clone_into(&mut subject.schema);
                String::from("an olm.package blob")
            }
            About::Package => format!("package {}", quoted(self.package)),
            About::Channel(channel) => {
                subject.channel = shown(channel);
                format!("{within}{}", named("channel", channel))
            }
            About::Entry(channel, entry) => {
                subject.channel = shown(channel);
                subject.bundle = shown(entry);
                let channel = named("channel", channel);
                format!("{within}{channel}: {}", named("entry", entry))
            }
            About::Bundle(channel, bundle) => {
                subject.channel = shown(channel);
                subject.bundle = shown(bundle);
                let channel = match channel {
                    "" => String::new(),
                    channel => format!("{}: ", named("channel", channel)),
                };
                format!("{within}{channel}{}", named("bundle", bundle))
            }
            About::Deprecations => {
                "olm.deprecations".clone_into(&mut subject.schema);
                format!("{within}the deprecations")
            }
            About::Lifecycle => {
                SCHEMA.clone_into(&mut subject.schema);
                format!("{within}the lifecycle")
            }
        };
        let message = clip_bytes(&format!("{object} {text}"), MAX_MESSAGE);
        Problem {
            code,
            severity,
            subject,
            position,
            message,
        }
    }
}

fn named(kind: &str, name: &str) -> String {
    match (kind, name) {
        ("entry", "") => String::from("an entry"),
        (_, "") => format!("a {kind}"),
        _ => format!("{kind} {}", quoted(name)),
    }
}
