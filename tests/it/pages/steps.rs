//! The steps of a page, from its Markdown.

/// A step that a page takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Commands to run. The last one ends with this exit code.
    Commands { lines: Vec<String>, exit_code: i32 },
    /// Commands that cannot run in a test.
    NotRun { lines: Vec<String>, reason: String },
    /// A file to write.
    File { name: String, content: String },
    /// The end of the server.
    Stop,
    /// Output of one of the commands before.
    Prints(String),
    /// The begin of another section.
    Section,
}

/// All steps of a page.
pub(super) fn of(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut comment = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let indentation = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(found) = of_comment(line) {
            match found {
                Comment::Stop => steps.push(Step::Stop),
                found => {
                    assert!(comment.is_none(), "two comments before one block: {line}");
                    comment = Some(found);
                }
            }
            continue;
        }
        if line.starts_with('#') {
            steps.push(Step::Section);
        }
        if comment == Some(Comment::Table) && line.starts_with('|') {
            let rows = lines.by_ref().take_while(|line| line.starts_with('|'));
            // The line below the heads has none.
            steps.extend(
                rows.map(of_row)
                    .filter(|lines| !lines.is_empty())
                    .map(|lines| Step::Commands {
                        lines,
                        exit_code: 0,
                    }),
            );
            comment = None;
            continue;
        }
        let Some(language) = line.strip_prefix("```") else {
            assert!(
                line.is_empty() || comment.is_none(),
                "no block follows a comment, but {line:?}"
            );
            continue;
        };
        let block: Vec<&str> = lines
            .by_ref()
            .take_while(|line| line.trim() != "```")
            .map(|line| line.get(indentation..).unwrap_or_default())
            .collect();
        let step = match (comment.take(), language) {
            (Some(Comment::File(name)), _) => Step::File {
                name,
                content: block.join("\n") + "\n",
            },
            (comment, "sh") => {
                let lines = commands(&block);
                match comment {
                    Some(Comment::NotRun(reason)) => Step::NotRun { lines, reason },
                    Some(Comment::ExitCode(exit_code)) => Step::Commands { lines, exit_code },
                    _ => Step::Commands {
                        lines,
                        exit_code: 0,
                    },
                }
            }
            (None, "text") => Step::Prints(block.join("\n")),
            (None, _) => continue,
            (Some(comment), _) => panic!("{comment:?} before a block of {language:?}"),
        };
        steps.push(step);
    }
    steps
}

/// The commands in a row of a table, and questions for the paths in it.
fn of_row(row: &str) -> Vec<String> {
    let spans = row.split('`').skip(1).step_by(2);
    let command = |span: &str| match span.split_once(' ') {
        Some(("almanac", _)) => Some(span.to_owned()),
        _ if span.starts_with('/') => Some(format!("curl -s 'http://localhost:8080{span}'")),
        _ if span.starts_with(":9090/") => Some(format!("curl -s 'http://localhost{span}'")),
        _ => None,
    };
    spans.filter_map(command).collect()
}

/// A comment of Markdown before a block.
#[derive(Debug, PartialEq, Eq)]
enum Comment {
    NotRun(String),
    ExitCode(i32),
    File(String),
    Table,
    Stop,
}

/// The comment of a line, unless it says something else.
fn of_comment(line: &str) -> Option<Comment> {
    let text = line.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    if let Some(reason) = text.strip_prefix("not run: ") {
        return Some(Comment::NotRun(reason.into()));
    }
    if let Some(code) = text.strip_prefix("exit code ") {
        return Some(Comment::ExitCode(code.parse().unwrap()));
    }
    if let Some(name) = text.strip_prefix("file: ") {
        return Some(Comment::File(name.into()));
    }
    match text {
        "run the table" => Some(Comment::Table),
        "stop" => Some(Comment::Stop),
        _ => None,
    }
}

/// The commands of a block: its lines, of which one that ends with a backslash
/// goes on in the next.
fn commands(block: &[&str]) -> Vec<String> {
    let mut commands = Vec::new();
    let mut begun = String::new();
    for line in block {
        if let Some(line) = line.strip_suffix('\\') {
            begun += line;
            continue;
        }
        let command = std::mem::take(&mut begun) + line;
        if !command.trim().is_empty() && !command.starts_with('#') {
            commands.push(command);
        }
    }
    assert!(begun.is_empty(), "a command has no end: {begun}");
    assert!(!commands.is_empty(), "a block has no commands");
    commands
}

#[test]
fn the_rows_of_a_table_are_steps() {
    let page = "<!-- run the table -->\n| task | command | query |\n|---|---|---|\n\
        | a | `almanac check x`, with `--strict` | `/catalogs` |\n| b | `:9090/status` | |\n\n| `/x` |\n";
    let commands = |lines: &[&str]| Step::Commands {
        lines: lines.iter().map(|&line| line.to_owned()).collect(),
        exit_code: 0,
    };
    let expected = [
        commands(&[
            "almanac check x",
            "curl -s 'http://localhost:8080/catalogs'",
        ]),
        commands(&["curl -s 'http://localhost:9090/status'"]),
    ];
    assert_eq!(of(page), expected);
}

#[test]
fn a_page_is_a_list_of_steps() {
    let page = "# Page\n\n<!-- file: a.toml -->\n```toml\na = 1\n\nb = 2\n```\n\n\
        ```sh\n# a comment\none \\\n    --flag\n\ntwo\n```\n```text\nout\n  put\n```\n\
        1. <!-- other -->\n   ```sh\n   three\n   ```\n<!-- not run: needs a cluster -->\n\
        ```sh\nfour\n```\n<!-- stop -->\n<!-- exit code 1 -->\n```sh\nfive\n```\n```json\n{}\n```\n";
    let commands = |lines: &[&str], exit_code| Step::Commands {
        lines: lines.iter().map(|&line| line.to_owned()).collect(),
        exit_code,
    };
    let expected = [
        Step::Section,
        Step::File {
            name: "a.toml".into(),
            content: "a = 1\n\nb = 2\n".into(),
        },
        commands(&["one     --flag", "two"], 0),
        Step::Prints("out\n  put".into()),
        commands(&["three"], 0),
        Step::NotRun {
            lines: vec!["four".into()],
            reason: "needs a cluster".into(),
        },
        Step::Stop,
        commands(&["five"], 1),
    ];
    assert_eq!(of(page), expected);
}
