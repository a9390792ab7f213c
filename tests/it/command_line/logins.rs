//! URLs of restricted catalogs, with the logins of other programs.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::support::almanac::{Almanac, catalog};
use crate::support::file::root;
use crate::support::program::{Finished, Start};

#[test]
fn a_restricted_catalog_is_read_with_the_login_for_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("tokens"), "secret-one\n").unwrap();
    let sample = root().join("deploy/catalog");
    let closed = catalog("closed", &format!("file:{}", sample.display()));
    let tokens = format!("token_files = [{:?}]\n", path("tokens"));
    let mut almanac = Almanac::start(&format!("poll = \"never\"\n{closed}{tokens}"));
    almanac.until("closed", "a revision", |status| {
        status["state"] == "serving"
    });
    let http = almanac.program.address("http");
    let url = format!("http://{http}/catalogs/closed");

    // Its name is not told without a token, but the reason of an empty list is.
    let server = format!("http://{http}");
    let finished = Start::new(["list", "catalogs", "--server", server.as_str()]).run();
    assert!(finished.status.success(), "{finished:#?}");
    assert!(
        finished
            .stderr
            .contains("no catalog is open to readers without a token"),
        "{finished:#?}"
    );

    fs::write(
        path("netrc"),
        format!("machine {http} login me password secret-one\n"),
    )
    .unwrap();
    fs::write(path("wrong"), "machine 127.0.0.1 login me password other\n").unwrap();
    let pair = BASE64_STANDARD.encode("me:secret-one");
    let auth = format!("{{\"auths\": {{\"{http}\": {{\"auth\": \"{pair}\"}}}}}}");
    fs::write(path("auth.json"), auth).unwrap();

    let list = |netrc: &str, auth: Option<&str>| -> Finished {
        let start = Start::new(["list", "packages", url.as_str()]);
        let start = start.variable("NETRC", &path(netrc).display().to_string());
        let auth = auth.map(|name| path(name).display().to_string());
        start
            .variable("REGISTRY_AUTH_FILE", auth.as_deref().unwrap_or(""))
            .run()
    };
    for (netrc, auth, code) in [
        ("netrc", None, 0),
        ("none", Some("auth.json"), 0),
        ("none", None, 3),
        ("wrong", Some("auth.json"), 3),
    ] {
        let finished = list(netrc, auth);
        assert_eq!(
            finished.status.code(),
            Some(code),
            "{netrc} {auth:?}: {finished:#?}"
        );
        assert!(!finished.stderr.contains("secret-one"), "{finished:#?}");
        if code == 3 {
            let advice = finished.stderr.contains("--token-file");
            assert!(advice, "{finished:#?}");
        }
    }
    let search = ["search", "--server", url.as_str(), "ferry", "-o", "name"];
    let netrc = path("netrc").display().to_string();
    let found = Start::new(search).variable("NETRC", &netrc).run();
    assert_eq!(found.stdout, "ferry-operator\n", "{found:#?}");
}
