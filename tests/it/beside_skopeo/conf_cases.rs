//! Cases of `registries.conf`: rules, images, and hosts that fail.

use std::fmt::Write as _;

use fastrand::Rng;

use super::case::{Case, LOCAL};
use super::network::{Access, Connection, Host, TOKEN_HOST};
use super::pki::Signer;
use super::registry::{Answer, common};

/// The start of the names of these cases.
pub(super) const NAME: &str = "registries.conf";
/// Where images come from, and where mirrors are.
const SOURCES: [&str; 5] = ["a.test", "b.test:5000", "x.c.test", "y.c.test", "docker.io"];
const MIRRORS: [&str; 5] = [
    "m1.test",
    "m2.test:8443",
    "m3.test",
    "x.c.test",
    "127.0.0.1:{local}",
];
const PATHS: [&str; 4] = ["team/app", "team/sub/app", "app", "other/app"];
/// The main file. A folder for further ones has this name and `.d` behind it.
pub(super) const CONF: &str = "registries.conf";
/// Where the files of a user are.
pub(super) const HOME: &str = "home/.config/containers/";

pub(super) fn case(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let image = image(&mut rng);
    let mut case = Case {
        name: format!("{NAME} {seed}"),
        world: world(&mut rng),
        image,
        ..Case::default()
    };
    let main = conf(&mut rng, &case.image);
    let main = if rng.u8(..6) == 0 {
        faulty(&mut rng, main)
    } else {
        main
    };
    if rng.bool() {
        case.file(CONF, main);
        name_conf(&mut case, CONF);
        return case;
    }
    // skopeo has no flag for the folder of further files.
    case.file(&format!("{HOME}{CONF}"), main);
    for name in ["1.conf", "2.conf", ".z.conf", "3.txt"] {
        if rng.u8(..4) == 0 {
            let text = conf(&mut rng, &case.image);
            case.file(&format!("{HOME}{CONF}.d/{name}"), text);
        }
    }
    case
}

/// Names a file to both programs.
pub(super) fn name_conf(case: &mut Case, path: &str) {
    case.global_flags = vec![format!("--registries-conf={{folder}}/{path}")];
    case.settings = format!("registries_conf = [\"{{folder}}/{path}\"]\n");
}

pub(super) fn one_of<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

fn image(rng: &mut Rng) -> String {
    let host = one_of(rng, &SOURCES);
    let path = match (host, one_of(rng, &PATHS)) {
        ("docker.io", "app") if rng.bool() => "library/app",
        (_, path) => path,
    };
    let host = match host {
        "docker.io" if rng.u8(..4) == 0 => "index.docker.io",
        host => host,
    };
    if rng.bool() {
        format!("{host}/{path}:v1")
    } else {
        format!("{host}/{path}@{}", common().0)
    }
}

pub(super) fn world(rng: &mut Rng) -> super::network::World {
    let names = SOURCES.iter().chain(&MIRRORS).map(|name| match *name {
        "docker.io" => "registry-1.docker.io",
        name => name,
    });
    names.map(|name| (name.to_owned(), host(rng))).collect()
}

fn host(rng: &mut Rng) -> Host {
    let connection = match rng.u8(..20) {
        0..=11 => Connection::Tls(Signer::Trusted),
        12..=14 => Connection::Tls(Signer::Stranger),
        15..=16 => Connection::Plain,
        17 => Connection::Either,
        _ => Connection::Refused,
    };
    let answer = match rng.u8(..20) {
        0..=9 => Answer::Image,
        10..=14 => Answer::NotFound,
        15 => Answer::Status(500),
        16 => Answer::Status(403),
        17 => Answer::Status(401),
        _ => Answer::WrongBytes,
    };
    let access = match rng.u8(..20) {
        0..=15 => Access::Open,
        16 => Access::Basic,
        17 => Access::Token(None),
        18 => Access::Token(Some(TOKEN_HOST)),
        _ => Access::TokenRefused,
    };
    Host {
        connection,
        wants_certificate: false,
        access,
        answer,
    }
}

/// A file with some rules.
fn conf(rng: &mut Rng, image: &str) -> String {
    let mut text = String::new();
    if rng.u8(..6) == 0 {
        text.push_str("unqualified-search-registries = [\"a.test\"]\n");
    }
    let mut prefixes: Vec<String> = Vec::new();
    for _ in 0..rng.u8(1..4) {
        let prefix = prefix(rng, image);
        // Mostly no prefix has two rules.
        if !prefixes.contains(&prefix) || rng.u8(..6) == 0 {
            text.push_str(&rule(rng, &prefix));
            prefixes.push(prefix);
        }
    }
    text
}

fn prefix(rng: &mut Rng, image: &str) -> String {
    let name = image.split('@').next().unwrap();
    let (host, path) = name.split_once('/').unwrap();
    let repository = match path.rsplit_once(':') {
        Some((repository, _)) => repository,
        None => path,
    };
    let first = repository.split('/').next().unwrap();
    match rng.u8(..20) {
        0..=6 => host.to_owned(),
        7..=9 => format!("{host}/{first}"),
        10..=12 => format!("{host}/{repository}"),
        13 => name.to_owned(),
        14 => image.to_owned(),
        15 => "*.c.test".to_owned(),
        16 => "*.test".to_owned(),
        17 => "docker.io".to_owned(),
        18 => one_of(rng, &MIRRORS).to_owned(),
        _ => one_of(rng, &SOURCES).to_owned(),
    }
}

fn rule(rng: &mut Rng, prefix: &str) -> String {
    let mut text = "[[registry]]\n".to_owned();
    let location = location(rng, prefix);
    if prefix.starts_with('*') {
        writeln!(text, "prefix = {prefix:?}").unwrap();
        if rng.u8(..4) == 0 {
            writeln!(text, "location = {location:?}").unwrap();
        }
    } else {
        match rng.u8(..10) {
            0..=5 => writeln!(text, "location = {prefix:?}").unwrap(),
            6..=7 => writeln!(text, "prefix = {prefix:?}\nlocation = {prefix:?}").unwrap(),
            _ => writeln!(text, "prefix = {prefix:?}\nlocation = {location:?}").unwrap(),
        }
    }
    let is_local = text.contains(LOCAL);
    for (key, chance) in [("blocked", 8), ("insecure", 5)] {
        if rng.u8(..chance) == 0 || is_local && key == "insecure" {
            writeln!(text, "{key} = true").unwrap();
        }
    }
    let by_digest = rng.u8(..8) == 0;
    if by_digest {
        text.push_str("mirror-by-digest-only = true\n");
    }
    for _ in 0..rng.u8(..4) {
        text.push_str(&mirror(rng, prefix, by_digest));
    }
    text
}

/// Somewhere else. For the prefix of a repository it mostly has a path, since
/// a host alone is no image.
fn location(rng: &mut Rng, prefix: &str) -> String {
    let host = one_of(rng, &MIRRORS);
    let depth = prefix.matches('/').count();
    match rng.u8(..8) {
        0 => format!("{host}/mirrors/here"),
        1 => format!("{host}/team"),
        2 if depth == 0 => one_of(rng, &SOURCES).to_owned(),
        3 => host.to_owned(),
        _ if depth == 0 => host.to_owned(),
        _ => format!("{host}/team/app"),
    }
}

fn mirror(rng: &mut Rng, prefix: &str, by_digest: bool) -> String {
    let location = location(rng, prefix);
    let mut text = format!("[[registry.mirror]]\nlocation = {location:?}\n");
    // Without this, almanac asks this machine over plain http.
    if location.contains(LOCAL) || rng.u8(..5) == 0 {
        text.push_str("insecure = true\n");
    }
    if !by_digest && rng.u8(..5) == 0 {
        let pull = one_of(rng, &["all", "digest-only", "tag-only"]);
        writeln!(text, "pull-from-mirror = {pull:?}").unwrap();
    }
    text
}

/// A file with a fault, or with something unusual.
fn faulty(rng: &mut Rng, text: String) -> String {
    let replaced = |from: &str, to: &str| text.replacen(from, to, 1);
    match rng.u8(..26) {
        0 => replaced("[[registry]]", "[[Registry]]"),
        1 => replaced("location", "Location"),
        2 => replaced("location = \"", "location = 7 # \""),
        3 => replaced("location = \"", "location = \"https://"),
        4 => text + "[[registry]]\nprefix = \"*.test/team\"\n",
        5 => text + "[[registry]]\nprefix = \"a.*.test\"\nlocation = \"m1.test\"\n",
        6 => "[registries.search]\nregistries = [\"a.test\"]\n".to_owned(),
        7 => text + "[registries.block]\nregistries = [\"a.test\"]\n",
        8 => replaced("[[registry]]\n", "[[registry]]\nnonsense = true\n"),
        9 => replaced("test\"\n", "test/\"\n"),
        10 => replaced("a.test", "A.test"),
        11 => replaced("m1.test", "m1.test/Team"),
        12 => replaced("location = \"", "location = \"\" # \""),
        13 => format!("# Nothing but this line\n{text}"),
        14 => replaced("[[registry]]\n", "[[registry]]\ninsecure = \"true\"\n"),
        15 => text + "[[registry.mirror]]\ninsecure = true\n",
        16 => replaced(
            "[[registry]]\n",
            "[[registry]]\nblocked = true\nblocked = true\n",
        ),
        17 => text + "[[registry.mirror]]\nlocation = \"m1.test\"\npull-from-mirror = \"never\"\n",
        18 => replaced("[[registry]]", "[registry]"),
        19 => format!("short-name-mode = \"often\"\n{text}"),
        20 => format!("unqualified-search-registries = [\"a b\"]\n{text}"),
        21 => replaced("[[registry]]\n", "[[registry]]\nBlocked = true\n"),
        22 => String::new(),
        23 => replaced("m1.test", " m1.test"),
        24 => text + "[[registry]]\nblocked = true\n",
        _ => text + "[[registry]\n",
    }
}
