//! The machine that a page's reader works on, made of a folder and free ports.
//!
//! The page's own names stand for those of the test:
//!
//! - `cargo run --release --` is almanac.
//! - The ports 50051, 8080 and 9090 are free ports, in commands and as the
//!   defaults of almanac.
//! - Folders from the root, such as `/var/lib/almanac`, are below the folder.
//! - `almanac.example.com` is this machine.
//! - Images of `quay.io` come from a registry of the test, by the mirrors of
//!   `registries.conf`.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::catalog::{Catalog, Format, entry};
use crate::support::grpc::Client;
use crate::support::http;
use crate::support::image::{CONFIGS_LABEL, Image, Layer};
use crate::support::needs::{on_path, skip_without};
use crate::support::port::free_port;
use crate::support::program::{PATIENCE, pause};
use crate::support::upstream::Upstream;

/// Folders of the pages that lie below the machine's own.
const FOLDERS: [&str; 4] = [
    "/var/lib/almanac",
    "/etc/containers",
    "/configs",
    "/tmp/cache",
];

/// Files that a reader of the pages has.
const FILES: &[(&str, &str)] = &[
    (
        "imageset-config.yaml",
        "apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\nmirror:\n  \
         operators:\n    - catalog: quay.io/operatorhubio/catalog:latest\n      packages:\n        \
         - name: etcd\n",
    ),
    ("pull-secret.json", "{\"auths\": {}}\n"),
    (
        "etc/containers/policy.json",
        "{\"default\": [{\"type\": \"insecureAcceptAnything\"}]}\n",
    ),
    (
        "cluster-resources/idms-oc-mirror.yaml",
        "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: idms}\n\
         spec: {imageDigestMirrors: []}\n",
    ),
    // An answer with a status of an error is a failure of curl.
    (".curlrc", "fail\n"),
];

/// The folder of a reader, and what runs there.
pub(super) struct Machine {
    folder: TempDir,
    grpc: SocketAddr,
    http: SocketAddr,
    admin: SocketAddr,
    server: Option<Child>,
    _registry: Upstream,
}

impl Machine {
    pub(super) fn new() -> Self {
        let registry = Upstream::start();
        registry.push("operatorhubio/catalog", "latest", &community().build());
        let mirror = format!(
            "[[registry]]\nprefix = \"quay.io\"\nlocation = \"{}\"\ninsecure = true\n",
            registry.host()
        );
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
            grpc: free_port(),
            http: free_port(),
            admin: free_port(),
            server: None,
            _registry: registry,
        };
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
        copy(&sample, &machine.folder.path().join("deploy"));
        copy(
            &sample.join("catalog"),
            &machine.folder.path().join("configs"),
        );
        machine.write("etc/containers/registries.conf", &mirror);
        for (name, content) in FILES {
            machine.write(name, content);
        }
        machine
    }

    /// Writes a file of the page.
    pub(super) fn write(&self, name: &str, content: &str) {
        let path = self.folder.path().join(name.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.local(content)).unwrap();
    }

    /// Runs a command of the page, and returns what it prints.
    pub(super) fn run(&mut self, page: &str, typed: &str, exit_code: i32) -> String {
        let typed = &typed.replace("cargo run --release --", "almanac");
        let mut line = self.local(typed);
        let words: Vec<&str> = typed.split_whitespace().collect();
        match words[..] {
            ["almanac", "serve", ..] if !words.contains(&"--check") => {
                self.serve(page, &line, self.admin);
                return String::new();
            }
            ["almanac", "opm", "serve", ..] if !words.contains(&"--cache-only") => {
                line = format!("{line} --port={}", self.grpc.port());
                self.serve(page, &line, self.grpc);
                return String::new();
            }
            ["grpcurl", ..] if !on_path("grpcurl") => return self.list_packages(&words),
            ["skopeo", ..] if skip_without("skopeo") => return String::new(),
            _ => {}
        }
        let (out, err) = (self.file("out"), self.file("err"));
        let mut command = self.command(&format!("set -o pipefail; {line}"));
        command.stdout(out).stderr(err);
        let status = wait(&mut command.spawn().unwrap(), typed);
        let (out, err) = (self.read("out"), self.read("err"));
        assert_eq!(
            status.code(),
            Some(exit_code),
            "{page}: `{typed}`\n{out}\n{err}"
        );
        if ["curl", "grpcurl"].contains(&words[0]) {
            let has_answer = !out.trim().is_empty()
                && !out.lines().any(|line| line == "null")
                && !out.contains("\"errors\":");
            assert!(has_answer, "{page}: `{typed}` prints {out:?}");
        }
        out
    }

    /// Ends the server of the page.
    pub(super) fn stop(&mut self) {
        let Some(mut server) = self.server.take() else {
            return;
        };
        // As Ctrl-C does. The shell has its own `kill`.
        let command = format!("kill -INT {}", server.id());
        let status = Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(status.success(), "{command}: {status}");
        let status = wait(&mut server, "the server");
        assert!(status.success(), "{status}: {}", self.read("log"));
    }

    /// Starts a server in the place of the one before, and waits until it answers
    /// at this address.
    fn serve(&mut self, page: &str, line: &str, address: SocketAddr) {
        self.stop();
        let log = self.file("log");
        let mut command = self.command(&format!("exec {line}"));
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let server = self.server.insert(command.spawn().unwrap());
        let begin = Instant::now();
        loop {
            let ended = server.try_wait().unwrap();
            let answers = if address == self.admin {
                is_ready(self.admin, self.http)
            } else {
                TcpStream::connect(address).is_ok()
            };
            if answers {
                return;
            }
            if ended.is_some() || begin.elapsed() >= PATIENCE {
                let log = fs::read_to_string(self.folder.path().join("log"));
                panic!("{page}: `{line}` does not serve: {ended:?}\n{log:?}");
            }
            pause(begin);
        }
    }

    /// Output of `grpcurl -plaintext [-authority HOST] ADDRESS api.Registry/ListPackages`
    /// asks.
    fn list_packages(&self, words: &[&str]) -> String {
        let [.., address, "api.Registry/ListPackages"] = words else {
            panic!("only ListPackages can be asked without grpcurl: {words:?}");
        };
        let at = words.iter().position(|word| *word == "-authority");
        let authority = at.map_or(*address, |at| words[at + 1]);
        let runtime = Runtime::new().unwrap();
        let packages = runtime.block_on(async {
            let client = Client::called(self.grpc, authority);
            client.raw_stream("/api.Registry/ListPackages", &[]).await
        });
        let packages = packages.unwrap();
        assert!(!packages.is_empty(), "{words:?}: no packages");
        format!("{packages:?}")
    }

    /// A text of the page with the names of this machine.
    fn local(&self, text: &str) -> String {
        let mut text = text.replace("almanac.example.com:", "localhost:");
        for (port, own) in [
            (":50051", self.grpc),
            (":8080", self.http),
            (":9090", self.admin),
        ] {
            text = text.replace(port, &format!(":{}", own.port()));
        }
        for folder in FOLDERS {
            for before in [' ', '=', '"', ':'] {
                let named = format!("{before}{folder}");
                let own = format!("{before}{}{folder}", self.folder.path().display());
                text = text.replace(&named, &own);
            }
        }
        text
    }

    /// A command of bash, in the folder and with nothing of the environment that
    /// concerns almanac.
    fn command(&self, line: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_almanac"));
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", program.parent().unwrap().display());
        let folder = self.folder.path();
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("ALMANAC_") || text.to_lowercase().ends_with("_proxy") {
                command.env_remove(&name);
            }
        }
        command
            .args(["-c", line])
            .current_dir(folder)
            .stdin(Stdio::null())
            .env("PATH", path)
            .env("HOME", folder)
            .env("NO_COLOR", "1")
            .env("no_proxy", "*")
            .env("ALMANAC_GRPC", self.grpc.to_string())
            .env("ALMANAC_HTTP", self.http.to_string())
            .env("ALMANAC_ADMIN", self.admin.to_string())
            .env(
                "ALMANAC_REGISTRIES_CONF",
                folder.join("etc/containers/registries.conf"),
            );
        command
    }

    fn file(&self, name: &str) -> File {
        File::create(self.folder.path().join(name)).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // An error means that it has ended already.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Whether each catalog is served, with the image that clusters pull.
fn is_ready(admin: SocketAddr, http: SocketAddr) -> bool {
    let get = |address, path: &str| http::get(address, path).ok();
    let has = |address, path: &str| get(address, path).is_some_and(|reply| reply.status == 200);
    if !has(admin, "/readyz") {
        return false;
    }
    let Some(status) = get(admin, "/status") else {
        return false;
    };
    let status: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
    let mut catalogs = status["catalogs"].as_array().unwrap().iter();
    catalogs.all(|catalog| {
        let name = catalog["name"].as_str().unwrap();
        let image = get(http, &format!("/v2/{name}/manifests/latest"));
        // A restricted catalog has its image, too.
        image.is_some_and(|reply| reply.status != 503)
    })
}

/// Waits for the end of a process, and ends it when that takes too long.
fn wait(child: &mut Child, what: &str) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() >= PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("`{what}` still runs after {PATIENCE:?}");
        }
        pause(begin);
    }
}

/// The image that the pages follow: the sample, and packages that selections of the
/// pages name.
fn community() -> Image {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/catalog");
    let mut layer = Layer::new();
    for package in fs::read_dir(sample).unwrap() {
        let package = package.unwrap();
        let name = package.file_name().into_string().unwrap();
        let text = fs::read(package.path().join("catalog.yaml")).unwrap();
        layer = layer.file(&format!("configs/{name}/catalog.yaml"), text);
    }
    let more = Catalog::new()
        .package("etcd", |package| {
            package.channel("stable", [entry("etcd.v0.9.4")])
        })
        .package("project-quay", |package| {
            package
                .default_channel("stable-3.16")
                .channel("stable-3.15", [entry("quay-operator.v3.15.0")])
                .channel("stable-3.16", [entry("quay-operator.v3.16.2")])
        });
    Image::new()
        .label(CONFIGS_LABEL, "/configs")
        .layer(layer)
        .layer(Layer::of_catalog(&more, Format::JsonLines, "configs"))
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            let copied: io::Result<u64> = fs::copy(entry.path(), &to);
            copied.unwrap();
        }
    }
}
