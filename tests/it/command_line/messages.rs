//! Messages about invalid arguments and sources, each with what is similar.

use std::fmt::Write as _;

use super::{plain, root, run};
use crate::support::program::Start;

#[test]
fn a_mistake_is_told_with_what_is_similar() {
    let mut text = String::new();
    for line in [
        "chekc file:deploy/catalog",
        "check file:deploy/catalog --outptu json",
        "check file:deploy/catalog --output jsno",
        "list package file:deploy/catalog",
        "list packages deploy/catlog",
        "list packages ./deploy/catlog",
        "list packages file:deploy/catalog ferry",
        "list packages catalog",
        "list catalogs deploy/catalog",
        "search file:deploy/catalog",
        "providers file:deploy/catalog",
        "updates file:deploy/catalog fery-operator",
        "updates file:deploy/catalog ferry-operator --from 9.9.9-x@",
        "export --output json",
        "prune",
        "serve --http :808080 file:deploy/catalog",
        "serve --log-format xml file:deploy/catalog",
        "help prun",
        "list packages community",
        "list packages catlog --config deploy/almanac.toml",
        "list packages community=file:deploy/catalog",
        "list packages fil:deploy/catalog",
        "serve fil:deploy/catalog",
        "list packages",
        "search ferry",
        "providers Crossing",
        "updates ferry-operator",
        "images file:deploy/catalog --output jsnl",
        "status --server http://localhost:8080",
        "status --admin 127.0.0.1:1",
        "health --admin 127.0.0.1:1",
        "health --wait soon",
        "list catalogs --server localhost:8080",
        "list catalogs --server 127.0.0.1:8080",
        "manifests community",
        "manifests ./deploy/catlog --mirror mirror.example.com",
        "verify quay.io/org/catalog --key nowhere.pub",
        "list catalogs --server http://127.0.0.1:1",
        "list packages http://127.0.0.1:1/catalogs/community",
    ] {
        let finished = run(line);
        assert_ne!(finished.status.code(), Some(0), "{line}: {finished:#?}");
        assert_eq!(finished.stdout, "", "{line}");
        let code = finished.status.code().unwrap();
        let _ = writeln!(
            text,
            "$ almanac {line}\n{}exit code {code}\n",
            finished.stderr
        );
    }
    insta::assert_snapshot!("messages", text);
}

#[test]
fn messages_have_colours_only_where_they_are_wanted() {
    for (flag, coloured) in [("--color=always", true), ("--color=never", false)] {
        for line in ["check file:nowhere", "check --outptu"] {
            let words = line.split(' ').chain([flag]);
            let finished = Start::new(words).within(root()).run();
            assert_eq!(
                finished.stderr.contains('\u{1b}'),
                coloured,
                "{finished:#?}"
            );
        }
    }
    assert!(!run("check file:nowhere").stderr.contains('\u{1b}'));
}

#[test]
fn colours_change_nothing_else_in_a_message() {
    let mut text = String::new();
    for line in [
        "check file:nowhere",
        "check file:deploy/catalog --outptu json",
        "search file:deploy/catalog --output tabel",
        "graph file:deploy/catalog fery-operator",
    ] {
        let coloured = run(&format!("{line} --color always")).stderr;
        let never = run(&format!("{line} --color never")).stderr;
        assert_eq!(plain(&coloured), never, "{line}");
        let shown = coloured.replace('\u{1b}', "ESC");
        let _ = writeln!(text, "$ almanac {line} --color always\n{shown}");
    }
    insta::assert_snapshot!("messages_coloured", text);
}

#[test]
fn a_quiet_command_tells_errors_only() {
    let noted = run("list packages - --quiet");
    assert!(noted.stderr.starts_with("almanac: "), "{noted:#?}");
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("a.tar").display().to_string();
    let data = folder.path().join("data").display().to_string();
    let export = format!("export --data-dir {data} --output {archive}");
    let warned = run(&export);
    assert!(warned.stderr.contains("write --file"), "{warned:#?}");
    let quiet = run(&format!("{export} -q"));
    assert!(!quiet.stderr.contains("write --file"), "{quiet:#?}");
    assert_eq!(quiet.stderr.lines().count(), 1, "{quiet:#?}");
}

#[test]
fn verbose_commands_log_more() {
    let quiet = run("check file:deploy/catalog");
    assert_eq!(quiet.stderr, "");
    let sample = root().join("deploy/catalog").display().to_string();
    let verbose = Start::new(["search", &sample, "ferry", "-vv"]).run();
    assert!(verbose.stderr.contains("DEBUG"), "{verbose:#?}");
}

#[test]
fn a_long_list_of_problems_ends_with_their_number() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("catalog.yaml");
    let mut text = String::new();
    for number in 0..120 {
        let _ = write!(
            text,
            "---\nschema: olm.package\nname: p{number:03}\ndefaultChannel: stable\n"
        );
    }
    std::fs::write(&file, text).unwrap();
    let source = file.display().to_string();
    let finished = run(&format!("check {source}"));
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    let shown = finished.stdout.matches("error[").count();
    assert_eq!(shown, 100, "{}", finished.stdout);
    let more = finished
        .stdout
        .lines()
        .find(|line| line.contains("--all prints"))
        .unwrap();
    let all = run(&format!("check {source} --all")).stdout;
    let number = all.matches("error[").count();
    assert!(number > 100 && !all.contains("--all prints"), "{all}");
    assert!(
        more.starts_with(&format!("{} more problems", number - 100)),
        "{more}"
    );
    let lines = run(&format!("check {source} --output jsonl")).stdout;
    assert_eq!(lines.lines().count(), number);
}
