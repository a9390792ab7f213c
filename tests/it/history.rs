//! The memory of what changed: revisions, changes, the feed, and `almanac diff`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::catalog::{Catalog, Format, bundle, entry};
use crate::support::needs::skip_without;
use crate::support::program::{PATIENCE, Start, pause};
use crate::support::served::{Folders, Served, start, with};

const API: &str = "/catalogs/a/api/v1";

/// A catalog, and the same after an update with changes of every kind.
fn before_and_after() -> (Catalog, Catalog) {
    let lamp = |version: &str, text: &str| {
        bundle(&format!("lamp.v{version}")).property("note", text.to_owned())
    };
    let before = Catalog::new()
        .package("lamp", |package| {
            package
                .default_channel("stable")
                .channel("stable", [entry("lamp.v1.0.0")])
                .channel("old", [entry("lamp.v0.9.0")])
                .bundle(lamp("1.0.0", "first"))
                .deprecate_channel("old", "use stable")
        })
        .package("mast", |package| {
            let skipping = entry("mast.v2.0.0").replaces("mast.v1.0.0");
            package.channel("stable", [entry("mast.v1.0.0"), skipping])
        })
        .package("gone", |package| {
            package.channel("stable", [entry("gone.v1.0.0")])
        });
    let after = Catalog::new()
        .package("lamp", |package| {
            package
                .default_channel("fast")
                .channel(
                    "stable",
                    [
                        entry("lamp.v1.0.0"),
                        entry("lamp.v1.1.0").replaces("lamp.v1.0.0"),
                    ],
                )
                .channel("fast", [entry("lamp.v2.0.0")])
                .bundle(lamp("1.0.0", "second"))
                .deprecate_bundle("lamp.v1.0.0", "has <a> hole")
        })
        .package("mast", |package| {
            let skipping = entry("mast.v2.0.0").replaces("mast.v1.0.0");
            let skipping = skipping.skip_range(">=1.0.0 <2.0.0");
            package.channel("stable", [entry("mast.v1.0.0"), skipping])
        })
        .package("new", |package| {
            package.channel("stable", [entry("new.v1.0.0")])
        });
    (before, after)
}

/// Each change in short.
const EXPECTED: [&str; 14] = [
    "gone package-removed",
    "lamp default-channel-changed stable fast",
    "lamp channel-added fast lamp.v2.0.0",
    "lamp channel-removed old lamp.v0.9.0",
    "lamp head-moved stable lamp.v1.0.0 lamp.v1.1.0",
    "lamp entry-added stable lamp.v1.1.0",
    "lamp bundle-added lamp.v1.1.0 1.1.0",
    "lamp bundle-added lamp.v2.0.0 2.0.0",
    "lamp bundle-removed lamp.v0.9.0 0.9.0",
    "lamp bundle-replaced lamp.v1.0.0 1.0.0",
    "lamp deprecated lamp.v1.0.0 1.0.0 has <a> hole",
    "lamp problem-solved",
    "mast upgrade-edges-changed stable",
    "new package-added",
];

fn short(changes: &Value) -> Vec<String> {
    let short = |change: &Value| {
        let keep = |key: &&str| {
            let text = change[*key].as_str();
            text.filter(|text| !text.starts_with("sha256:"))
                .map(str::to_owned)
        };
        let keys = [
            "package", "kind", "channel", "bundle", "version", "from", "to",
        ];
        let parts: Vec<String> = keys.iter().filter_map(keep).collect();
        parts.join(" ")
    };
    changes.as_array().unwrap().iter().map(short).collect()
}

fn write(catalog: &Catalog, folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    catalog.write_to(folder, Format::JsonLines);
}

fn json(served: &Served, path: &str) -> Value {
    let reply = served.get(&format!("{API}/{path}"));
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    serde_json::from_slice(&reply.body).unwrap()
}

/// Waits until the history has so many revisions, and the newest is served: a revision
/// is in the history before that.
fn until_revisions(served: &Served, count: usize) -> Value {
    let begin = std::time::Instant::now();
    loop {
        let reply = served.get(&format!("{API}/revisions"));
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if body["total"] == count && body["items"][0]["served"] == true {
            return body["items"].clone();
        }
        assert!(begin.elapsed() < PATIENCE, "{body:#}");
        pause(begin);
    }
}

fn diff(arguments: &[&str]) -> (i32, String, String) {
    let finished = arguments
        .iter()
        .fold(Start::new(["diff"]), |start, one| start.argument(*one))
        .run();
    (
        finished.status.code().unwrap(),
        finished.stdout,
        finished.stderr,
    )
}

#[test]
fn diff_tells_each_change_once() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let (before, after) = before_and_after();
    write(&before, &a);
    write(&after, &b);
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());

    let (code, out, _) = diff(&[a, b, "-o", "json"]);
    assert_eq!(code, 1);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(short(&report["changes"]), EXPECTED);
    assert_eq!(report["counts"]["bundle-added"], 2);

    let (code, out, _) = diff(&[a, b]);
    assert_eq!(code, 1);
    insta::assert_snapshot!("diff_text", out);
    let (_, out, _) = diff(&[a, b, "--output", "markdown", "--package", "lamp"]);
    insta::assert_snapshot!("diff_markdown", out);

    let nothing = "almanac: no changes\n".to_owned();
    assert_eq!(diff(&[a, a]), (0, String::new(), nothing));
    let (code, _, error) = diff(&[a, b, "--package", "lmap"]);
    assert_eq!(code, 2);
    assert!(error.contains("lamp"), "{error}");
    let (code, _, error) = diff(&[a, "./no-such-folder"]);
    assert_eq!(code, 3, "{error}");

    // One side is a catalog of a configuration.
    let config = folder.path().join("almanac.toml");
    std::fs::write(
        &config,
        format!("[[catalog]]\nname = \"c\"\nsource = \"file:{a}\"\n"),
    )
    .unwrap();
    let config = format!("--config={}", config.display());
    for (arguments, expected) in [
        (["c", b, &config], 1),
        ([b, "c", &config], 1),
        (["c", a, &config], 0),
        ([a, b, &config], 2),
    ] {
        let (code, _, error) = diff(&arguments);
        assert_eq!(code, expected, "{arguments:?}: {error}");
    }
}

#[test]
fn edges_of_an_entry_that_stays_are_compared_also_beside_a_new_entry() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, skip_range: &str, with_third: bool| {
        let catalog = Catalog::new().package("mast", |package| {
            let second = entry("mast.v2.0.0").replaces("mast.v1.0.0");
            let third = entry("mast.v3.0.0").replaces("mast.v2.0.0");
            let entries = [entry("mast.v1.0.0"), second.skip_range(skip_range)];
            let third = with_third.then_some(third);
            package.channel("stable", entries.into_iter().chain(third))
        });
        let path = folder.path().join(name);
        write(&catalog, &path);
        path.to_str().unwrap().to_owned()
    };
    let before = written("before", ">=1.0.0 <2.0.0", false);
    let added = ["head-moved", "entry-added", "bundle-added"];
    let with_edges = [
        "head-moved",
        "entry-added",
        "upgrade-edges-changed",
        "bundle-added",
    ];
    for (name, skip_range, expected) in [
        ("same", ">=1.0.0 <2.0.0", &added[..]),
        ("other", ">=1.1.0 <2.0.0", &with_edges),
    ] {
        let after = written(name, skip_range, true);
        let (_, out, _) = diff(&[&before, &after, "-o", "json"]);
        let report: Value = serde_json::from_str(&out).unwrap();
        let changes = report["changes"].as_array().unwrap();
        let kinds: Vec<_> = changes
            .iter()
            .map(|one| one["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, expected, "{name}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one history, asked in all ways")]
fn an_update_is_described_over_http_and_after_a_restart() {
    let (before, after) = before_and_after();
    let folders = Folders::of("a", &before);
    let mut served = Served::catalogs(&folders);
    let first = until_revisions(&served, 1);
    assert_eq!(first[0]["changes"], Value::Null);
    assert_eq!(json(&served, "changes")["from"], Value::Null);
    let feed = format!("{API}/changes.atom");
    assert!(!served.get(&feed).text().contains("<entry>"));

    folders.replace("a", &after);
    let both = until_revisions(&served, 2);
    let all = json(&served, "changes");
    assert_eq!(short(&all["changes"]), EXPECTED);
    assert_eq!(all["from"], both[1]);
    assert_eq!(all["to"], both[0]);
    assert_eq!(both[0]["changes"], EXPECTED.len());
    assert_eq!(
        (&both[0]["served"], &both[1]["served"]),
        (&true.into(), &false.into())
    );
    served
        .program
        .wait_for_log("the changes", |log| log.contains("changes="));
    let log = served.program.log();
    let line = log.lines().find(|line| line.contains("changes=")).unwrap();
    for words in [
        "1 package added",
        "1 default channel changed",
        "1 head moved",
        "1 channel with other edges",
        "2 bundles added",
        "1 bundle replaced",
    ] {
        assert!(line.contains(words), "{line}");
    }
    let metrics = crate::support::http::get(served.admin, "/metrics")
        .unwrap()
        .text();
    let counted = "almanac_catalog_changes_total{catalog=\"a\",kind=\"bundle-added\"} 2";
    assert!(metrics.contains(counted), "{metrics}");

    folders.replace("a", &before);
    let three = until_revisions(&served, 3);
    assert_eq!(three[0]["content"], three[2]["content"]);
    let served = served.restart();
    assert_eq!(until_revisions(&served, 3), three);

    // The same by numbers, digests and dates, and backwards.
    let name = |at: usize, key: &str| {
        let value = &three[at][key];
        value.as_str().unwrap().to_owned()
    };
    let (from, to) = (name(2, "revision"), name(1, "revision"));
    let digits = "sha256:".len() + 6;
    for (from, to) in [
        (from.clone(), to.clone()),
        (name(2, "digest"), name(1, "content")),
        (
            name(2, "digest")[..digits].to_owned(),
            name(1, "content")[..digits].to_owned(),
        ),
    ] {
        let found = json(&served, &format!("changes?from={from}&to={to}"));
        assert_eq!(
            short(&found["changes"]).len(),
            EXPECTED.len(),
            "{from} {to}"
        );
    }
    let today = &name(0, "published")[..10];
    let found = json(&served, &format!("changes?from={from}&to={today}"));
    assert_eq!(found["to"]["revision"], three[0]["revision"]);
    assert_eq!(found["changes"], Value::Array(Vec::new()));
    // The same moment elsewhere, with the plus as it is, or encoded.
    let published: jiff::Timestamp = name(0, "published").parse().unwrap();
    let there = published
        .display_with_offset(jiff::tz::offset(2))
        .to_string();
    assert!(there.ends_with("+02:00"), "{there}");
    for there in [there.replace('+', "%2B"), there] {
        let found = json(&served, &format!("changes?from={from}&to={there}"));
        assert_eq!(found["to"]["revision"], three[0]["revision"], "{there}");
    }
    let found = json(&served, &format!("changes?from={to}&to={from}&package=new"));
    assert_eq!(short(&found["changes"]), ["new package-removed"]);

    for (query, status, words) in [
        ("from=999", 404, "the history has 3 revisions"),
        ("from=2001-01-01", 404, "is before the history"),
        ("from=sha256:0123456789ab", 404, "is no revision"),
        ("from=sha256:", 400, "needs 6 digits"),
        ("from=sha256:01234", 400, "needs 6 digits"),
        ("from=sha256:01234x", 400, "needs 6 digits"),
        ("from=012345", 404, "is no revision"),
        ("from=abcde", 400, "a day such as"),
        ("to=2999-01-01", 400, "in the future"),
        ("from=yesterday", 400, "a day such as"),
        ("from=2026-13-01", 400, "a day such as"),
        ("from=2026-01-31T08:00:00", 400, "a day such as"),
        ("from=2026-01-31T08:00:00+99:00", 400, "a day such as"),
        ("package=lmap", 404, "lamp"),
    ] {
        let reply = served.get(&format!("{API}/changes?{query}"));
        assert_eq!(reply.status, status, "{query}: {}", reply.text());
        assert!(reply.text().contains(words), "{query}: {}", reply.text());
    }

    // A content that came back has one entry, the latest.
    let reply = served.get(&feed);
    assert_eq!(
        reply.header("content-type"),
        Some("application/atom+xml; charset=utf-8")
    );
    assert_eq!(reply.text().matches("<entry>").count(), 2);
    assert!(
        reply.text().contains("has &lt;a&gt; hole"),
        "{}",
        reply.text()
    );
    // Readers of feeds resolve relative links in different ways.
    let address = format!("href=\"http://{}{feed}\"/>", served.http);
    assert!(reply.text().contains(&address), "{}", reply.text());
    assert!(!reply.text().contains("href=\"/"), "{}", reply.text());
    let proxied = served.ask("GET", &feed, &[("x-forwarded-proto", "https")]);
    let proxied = proxied.text();
    let address = format!("href=\"https://{}{feed}\"/>", served.http);
    assert!(proxied.contains(&address), "{proxied}");
    let of_new = served.get(&format!("{feed}?package=new")).text();
    assert_eq!(of_new.matches("<entry>").count(), 2);
    assert!(!of_new.contains("lamp"), "{of_new}");
    let etag = reply.header("etag").unwrap();
    let again = served.ask("GET", &feed, &[("if-none-match", etag)]);
    assert_eq!(again.status, 304);
    if skip_without("python:feedparser") {
        return;
    }
    let program = "import sys, feedparser\n\
        feed = feedparser.parse(sys.argv[1])\n\
        assert not feed.bozo, feed.bozo_exception\n\
        assert feed.version == 'atom10', feed.version\n\
        assert len({e.id for e in feed.entries}) == len(feed.entries) == 2\n\
        assert all(e.updated_parsed and e.link and e.title and e.content for e in feed.entries)\n";
    let url = format!("http://{}{feed}", served.http);
    let parsed = Command::new("python3").args(["-c", program, &url]).status();
    assert!(parsed.unwrap().success());
}

#[test]
fn the_history_is_trimmed_to_its_settings() {
    let version = |number: u32| {
        Catalog::new().package("etcd", |package| {
            package.channel("stable", [entry(&format!("etcd.v{number}.0.0"))])
        })
    };
    let folders = Folders::of("a", &version(0));
    let config = tempfile::tempdir().unwrap();
    let path = config.path().join("almanac.toml");
    std::fs::write(&path, "[history]\nrevisions = 2\ndays = 0\n").unwrap();
    let arguments = folders.sources().into_iter();
    let arguments = arguments.chain([
        "--poll=100ms".into(),
        format!("--config={}", path.display()),
    ]);
    let mut served = Served::begin(with(start(), arguments));
    served.program.wait_until_ready();
    for number in 1..4 {
        folders.replace("a", &version(number));
        let begin = std::time::Instant::now();
        let head = format!("etcd.v{number}.0.0");
        while !served
            .get(&format!("{API}/packages/etcd"))
            .text()
            .contains(&head)
        {
            assert!(begin.elapsed() < PATIENCE);
            pause(begin);
        }
    }
    let kept = until_revisions(&served, 2);
    assert_eq!(kept[0]["served"], true);
    let changes = json(&served, "changes");
    assert_eq!(changes["counts"]["head-moved"], 1);
}

/// A catalog with one package at a version.
fn version(number: u32) -> Catalog {
    Catalog::new().package("etcd", |package| {
        package.channel("stable", [entry(&format!("etcd.v{number}.0.0"))])
    })
}

#[test]
fn a_lost_database_takes_the_past_but_no_outline_and_no_later_change() {
    let folders = Folders::of("a", &version(0));
    let mut served = Served::catalogs(&folders);
    until_revisions(&served, 1);
    folders.replace("a", &version(1));
    let before = until_revisions(&served, 2);
    let data = served.program.data().to_owned();
    let outlines = || std::fs::read_dir(data.join("outlines")).unwrap().count();
    assert_eq!(outlines(), 2);
    // Files of the first revision would bring it back.
    let revisions = || std::fs::read_dir(data.join("revisions")).unwrap().count();
    let begin = std::time::Instant::now();
    while revisions() != 1 {
        assert!(begin.elapsed() < PATIENCE, "{} revisions", revisions());
        pause(begin);
    }
    served.program.terminate();
    assert!(served.program.wait(PATIENCE).success());
    for name in ["almanac.db", "almanac.db-wal", "almanac.db-shm"] {
        let removed = std::fs::remove_file(data.join(name));
        assert!(removed.is_ok() || name != "almanac.db");
    }
    let mut served = served.start_again();
    served.program.wait_until_ready();
    let rebuilt = until_revisions(&served, 1);
    assert_eq!(rebuilt[0]["revision"], before[0]["revision"]);
    assert_eq!(rebuilt[0]["content"], before[0]["content"]);
    assert_eq!(outlines(), 2);
    folders.replace("a", &version(2));
    let after = until_revisions(&served, 2);
    assert_eq!(after[0]["changes"], before[0]["changes"]);
    let from = &json(&served, "changes")["from"];
    assert_eq!(from["revision"], rebuilt[0]["revision"]);
}

#[test]
fn a_feed_of_one_package_tells_its_updates_and_refuses_unknown_names() {
    let (before, after) = before_and_after();
    let folders = Folders::of("a", &before);
    let served = Served::catalogs(&folders);
    until_revisions(&served, 1);
    folders.replace("a", &after);
    until_revisions(&served, 2);
    let feed = |query: &str| served.get(&format!("{API}/changes.atom{query}"));
    let entries = |query: &str| feed(query).text().matches("<entry>").count();
    assert_eq!(entries(""), 1);
    assert_eq!(entries("?package=mast"), 1);
    // A package that is gone has a feed as long as its end is remembered.
    assert_eq!(entries("?package=gone"), 1);
    let unknown = feed("?package=lmap");
    assert_eq!(unknown.status, 404);
    assert!(unknown.text().contains("lamp"), "{}", unknown.text());
    assert_eq!(feed("?packages=lamp").status, 400);

    // The same content at another digest changes nothing, and is no news.
    let beside = tempfile::NamedTempFile::new().unwrap();
    std::fs::rename(beside.path(), folders.path("a").join(".indexignore")).unwrap();
    let both = until_revisions(&served, 3);
    assert_eq!(both[0]["changes"], 0);
    assert_eq!(entries(""), 1);
}

/// The content of two revisions may be the same, and the answers about them are not.
#[test]
fn a_page_tells_the_changes_of_a_package_also_after_large_updates() {
    let all = |version: &str| {
        (0..120).fold(Catalog::new(), |catalog, at| {
            let name = format!("p{at:03}");
            catalog.package(&name, |package| {
                package.channel("stable", [entry(&format!("{name}.v{version}"))])
            })
        })
    };
    let folders = Folders::of("a", &all("1.0.0"));
    let served = Served::catalogs(&folders);
    until_revisions(&served, 1);
    folders.replace("a", &all("2.0.0"));
    until_revisions(&served, 2);
    let changes = json(&served, "changes")["changes"].clone();
    let more = changes.as_array().unwrap().len() - 100;
    let page = |path: &str| {
        let reply = served.ask("GET", path, &[("Accept", "text/html")]);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.text()
    };
    let text = page("/changes");
    assert!(
        text.contains(&format!("… and {more} more changes")),
        "{text}"
    );
    assert!(!text.contains("p110.v2.0.0"), "{text}");
    for path in [
        "/catalogs/a/packages/p110/history",
        "/catalogs/a/changes?package=p110",
        "/changes?package=p110",
    ] {
        let text = page(path);
        assert!(text.contains("p110.v2.0.0"), "{path}: {text}");
        assert!(
            !text.contains("p111") && !text.contains("… and"),
            "{path}: {text}"
        );
    }
}

#[test]
fn answers_about_the_history_have_a_tag_and_no_date() {
    let folders = Folders::of("a", &version(0));
    let served = Served::catalogs(&folders);
    until_revisions(&served, 1);
    for path in ["revisions", "changes", "changes.atom"] {
        let reply = served.get(&format!("{API}/{path}"));
        assert!(reply.header("etag").is_some(), "{path}");
        assert_eq!(reply.header("last-modified"), None, "{path}");
        let since = "Sun, 01 Jan 2090 00:00:00 GMT";
        let headers = [("if-modified-since", since)];
        let reply = served.ask("GET", &format!("{API}/{path}"), &headers);
        assert_eq!(reply.status, 200, "{path}");
    }
}
