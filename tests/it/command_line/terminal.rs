//! Output of `serve` on a terminal, and for a log collector.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use super::server;
use crate::support::catalog::{Catalog, entry};
use crate::support::file::root;
use crate::support::image::Image;
use crate::support::program::{PATIENCE, Start};
use crate::support::upstream::Upstream;

/// A program with a terminal as its standard error, and what it writes there.
struct OnTerminal {
    child: Child,
    terminal: File,
    text: String,
}

impl OnTerminal {
    fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, None)
    }

    /// Output of a command on a terminal with so many columns, until it ends.
    fn shown(line: &str, columns: &str) -> String {
        // Progress would mix with the output.
        let words: Vec<&str> = line.split_whitespace().chain(["--quiet"]).collect();
        let mut program = Self::start_with(&words, Some(columns));
        let mut bytes = Vec::new();
        // It fails at the end: the program has closed its end.
        let _ = program.terminal.read_to_end(&mut bytes);
        String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
    }

    /// With `columns`, the terminal is standard output, too.
    fn start_with(arguments: &[&str], columns: Option<&str>) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let name = name.to_str().unwrap();
        let user: OwnedFd = File::options()
            .read(true)
            .write(true)
            .open(name)
            .unwrap()
            .into();
        let mut command = Command::new(env!("CARGO_BIN_EXE_almanac"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ALMANAC_") {
                command.env_remove(name);
            }
        }
        let output = match columns {
            Some(columns) => {
                command.env("COLUMNS", columns);
                user.try_clone().unwrap().into()
            }
            None => Stdio::null(),
        };
        let child = command
            .args(arguments)
            .current_dir(root())
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(user)
            .spawn();
        Self {
            child: child.unwrap(),
            terminal: controller.into(),
            text: String::new(),
        }
    }

    /// Reads until the text has this part.
    fn until(&mut self, part: &str) {
        let begin = Instant::now();
        let mut piece = [0; 4096];
        while !self.text.contains(part) {
            assert!(begin.elapsed() < PATIENCE, "no {part:?} in {:?}", self.text);
            // It fails once the program has closed its end.
            match self.terminal.read(&mut piece) {
                Ok(length) => self
                    .text
                    .push_str(&String::from_utf8_lossy(&piece[..length])),
                Err(error) => panic!("{error}: no {part:?} in {:?}", self.text),
            }
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(data: &str) -> Vec<String> {
    [
        "serve",
        "--grpc=127.0.0.1:0",
        "--http=127.0.0.1:0",
        "--admin=127.0.0.1:0",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([
        format!("--data-dir={data}"),
        "file:deploy/catalog".to_owned(),
    ])
    .collect()
}

#[test]
fn a_terminal_gets_short_lines_and_the_page_to_open() {
    let data = tempfile::tempdir().unwrap();
    let arguments = serve(data.path().to_str().unwrap());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut program = OnTerminal::start(&arguments);
    program.until("open http://localhost:");
    program.until("started");
    let first = program.text.lines().next().unwrap();
    assert!(first.contains('\u{1b}'), "{first:?}");
    assert!(!first.contains("almanac::"), "no modules: {first:?}");
    let year = format!(
        "{}-",
        &humantime::format_rfc3339(std::time::SystemTime::now()).to_string()[..4]
    );
    assert!(!first.contains(&year), "no dates: {first:?}");
    program.until("serving the image");
    for line in program.text.lines() {
        let named = super::plain(line).matches("catalog=").count();
        assert!(named <= 1, "{line:?}");
    }
    for (colour, coloured) in [("never", false), ("auto", true)] {
        let colour = format!("--color={colour}");
        let mut failing = OnTerminal::start(&["check", "file:no/where", &colour]);
        failing.until("cannot be read");
        assert_eq!(
            failing.text.contains('\u{1b}'),
            coloured,
            "{:?}",
            failing.text
        );
    }
}

#[test]
fn tables_fit_a_terminal_of_80_columns() {
    let mut text = String::new();
    for line in [
        "search file:deploy/catalog operator",
        "providers file:deploy/catalog Crossing",
        "providers file:deploy/catalog Crossing --entries",
        "updates file:deploy/catalog ferry-operator --from 2.0.0",
        "list packages file:deploy/catalog",
        "list channels file:deploy/catalog",
        "list bundles file:deploy/catalog lantern-operator",
    ] {
        for colour in ["never", "always"] {
            let line = format!("{line} --color {colour}");
            let table = OnTerminal::shown(&line, "80");
            let fits = |line| super::plain(line).chars().count() <= 80;
            assert!(table.lines().all(fits), "{table}");
            let table = table.replace('\u{1b}', "ESC");
            let _ = writeln!(text, "$ almanac {line}\n{table}");
        }
    }
    insta::assert_snapshot!("tables_80", text);
    let search = "search file:deploy/catalog operator --color never";
    for columns in [72, 80, 100] {
        let table = OnTerminal::shown(search, &columns.to_string());
        let fits = table.lines().all(|line| line.chars().count() <= columns);
        assert!(fits && table.contains('…'), "{columns}: {table}");
    }
}

#[test]
fn what_is_stored_and_what_a_policy_says_fit_a_terminal_of_80_columns() {
    let mut server = server();
    let folder = tempfile::tempdir().unwrap();
    let image = Image::of_catalog(&Catalog::one("a")).build();
    image.add_to_layout(&folder.path().join("layout"), "v1");
    let policy = folder.path().join("policy.json");
    std::fs::write(
        &policy,
        r#"{"default": [{"type": "reject"}], "transports": {"oci": {"": [
            {"type": "insecureAcceptAnything"},
            {"type": "sigstoreSigned", "keyPath": "/nowhere/cosign.pub"}
        ]}}}"#,
    )
    .unwrap();
    let layout = folder.path().join("layout").display().to_string();
    let policy = policy.display().to_string();
    let data = server.data().display().to_string();
    let mut text = String::new();
    for line in [
        "prune --data-dir DATA --catalog community --catalog other",
        "verify oci:LAYOUT:v1 --policy-file POLICY",
    ] {
        let typed = line.replace("DATA", &data).replace("LAYOUT", &layout);
        let typed = typed.replace("POLICY", &policy);
        for colour in ["never", "always"] {
            let shown = OnTerminal::shown(&format!("{typed} --color {colour}"), "80");
            let shown = shown.replace('\u{1b}', "ESC").replace(&layout, "LAYOUT");
            let shown = without_sizes(&shown.replace(&policy, "POLICY"));
            let _ = writeln!(text, "$ almanac {line} --color {colour}\n{shown}");
        }
    }
    insta::assert_snapshot!("stored_and_verified_80", text);
    server.terminate();
}

/// A text without the sizes in its tables, and as if they were as wide as their title:
/// they change with the formats of files, and while files are still being made.
fn without_sizes(text: &str) -> String {
    let line = |line: &str| {
        let cut = line.split_once("SIZE ").or_else(|| line.split_once("KiB "));
        match cut {
            Some((start, end)) if line.contains("KiB") => {
                let start = start.trim_end();
                let at = start.rfind(' ').map_or(0, |blank| blank + 1);
                format!("{}SIZE  {}\n", &start[..at], end.trim_start())
            }
            Some((start, end)) => format!("{start}SIZE  {}\n", end.trim_start()),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

#[test]
fn tables_of_a_server_have_titles_in_bold_on_a_terminal() {
    let mut server = server();
    let (http, admin) = (server.address("http"), server.address("admin"));
    for (line, titles) in [
        (
            format!("list catalogs --server http://{http}"),
            "NAME       STATE    PACKAGES  BUNDLES  MODIFIED              DIGEST",
        ),
        (
            format!("status --admin {admin}"),
            "NAME       STATE    PACKAGES  BUNDLES  LEFT OUT  LAST PASS",
        ),
    ] {
        let coloured = OnTerminal::shown(&line, "80");
        let start = format!("\u{1b}[1m{titles}");
        assert!(coloured.starts_with(&start), "{coloured}");
        assert_eq!(coloured.matches('\u{1b}').count(), 2, "{coloured}");
        let plain = OnTerminal::shown(&format!("{line} --color never"), "80");
        assert!(plain.starts_with(titles), "{plain}");
        assert!(!plain.contains('\u{1b}'), "{plain}");
    }
}

#[test]
fn without_a_terminal_serve_logs_json() {
    let arguments = serve("{data}");
    let start = Start::new(arguments.iter().map(String::as_str)).within(root());
    let mut program = start.variable("ALMANAC_LOG_FORMAT", "").start();
    program.wait_until_ready();
    let log = program.log();
    let mut lines = log.lines();
    assert!(lines.clone().count() > 3, "{log}");
    let is_json = lines.all(|line| serde_json::from_str::<Value>(line).is_ok());
    assert!(is_json, "{log}");
    assert!(!log.contains("open http"), "{log}");
}

#[test]
fn a_pull_shows_its_progress_on_a_terminal_unless_it_is_quiet() {
    // What does not compress, so that the layer is as large.
    let mut text = String::new();
    for number in 0_u64..20_000 {
        let _ = write!(text, "{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    let catalog = Catalog::new().package("a", |package| {
        package
            .description(&text)
            .channel("stable", [entry("a.v1.0.0")])
    });
    let registry = Upstream::start();
    registry.push("org/catalog", "v1", &Image::of_catalog(&catalog).build());
    registry.misbehave(|behaviour| {
        behaviour.slow = Some((16 << 10, Duration::from_millis(200)));
    });
    let source = registry.reference("org/catalog", "v1");
    let mut pulling = OnTerminal::start(&["check", &source]);
    let mut quiet = OnTerminal::start(&["check", &source, "--quiet"]);
    pulling.until("pulling");
    pulling.until("left");
    assert!(pulling.text.contains("/s"), "{:?}", pulling.text);
    assert!(pulling.child.wait().unwrap().success());
    assert!(quiet.child.wait().unwrap().success());
    let mut rest = String::new();
    // It fails at the end: the program has closed its end.
    let _ = quiet.terminal.read_to_string(&mut rest);
    assert_eq!(rest, "");
}
