//! The program following catalogs that a test names: what it serves, and what
//! it says of itself.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use almanac::proto::{ListPackageRequest, PackageName};
use http::uri::PathAndQuery;
use serde_json::Value;
use tempfile::TempDir;
use tonic::transport::Endpoint;

use super::catalog::{Catalog, Format};
use super::file;
use super::http::{Reply, ask, get};
use super::program::{PATIENCE, Program, Start, pause};

use super::runtime::block_on;

/// The same for what is only done when nobody else wants the processor.
pub(crate) const LONG_PATIENCE: Duration = Duration::from_mins(2);

/// A program that serves what a configuration says, on free ports.
pub(crate) struct Almanac {
    pub(crate) program: Program,
    config: PathBuf,
    /// Where the configuration lies.
    _folder: TempDir,
}

/// A configuration with one catalog `a` that is looked at as often as can be.
/// More keys of the catalog may be appended, and tables after those.
pub(crate) fn following(source: &str) -> String {
    format!("poll = \"100ms\"\n{}", catalog("a", source))
}

/// A catalog as it stands in a configuration.
pub(crate) fn catalog(name: &str, source: &str) -> String {
    format!("\n[[catalog]]\nname = {name:?}\nsource = {source:?}\n")
}

/// Serves a catalog `open`, and one that only readers with the token `reader-secret` see,
/// `closed`.
pub(crate) fn open_and_closed(contents: [&Catalog; 2]) -> (TempDir, Almanac) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut config = String::new();
    for (name, content) in ["open", "closed"].into_iter().zip(contents) {
        fs::create_dir_all(path(name)).unwrap();
        content.write_to(&folder.path().join(name), Format::JsonLines);
        config += &catalog(name, &format!("file:{}", path(name)));
    }
    fs::write(path("tokens"), "reader-secret\n").unwrap();
    let tokens = format!("token_files = [{:?}]\n", path("tokens"));
    let mut almanac = Almanac::start(&(config + &tokens));
    for name in ["open", "closed"] {
        almanac.until(name, "a revision", |status| status["state"] == "serving");
    }
    (folder, almanac)
}

impl Almanac {
    /// Starts it with the text of a configuration, which names no ports and no
    /// data folder.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_as(config, |start| start)
    }

    /// Starts it on a data folder that is there.
    pub(crate) fn start_in(data: &Path, config: &str) -> Self {
        Self::start_as(config, |start| start.data(data))
    }

    /// Starts it with variables of the environment as well.
    pub(crate) fn start_with(config: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_as(config, |start| {
            variables
                .iter()
                .fold(start, |start, (name, value)| start.variable(name, value))
        })
    }

    fn start_as(config: &str, more: impl FnOnce(Start) -> Start) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("almanac.toml");
        fs::write(&path, config).unwrap();
        Self::start_at(path, folder, more)
    }

    /// Starts it with a configuration that somebody else looks after.
    pub(crate) fn start_from(config: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_at(config.to_owned(), folder, |start| start)
    }

    fn start_at(path: PathBuf, folder: TempDir, more: impl FnOnce(Start) -> Start) -> Self {
        let start = Start::new(["serve", "--config", path.to_str().unwrap()])
            .argument("--data-dir={data}")
            .argument("--grpc=127.0.0.1:0")
            .argument("--http=127.0.0.1:0")
            .argument("--admin=127.0.0.1:0");
        Self {
            program: more(start).start(),
            config: path,
            _folder: folder,
        }
    }

    /// Starts it anew with another configuration, after it has ended.
    pub(crate) fn restart_with(&mut self, config: &str) {
        fs::write(&self.config, config).unwrap();
        self.program.restart();
    }

    /// Replaces its configuration while it runs, in one step.
    pub(crate) fn configure(&self, config: &str) {
        file::replace(&self.config, config);
    }

    /// Replaces its configuration and tells it so. It may have seen the change
    /// by itself when it is told, and take the same twice.
    pub(crate) fn reconfigure(&mut self, config: &str) {
        self.configure(config);
        self.program.signal("HUP");
    }

    /// The configuration in the status.
    pub(crate) fn configuration(&mut self) -> Value {
        let address = self.program.address("admin");
        let reply = get(address, "/status").unwrap();
        let mut status: Value = serde_json::from_slice(&reply.body).unwrap();
        status["configuration"].take()
    }

    /// Waits until that is as `good` wants it.
    pub(crate) fn until_configuration(
        &mut self,
        what: &str,
        good: impl Fn(&Value) -> bool,
    ) -> Value {
        let begin = Instant::now();
        loop {
            let found = self.configuration();
            if good(&found) {
                return found;
            }
            let late = begin.elapsed() >= PATIENCE;
            assert!(!late, "waiting for {what}, the status has {found:#}");
            pause(begin);
        }
    }

    /// The names of the catalogs in the status.
    pub(crate) fn names(&mut self) -> Vec<String> {
        let address = self.program.address("admin");
        let reply = get(address, "/status").unwrap();
        let status: Value = serde_json::from_slice(&reply.body).unwrap();
        let catalogs = status["catalogs"].as_array().unwrap().iter();
        let name = |catalog: &Value| catalog["name"].as_str().unwrap().to_owned();
        catalogs.map(name).collect()
    }

    /// Waits until these are the catalogs.
    pub(crate) fn until_names(&mut self, wanted: &[&str]) {
        let begin = Instant::now();
        loop {
            let names = self.names();
            if names == wanted {
                return;
            }
            let late = begin.elapsed() >= PATIENCE;
            assert!(!late, "waiting for {wanted:?}, there are {names:?}");
            pause(begin);
        }
    }

    /// All metrics, as text.
    pub(crate) fn metrics(&mut self) -> String {
        let address = self.program.address("admin");
        get(address, "/metrics").unwrap().text()
    }

    /// Waits until the metrics have this text, and gives them back.
    pub(crate) fn until_metrics(&mut self, wanted: &str) -> String {
        let begin = Instant::now();
        loop {
            let metrics = self.metrics();
            if metrics.contains(wanted) {
                return metrics;
            }
            let late = begin.elapsed() >= PATIENCE;
            assert!(!late, "waiting for {wanted:?}, there is {metrics}");
            pause(begin);
        }
    }

    /// Ends it as an operator does, and waits for that.
    pub(crate) fn stop(&mut self) {
        self.program.terminate();
        let status = self.program.wait(PATIENCE);
        assert!(status.success(), "{status}");
    }

    /// Asks the HTTP API.
    pub(crate) fn http(&mut self, path: &str) -> Reply {
        let address = self.program.address("http");
        get(address, path).unwrap()
    }

    /// Asks for the whole of a catalog.
    pub(crate) fn all(&mut self, catalog: &str) -> Reply {
        self.http(&all_path(catalog))
    }

    /// Asks for the whole of a catalog, compressed, and unpacks it.
    pub(crate) fn all_of_gzip(&mut self, catalog: &str) -> String {
        let address = self.program.address("http");
        let headers = [("Accept-Encoding", "gzip")];
        let reply = ask(address, "GET", &all_path(catalog), &headers, b"").unwrap();
        assert_eq!(reply.status, 200);
        let Some("gzip") = reply.header("content-encoding") else {
            return reply.text();
        };
        let gzip = flate2::read::GzDecoder::new(&reply.body[..]);
        std::io::read_to_string(gzip).unwrap()
    }

    /// The names of a catalog's packages, as gRPC lists them.
    pub(crate) fn packages(&mut self, catalog: &str) -> Result<Vec<String>, tonic::Status> {
        let address = self.program.address("grpc");
        block_on(list_packages(address, catalog))
    }

    /// A catalog in the status.
    pub(crate) fn status(&mut self, catalog: &str) -> Value {
        let address = self.program.address("admin");
        let mut status: Value = serde_json::from_slice(&get(address, "/status").unwrap().body)
            .expect("the status is JSON");
        let catalogs = status["catalogs"].as_array_mut().unwrap();
        let found = catalogs
            .iter_mut()
            .find(|status| status["name"] == catalog)
            .map(Value::take);
        found.unwrap_or_else(|| panic!("the status has no catalog {catalog}"))
    }

    /// The answer to the question whether it is ready.
    pub(crate) fn ready(&mut self) -> Reply {
        let address = self.program.address("admin");
        get(address, "/readyz").unwrap()
    }

    /// Waits until the status of a catalog is as `good` wants it.
    pub(crate) fn until(
        &mut self,
        catalog: &str,
        what: &str,
        good: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_within(PATIENCE, catalog, what, good)
    }

    pub(crate) fn until_within(
        &mut self,
        patience: Duration,
        catalog: &str,
        what: &str,
        good: impl Fn(&Value) -> bool,
    ) -> Value {
        let begin = Instant::now();
        loop {
            let status = self.status(catalog);
            if good(&status) {
                return status;
            }
            assert!(
                begin.elapsed() < patience,
                "waiting for {what}, the status is {status:#}"
            );
            pause(begin);
        }
    }

    /// Waits until it serves the revision of a digest.
    pub(crate) fn until_at(&mut self, catalog: &str, digest: &images::digest::Digest) -> Value {
        let digest = digest.to_string();
        self.until(catalog, &format!("{catalog} at {digest}"), |status| {
            status["revision"]["digest"] == digest.as_str()
        })
    }

    /// Waits until a pass has failed.
    pub(crate) fn until_failed(&mut self, catalog: &str) -> Value {
        self.until(catalog, "a failure", |status| status["failures"] != 0)
    }

    /// The files in a folder of the data, by path, each with its length and
    /// the time of its last change.
    pub(crate) fn files(&self, folder: &str) -> BTreeMap<String, (u64, SystemTime)> {
        let mut files = BTreeMap::new();
        walk(&self.program.data().join(folder), "", &mut files);
        files
    }

    /// The blobs that it keeps.
    pub(crate) fn blobs(&self) -> Vec<String> {
        self.files("blobs/sha256").into_keys().collect()
    }

    /// Waits until it keeps so many blobs.
    pub(crate) fn until_blobs(&self, count: usize) {
        let begin = Instant::now();
        while self.blobs().len() != count {
            let late = begin.elapsed() >= PATIENCE;
            assert!(!late, "waiting for {count} blobs: {:?}", self.blobs());
            pause(begin);
        }
    }

    /// The blobs that it keeps and has not made itself, for the image of a
    /// catalog.
    pub(crate) fn pulled_blobs(&mut self, catalog: &str) -> Vec<String> {
        let image = self.http(&format!("/v2/{catalog}/manifests/latest"));
        let made = String::from_utf8(image.body.clone()).unwrap();
        let own = images::digest::Digest::of(&image.body).hex();
        let mut blobs = self.blobs();
        blobs.retain(|blob| !made.contains(blob.as_str()) && *blob != own);
        blobs
    }

    /// Waits until a catalog is served and nothing more is made of its
    /// revision; gives its status.
    pub(crate) fn until_whole(&mut self, catalog: &str) -> Value {
        self.until_within(LONG_PATIENCE, catalog, "all of a revision", |status| {
            let bytes = &status["revision"]["bytes"];
            bytes["gzip"].is_u64() && bytes["segments"].is_u64()
        })
    }

    /// Waits until the image of a catalog can be pulled.
    pub(crate) fn until_pullable(&mut self, catalog: &str) -> Reply {
        let path = format!("/v2/{catalog}/manifests/latest");
        let begin = Instant::now();
        loop {
            let reply = self.http(&path);
            if reply.status == 200 {
                return reply;
            }
            assert!(begin.elapsed() < PATIENCE, "{}", reply.text());
            pause(begin);
        }
    }

    /// Waits until the whole of each of so many revisions is encoded, which is
    /// done when nobody else wants the processor.
    pub(crate) fn until_encoded(&self, revisions: usize) {
        let encoded = || {
            let files = self.files("revisions");
            // While one is made it lies in a folder beside.
            let settled = !self.revisions().iter().any(|name| name.starts_with("new-"));
            let made = ["/metas.deflate", "/all.gz", "/all.zst"];
            let is_made = |name: &&String| made.iter().any(|end| name.ends_with(end));
            settled && files.keys().filter(is_made).count() == made.len() * revisions
        };
        let begin = Instant::now();
        while !encoded() {
            let late = begin.elapsed() >= LONG_PATIENCE;
            assert!(!late, "{:?}", self.files("revisions"));
            pause(begin);
        }
    }

    /// The names in the folder of revisions.
    pub(crate) fn revisions(&self) -> Vec<String> {
        let folder = self.program.data().join("revisions");
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn all_path(catalog: &str) -> String {
    format!("/catalogs/{catalog}/api/v1/all")
}

async fn list_packages(address: SocketAddr, catalog: &str) -> Result<Vec<String>, tonic::Status> {
    let channel = Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .origin(format!("http://{catalog}").parse().unwrap())
        .timeout(PATIENCE)
        .connect()
        .await
        .unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/api.Registry/ListPackages");
    let codec = tonic_prost::ProstCodec::<ListPackageRequest, PackageName>::default();
    let request = tonic::Request::new(ListPackageRequest {});
    let mut stream = client.server_streaming(request, path, codec).await?;
    let mut names = Vec::new();
    while let Some(package) = stream.get_mut().message().await? {
        names.push(package.name);
    }
    Ok(names)
}

fn walk(folder: &Path, prefix: &str, files: &mut BTreeMap<String, (u64, SystemTime)>) {
    let entries = match fs::read_dir(folder) {
        // It may be gone by now, and each of its entries too.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        entries => entries.unwrap(),
    };
    for entry in entries {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() {
            walk(&entry.path(), &format!("{path}/"), files);
        } else {
            files.insert(path, (metadata.len(), metadata.modified().unwrap()));
        }
    }
}
