//! A site with two real catalogs, for all tests of this module.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::http::Reply;
use crate::support::needs::{shared, skip_without};
use crate::support::program::PATIENCE;
use crate::support::served::{Served, start, with};
use crate::web_pages::site::{attributes, page};

/// The archives, each with the name of its catalog.
const CATALOGS: [(&str, &str); 2] = [("large", "community-large"), ("real", "community-v4.20")];

/// The site.
pub(super) struct Real {
    pub(super) served: Served,
    folder: PathBuf,
    /// Ends the program and removes the folder when this process ends: nothing drops
    /// what is static.
    _end: std::process::ChildStdin,
}

/// The site; `None`, with a word about it, where the catalogs are missing.
#[track_caller]
pub(super) fn real() -> Option<&'static Real> {
    static REAL: OnceLock<Real> = OnceLock::new();
    if skip_without("shared") {
        return None;
    }
    Some(REAL.get_or_init(Real::start))
}

impl Real {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        let shared = shared().unwrap();
        let sources = CATALOGS.map(|(name, archive)| {
            let into = folder.join(name);
            unpack(&shared.join(format!("corpus/{archive}.tar.zst")), &into);
            format!("{name}=file:{}", only_folder(&into).display())
        });
        let mut served = Served::begin(with(start(), sources));
        for (name, _) in CATALOGS {
            // Thousands of bundles take a while where other programs run.
            let is_served = |status: &Value| status["state"] == "serving";
            served.wait_for_status_within(PATIENCE * 4, name, is_served);
        }
        // The program may write until it has ended.
        let script = "read line; kill -9 \"$0\"; sleep 1; rm -r \"$@\"";
        let mut end = Command::new("sh");
        end.args(["-c", script, &served.program.pid().to_string()])
            .arg(&folder)
            .args(served.program.data().parent())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let end = end.spawn().unwrap().stdin.unwrap();
        Self {
            served,
            folder,
            _end: end,
        }
    }

    /// A page as text.
    pub(super) fn text(&self, path: &str) -> String {
        let reply = self.page(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.text()
    }

    pub(super) fn page(&self, path: &str) -> Reply {
        page(&self.served, path)
    }

    /// An answer of the API.
    pub(super) fn json(&self, path: &str) -> Value {
        let reply = self.served.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        serde_json::from_slice(&reply.body).unwrap()
    }

    /// The documents of the large catalog with this schema, read without almanac.
    pub(super) fn documents(&self, schema: &str) -> Vec<Value> {
        let root = only_folder(&self.folder.join(CATALOGS[0].0));
        let mut found = Vec::new();
        for package in std::fs::read_dir(root).unwrap() {
            let file = package.unwrap().path().join("catalog.json");
            let Ok(text) = std::fs::read(&file) else {
                continue;
            };
            for value in serde_json::Deserializer::from_slice(&text).into_iter() {
                let value: Value = value.unwrap();
                if value["schema"] == schema {
                    found.push(value);
                }
            }
        }
        found
    }
}

/// The names of the packages of the large catalog.
pub(super) fn packages(real: &Real) -> Vec<String> {
    let list = real.json("/catalogs/large/api/v1/packages?limit=500&fields=name");
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The text of a page: what stands between its tags.
pub(super) fn words(text: &str) -> String {
    let main = text.split("<main").nth(1).unwrap_or(text);
    let main = main.split("</main>").next().unwrap_or(main);
    let parts = main.split('<').skip(1);
    let parts = parts.filter_map(|part| Some(part.split_once('>')?.1));
    plain(&parts.collect::<String>())
}

/// Text without the escapes of HTML.
pub(super) fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    for (escape, sign) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
    ] {
        text = text.replace(escape, sign);
    }
    text.replace("&amp;", "&")
}

/// The texts of the blocks of code with this label.
pub(super) fn code(text: &str, label: &str) -> Vec<String> {
    let start = format!("aria-label=\"{label}\"><code>");
    let parts = text.split(&start).skip(1);
    let parts = parts.map(|part| part.split("</code>").next().unwrap());
    parts.map(plain).collect()
}

/// The addresses of links that begin with a text.
pub(super) fn links(text: &str, start: &str) -> Vec<String> {
    let mut links = attributes(text, "href");
    links.retain(|link| link.starts_with(start));
    links
}

fn unpack(archive: &Path, into: &Path) {
    let file = std::fs::File::open(archive).unwrap();
    let mut tar = tar::Archive::new(zstd::Decoder::new(file).unwrap());
    tar.unpack(into).unwrap();
    // A cut archive is an error, and no shorter catalog.
    let mut rest = tar.into_inner();
    std::io::copy(&mut rest.by_ref(), &mut std::io::sink()).unwrap();
}

fn only_folder(folder: &Path) -> PathBuf {
    let mut folders = std::fs::read_dir(folder).unwrap();
    let found = folders.next().unwrap().unwrap().path();
    assert!(folders.next().is_none(), "{}", folder.display());
    found
}
