//! Registries that answer as some in the world do: what can be read is read, and what
//! cannot is reported with the reason.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use images::digest::Digest;
use images::{Client, Descriptor, Error, Reference, Registries, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::almanac::{Almanac, following};
use crate::support::catalog::{Catalog, Format};
use crate::support::image::{Built, Image, Index, Layer};
use crate::support::program::Start;
use crate::support::registry::{Access, DigestHeader};
use crate::support::runtime::block_on;
use crate::support::upstream::Upstream;

const REPOSITORY: &str = "catalogs/a";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const HEAD: &str = "HEAD /v2/catalogs/a/manifests/latest";
const GET: &str = "GET /v2/catalogs/a/manifests/latest";

/// A registry that has an image of one package.
fn upstream() -> (Upstream, Built) {
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::one("first")).build();
    upstream.push(REPOSITORY, "latest", &image);
    (upstream, image)
}

fn reference(upstream: &Upstream) -> Reference {
    upstream.reference(REPOSITORY, "latest").parse().unwrap()
}

fn render(upstream: &Upstream) -> crate::support::program::Finished {
    Start::new(["render", &upstream.reference(REPOSITORY, "latest")]).run()
}

/// A client with a login for the registry.
fn with_login(upstream: &Upstream, login: &Value) -> (Client, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auth.json");
    let auths = json!({"auths": {(upstream.host()): login}});
    fs::write(&path, auths.to_string()).unwrap();
    let settings = Settings {
        auth_files: vec![path],
        attempts: 1.try_into().unwrap(),
        ..Settings::default()
    };
    (Client::new(&settings).unwrap(), folder)
}

fn password() -> Value {
    json!({"auth": BASE64_STANDARD.encode("me:secret")})
}

#[test]
fn a_tag_is_read_by_its_manifest_where_head_names_another_digest() {
    let (upstream, image) = upstream();
    upstream.misbehave(|behaviour| behaviour.wrong_head = true);
    let finished = render(&upstream);
    assert!(finished.status.success(), "{finished:?}");

    // The next polls do not ask with HEAD again, and find nothing new.
    upstream.forget_requests();
    let mut almanac = Almanac::start(&following(&upstream.reference(REPOSITORY, "latest")));
    almanac.until_at("a", &image.digest());
    almanac.until("a", "some polls", |_| upstream.asked(GET) >= 4);
    assert_eq!(almanac.packages("a").unwrap(), ["first"]);
    assert_eq!(upstream.asked(HEAD), 1);
    assert_eq!(almanac.revisions().len(), 1);

    // A digest that is right but whose manifest is gone stays an error.
    upstream.behave();
    let missing = Image::of_catalog(&Catalog::one("second")).build();
    let digest = missing.digest();
    let error = block_on(async {
        let registries = Registries::new(&Settings::default()).unwrap();
        let by_digest = reference(&upstream).with_digest(digest);
        let route = registries.route(&by_digest).await.unwrap();
        route.resolve_manifest().await.unwrap_err()
    });
    assert!(error.is_not_found(), "{error}");
}

#[test]
fn credentials_are_not_called_missing_where_a_registry_does_not_ask_for_them() {
    let (upstream, _) = upstream();
    let resolve = |client: &Client| block_on(client.resolve(&reference(&upstream))).unwrap_err();
    let (with_password, _folder) = with_login(&upstream, &password());
    let (with_token, _other) = with_login(&upstream, &json!({"identitytoken": "refresh"}));
    let without = Client::new(&Settings::default()).unwrap();
    for challenge in [None, Some("Bearer service=\"x\""), Some("Negotiate")] {
        upstream.misbehave(|behaviour| behaviour.access = Access::Nobody(challenge));
        let error = resolve(&with_password).to_string();
        let said = "the registry names no way to log in that is known here (Basic, Bearer); \
                    credentials were not sent";
        assert!(error.contains(said), "{error}");
        let error = resolve(&without).to_string();
        assert!(error.contains("no credentials are configured"), "{error}");
    }
    upstream.misbehave(|behaviour| behaviour.access = Access::Basic("me", "secret"));
    let error = resolve(&with_token).to_string();
    assert!(error.contains("only a token is configured"), "{error}");
}

#[test]
fn a_limit_of_requests_is_reported_with_the_registrys_text_the_pause_and_the_login() {
    let (upstream, image) = upstream();
    let limited = |client: &Client| -> Error {
        block_on(client.manifest(&reference(&upstream), &image.digest())).unwrap_err()
    };
    let new = |login: Option<&Value>| match login {
        Some(login) => with_login(&upstream, login),
        None => with_login(&upstream, &json!({})),
    };
    upstream.misbehave(|behaviour| {
        behaviour.status = Some(429);
        behaviour.retry_after = Some("90".to_owned());
        behaviour.text = Some("429 Too Many Requests\nYou have reached your pull rate limit.\n");
    });
    let (anonymous, _folder) = new(None);
    let error = limited(&anonymous).to_string();
    for said in [
        "429 Too Many Requests: You have reached your pull rate limit.",
        "it asks for a pause of 1m 30s",
        "no credentials were sent",
    ] {
        assert!(error.contains(said), "{said:?} is not in {error:?}");
    }
    let (known, _other) = new(Some(&password()));
    upstream.behave();
    upstream.misbehave(|behaviour| behaviour.access = Access::Basic("me", "secret"));
    block_on(known.manifest(&reference(&upstream), &image.digest())).unwrap();
    upstream.misbehave(|behaviour| behaviour.status = Some(429));
    let error = limited(&known).to_string();
    assert!(error.ends_with("(credentials were sent)"), "{error}");

    // The response to HEAD has no text. Without a pause, one more request gets it.
    upstream.forget_requests();
    let (client, _third) = new(None);
    let error = block_on(client.resolve(&reference(&upstream))).unwrap_err();
    assert!(error.to_string().contains("TOLD_OFF"), "{error}");
    assert_eq!(upstream.lines(), [HEAD, GET]);
}

#[test]
fn a_tag_that_needs_a_login_is_reported_with_the_registrys_text() {
    let (upstream, _) = upstream();
    let (stranger, _folder) = with_login(&upstream, &json!({}));
    for challenge in [None, Some("Basic realm=\"a\""), Some("Negotiate")] {
        upstream.misbehave(|behaviour| behaviour.access = Access::Nobody(challenge));
        upstream.forget_requests();
        let error = block_on(stranger.resolve(&reference(&upstream))).unwrap_err();
        for said in [
            "401 Unauthorized: UNAUTHORIZED: authentication required",
            "no credentials are configured for it",
        ] {
            assert!(error.to_string().contains(said), "{error}");
        }
        assert_eq!(upstream.lines(), [HEAD, GET]);
    }
    // Refused credentials are not sent once more for the text.
    upstream.misbehave(|behaviour| behaviour.access = Access::Basic("me", "other"));
    upstream.forget_requests();
    let (known, _folder) = with_login(&upstream, &password());
    let error = block_on(known.resolve(&reference(&upstream))).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("(the credentials were refused)"),
        "{error}"
    );
    assert_eq!(upstream.lines(), [HEAD, HEAD]);
}

#[test]
fn a_forbidden_image_is_reported_with_what_became_of_the_credentials() {
    let (upstream, _) = upstream();
    let error = |client: &Client| block_on(client.resolve(&reference(&upstream))).unwrap_err();
    let (stranger, _folder) = with_login(&upstream, &json!({}));
    upstream.misbehave(|behaviour| behaviour.status = Some(403));
    let refused = error(&stranger).to_string();
    assert!(refused.ends_with("(no credentials were sent)"), "{refused}");
    let (known, _other) = with_login(&upstream, &password());
    upstream.behave();
    upstream.misbehave(|behaviour| behaviour.access = Access::Basic("me", "secret"));
    block_on(known.resolve(&reference(&upstream))).unwrap();
    upstream.misbehave(|behaviour| behaviour.status = Some(403));
    let refused = error(&known).to_string();
    assert!(refused.ends_with("(credentials were sent)"), "{refused}");
}

#[test]
fn a_manifest_with_a_wrong_digest_in_its_header_is_reported_as_such() {
    let (upstream, image) = upstream();
    upstream.misbehave(|behaviour| behaviour.digest_header = DigestHeader::Wrong);
    let error = block_on(async {
        let registries = Registries::new(&Settings::default()).unwrap();
        let route = registries.route(&reference(&upstream)).await.unwrap();
        route.resolve_manifest().await.unwrap_err()
    });
    assert_eq!(error.reason(), "digest_mismatch");
    let said = format!("the digest {} instead of", image.digest());
    assert!(error.to_string().contains(&said), "{error}");
    let finished = render(&upstream);
    assert!(finished.stderr.contains(&said), "{finished:?}");
}

#[test]
fn an_image_with_a_label_that_is_null_is_read() {
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::one("first"))
        .edit_config(|config| config["config"]["Labels"]["empty"] = Value::Null)
        .build();
    upstream.push(REPOSITORY, "latest", &image);
    let finished = render(&upstream);
    assert!(finished.status.success(), "{finished:?}");
}

#[test]
fn answers_with_hundreds_of_headers_are_read() {
    let (upstream, _) = upstream();
    upstream.misbehave(|behaviour| behaviour.more_headers = 300);
    let finished = render(&upstream);
    assert!(finished.status.success(), "{finished:?}");
}

#[test]
fn an_encoding_that_nobody_requested_is_named() {
    let upstream = Upstream::start();
    let bytes = vec![b'a'; 10_000];
    let descriptor = Descriptor {
        media_type: String::new(),
        digest: Digest::of(&bytes),
        size: bytes.len() as u64,
    };
    upstream.put_blob(bytes.clone());
    let pull = || {
        block_on(async {
            let client = Client::new(&Settings::default()).unwrap();
            let mut stream = client.blob(&reference(&upstream), &descriptor).await?;
            let mut found = Vec::new();
            while let Some(piece) = stream.next().await? {
                found.extend_from_slice(&piece);
            }
            Ok::<_, Error>(found)
        })
    };
    // With a length of its own, and without.
    for percent in [None, Some(100)] {
        upstream.misbehave(|behaviour| {
            behaviour.gzipped = true;
            behaviour.percent = percent;
        });
        let error = pull().unwrap_err();
        assert_eq!(error.reason(), "digest_mismatch");
        let said = "answered with the content encoding \"gzip\", which was not requested";
        assert!(error.to_string().contains(said), "{error}");
    }
    // Some stores call the compression of a layer its encoding.
    upstream.behave();
    upstream.misbehave(|behaviour| behaviour.called_gzip = true);
    assert_eq!(pull().unwrap(), bytes);
}

#[test]
fn referrers_on_further_pages_are_found_and_endless_pages_end() {
    let (upstream, image) = upstream();
    let subject = image.digest();
    let mut wanted = Vec::new();
    for number in 0..5 {
        let digest = Digest::of(&[number]);
        wanted.push(digest);
        let descriptor = json!({"mediaType": OCI_MANIFEST, "digest": digest, "size": 1});
        upstream.put_referrer(REPOSITORY, &subject, descriptor);
    }
    wanted.sort_unstable();
    let referrers = || {
        block_on(async {
            let registries = Registries::new(&Settings::default()).unwrap();
            let route = registries.route(&reference(&upstream)).await.unwrap();
            route.referrers(&subject).await.unwrap()
        })
    };
    for (size, pages) in [(None, 1), (Some(2), 3), (Some(5), 1)] {
        upstream.misbehave(|behaviour| behaviour.page_of_referrers = size);
        upstream.forget_requests();
        assert_eq!(referrers(), wanted);
        assert_eq!(upstream.requests().len(), pages);
    }
    upstream.misbehave(|behaviour| behaviour.page_of_referrers = Some(0));
    upstream.forget_requests();
    assert_eq!(referrers(), []);
    assert!(upstream.requests().len() < 100);
}

#[test]
fn a_mirror_leaves_out_attestations_and_signatures_that_its_source_lacks() {
    let attestation = Image::new()
        .platform("unknown", "unknown")
        .edit_config(|config| config["attestation"] = true.into())
        .build();
    let absent = attestation.digest();
    let catalog = Image::of_catalog(&Catalog::one("first")).build();
    let image = Index::new().image(catalog).image(attestation).build();
    let upstream = Upstream::start();
    upstream.push_without_manifest(REPOSITORY, "latest", &image, absent);
    let dangling = Digest::of(b"a signature that was removed");
    let descriptor = json!({"mediaType": OCI_MANIFEST, "digest": dangling, "size": 1});
    upstream.put_referrer(REPOSITORY, &image.digest(), descriptor);

    let source = upstream.reference(REPOSITORY, "latest");
    let mut almanac = Almanac::start(&(following(&source) + "mirror = \"full\"\n"));
    let reply = almanac.until_pullable("a");
    assert_eq!(reply.body, image.top.bytes);
    assert_eq!(
        almanac.http(&format!("/v2/a/manifests/{absent}")).status,
        404
    );
    let status = almanac.until("a", "what is left out", |status| {
        status["image_left_out"] == json!([absent, dangling])
    });
    assert!(status["image_error"].is_null(), "{status}");
    almanac.program.wait_for_log("what is left out", |log| {
        log.contains("the mirror leaves them out") && log.contains(&absent.to_string())
    });

    // The other side of an export reports the same.
    let folder = tempfile::tempdir().unwrap();
    let run = |command: &str, file: &str, data: &Path| {
        let archive = folder.path().join("a.tar");
        let start = Start::new([command]).argument(format!("{file}{}", archive.display()));
        let data = format!("--data-dir={}", data.display());
        let finished = start.argument(data).run();
        assert!(finished.status.success(), "{finished:?}");
    };
    run("export", "--file=", almanac.program.data());
    let data = folder.path().join("data");
    run("import", "", &data);
    let config = format!("offline = true\n{}mirror = \"full\"\n", following(&source));
    let mut offline = Almanac::start_in(&data, &config);
    offline.until_pullable("a");
    offline.until("a", "what is left out", |status| {
        status["image_left_out"] == json!([absent, dangling])
    });

    // An image that is absent is still an error.
    let lacking = Upstream::start();
    lacking.put_manifest(REPOSITORY, "latest", image.top.bytes.clone(), OCI_INDEX);
    let finished = render(&lacking);
    assert!(!finished.status.success(), "{finished:?}");
}

#[test]
fn what_shares_an_absent_part_with_a_signature_that_is_left_out_is_not_served_without_it() {
    let upstream = Upstream::start();
    let image = Image::of_catalog(&Catalog::one("first")).build();
    upstream.push(REPOSITORY, "latest", &image);
    let mut signatures = Vec::new();
    for number in ["1", "2"] {
        // Both have the same config.
        let signature = Image::new().annotation("number", number).build();
        let digest = signature.digest();
        signature.for_each_manifest(|manifest| {
            let bytes = manifest.bytes.clone();
            upstream.put_manifest(REPOSITORY, &digest.to_string(), bytes, manifest.media_type);
        });
        let size = signature.top.bytes.len();
        let descriptor = json!({"mediaType": OCI_MANIFEST, "digest": digest, "size": size});
        upstream.put_referrer(REPOSITORY, &image.digest(), descriptor);
        signatures.push(digest);
    }
    let source = upstream.reference(REPOSITORY, "latest");
    let mut almanac = Almanac::start(&(following(&source) + "mirror = \"full\"\n"));
    almanac.until_pullable("a");
    let status = almanac.until("a", "what is left out", |status| {
        status["image_left_out"] == json!(signatures)
    });
    assert!(status["image_error"].is_null(), "{status}");
    for signature in signatures {
        let reply = almanac.http(&format!("/v2/a/manifests/{signature}"));
        assert_eq!(reply.status, 404);
    }
}

#[test]
fn a_platform_that_lacks_a_part_is_an_error_though_an_attestation_lacks_it_too() {
    let layer = Layer::of_catalog(&Catalog::one("second"), Format::JsonLines, "configs");
    let absent = Digest::of(&layer.bytes());
    let of = |os, architecture| Image::new().platform(os, architecture).layer(layer.clone());
    let image = Index::new()
        .image(of("unknown", "unknown").build())
        .image(of("linux", "arm64").build())
        .image(Image::of_catalog(&Catalog::one("first")).build())
        .build();
    let upstream = Upstream::start();
    upstream.push_without(REPOSITORY, "latest", &image, &[absent]);
    let source = upstream.reference(REPOSITORY, "latest");
    let mut almanac = Almanac::start(&(following(&source) + "mirror = \"full\"\n"));
    let status = almanac.until("a", "an error of the mirror", |status| {
        !status["image_error"].is_null()
    });
    let error = status["image_error"].to_string();
    assert!(error.contains(&absent.to_string()), "{error}");
}
