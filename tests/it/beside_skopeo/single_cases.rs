//! The rows of the table that no case made by chance meets: each has a test of its own,
//! which both programs run.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::Catalog;
use crate::support::image::{Image, Index};
use crate::support::needs::{on_path, skip_without};
use crate::support::program::{Finished, Start};
use crate::support::proxy::Proxy;
use crate::support::registry::{Access, DigestHeader};
use crate::support::tls::Authority;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
/// An image of a host that nobody has, behind a proxy.
const ELSEWHERE: &str = "registry.invalid/catalogs/a:latest";

/// The first cells of these rows, with their tests.
pub(super) const SINGLE: &[(&str, fn())] = &[
    (
        "key twice, in two cases",
        a_key_that_stands_twice_is_refused,
    ),
    (
        "`registries_conf` or its variable",
        a_named_file_leaves_out_the_drop_ins,
    ),
    (
        "registry on this machine",
        a_registry_on_this_machine_is_asked_over_plain_http,
    ),
    (
        "redirect or token service from https to http",
        https_never_leads_to_http,
    ),
    (
        "redirect or token service at this machine or a cloud's metadata",
        a_registry_elsewhere_leads_to_no_service_that_trusts_every_client,
    ),
    ("tag with a digest", a_tag_with_a_digest_is_refused),
    (
        "`docker://` before a reference",
        a_transport_before_a_reference_is_refused,
    ),
    (
        "`:` in the path of `oci:`, `oci-archive:`",
        a_path_that_exists_may_have_a_colon,
    ),
    (
        "`docker-archive:FILE:@NUMBER`",
        an_image_of_an_archive_has_no_number,
    ),
    ("tag", a_tag_is_asked_for_with_head),
    (
        "manifest of a tag with another digest in `Docker-Content-Digest`",
        a_header_with_another_digest_is_refused,
    ),
    (
        "absent attestation in a copy of all platforms",
        an_absent_attestation_is_left_out,
    ),
    (
        "`Content-Encoding` that was not requested",
        an_encoding_that_was_not_requested_is_refused,
    ),
    (
        "`.DOMAIN` in `NO_PROXY`",
        a_domain_with_a_dot_means_the_domain_too,
    ),
    ("SOCKS proxy", a_socks_proxy_is_refused),
];

/// A registry that has an image of one package.
fn upstream() -> Upstream {
    let upstream = Upstream::start();
    push(&upstream);
    upstream
}

fn push(upstream: &Upstream) {
    let image = Image::of_catalog(&Catalog::one("first")).build();
    upstream.push(REPOSITORY, "latest", &image);
}

fn source(upstream: &Upstream) -> String {
    upstream.reference(REPOSITORY, "latest")
}

/// A folder that is the home of skopeo and almanac, and holds their files.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn run(&self, program: &str, variables: &[(&str, &str)], words: &[&str]) -> Output {
        Command::new(program)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(["HOME", "XDG_RUNTIME_DIR"].map(|name| (name, self.0.path())))
            .envs(variables.iter().copied())
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs skopeo without a policy, as almanac has none here.
    fn skopeo(&self, variables: &[(&str, &str)], words: &[&str]) -> Output {
        let flags = ["--insecure-policy", "--command-timeout=30s"];
        self.run("skopeo", variables, &[&flags, words].concat())
    }

    /// Pulls an image with podman.
    fn podman(&self, source: &str) -> Output {
        let (root, run) = (self.path("root"), self.path("run"));
        let words = ["--root", &root, "--runroot", &run, "--storage-driver=vfs"];
        let pull = ["pull", "--tls-verify=false", source];
        self.run("podman", &[], &[&words[..], &pull].concat())
    }

    /// Copies an image with skopeo, into a folder of its own.
    fn copy(&self, variables: &[(&str, &str)], source: &str, flags: &[&str]) -> Output {
        let target = tempfile::tempdir_in(self.0.path()).unwrap();
        let (source, target) = (
            format!("docker://{source}"),
            format!("dir:{}", target.path().display()),
        );
        let words = ["copy", &source, &target];
        self.skopeo(variables, &[&words, flags].concat())
    }

    fn render(&self, variables: &[(&str, &str)], words: &[&str]) -> Finished {
        let start = Start::new(["render"].into_iter().chain(words.iter().copied()))
            .variable("HOME", &self.path(""))
            .variable("XDG_RUNTIME_DIR", &self.path(""));
        let set = |start: Start, (name, value): &(&str, &str)| start.variable(name, value);
        variables.iter().fold(start, set).run()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// That a program did it, or ended with this in its error.
#[track_caller]
fn expect_skopeo(output: &Output, error: Option<&str>) {
    let found = text(output);
    assert_eq!(output.status.success(), error.is_none(), "{found}");
    assert!(found.contains(error.unwrap_or_default()), "{found}");
}

#[track_caller]
fn expect(finished: &Finished, error: Option<&str>) {
    let is_right = finished.status.success() == error.is_none();
    let has_error = finished.stderr.contains(error.unwrap_or_default());
    assert!(is_right && has_error, "{error:?}: {finished:?}");
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    if skip_without("skopeo") {
        return;
    }
    let (upstream, home) = (upstream(), Home::new());
    let source = source(&upstream);
    let table = format!(
        "[[registry]]\nlocation = {:?}\ninsecure = true\nInsecure = true\n",
        upstream.host()
    );
    let conf = home.write("registries.conf", &table);
    let named = format!("--registries-conf={conf}");
    let docker = format!("docker://{source}");
    let copied = home.skopeo(&[], &[&named, "inspect", "--raw", &docker]);
    expect_skopeo(&copied, None);
    let rendered = home.render(&[], &[&source, &named]);
    expect(&rendered, Some("duplicate field `insecure`"));
}

#[test]
fn a_named_file_leaves_out_the_drop_ins() {
    if skip_without("skopeo") {
        return;
    }
    let (upstream, home) = (upstream(), Home::new());
    let source = source(&upstream);
    let host = upstream.host();
    let blocking = format!("[[registry]]\nlocation = {host:?}\nblocked = true\n");
    let insecure = format!("[[registry]]\nlocation = {host:?}\ninsecure = true\n");
    home.write(".config/containers/registries.conf", "");
    home.write(".config/containers/registries.conf.d/1.conf", &blocking);
    let conf = home.write("named.conf", &insecure);
    let named = format!("--registries-conf={conf}");
    let docker = format!("docker://{source}");
    let copied = home.skopeo(&[], &[&named, "inspect", "--raw", &docker]);
    expect_skopeo(&copied, Some("blocked"));
    expect(&home.render(&[], &[&source]), Some("blocks"));
    expect(&home.render(&[], &[&source, &named]), None);
    let variable = ("CONTAINERS_REGISTRIES_CONF", conf.as_str());
    expect(&home.render(&[variable], &[&source]), None);
}

#[test]
fn a_registry_on_this_machine_is_asked_over_plain_http() {
    if skip_without("skopeo") {
        return;
    }
    let (upstream, home) = (upstream(), Home::new());
    let source = source(&upstream);
    let copied = home.copy(&[], &source, &[]);
    expect_skopeo(&copied, Some("HTTP response to HTTPS client"));
    expect(&home.render(&[], &[&source]), None);
    // A folder for its certificates states otherwise.
    let folder = home.path("certs.d");
    fs::create_dir_all(Path::new(&folder).join(upstream.host())).unwrap();
    let certificates = format!("--certs-dir={folder}");
    let rendered = home.render(&[], &[&source, &certificates]);
    expect(&rendered, Some("https://"));
}

#[test]
fn https_never_leads_to_http() {
    if skip_without("skopeo") {
        return;
    }
    let (storage, home) = (upstream(), Home::new());
    let authority = Authority::new();
    let tls = authority.sign().server(None);
    let secured = Upstream::start_at("127.0.0.1:0", Some(tls));
    push(&secured);
    let source = source(&secured).replace("127.0.0.1", "localhost");
    let (host, _) = source.split_once('/').unwrap();
    home.write(&format!("certs.d/{host}/ca.crt"), &authority.pem());
    let one = format!("--src-cert-dir={}", home.path(&format!("certs.d/{host}")));
    let all = format!("--certs-dir={}", home.path("certs.d"));
    let plain = format!("http://{}", storage.host());

    secured.misbehave(|behaviour| behaviour.redirect_blobs = Some(plain.clone()));
    expect_skopeo(&home.copy(&[], &source, &[&one]), None);
    storage.forget_requests();
    let rendered = home.render(&[], &[&source, &all]);
    expect(&rendered, Some("it leads from https to http"));

    secured.behave();
    let realm = format!("{plain}/token");
    secured.misbehave(|behaviour| behaviour.access = Access::Realm(realm));
    let rendered = home.render(&[], &[&source, &all]);
    expect(&rendered, Some("it leads from https to http"));
    assert_eq!(storage.lines(), [""; 0]);
    home.copy(&[], &source, &[&one]);
    assert!(storage.asked("GET /token") > 0);
}

#[test]
fn a_registry_elsewhere_leads_to_no_service_that_trusts_every_client() {
    if skip_without("skopeo") {
        return;
    }
    let (upstream, storage, home) = (upstream(), upstream(), Home::new());
    let proxy = Proxy::start(upstream.host().parse().unwrap());
    let url = proxy.url("");
    let variables = [("HTTP_PROXY", url.as_str()), ("HTTPS_PROXY", &url)];
    let metadata = "169.254.169.254";
    for target in [storage.host().as_str(), metadata] {
        let base = format!("http://{target}");
        let asked = || {
            let through = proxy.asked();
            let through = through.iter().filter(|line| line.contains(&base)).count();
            through + storage.requests().len()
        };
        for is_redirect in [true, false] {
            upstream.behave();
            upstream.misbehave(|behaviour| {
                if is_redirect {
                    behaviour.redirect_blobs = Some(base.clone());
                } else {
                    behaviour.access = Access::Realm(format!("{base}/token"));
                }
            });
            let before = asked();
            let plain = "--insecure=registry.invalid";
            let rendered = home.render(&variables, &[ELSEWHERE, plain]);
            expect(&rendered, Some("this machine, its network link"));
            assert_eq!(asked(), before, "{base}");
            home.copy(&variables, ELSEWHERE, &["--src-tls-verify=false"]);
            assert!(asked() > before, "{base}, a redirect: {is_redirect}");
        }
    }
}

#[test]
fn a_tag_with_a_digest_is_refused() {
    if skip_without("skopeo") {
        return;
    }
    let (upstream, home) = (upstream(), Home::new());
    let digest = Image::of_catalog(&Catalog::one("first")).build().digest();
    let source = format!("{}@{digest}", source(&upstream));
    let copied = home.copy(&[], &source, &["--src-tls-verify=false"]);
    expect_skopeo(&copied, Some("both a tag and digest"));
    let written = source.replace(":latest@", "@");
    let remedy = format!("drop the tag and write {written}");
    expect(&home.render(&[], &[&source]), Some(&remedy));
    expect(&home.render(&[], &[&written]), None);
    // Not every user of every machine can pull with podman.
    if on_path("podman") && home.podman(&written).status.success() {
        upstream.forget_requests();
        let pulled = home.podman(&source);
        assert!(pulled.status.success(), "{pulled:?}");
        assert_eq!(upstream.asked("/manifests/latest"), 0);
        assert!(upstream.asked(&format!("/manifests/{digest}")) > 0);
    }
}

#[test]
fn a_transport_before_a_reference_is_refused() {
    if skip_without("skopeo") {
        return;
    }
    let (upstream, home) = (upstream(), Home::new());
    let source = source(&upstream);
    let raw = ["inspect", "--raw", "--tls-verify=false"];
    let docker = format!("docker://{source}");
    let inspected = home.skopeo(&[], &[&raw[..], &[docker.as_str()]].concat());
    expect_skopeo(&inspected, None);
    let inspected = home.skopeo(&[], &[&raw[..], &[source.as_str()]].concat());
    expect_skopeo(&inspected, Some("Invalid image name"));
    let remedy = format!("drop docker:// and write {source}");
    expect(&home.render(&[], &[&docker]), Some(&remedy));
    expect(&home.render(&[], &[&source]), None);
}

#[test]
fn a_path_that_exists_may_have_a_colon() {
    if skip_without("skopeo") {
        return;
    }
    let home = Home::new();
    let image = Image::of_catalog(&Catalog::one("first")).build();
    image.add_to_layout(Path::new(&home.path("12:30/layout")), "v1");
    image.add_to_layout(Path::new(&home.path("layout")), "v1");
    let (layout, archive) = (home.path("layout"), home.path("archive"));
    let words = [
        "copy",
        &format!("oci:{layout}:v1"),
        &format!("oci-archive:{archive}:v1"),
    ];
    expect_skopeo(&home.skopeo(&[], &words), None);
    fs::rename(&archive, home.path("12:30/archive")).unwrap();
    for (kind, name) in [("oci", "layout"), ("oci-archive", "archive")] {
        let source = format!("{kind}:{}:v1", home.path(&format!("12:30/{name}")));
        let inspected = home.skopeo(&[], &["inspect", "--raw", &source]);
        assert!(!inspected.status.success(), "{inspected:?}");
        expect(&home.render(&[], &[&source]), None);
    }
}

#[test]
fn an_image_of_an_archive_has_no_number() {
    if skip_without("skopeo") {
        return;
    }
    let home = Home::new();
    let image = Image::of_catalog(&Catalog::one("first")).build();
    let (layout, archive) = (home.path("layout"), home.path("f.tar"));
    image.add_to_layout(Path::new(&layout), "v1");
    let target = format!("docker-archive:{archive}:team/aa:latest");
    let words = ["copy", &format!("oci:{layout}:v1"), &target];
    expect_skopeo(&home.skopeo(&[], &words), None);
    let source = format!("docker-archive:{archive}:@0");
    let copied = home.skopeo(&[], &["copy", &source, &format!("dir:{}", home.path("to"))]);
    expect_skopeo(&copied, None);
    expect(&home.render(&[], &[&source]), Some("team/aa:latest"));
}

#[test]
fn a_tag_is_asked_for_with_head() {
    if skip_without("skopeo") {
        return;
    }
    let (upstream, home) = (upstream(), Home::new());
    let source = source(&upstream);
    let with_head = "HEAD /v2/catalogs/a/manifests/latest";
    let with_get = "GET /v2/catalogs/a/manifests/latest";
    let copied = home.copy(&[], &source, &["--src-tls-verify=false"]);
    expect_skopeo(&copied, None);
    assert_eq!(
        (upstream.asked(with_head), upstream.asked(with_get)),
        (0, 1)
    );
    for has_head in [true, false] {
        upstream.misbehave(|behaviour| behaviour.no_head = !has_head);
        upstream.forget_requests();
        expect(&home.render(&[], &[&source]), None);
        let asked = (upstream.asked(with_head), upstream.asked(with_get));
        assert_eq!(asked, (1, usize::from(!has_head)));
    }
}

#[test]
fn a_header_with_another_digest_is_refused() {
    if skip_without("skopeo") {
        return;
    }
    let (upstream, home) = (upstream(), Home::new());
    let source = source(&upstream);
    upstream.misbehave(|behaviour| behaviour.digest_header = DigestHeader::Wrong);
    let copied = home.copy(&[], &source, &["--src-tls-verify=false"]);
    expect_skopeo(&copied, None);
    expect(&home.render(&[], &[&source]), Some("digest"));
}

#[test]
fn an_absent_attestation_is_left_out() {
    if skip_without("skopeo") {
        return;
    }
    let home = Home::new();
    let attestation = Image::new().platform("unknown", "unknown").build();
    let absent = attestation.digest();
    let catalog = Image::of_catalog(&Catalog::one("first")).build();
    let image = Index::new().image(catalog).image(attestation).build();
    let upstream = Upstream::start();
    upstream.push_without_manifest(REPOSITORY, "latest", &image, absent);
    let source = source(&upstream);
    let plain = "--src-tls-verify=false";
    let copied = home.copy(&[], &source, &["--all", plain]);
    expect_skopeo(&copied, Some(&absent.to_string()));
    let mut almanac = Almanac::start(&(following(&source) + "mirror = \"full\"\n"));
    assert_eq!(almanac.until_pullable("a").body, image.top.bytes);
    almanac.until("a", "what is left out", |status| {
        status["image_left_out"] == json!([absent])
    });
}

#[test]
fn an_encoding_that_was_not_requested_is_refused() {
    if skip_without("skopeo") {
        return;
    }
    let (upstream, home) = (upstream(), Home::new());
    let source = source(&upstream);
    upstream.misbehave(|behaviour| behaviour.gzipped = true);
    let copied = home.copy(&[], &source, &["--src-tls-verify=false"]);
    expect_skopeo(&copied, None);
    let said = "the content encoding \"gzip\", which was not requested";
    expect(&home.render(&[], &[&source]), Some(said));
    // The bytes match.
    upstream.behave();
    upstream.misbehave(|behaviour| behaviour.called_gzip = true);
    expect(&home.render(&[], &[&source]), None);
}

#[test]
fn a_domain_with_a_dot_means_the_domain_too() {
    if skip_without("skopeo") {
        return;
    }
    let (upstream, home) = (upstream(), Home::new());
    let proxy = Proxy::start(upstream.host().parse().unwrap());
    let url = proxy.url("");
    let variables = [
        ("HTTP_PROXY", url.as_str()),
        ("HTTPS_PROXY", &url),
        ("NO_PROXY", ".registry.invalid"),
    ];
    let rendered = home.render(&variables, &[ELSEWHERE, "--insecure=registry.invalid"]);
    expect(&rendered, Some("cannot be reached"));
    assert_eq!(proxy.asked(), [""; 0]);
    let copied = home.copy(&variables, ELSEWHERE, &["--src-tls-verify=false"]);
    expect_skopeo(&copied, None);
    assert!(!proxy.asked().is_empty());
}

#[test]
fn a_socks_proxy_is_refused() {
    if skip_without("skopeo") {
        return;
    }
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("socks5://{}", listener.local_addr().unwrap());
    let variables = [("HTTPS_PROXY", proxy.as_str())];
    expect(&home.render(&variables, &[ELSEWHERE]), Some("HTTPS_PROXY"));
    let first = std::thread::spawn(move || {
        let mut first = [0];
        let (mut client, _) = listener.accept().unwrap();
        client.read_exact(&mut first).unwrap();
        first
    });
    let copied = home.copy(&variables, ELSEWHERE, &[]);
    assert!(!copied.status.success(), "{copied:?}");
    // The version of SOCKS.
    assert_eq!(first.join().unwrap(), [5]);
}
