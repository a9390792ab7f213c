//! Problems for humans: the message, the place, and the line.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use crate::cli::check::excerpt::Excerpt;
use crate::cli::input::{Catalog, Input};
use crate::cli::output::{Shown, count};
use crate::ingest::Reading;
use fbc::problem::{Problem, Severity};

/// ANSI escape sequences, or nothing.
#[derive(Clone, Copy, Default)]
struct Colours {
    error: &'static str,
    warning: &'static str,
    frame: &'static str,
    strong: &'static str,
    plain: &'static str,
}

const COLOURS: Colours = Colours {
    error: "\x1b[1;31m",
    warning: "\x1b[1;33m",
    frame: "\x1b[1;34m",
    strong: "\x1b[1m",
    plain: "\x1b[0m",
};

type Lines<'a> = HashMap<(&'a str, u32), &'a [u8]>;

/// Prints `most` problems, then a summary of all.
pub(super) fn print(
    catalog: &Catalog,
    reading: &Reading,
    most: usize,
    coloured: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let colours = if coloured {
        COLOURS
    } else {
        Colours::default()
    };
    let shown = worst(&reading.problems, most);
    let positions = shown.iter().filter_map(|problem| problem.position.as_ref());
    let lines = catalog.loaded.lines(positions);
    for problem in &shown {
        print_problem(&catalog.input, problem, &lines, colours, out)?;
    }
    let left_out = reading.problems.len() - shown.len();
    if left_out > 0 {
        let more = count(left_out as u64, "more problem");
        writeln!(out, "{more}; --all prints them too\n")?;
    }
    writeln!(out, "{}", summary(reading))
}

/// The worst problems, in their order.
fn worst(problems: &[Problem], most: usize) -> Vec<&Problem> {
    let mut numbers: Vec<usize> = (0..problems.len()).collect();
    if problems.len() > most {
        numbers.sort_by_key(|number| Reverse(problems[*number].severity));
        numbers.truncate(most);
        numbers.sort_unstable();
    }
    numbers
        .into_iter()
        .map(|number| &problems[number])
        .collect()
}

fn print_problem(
    input: &Input,
    problem: &Problem,
    lines: &Lines<'_>,
    colours: Colours,
    out: &mut impl Write,
) -> io::Result<()> {
    let Colours {
        frame,
        strong,
        plain,
        ..
    } = colours;
    let kind = match problem.severity {
        Severity::Warning => colours.warning,
        Severity::Error | Severity::Fatal => colours.error,
    };
    writeln!(
        out,
        "{kind}{}[{}]{plain}{strong}: {}{plain}",
        problem.severity,
        problem.code,
        Shown(&problem.message)
    )?;
    if let Some(position) = &problem.position {
        let number = position.line.to_string();
        let gutter = " ".repeat(number.len());
        let column = position.column.map(|column| format!(":{column}"));
        writeln!(
            out,
            "{gutter}{frame}-->{plain} {}:{number}{} (document {})",
            Shown(&input.path(position).to_string_lossy()),
            column.unwrap_or_default(),
            position.document
        )?;
        let line = lines.get(&(position.file.as_str(), position.line));
        if let Some(excerpt) = line.and_then(|line| Excerpt::new(line, position.column)) {
            writeln!(out, "{gutter} {frame}|{plain}")?;
            writeln!(out, "{frame}{number} |{plain} {}", excerpt.text)?;
            write!(out, "{gutter} {frame}|{plain}")?;
            if let Some(caret) = excerpt.caret {
                write!(out, " {}{kind}^{plain}", " ".repeat(caret))?;
            }
            writeln!(out)?;
        }
    }
    writeln!(out)
}

/// The last line.
fn summary(
    Reading {
        counts, problems, ..
    }: &Reading,
) -> String {
    if problems.is_empty() {
        return format!(
            "no problems: {}, {}, {}, {}",
            count(counts.packages, "package"),
            count(counts.channels, "channel"),
            count(counts.entries, "entry"),
            count(counts.bundles, "bundle")
        );
    }
    let mut line = count(problems.len() as u64, "problem");
    let packages = problems.iter().map(|it| it.subject.package.as_str());
    let packages: BTreeSet<_> = packages.filter(|package| !package.is_empty()).collect();
    if !packages.is_empty() {
        line = format!("{line} in {}", count(packages.len() as u64, "package"));
    }
    let kinds = [
        (Severity::Fatal, "fatal problem"),
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
    ];
    let kinds = kinds.map(|(severity, noun)| {
        let such = problems.iter().filter(|it| it.severity == severity);
        (such.count() as u64, noun)
    });
    let kinds = kinds.into_iter().filter(|(number, _)| *number > 0);
    let kinds: Vec<String> = kinds.map(|(number, noun)| count(number, noun)).collect();
    format!("{line}: {}", kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Counts;
    use fbc::document::Blobs;
    use fbc::graph::Graph;
    use fbc::problem::{Code, DocumentPosition, Subject};

    fn problem(package: &str) -> Problem {
        Problem {
            code: Code::ChannelNoHead,
            severity: Severity::Error,
            subject: Subject {
                package: package.into(),
                ..Subject::default()
            },
            position: Some(DocumentPosition {
                file: "a/catalog.yaml".into(),
                document: 2,
                line: 12,
                column: None,
            }),
            message: "has no\nhead".into(),
        }
    }

    fn shown(problem: &Problem, line: &str, colours: Colours) -> String {
        let mut out = Vec::new();
        let lines = Lines::from([(("a/catalog.yaml", 12), line.as_bytes())]);
        let input = "quay.io/a/b".parse().unwrap();
        print_problem(&input, problem, &lines, colours, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_problem_points_at_its_line() {
        assert_eq!(
            shown(&problem("a"), "schema: \u{1b}[1m\r", Colours::default()),
            "error[channel-no-head]: has no\\nhead
  --> a/catalog.yaml:12 (document 2)
   |
12 | schema: \\u{1b}[1m
   |

"
        );
        let nowhere = Problem {
            position: None,
            ..problem("a")
        };
        assert_eq!(
            shown(&nowhere, "x", Colours::default()),
            "error[channel-no-head]: has no\\nhead\n\n"
        );
        let mut within = problem("a");
        within.position.as_mut().unwrap().column = Some(9);
        assert_eq!(
            shown(&within, "schema: [x", Colours::default()),
            "error[channel-no-head]: has no\\nhead
  --> a/catalog.yaml:12:9 (document 2)
   |
12 | schema: [x
   |         ^

"
        );
    }

    #[test]
    fn a_long_list_keeps_errors_before_warnings() {
        let of = |severity, package: &str| Problem {
            severity,
            ..problem(package)
        };
        let problems = [
            of(Severity::Warning, "a"),
            of(Severity::Warning, "b"),
            of(Severity::Error, "c"),
            of(Severity::Warning, "d"),
            of(Severity::Fatal, "e"),
        ];
        let packages = |most| {
            let shown = worst(&problems, most).into_iter();
            let packages: Vec<&str> = shown.map(|it| &*it.subject.package).collect();
            packages.concat()
        };
        assert_eq!(packages(9), "abcde");
        assert_eq!(packages(3), "ace");
        assert_eq!(packages(1), "e");
    }

    #[test]
    fn colours_end_where_they_should() {
        let text = shown(&problem("a"), "x", COLOURS);
        assert!(text.starts_with("\x1b[1;31merror[channel-no-head]\x1b[0m"));
        for line in text.lines().filter(|line| line.contains('\x1b')) {
            let last = line.rfind('\x1b').unwrap();
            assert!(line[last..].starts_with("\x1b[0m"), "{line:?}");
        }
    }

    #[test]
    fn the_last_line_counts() {
        let reading = |problems| Reading {
            blobs: Blobs::default(),
            graph: Graph::default(),
            counts: Counts {
                packages: 2,
                channels: 1,
                entries: 4,
                bundles: 3,
                ..Counts::default()
            },
            problems,
        };
        let summary = |problems| summary(&reading(problems));
        assert_eq!(
            summary(Vec::new()),
            "no problems: 2 packages, 1 channel, 4 entries, 3 bundles"
        );
        assert_eq!(
            summary(vec![problem("a"), problem("a"), problem("b")]),
            "3 problems in 2 packages: 3 errors"
        );
        let with = |severity| Problem {
            severity,
            ..problem("a")
        };
        assert_eq!(
            summary(vec![
                with(Severity::Warning),
                with(Severity::Error),
                with(Severity::Warning),
            ]),
            "3 problems in 1 package: 1 error, 2 warnings"
        );
        let fatal = Problem {
            severity: Severity::Fatal,
            ..problem("")
        };
        assert_eq!(summary(vec![fatal]), "1 problem: 1 fatal problem");
    }
}
