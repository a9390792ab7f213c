//! Messages about invalid arguments and sources, each with what is similar.

use std::fmt::Write as _;

use super::{plain, run};
use crate::support::catalog::Catalog;
use crate::support::file::root;
use crate::support::image::Image;
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
        "list packages 127.0.0.1:1/catalogs/community",
        "graph file:deploy/catalog ferry-operator --output sgv",
        "status --admin http://127.0.0.1:9090/",
        "diff file:deploy/catalog file:deploy/catlog",
        "check file:deploy/catalog --registries-conf deploy/catlog",
        "import deploy/catlog",
        "export --since deploy/catlog --file a.tar",
        "-q version",
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
fn options_for_the_terminal_may_stand_before_the_command() {
    let before = run("--color always -v list packages file:deploy/catalog");
    let behind = run("list packages file:deploy/catalog --color always -v");
    assert_eq!(before.status.code(), Some(0), "{before:#?}");
    assert!(before.stdout.starts_with('\u{1b}'), "{before:#?}");
    assert_eq!(before.stdout, behind.stdout);
}

#[test]
fn a_file_that_breaks_the_parser_is_told_in_almanacs_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mirrors.yaml");
    std::fs::write(&file, "kind: ImageDigestMirrorSet\nspec: [!a, b]\n").unwrap();
    let file = file.display().to_string();
    for flag in ["--mirror-file", "--image-policy-file"] {
        let finished = run(&format!("verify 127.0.0.1:1/a/b:v1 {flag} {file}"));
        assert_eq!(finished.status.code(), Some(3), "{finished:#?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:#?}");
        let said = finished
            .stderr
            .contains("line 2 or below: it is not valid YAML");
        assert!(said, "{finished:#?}");
    }
}

#[test]
fn an_archive_is_told_with_its_kind() {
    let folder = tempfile::tempdir().unwrap();
    let layout = folder.path().join("layout");
    std::fs::create_dir(&layout).unwrap();
    let image = Image::of_catalog(&Catalog::one("a")).build();
    image.add_to_layout(&layout, "v1");
    let archive = folder.path().join("a.tar");
    let mut tar = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    tar.append_dir_all("", &layout).unwrap();
    tar.finish().unwrap();
    let archive = archive.display().to_string();
    for source in [archive.clone(), format!("file:{archive}")] {
        let finished = run(&format!("list packages {source}"));
        assert_eq!(finished.status.code(), Some(2), "{finished:#?}");
        let right = format!("is an archive of images: write oci-archive:{archive}");
        assert!(finished.stderr.contains(&right), "{finished:#?}");
    }
    // The mark of a tar file alone makes no archive of images.
    let other = folder.path().join("other.tar");
    let mut bytes = vec![b' '; 257];
    bytes.extend(b"ustar and more");
    std::fs::write(&other, bytes).unwrap();
    let finished = run(&format!("check {}", other.display()));
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
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
