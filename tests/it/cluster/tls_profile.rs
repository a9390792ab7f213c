//! The TLS profile of the cluster counts for new connections, without a restart.

use std::fs;
use std::net::SocketAddr;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::almanac::{Almanac, catalog};
use crate::support::api_server::{ApiServer, Fault};
use crate::support::catalog::{Catalog, Format};
use crate::support::program::{PATIENCE, pause};
use crate::support::tls::Authority;

const API_SERVERS: &str = "config.openshift.io/apiservers";

fn api_server(profile: &Value) -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "APIServer",
        "metadata": {"name": "cluster"}, "spec": {"tlsSecurityProfile": profile},
    })
}

#[test]
fn the_tls_profile_of_the_cluster_counts_without_a_restart() {
    let api = ApiServer::start();
    api.put(API_SERVERS, api_server(&json!({"type": "Modern"})));
    let folder = tempfile::tempdir().unwrap();
    Catalog::one("first").write_to(folder.path(), Format::JsonLines);
    let files = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.sign().write(files.path());
    let path = |name: &str| files.path().join(name);
    let config = format!(
        "[kubernetes]\nkubeconfig = {:?}\n[http_tls]\nmin_version = \"cluster\"\n\
         certificate = {:?}\nkey = {:?}\n{}",
        api.kubeconfig(),
        path("tls.crt"),
        path("tls.key"),
        catalog("a", &format!("file:{}", folder.path().display())),
    );
    let mut almanac = Almanac::start(&config);
    almanac.until("a", "the catalog", |status| status["state"] == "serving");
    let mut http = almanac.program.address("http");
    let old = authority.client_of(None, &[], &[&rustls::version::TLS12]);
    let new = authority.client_of(None, &[], &[&rustls::version::TLS13]);
    let until_old = |http: SocketAddr, works: bool| {
        let begin = Instant::now();
        while old.get(http, "/catalogs/a/api/v1/all").is_ok() != works {
            assert!(begin.elapsed() < PATIENCE, "TLS 1.2 works: {}", !works);
            pause(begin);
        }
        assert_eq!(new.get(http, "/catalogs/a/api/v1/all").unwrap().status, 200);
    };
    until_old(http, false);
    api.put(API_SERVERS, api_server(&json!({"type": "Intermediate"})));
    until_old(http, true);
    // The certificate is for ECDSA: this suite is of no use below TLS 1.3.
    let custom = |suite: &str| {
        let rules = json!({"minTLSVersion": "VersionTLS12", "ciphers": [suite]});
        api.put(
            API_SERVERS,
            api_server(&json!({"type": "Custom", "custom": rules})),
        );
    };
    custom("ECDHE-RSA-AES128-GCM-SHA256");
    until_old(http, false);
    custom("ECDHE-ECDSA-AES128-GCM-SHA256");
    until_old(http, true);
    // Nothing is left of this one: the last rules stay.
    custom("AES128-SHA");
    let warned = |log: &str| log.contains("the last rules stay");
    almanac.program.wait_for_log("a warning", warned);
    until_old(http, true);
    let rules = fs::read_to_string(almanac.program.data().join("cluster/tls-rules"));
    assert!(rules.unwrap().contains("ECDSA"));
    // The default would allow more than the profile of an object that is missing.
    api.put(API_SERVERS, api_server(&json!({"type": "Modern"})));
    until_old(http, false);
    api.delete(API_SERVERS, "cluster");
    let missing = |log: &str| log.contains("there is no APIServer");
    almanac.program.wait_for_log("a warning", missing);
    until_old(http, false);
    almanac.stop();
    let lacking = Fault::Status(404, "NotFound");
    api.fail("list", API_SERVERS, lacking, None);
    almanac.restart_with(&config);
    almanac.until_metrics(
        "almanac_kubernetes_up_to_date{resource=\"apiservers.config.openshift.io\"} 0",
    );
    http = almanac.program.address("http");
    until_old(http, false);
}
