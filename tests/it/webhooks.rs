//! Webhooks: what receivers get, and that none of them disturbs anything else.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::almanac::{Almanac, catalog};
use crate::support::catalog::{Catalog, entry};
use crate::support::http;
use crate::support::port;
use crate::support::program::{Finished, PATIENCE, Start};
use crate::support::receiver::{Answer, Received, Receiver};
use crate::support::served::Folders;
use crate::support::tls::Authority;

const SECRET: &[u8] = b"a secret of more than 24 bytes";
const OTHER: &[u8] = b"another secret of over 24 bytes";

/// A catalog with one package at a version.
fn version(number: u32) -> Catalog {
    Catalog::new().package("etcd", |package| {
        package.channel("stable", [entry(&format!("etcd.v{number}.0.0"))])
    })
}

fn secret_text(secret: &[u8]) -> String {
    format!("whsec_{}\n", BASE64_STANDARD.encode(secret))
}

/// A folder with two secrets and a token.
fn files() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), secret_text(SECRET)).unwrap();
    fs::write(folder.path().join("other"), secret_text(OTHER)).unwrap();
    fs::write(folder.path().join("token"), "a-token\n").unwrap();
    folder
}

/// A configuration with these catalogs, which are looked at often.
fn config(folders: &Folders, names: &[&str], webhooks: &[String]) -> String {
    let source = |name: &&str| catalog(name, &format!("file:{}", folders.path(name).display()));
    let catalogs: String = names.iter().map(source).collect();
    format!("poll = '100ms'\n{catalogs}{}", webhooks.concat())
}

/// A webhook for a receiver on this machine.
fn webhook(name: &str, url: &str, more: &str) -> String {
    format!("\n[[webhook]]\nname = '{name}'\nurl = '{url}'\nallow_local = true\n{more}\n")
}

fn url(receiver: &Receiver) -> String {
    format!("http://{}/hook?key=hidden", receiver.address)
}

/// Holds the signatures of a request to these secrets, in this order.
fn assert_signed(received: &Received, secrets: &[&[u8]]) {
    let id = received.header("webhook-id").unwrap();
    let time = received.header("webhook-timestamp").unwrap();
    assert_eq!(received.event()["id"], id);
    let message = [format!("{id}.{time}.").as_bytes(), &received.body].concat();
    let sign = |secret: &&[u8]| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let signature = ring::hmac::sign(&key, &message);
        format!("v1,{}", BASE64_STANDARD.encode(signature))
    };
    let expected: Vec<String> = secrets.iter().map(sign).collect();
    let found = received.header("webhook-signature").unwrap();
    assert_eq!(found, expected.join(" "));
}

fn until_head(almanac: &mut Almanac, name: &str, number: u32) {
    let begin = std::time::Instant::now();
    let head = format!("etcd.v{number}.0.0");
    let path = format!("/catalogs/{name}/api/v1/packages/etcd");
    while !almanac.http(&path).text().contains(&head) {
        assert!(begin.elapsed() < PATIENCE, "{head} is not served");
        crate::support::program::pause(begin);
    }
}

#[test]
fn each_publication_is_told_once_and_signed() {
    let folders = Folders::of("a", &version(0)).catalog("b", &version(0));
    let files = files();
    let path = |name: &str| files.path().join(name).display().to_string();
    let (all, one) = (Receiver::start([]), Receiver::start([]));
    let signed = format!(
        "secret_files = ['{}', '{}']\ntoken_file = '{}'\nsource = 'https://almanac.example.com/'\n",
        path("secret"),
        path("other"),
        path("token")
    );
    let webhooks = [
        webhook("all", &url(&all), &signed),
        webhook(
            "one",
            &url(&one),
            "catalogs = ['b']\nevents = ['published']\n",
        ),
    ];
    let mut almanac = Almanac::start(&config(&folders, &["a", "b"], &webhooks));
    for received in all.until(2) {
        assert!(received.head.starts_with("POST /hook?key=hidden HTTP/1.1"));
        assert_eq!(
            received.header("content-type"),
            Some("application/cloudevents+json; charset=utf-8")
        );
        assert_eq!(received.header("authorization"), Some("Bearer a-token"));
        assert_signed(&received, &[SECRET, OTHER]);
        let event = received.event();
        assert_eq!(event["specversion"], "1.0");
        assert_eq!(event["type"], "almanac.catalog.published");
        assert_eq!(event["data"]["changes"], Value::Null);
        assert_eq!(event["data"]["packages"], 1);
        let name = event["data"]["catalog"].as_str().unwrap();
        let source = format!("https://almanac.example.com/catalogs/{name}");
        assert_eq!(event["source"], source);
        let status = almanac.status(name);
        assert_eq!(event["subject"], status["revision"]["digest"]);
    }
    folders.replace("a", &version(1));
    let update = all.until(3)[2].event();
    assert_eq!(update["data"]["catalog"], "a");
    let changes = &update["data"]["changes"];
    assert_eq!(changes["counts"]["head-moved"], 1);
    assert_eq!(changes["total"], changes["first"].as_array().unwrap().len());
    assert!(changes["from"].is_string());

    // The stored revision is no news after a restart.
    almanac.stop();
    almanac.program.restart();
    almanac.program.wait_until_ready();
    folders.replace("b", &version(1));
    let received = all.until(4);
    assert_eq!(received[3].event()["data"]["catalog"], "b");
    let received = one.until(2);
    let catalogs = received
        .iter()
        .map(|it| it.event()["data"]["catalog"].clone());
    assert_eq!(catalogs.collect::<Vec<_>>(), ["b", "b"]);
    assert_eq!(received[0].header("webhook-signature"), None);
    let ids = all.received().into_iter().chain(received);
    let mut ids: Vec<String> = ids.map(|it| it.event()["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6);
    assert!(!almanac.program.log().contains("hidden"));
}

#[test]
fn a_refusal_that_repeats_and_its_end_are_told_once() {
    let folders = Folders::of("a", &version(0));
    let receiver = Receiver::start([]);
    let webhooks = [webhook("it", &url(&receiver), "")];
    let mut almanac = Almanac::start(&config(&folders, &["a"], &webhooks));
    receiver.until(1);
    // Renamed into place, so that no pass sees an empty file.
    let bad = folders.path("a").join("bad.json");
    let beside = tempfile::tempdir().unwrap();
    fs::write(beside.path().join("bad.json"), "{").unwrap();
    fs::rename(beside.path().join("bad.json"), &bad).unwrap();
    almanac.until("a", "several refusals", |status| {
        status["failures"].as_u64() > Some(2)
    });
    let refused = receiver.until(2)[1].event();
    assert_eq!(refused["type"], "almanac.catalog.refused");
    let data = &refused["data"];
    assert_eq!(
        (&data["stage"], &data["reason"]),
        (&"build".into(), &"refused".into())
    );
    assert!(
        data["error"].as_str().unwrap().contains("bad.json"),
        "{data}"
    );
    let serving = almanac.status("a")["revision"]["id"].to_string();
    assert_eq!(data["serving"].as_str().unwrap(), serving.trim_matches('"'));
    fs::remove_file(&bad).unwrap();
    almanac.until("a", "the recovery", |status| status["failures"] == 0);
    let recovered = receiver.until(3)[2].event();
    assert_eq!(recovered["type"], "almanac.catalog.recovered");
    assert_eq!(recovered["data"]["after"], "refused");
    assert_eq!(recovered["data"]["serving"], data["serving"]);
    folders.replace("a", &version(1));
    let kinds: Vec<String> = receiver.until(4).iter().map(Received::kind).collect();
    assert_eq!(kinds, ["published", "refused", "recovered", "published"]);
}

/// An admin has to know of content that cannot be served, also without `failed`.
#[test]
fn an_emptied_folder_is_told_as_refused() {
    let folders = Folders::of("a", &version(0));
    let receiver = Receiver::start([]);
    let webhooks = [webhook("it", &url(&receiver), "")];
    let mut almanac = Almanac::start(&config(&folders, &["a"], &webhooks));
    receiver.until(1);
    for entry in fs::read_dir(folders.path("a")).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    let refused = receiver.until(2)[1].event();
    assert_eq!(refused["type"], "almanac.catalog.refused");
    assert_eq!(refused["data"]["reason"], "empty");
    let metrics = "almanac_passes_total{catalog=\"a\",outcome=\"refused\"}";
    assert!(almanac.metrics().contains(metrics));
    folders.replace("a", &version(0));
    assert_eq!(receiver.until(3)[2].kind(), "recovered");
}

#[test]
fn a_receiver_that_hangs_delays_nothing() {
    let folders = Folders::of("a", &version(0));
    let silent = Receiver::start(vec![Answer::Silence; 20]);
    let other = Receiver::start([]);
    let webhooks = [
        webhook("silent", &url(&silent), "timeout = '1h'\n"),
        webhook("other", &url(&other), ""),
    ];
    let mut almanac = Almanac::start(&config(&folders, &["a"], &webhooks));
    silent.until(1);
    for number in 1..4 {
        folders.replace("a", &version(number));
        until_head(&mut almanac, "a", number);
    }
    let kinds = other.until(4);
    assert!(kinds.iter().all(|it| it.kind() == "published"));
    almanac.until_metrics("almanac_webhook_pending_events{webhook=\"silent\"} 4");
    assert_eq!(silent.received().len(), 1);
    almanac.stop();
    let log = almanac.program.log();
    assert!(log.contains("stopped before all events were sent"), "{log}");
}

#[test]
fn an_event_is_sent_again_until_the_receiver_takes_it() {
    let folders = Folders::of("a", &version(0));
    let elsewhere = Receiver::start([]);
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{}/\r\n",
        elsewhere.address
    );
    let busy = Receiver::start([Answer::status("503 Service Unavailable")]);
    let leading = Receiver::start([Answer::Head(redirect)]);
    let webhooks = [
        webhook("busy", &url(&busy), ""),
        webhook("leading", &url(&leading), ""),
    ];
    let mut almanac = Almanac::start(&config(&folders, &["a"], &webhooks));
    let received = busy.until(2);
    assert_eq!(received[0].body, received[1].body);
    assert_eq!(
        received[0].header("webhook-id"),
        received[1].header("webhook-id")
    );
    for wanted in [
        "almanac_webhook_events_total{webhook=\"busy\",outcome=\"delivered\"} 1",
        "almanac_webhook_events_total{webhook=\"leading\",outcome=\"failed\"} 1",
        "almanac_webhook_pending_events{webhook=\"busy\"} 0",
    ] {
        almanac.until_metrics(wanted);
    }
    let log = almanac.program.log();
    assert!(log.contains("redirects are not followed"), "{log}");
    assert!(elsewhere.received().is_empty());
    assert_eq!(leading.received().len(), 1);
}

#[test]
fn the_status_tells_what_a_receiver_does_not_take() {
    let folders = Folders::of("a", &version(0));
    let dead = format!("http://{}/hook?key=hidden", port::free_port());
    let taking = Receiver::start([]);
    let text = |url: &str| {
        let webhooks = [
            webhook("it", url, "attempts = 300\n"),
            webhook("well", &self::url(&taking), ""),
        ];
        config(&folders, &["a"], &webhooks)
    };
    let mut almanac = Almanac::start(&text(&dead));
    let until = |almanac: &mut Almanac, is_so: &dyn Fn(&Value, &Value) -> bool| {
        let begin = std::time::Instant::now();
        loop {
            let reply = http::get(almanac.program.address("admin"), "/status").unwrap();
            let status: Value = serde_json::from_slice(&reply.body).unwrap();
            let (it, well) = (&status["webhooks"][0], &status["webhooks"][1]);
            assert_eq!((&it["name"], &well["name"]), (&"it".into(), &"well".into()));
            if is_so(it, well) {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "{status}");
            crate::support::program::pause(begin);
        }
    };
    let status = until(&mut almanac, &|it, well| {
        it["failures"].as_u64() > Some(1) && well["delivered"].is_string()
    });
    let (it, well) = (&status["webhooks"][0], &status["webhooks"][1]);
    assert_eq!(
        (&it["pending"], &it["delivered"]),
        (&1.into(), &Value::Null)
    );
    assert!(it["last_error"].is_string(), "{it}");
    assert_eq!(
        (&well["pending"], &well["failures"], &well["last_error"]),
        (&0.into(), &0.into(), &Value::Null)
    );
    assert!(!status.to_string().contains("hidden"), "{status}");
    let admin = almanac.program.address("admin").to_string();
    let told = Start::new(["status", "--admin", &admin]).run();
    let told = told.stderr;
    assert!(told.contains("webhook it: 1 event waits"), "{told}");
    assert!(!told.contains("webhook well"), "{told}");

    let receiver = Receiver::start([]);
    almanac.reconfigure(&text(&url(&receiver)));
    until(&mut almanac, &|it, _| {
        let is_well = it["failures"] == 0 && it["last_error"].is_null();
        is_well && it["pending"] == 0 && it["delivered"].is_string()
    });
}

#[test]
fn an_event_for_a_dead_receiver_is_sent_to_the_new_url_after_a_reload() {
    let folders = Folders::of("a", &version(0));
    let dead = format!("http://{}/", port::free_port());
    let text = |url: &str| config(&folders, &["a"], &[webhook("it", url, "attempts = 300\n")]);
    let mut almanac = Almanac::start(&text(&dead));
    almanac
        .program
        .wait_for_log("a failed attempt", |log| log.contains("is sent again"));
    folders.replace("a", &version(1));
    until_head(&mut almanac, "a", 1);
    let receiver = Receiver::start([]);
    almanac.reconfigure(&text(&url(&receiver)));
    let kinds: Vec<String> = receiver.until(2).iter().map(Received::kind).collect();
    assert_eq!(kinds, ["published"; 2]);
    almanac.until_metrics("almanac_webhook_pending_events{webhook=\"it\"} 0");
}

#[test]
fn a_reload_without_new_settings_ends_no_wait() {
    let folders = Folders::of("a", &version(0));
    let wait = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\n";
    let busy = Receiver::start([Answer::Head(wait.to_owned())]);
    let text = |more: &str| {
        let webhooks = [webhook("it", &url(&busy), more)];
        config(&folders, &["a"], &webhooks)
    };
    let mut almanac = Almanac::start(&text(""));
    almanac
        .program
        .wait_for_log("a failed attempt", |log| log.contains("is sent again"));
    for number in 0..3 {
        almanac.reconfigure(&format!("{}# {number}\n", text("")));
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(busy.received().len(), 1);
    almanac.reconfigure(&text("attempts = 20\n"));
    assert_eq!(busy.until(2).len(), 2);
}

/// Runs `almanac webhook test` with a configuration.
fn test(config: &str, names: &[&str]) -> Finished {
    test_with(config, names, &[])
}

fn test_with(config: &str, names: &[&str], variables: &[(&str, &str)]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("almanac.toml");
    fs::write(&path, config).unwrap();
    let start = Start::new(["webhook", "test", "--config", path.to_str().unwrap()]);
    let start = names
        .iter()
        .fold(start, |start, name| start.argument(*name));
    let start = variables
        .iter()
        .fold(start, |start, (name, value)| start.variable(name, value));
    start.run()
}

#[test]
fn a_proxy_that_wants_a_login_is_not_taken_for_the_receiver() {
    let listening = Receiver::start([Answer::status("407 Proxy Authentication Required")]);
    let proxy = listening.address.to_string();
    let text = webhook("a", "http://receiver.invalid/hidden", "");
    let variables = [("HTTP_PROXY", &*format!("http://{proxy}"))];
    let finished = test_with(&text, &[], &variables);
    let said = format!("through the proxy {proxy}: the proxy wants a user and password (407)");
    assert!(finished.stderr.contains(&said), "{finished:?}");
    assert!(
        !finished.stderr.contains("the receiver answered"),
        "{finished:?}"
    );
}

#[test]
fn a_test_sends_one_event_to_each_webhook() {
    let files = files();
    let secret = files.path().join("secret");
    let (good, bad) = (
        Receiver::start([]),
        Receiver::start([Answer::status("503 Service Unavailable")]),
    );
    let signed = format!("secret_files = ['{}']\n", secret.display());
    let text = [
        webhook("good", &url(&good), &signed),
        webhook("bad", &url(&bad), ""),
    ]
    .concat();
    let finished = test(&text, &["good"]);
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    let expected = format!("good: http://{} answered 204 after ", good.address);
    assert!(finished.stdout.starts_with(&expected), "{finished:?}");
    let received = good.until(1).remove(0);
    assert_signed(&received, &[SECRET]);
    assert_eq!(received.event()["type"], "almanac.webhook.test");
    assert_eq!(received.event()["data"]["webhook"], "good");

    let finished = test(&text, &[]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("answered 503"), "{finished:?}");
    assert!(!finished.stderr.contains("hidden"), "{finished:?}");
    assert_eq!((good.received().len(), bad.received().len()), (2, 1));

    let finished = test(&text, &["god"]);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert!(finished.stderr.contains("good"), "{finished:?}");
    let finished = test("", &[]);
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
}

#[test]
fn a_receiver_of_the_other_scheme_and_a_silent_one_are_told_in_plain_words() {
    // As most servers answer a handshake that they do not expect.
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        let mut start = [0; 16];
        stream.read_exact(&mut start).unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
    });
    let secure = Receiver::start_with([], Some(Authority::new().sign().server(None)));
    let silent = Receiver::start([Answer::Silence]);
    for (url, more, told) in [
        (
            format!("https://{address}/"),
            "",
            "does not speak TLS; is its URL http://?",
        ),
        (
            url(&secure),
            "",
            "does not speak HTTP; is its URL https://?",
        ),
        (
            url(&silent),
            "timeout = '1s'\n",
            "no answer within 1s (timeout)",
        ),
    ] {
        let finished = test(&webhook("it", &url, more), &[]);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        assert!(finished.stderr.contains(told), "{finished:?}");
    }
    answering.join().unwrap();
}

#[test]
fn a_receiver_with_tls_needs_a_trusted_certificate() {
    let authority = Authority::new();
    let tls = authority.sign().server(None);
    let receiver = Receiver::start_with([], Some(tls));
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, authority.pem()).unwrap();
    let url = format!("https://localhost:{}/", receiver.address.port());
    let trusting = format!("ca_files = ['{}']\n", ca.display());
    let finished = test(&webhook("it", &url, &trusting), &[]);
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    let finished = test(&webhook("it", &url, ""), &[]);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("authority"), "{finished:?}");
    assert_eq!(receiver.received().len(), 1);
}

#[test]
fn a_webhook_that_cannot_be_used_is_refused_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let files = files();
    let path = |name: &str| files.path().join(name).display().to_string();
    fs::write(files.path().join("weak"), "hunter2").unwrap();
    let check = |webhooks: &str| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/catalog");
        let catalog = catalog("a", &format!("file:{}", source.display()));
        let file = folder.path().join("almanac.toml");
        fs::write(&file, format!("{catalog}{webhooks}")).unwrap();
        Start::new(["serve", "--check", "--config", file.to_str().unwrap()])
            .argument("--data-dir={data}")
            .argument("--grpc=127.0.0.1:0")
            .argument("--http=127.0.0.1:0")
            .argument("--admin=127.0.0.1:0")
            .run()
    };
    let plain = |more: &str| {
        format!("[[webhook]]\nname = 'it'\nurl = 'https://h.example/secret'\n{more}\n")
    };
    assert_eq!(check(&plain("")).status.code(), Some(0));
    for (text, code, words) in [
        (plain("catalogs = ['b']"), 2, "catalogs are: a"),
        (plain("events = ['gone']"), 2, "recovered"),
        (plain("events = []"), 2, "events is empty"),
        (plain("attempts = 301"), 2, "300"),
        (plain("atempts = 3"), 2, "attempts"),
        (plain("").repeat(2), 2, "another webhook has this name"),
        ("[[webhook]]\nname = 'it'\n".to_owned(), 2, "url"),
        (
            "[[webhook]]\nname = 'it'\nurl = 'http://127.0.0.1/'\n".to_owned(),
            2,
            "allow_local",
        ),
        (
            format!(
                "[[webhook]]\nname = 'it'\nurl = 'http://h.example/'\ntoken_file = '{}'\n",
                path("token")
            ),
            2,
            "https",
        ),
        (
            plain(&format!("secret_files = ['{}']", path("gone"))),
            1,
            "No such file",
        ),
        (
            plain(&format!("secret_files = ['{}']", path("weak"))),
            1,
            "whsec_",
        ),
        (
            plain(&format!("ca_files = ['{}']", path("token"))),
            1,
            "certificate",
        ),
    ] {
        let finished = check(&text);
        assert_eq!(finished.status.code(), Some(code), "{text}: {finished:?}");
        assert!(finished.stderr.contains(words), "{words:?}: {finished:?}");
        for hidden in ["hunter2", "/secret'", "a-token"] {
            assert!(!finished.stderr.contains(hidden), "{finished:?}");
        }
    }
}
