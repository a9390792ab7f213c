//! Manual pages and completions, made from the command line's own description.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use almanac::cli;
use clap::CommandFactory as _;

use crate::support::needs::skip_without;
use crate::support::program::Start;

/// Output of a command.
fn printed<'a>(arguments: impl IntoIterator<Item = &'a str>) -> String {
    let finished = Start::new(arguments).run();
    assert!(finished.status.success(), "{finished:?}");
    finished.stdout
}

/// The names of a command and of all below it, as pages have them.
fn pages_of(command: &clap::Command, name: &str, pages: &mut BTreeSet<String>) {
    pages.insert(format!("{name}.1"));
    for below in command.get_subcommands() {
        pages_of(below, &format!("{name}-{}", below.get_name()), pages);
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("man1");
    printed(["man", "--folder", path.to_str().unwrap()]);
    let names = fs::read_dir(&path).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let written: BTreeSet<String> = names.collect();
    let mut expected = BTreeSet::new();
    pages_of(&cli::Arguments::command(), "almanac", &mut expected);
    assert_eq!(written, expected);
    assert!(written.contains("almanac-opm-serve.1"));

    let page = fs::read_to_string(path.join("almanac-check.1")).unwrap();
    for part in [
        ".TH almanac-check 1",
        ".SH SYNOPSIS",
        "\\-\\-strict",
        ".SH EXAMPLES",
        ".SH \"EXIT CODES\"",
    ] {
        assert!(page.contains(part), "no {part} in {page}");
    }
    assert_eq!(printed(["man", "check"]), page);
    let synopsis = page.split(".SH ").find(|part| part.starts_with("SYNOPSIS"));
    let value = "[\\fB\\-\\-platform\\fR \\fIOS/ARCH\\fR]";
    assert!(synopsis.unwrap().contains(value), "{page}");
    if skip_without("groff") {
        return;
    }
    for name in written {
        let output = Command::new("groff")
            .args(["-man", "-ww", "-z", "-Kutf8"])
            .arg(path.join(&name))
            .output()
            .unwrap();
        let warnings = String::from_utf8(output.stderr).unwrap();
        assert!(warnings.is_empty(), "{name}: {warnings}");
    }
}

#[test]
fn the_page_of_an_unknown_command_names_the_nearest() {
    let finished = Start::new(["man", "opm", "serv"]).run();
    assert_eq!(finished.status.code(), Some(2));
    let message = "almanac: almanac opm has no command \"serv\"; did you mean \"serve\"?\n";
    assert_eq!(finished.stderr, message);
}

#[test]
fn bash_completes_commands_options_and_values() {
    if skip_without("bash") {
        return;
    }
    let script = printed(["completions", "bash"]);
    let completed = |words: &[&str]| {
        let (current, before) = (words[words.len() - 1], words[words.len() - 2]);
        let words = format!(
            "{script}\nCOMP_WORDS=({}) COMP_CWORD={}\n_almanac almanac {current:?} {before:?}\n\
             echo \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len() - 1
        );
        let output = Command::new("bash").args(["-c", &words]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(completed(&["almanac", "ch"]), "check");
    assert_eq!(completed(&["almanac", "check", "--str"]), "--strict");
    let shells = completed(&["almanac", "completions", ""]);
    assert!(
        shells.contains("bash") && shells.contains("fish"),
        "{shells}"
    );
}

#[test]
fn there_are_completions_for_three_shells() {
    for (shell, first) in [
        ("bash", "_almanac() {"),
        ("zsh", "#compdef almanac"),
        ("fish", "# Print an optspec"),
    ] {
        let script = printed(["completions", shell]);
        assert!(script.starts_with(first), "{shell}: {script}");
        for command in cli::Arguments::command().get_subcommands() {
            assert!(script.contains(command.get_name()), "{shell}");
        }
    }
}
