//! Probes, metrics and status of the running program, and `almanac health`.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::support::catalog::{Catalog, Format, entry};
use crate::support::grpc::Client;
use crate::support::http::{self, Reply};
use crate::support::port::NOBODY;
use crate::support::program::{Finished, Start};
use crate::support::registry::TestRegistry;
use crate::support::served::{Folders, Served, start, with};

fn get(served: &Served, path: &str) -> Reply {
    http::get(served.admin, path).unwrap()
}

fn health(admin: SocketAddr) -> Finished {
    Start::new(["health", "--admin", &admin.to_string()]).run()
}

#[test]
fn a_program_that_serves_is_alive_and_ready() {
    let served = Served::catalogs(&Folders::of("fruit", &Catalog::small()));
    for path in ["/livez", "/readyz"] {
        let reply = get(&served, path);
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (200, "ok\n"),
            "{path}"
        );
        assert_eq!(
            http::ask(served.admin, "HEAD", path, &[], b"")
                .unwrap()
                .status,
            200
        );
        let post = http::ask(served.admin, "POST", path, &[], b"").unwrap();
        assert_eq!((post.status, post.header("allow")), (405, Some("GET,HEAD")));
    }
    assert_eq!(get(&served, "/nowhere").status, 404);
    let finished = health(served.admin);
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    assert_eq!((&*finished.stdout, &*finished.stderr), ("ready\n", ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn it_is_not_ready_before_each_catalog_was_tried() {
    let registry = TestRegistry::start().await;
    registry.misbehave(|behaviour| behaviour.silent = true);
    let folders = Folders::of("fruit", &Catalog::small());
    let waiting = format!("waiting={}", registry.reference("catalogs/a", "v1"));
    let sources = folders.sources().into_iter().chain([waiting]);
    let mut served = Served::begin(with(start(), sources));
    served.wait_for_status("fruit", |status| status["last_pass"].is_string());

    assert_eq!(get(&served, "/livez").status, 200);
    let reply = get(&served, "/readyz");
    assert_eq!(reply.status, 503);
    assert_eq!(reply.text(), "waiting for the first attempt: waiting\n");
    assert_eq!(served.status("waiting")["state"], "loading");
    let finished = health(served.admin);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    for part in ["not ready", "503", "waiting"] {
        assert!(finished.stderr.contains(part), "{finished:?}");
    }
    // The others are served meanwhile.
    assert_eq!(served.get("/catalogs/fruit/api/v1/all").status, 200);
}

#[test]
fn it_is_ready_though_a_catalog_cannot_be_read() {
    let folders = Folders::of("fruit", &Catalog::small());
    let missing = format!("missing=file:{}", folders.path("missing").display());
    let poll = ["--poll", "100ms"].map(str::to_owned);
    let sources = folders.sources().into_iter().chain([missing]);
    let served = Served::start(sources.chain(poll));
    let reply = get(&served, "/readyz");
    let text = "ok; missing: failing (io)\n";
    assert_eq!((reply.status, reply.text().as_str()), (200, text));
    let finished = health(served.admin);
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    assert_eq!(finished.stdout, "ready; missing: failing (io)\n");

    // Until each catalog has content, it is not ready for those who need it.
    let admin = served.admin.to_string();
    let loaded = ["health", "--loaded", "--admin", &admin];
    let finished = Start::new(loaded).run();
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let said = "503 Service Unavailable without content: missing: failing (io)";
    assert!(finished.stderr.contains(said), "{finished:?}");
    let waiting = std::thread::spawn(move || {
        let line = ["health", "--loaded", "--wait", "5m", "--admin", &admin];
        Start::new(line).run()
    });
    std::fs::create_dir(folders.path("missing")).unwrap();
    Catalog::one("new").write_to(&folders.path("missing"), Format::JsonLines);
    let finished = waiting.join().unwrap();
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    assert_eq!(finished.stdout, "ready\n");
}

#[test]
fn health_tells_apart_what_is_not_there_and_what_makes_no_sense() {
    let finished = health(NOBODY.parse().unwrap());
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains(NOBODY), "{finished:?}");
    let finished = Start::new(["health", "--admin", "nonsense"]).run();
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");

    // The address comes from where `serve` has it.
    let served = Served::catalogs(&Folders::of("fruit", &Catalog::small()));
    let admin = served.admin.to_string();
    let finished = Start::new(["health"])
        .variable("ALMANAC_ADMIN", &admin)
        .run();
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), format!("admin = {admin:?}\n")).unwrap();
    let finished = Start::new(["health", "--config", config.path().to_str().unwrap()]).run();
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
}

/// A readiness probe reads the file that a running almanac refuses to reload.
#[test]
fn health_and_status_need_only_the_admin_address_of_a_file() {
    let served = Served::catalogs(&Folders::of("fruit", &Catalog::small()));
    let config = tempfile::NamedTempFile::new().unwrap();
    let path = config.path().to_str().unwrap();
    let admin = format!("admin = {:?}\n", served.admin.to_string());
    for (text, problem) in [
        (format!("{admin}polll = \"10m\"\n"), "polll"),
        (format!("{admin}poll = \"soon\"\n"), "soon"),
        (
            format!("{admin}[[catalog]\nname = \"a\"\n"),
            "admin port is looked for",
        ),
        (format!("poll = 10m\n{admin}"), "admin port is looked for"),
    ] {
        std::fs::write(path, &text).unwrap();
        for command in ["health", "status"] {
            let finished = Start::new([command, "--config", path]).run();
            assert_eq!(finished.status.code(), Some(0), "{text}: {finished:?}");
            assert!(finished.stderr.contains(problem), "{text}: {finished:?}");
            assert!(finished.stderr.contains(path), "{text}: {finished:?}");
        }
    }
    // A file without an address means the default one.
    std::fs::write(path, b"admin = \xff").unwrap();
    let finished = Start::new(["health", "--config", path]).run();
    assert!(finished.stderr.contains("127.0.0.1:9090"), "{finished:?}");
    assert_ne!(finished.status.code(), Some(2), "{finished:?}");
}

#[test]
fn the_status_tells_what_is_served_and_what_is_wrong_with_it() {
    let catalog = Catalog::small().package("quince", |package| {
        package.channel("stable", [entry("quince.v1.0.0"), entry("quince.v2.0.0")])
    });
    let folders = Folders::of("fruit", &catalog);
    let missing = format!("missing=file:{}", folders.path("missing").display());
    let mut served = Served::start(folders.sources().into_iter().chain([missing]));
    // A revision is served a moment before its pass is over.
    for catalog in ["fruit", "missing"] {
        served.wait_for_status(catalog, |status| !status["next_pass"].is_null());
    }
    let reply = get(&served, "/status");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let status: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["catalogs"].as_array().unwrap().len(), 2);

    let time = |value: &Value| humantime::parse_rfc3339(value.as_str().unwrap()).unwrap();
    let fruit = served.status("fruit");
    let source = format!("file:{}", folders.path("fruit").display());
    assert_eq!(fruit["state"], "serving");
    assert_eq!(fruit["source"], source);
    assert_eq!(fruit["failures"], 0);
    assert_eq!(fruit["last_error"], Value::Null);
    assert!(time(&fruit["next_pass"]) > time(&fruit["last_pass"]));
    let revision = &fruit["revision"];
    assert_eq!(revision["id"], 1);
    assert_eq!(revision["source"], source);
    for digest in ["digest", "content"] {
        assert!(revision[digest].as_str().unwrap().starts_with("sha256:"));
    }
    assert!(time(&revision["committed"]) >= time(&revision["modified"]));
    assert_eq!(
        revision["counts"],
        json!({
            "metas": 8, "packages": 1, "channels": 1, "entries": 2, "bundles": 2,
            "quarantined": 1,
        })
    );
    assert_eq!(revision["quarantined"], json!(["quince"]));
    let problem = &fruit["problems"][0];
    assert_eq!(problem["code"], "channel-multiple-heads");
    assert_eq!(problem["severity"], "error");
    assert_eq!(problem["package"], "quince");
    assert_eq!(problem["channel"], "stable");
    assert_eq!(problem["file"], "quince/catalog.json");
    assert_eq!(problem["document"], 2);
    assert_eq!(problem["line"], 2);
    let result = &fruit["last_result"];
    assert_eq!(result["outcome"], "committed");
    assert_eq!(result["digest"], revision["digest"]);
    assert!(time(&result["finished"]) >= time(&result["started"]));

    let missing = served.status("missing");
    assert_eq!(missing["state"], "failing");
    assert_eq!(missing["revision"], Value::Null);
    assert_eq!(missing["failures"], 1);
    let error = missing["last_error"].as_str().unwrap();
    assert!(error.starts_with("resolve: "), "{error}");
    assert_eq!(missing["last_result"]["stage"], "resolve");
    assert_eq!(missing["last_result"]["outcome"], "failed");
    assert_eq!(missing["last_result"]["error"], error);
}

#[test]
fn a_revision_that_is_refused_leaves_what_was_served_and_is_told() {
    let folders = Folders::of("fruit", &Catalog::small());
    let more = ["--poll", "100ms", "--on-invalid", "reject"].map(str::to_owned);
    let mut served = Served::start(folders.sources().into_iter().chain(more));
    let before = served.get("/catalogs/fruit/api/v1/all").body;
    let bad = Catalog::small().package("quince", |package| {
        package.channel("stable", [entry("quince.v1.0.0"), entry("quince.v2.0.0")])
    });
    folders.replace("fruit", &bad);
    served.wait_for_status("fruit", |status| {
        let error = status["last_error"].as_str().unwrap_or_default();
        error.contains("channel-multiple-heads")
    });
    let status = served.status("fruit");
    assert_eq!(status["state"], "serving");
    assert_eq!(status["last_result"]["reason"], "refused");
    let accept = [("Accept", "text/html")];
    let page = crate::support::http::ask(served.admin, "GET", "/", &accept, b"").unwrap();
    let message = status["refused"][0]["message"].as_str().unwrap();
    let message = message.replace('"', "&quot;");
    for part in ["Refused by the last pass", &message] {
        assert!(page.text().contains(part), "{part}: {}", page.text());
    }
    assert_eq!(served.get("/catalogs/fruit/api/v1/all").body, before);
    // The same is refused again and again, and its problems are logged once.
    served.wait_for_status("fruit", |status| status["failures"].as_u64() >= Some(2));
    let log = served.program.log();
    let named = log.matches("packages with errors: quince").count();
    assert_eq!(named, 1, "{log}");
    // It is well again as soon as the catalog is.
    let mended = Catalog::small().blob(json!({"schema": "x", "name": "new"}));
    folders.replace("fruit", &mended);
    served.wait_for_status("fruit", |status| {
        status["failures"] == 0 && status["revision"]["id"] == 2
    });
    assert_eq!(served.status("fruit")["last_error"], Value::Null);
}

#[tokio::test]
async fn the_metrics_have_their_names_and_do_not_grow_with_what_is_asked() {
    let folders = Folders::of("fruit", &Catalog::small());
    let missing = format!("missing=file:{}", folders.path("missing").display());
    let served = Served::start(folders.sources().into_iter().chain([missing]));
    served.get("/catalogs/fruit/api/v1/all");
    served.get("/catalogs/made-up/api/v1/all");
    served.get("/made-up");
    served.ask("MADEUP", "/catalogs/fruit/api/v1/all", &[]);
    let client = Client::called(served.grpc, "fruit");
    client
        .raw("/api.Registry/GetPackage", b"")
        .await
        .unwrap_err();
    client.raw("/api.Registry/MadeUp", b"").await.unwrap_err();
    client.raw("/made.up/MadeUp", b"").await.unwrap_err();
    for asked in [&b""[..], b"\x0a\x05fruit", b"\x0a\x06madeup"] {
        let health = "/grpc.health.v1.Health/Check";
        client.raw(health, asked).await.unwrap();
    }
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    client.raw(reflection, b"\x3a\x01*").await.unwrap();

    let reply = get(&served, "/metrics");
    let kind = reply.header("content-type").unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let text = reply.text();
    for name in [
        r#"almanac_passes_total{catalog="fruit",outcome="committed"} 1"#,
        r#"almanac_passes_total{catalog="missing",outcome="failed"} 1"#,
        // 0 from the start, for rules about the growth.
        r#"almanac_passes_total{catalog="fruit",outcome="failed"} 0"#,
        r#"almanac_passes_total{catalog="fruit",outcome="refused"} 0"#,
        r#"almanac_stored_damage_total{catalog="fruit",file="metas.jsonl"} 0"#,
        r#"almanac_stored_damage_total{catalog="fruit",file="all.gz"} 0"#,
        r#"almanac_stored_damage_total{catalog="fruit",file="groups.bin"} 0"#,
        r#"almanac_stored_damage_total{catalog="fruit",file="record.json"} 0"#,
        r#"almanac_stored_damage_total{catalog="fruit",file="blob"} 0"#,
        r#"almanac_pass_failures_total{catalog="missing",stage="resolve",reason="#,
        r#"almanac_last_pass_timestamp_seconds{catalog="fruit"}"#,
        r#"almanac_next_pass_timestamp_seconds{catalog="fruit"}"#,
        r#"almanac_failed_passes_in_a_row{catalog="fruit"} 0"#,
        r#"almanac_catalog_modified_timestamp_seconds{catalog="fruit"}"#,
        r#"almanac_catalog_objects{catalog="fruit",kind="packages"} 1"#,
        r#"almanac_catalog_objects{catalog="fruit",kind="bundles"} 2"#,
        r#"almanac_catalog_objects{catalog="fruit",kind="quarantined"} 0"#,
        r#"almanac_stage_seconds_count{stage="unpack"}"#,
        r#"almanac_stage_seconds_count{stage="read"}"#,
        r#"almanac_stage_seconds_count{stage="build"}"#,
        r#"almanac_stage_seconds_count{stage="commit"}"#,
        r#"almanac_stage_seconds_count{stage="publish"}"#,
        r#"almanac_http_requests_total{method="GET",route="/catalogs/{name}/api/v1/all",code="200",catalog="fruit",encoding="identity"} 1"#,
        r#"almanac_http_requests_total{method="GET",route="/catalogs/{name}/api/v1/all",code="404",catalog="",encoding="identity"} 1"#,
        r#"almanac_http_requests_total{method="other",route="/catalogs/{name}/api/v1/all",code="405",catalog="fruit",encoding="identity"} 1"#,
        r#"almanac_http_requests_total{method="GET",route="unknown",code="404",catalog="",encoding="identity"} 1"#,
        r#"almanac_http_request_seconds_count{route="unknown",catalog=""} 1"#,
        r#"almanac_grpc_requests_total{service="api.Registry",method="GetPackage",catalog="fruit",code="Unknown"} 1"#,
        r#"almanac_grpc_requests_total{service="api.Registry",method="unknown",catalog="fruit",code="Unimplemented"} 1"#,
        r#"almanac_grpc_requests_total{service="unknown",method="unknown",catalog="",code="Unimplemented"} 1"#,
        r#"almanac_grpc_requests_total{service="grpc.health.v1.Health",method="Check",catalog="",code="Ok"} 2"#,
        r#"almanac_grpc_requests_total{service="grpc.health.v1.Health",method="Check",catalog="fruit",code="Ok"} 1"#,
        r#"almanac_grpc_requests_total{service="grpc.reflection.v1.ServerReflection",method="ServerReflectionInfo",catalog="",code="Ok"} 1"#,
        r#"almanac_grpc_request_seconds_count{method="GetPackage",catalog="fruit"} 1"#,
        r#"almanac_grpc_sent_bytes_total{method="GetPackage",catalog="fruit"} 0"#,
        r#"almanac_grpc_pinned_connections{catalog="fruit",generation="current"} 1"#,
        r#"almanac_http_sent_bytes_total{route="/catalogs/{name}/api/v1/all",catalog="fruit",encoding="identity"} "#,
        r#"almanac_connections{service="grpc"} 1"#,
        r#"almanac_connections_total{service="grpc"} 1"#,
        r#"almanac_connections_total{service="http"} 4"#,
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
    let lowered = text.to_lowercase();
    assert!(
        !lowered.contains("made-up") && !lowered.contains("madeup"),
        "{text}"
    );
}

#[test]
fn the_series_of_a_catalog_do_not_grow_with_its_routes() {
    let served = Served::catalogs(&Folders::of("fruit", &Catalog::small()));
    let openapi: Value = serde_json::from_slice(&served.get("/openapi.json").body).unwrap();
    let paths = openapi["paths"].as_object().unwrap().keys();
    let pages = [
        "/catalogs/{name}/changes",
        "/catalogs/{name}/changes.atom",
        "/catalogs/{name}/problems",
        "/catalogs/{name}/packages/{package}/versions",
        "/catalogs/{name}/packages/{package}/updates",
        "/catalogs/{name}/packages/{package}/nothing",
        "/catalogs/{name}/packages/{package}/bundles/nothing",
    ];
    let paths: Vec<&str> = (paths.map(String::as_str).chain(pages))
        .filter(|path| path.starts_with("/catalogs/{"))
        .collect();
    assert!(paths.len() > 25, "{paths:?}");
    for path in paths {
        let path = path
            .replace("{catalog}", "fruit")
            .replace("{name}", "fruit");
        let path = path.replace("{package}", "etcd");
        let path = path.split('{').next().unwrap();
        for method in ["GET", "HEAD", "POST", "OPTIONS", "MADEUP"] {
            for headers in [
                &[("Accept", "text/html"), ("Accept-Encoding", "gzip")][..],
                &[("Accept-Encoding", "zstd")],
                &[("If-None-Match", "*")],
                &[("If-Match", "\"other\"")],
            ] {
                served.ask(method, path, headers);
            }
        }
    }
    let metrics = get(&served, "/metrics").text();
    let of_catalog = metrics
        .lines()
        .filter(|line| line.starts_with("almanac_http") && line.contains("catalog=\"fruit\""));
    let series = of_catalog.count();
    assert!((50..350).contains(&series), "{series} series: {metrics}");
}

#[test]
fn the_admin_port_does_not_answer_to_names_that_anybody_can_register() {
    let served = Served::catalogs(&Folders::of("fruit", &Catalog::small()));
    let ask = |host: &str, path: &str| {
        let connection = http::connect(served.admin).unwrap();
        http::exchange(connection, host, "GET", path, &[], b"").unwrap()
    };
    for path in ["/", "/status", "/metrics", "/readyz", "/nowhere"] {
        for host in ["rebound.example.com", "127.0.0.1.example.com:9090"] {
            let reply = ask(host, path);
            assert_eq!(reply.status, 421, "{host} {path}");
            assert!(!reply.text().contains("fruit"), "{}", reply.text());
        }
    }
    for host in [
        "localhost:9090",
        "almanac",
        "almanac.olm.svc:9090",
        "10.0.0.1",
    ] {
        assert_eq!(ask(host, "/status").status, 200, "{host}");
    }
    // It is the same for everybody.
    assert_eq!(ask("rebound.example.com", "/livez").status, 200);
}

#[tokio::test]
async fn the_names_that_no_catalog_answers_to_are_reported_with_their_callers() {
    let folders = Folders::of("fruit", &Catalog::small()).catalog("herbs", &Catalog::one("basil"));
    let mut served = Served::catalogs(&folders);
    let status = || -> Value { serde_json::from_slice(&get(&served, "/status").body).unwrap() };
    assert_eq!(status()["unknown_names"], Value::Null);
    let client = Client::called(served.grpc, "friut.olm.svc:50051");
    for _ in 0..2 {
        let unknown = client.raw("/api.Registry/ListPackages", b"").await;
        assert_eq!(unknown.unwrap_err().code(), tonic::Code::NotFound);
    }
    let status = status();
    let names = status["unknown_names"].as_array().unwrap();
    assert_eq!(names.len(), 1, "{status}");
    assert_eq!(names[0]["name"], "friut.olm.svc:50051");
    assert_eq!(
        (&names[0]["peer"], &names[0]["calls"]),
        (&json!("127.0.0.1"), &json!(2))
    );
    let page = get(&served, "/").text();
    assert!(page.contains("friut.olm.svc:50051"), "{page}");
    let command = Start::new(["status", "--admin", &served.admin.to_string()]).run();
    let note = "no catalog answers to the name friut.olm.svc:50051, which 127.0.0.1 calls";
    assert!(command.stderr.contains(note), "{command:?}");
    served
        .program
        .wait_for_log("the name and its caller", |log| {
            log.lines().any(|line| {
                let parts = ["WARN", "friut.olm.svc:50051", "127.0.0.1"];
                parts.iter().all(|part| line.contains(part))
            })
        });
}

#[test]
fn the_metrics_tell_the_build_and_the_process() {
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let served = Served::catalogs(&Folders::of("fruit", &Catalog::small()));
    let text = get(&served, "/metrics").text();
    let version = env!("CARGO_PKG_VERSION");
    let build = format!("almanac_build_info{{version=\"{version}\",commit=\"");
    let build = text.lines().find(|line| line.starts_with(&build));
    let build = build.unwrap_or_else(|| panic!("{text}"));
    assert!(
        build.contains(",features=\"") && build.ends_with("} 1"),
        "{build}"
    );
    let docs = std::fs::read_to_string("docs/reference/operations.md").unwrap();
    let value = |name: &str, kind: &str| -> f64 {
        assert!(
            docs.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{text}");
        let begin = format!("{name} ");
        let found = text.lines().find_map(|line| line.strip_prefix(&begin));
        found.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    };
    assert!(value("process_cpu_seconds_total", "counter") > 0.0);
    let resident = value("process_resident_memory_bytes", "gauge");
    assert!(resident > 1e6, "{resident}");
    assert!(value("process_virtual_memory_bytes", "gauge") >= resident);
    let open = value("process_open_fds", "gauge");
    assert!(
        (8.0..=value("process_max_fds", "gauge")).contains(&open),
        "{open}"
    );
    // The start is told to a tick of the system, a hundredth of a second.
    let started = value("process_start_time_seconds", "gauge");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let around = before.as_secs_f64() - 1.0..now.as_secs_f64() + 1.0;
    assert!(around.contains(&started), "{started} is not in {around:?}");
}

#[test]
fn it_ends_well_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    Catalog::small().write_to(folder.path(), Format::Yaml);
    let source = format!("fruit=file:{}", folder.path().display());
    let mut served = Served::start([source]);
    served.program.terminate();
    // Well before open streams would be cut.
    let status = served.program.wait(std::time::Duration::from_secs(15));
    assert_eq!(status.code(), Some(0));
    let log = served.program.log();
    assert!(log.contains("stopping") && log.contains("stopped"), "{log}");
    assert_eq!(health(served.admin).status.code(), Some(1));
}
