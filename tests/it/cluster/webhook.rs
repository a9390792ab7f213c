//! catalogd's admission webhook, for the API server.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::support::almanac::Almanac;
use crate::support::api_server::{ApiServer, cluster_catalog};
use crate::support::http::{Reply, exchange};
use crate::support::tls::Authority;

const PATH: &str = "/mutate-olm-operatorframework-io-v1-clustercatalog";

#[test]
fn the_webhook_gives_a_new_catalog_the_label_with_its_name() {
    let api = ApiServer::start();
    let files = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.sign().write(files.path());
    let file = |name: &str| files.path().join(name);
    let config = format!(
        "[kubernetes]\ncluster_catalogs = \"own\"\nkubeconfig = {:?}\nwebhook = \"127.0.0.1:0\"\n\
         [http_tls]\ncertificate = {:?}\nkey = {:?}\n",
        api.kubeconfig(),
        file("tls.crt"),
        file("tls.key"),
    );
    let mut almanac = Almanac::start(&config);
    let webhook = almanac.program.address("webhook");
    let client = authority.client(None, &[]);
    let ask = |method: &str, place: &str, body: &str| -> Reply {
        let connection = client.connect(webhook).unwrap();
        let headers = [("Content-Type", "application/json")];
        exchange(
            connection,
            "localhost",
            method,
            place,
            &headers,
            body.as_bytes(),
        )
        .unwrap()
    };
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "1-2-3", "object": cluster_catalog("a", "quay.io/a/b:v1")},
    });
    let reply = ask("POST", PATH, &review.to_string());
    assert_eq!(reply.status, 200, "{}", reply.text());
    let answer: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], "1-2-3");
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    let patch = answer["response"]["patch"].as_str().unwrap();
    let patch: Value = serde_json::from_slice(&BASE64_STANDARD.decode(patch).unwrap()).unwrap();
    assert_eq!(patch[1]["value"], "a");
    // Nothing else is on this port, and what is no review is refused.
    assert_eq!(ask("POST", PATH, "{}").status, 400);
    assert_eq!(ask("GET", "/catalogs/a/api/v1/all", "").status, 404);
}
