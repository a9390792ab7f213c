//! almanac asks the API server for no more than the roles of the chart, of the
//! overlay and of the pages grant, and each verb of their rules is needed.

use std::time::Instant;

use serde_json::{Value, json};

use super::in_pages;
use super::rendered::{helm, overlay};
use crate::support::almanac::Almanac;
use crate::support::api_server::{ApiServer, CATALOGS, cluster_catalog, resolve};
use crate::support::catalog::Catalog;
use crate::support::image::Image;
use crate::support::needs::skip_without;
use crate::support::program::{PATIENCE, pause};
use crate::support::tls::Authority;
use crate::support::upstream::Upstream;
use crate::support::yaml;

const FINALIZER: &str = "olm.operatorframework.io/delete-server-cache";
/// All that almanac can read besides catalogs.
const FILES: &str = "mirror_sets = true\nimage_policies = true\nimage_pull_secrets = true\n\
                     pull_secret = \"openshift-config/pull-secret\"\n";

/// Runs almanac with no other permissions than these roles.
fn run_with(roles: &[Value], keys: &str, tables: &str) {
    let account = roles.iter().find(|it| it["kind"] == "ServiceAccount");
    let account = account.cloned();
    let roles: Vec<Value> = roles.iter().filter(|it| is_role(it)).cloned().collect();
    assert!(!roles.is_empty());
    let (upstream, api) = (Upstream::start(), ApiServer::start());
    let image = Image::of_catalog(&Catalog::one("first")).build();
    upstream.push("catalogs/a", "v1", &image);
    let tag = upstream.reference("catalogs/a", "v1");
    let mut object = cluster_catalog("a", &tag);
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    let owns = keys.contains("\"own\"");
    if !owns {
        let repository = tag.strip_suffix(":v1").unwrap();
        resolve(&mut object, &format!("{repository}@{}", image.digest()));
    }
    api.put(CATALOGS, object);
    let mut account = account.unwrap_or_else(|| {
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {
            "name": "almanac", "namespace": "olmv1-system",
        }})
    });
    // The chart names them; in the other cases, an administrator does.
    if account["metadata"]["labels"]["helm.sh/chart"].is_null() {
        account["imagePullSecrets"] = json!([{"name": "registries"}]);
    }
    api.put("serviceaccounts", account);
    api.enforce(&roles);
    let kubeconfig = api.kubeconfig();
    let kubeconfig = kubeconfig.display();
    let config = format!("[kubernetes]\nkubeconfig = \"{kubeconfig}\"\n{keys}{tables}");
    let mut almanac = Almanac::start(&config);
    almanac.until_names(&["a"]);
    almanac.until("a", "the content", |status| status["state"] == "serving");
    if tables.is_empty() {
        almanac.all("a");
    }
    if owns {
        api.until(CATALOGS, "a", |object| {
            let labels = &object["metadata"]["labels"];
            object["status"]["urls"]["base"].is_string() && labels.is_object()
        });
        api.delete(CATALOGS, "a");
        api.until(CATALOGS, "a", Value::is_null);
    }
    // An Event is patched once it repeats. Live objects are read for requests alone,
    // which these tables put behind TLS.
    let reads_live = tables.is_empty();
    let is_rare =
        |unused: &str| unused == "patch events" || unused == "get clustercatalogs" && !reads_live;
    let begin = Instant::now();
    loop {
        let (forbidden, mut unused) = api.forbidden_and_unused();
        assert!(forbidden.is_empty(), "{forbidden:#?}");
        unused.retain(|one| !is_rare(one));
        if unused.is_empty() {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "nothing needs {unused:#?}");
        pause(begin);
    }
    almanac.stop();
    let (forbidden, _) = api.forbidden_and_unused();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
}

fn is_role(object: &Value) -> bool {
    ["Role", "ClusterRole"].contains(&object["kind"].as_str().unwrap_or_default())
}

#[test]
fn the_roles_of_the_chart_are_what_almanac_uses() {
    if skip_without("helm") {
        return;
    }
    let files = tempfile::tempdir().unwrap();
    Authority::new().sign().write(files.path());
    let file = |name: &str| files.path().join(name);
    let tables = format!(
        "[http_tls]\nmin_version = \"cluster\"\ncertificate = {:?}\nkey = {:?}\n\
         [registries]\nimage_policy_namespace = \"images\"\n",
        file("tls.crt"),
        file("tls.key"),
    );
    for way in ["own", "follow"] {
        let settings = json!({
            "kubernetes": {
                "cluster_catalogs": way, "mirror_sets": true, "image_policies": true,
                "image_pull_secrets": true, "pull_secret": "openshift-config/pull-secret",
            },
            "http_tls": {"min_version": "cluster"},
            "registries": {"image_policy_namespace": "images"},
        });
        let output = helm(&[
            "template",
            "almanac",
            "deploy/helm/almanac",
            "--namespace=olmv1-system",
            "--set=image.repository=registry.example.com/almanac,tls.mode=secret",
            "--set=olm.v0.enabled=false,replicas=1",
            "--set=imagePullSecrets[0].name=registries",
            &format!("--set-json=settings={settings}"),
        ]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{way}: {errors}");
        let all = yaml::documents(&String::from_utf8(output.stdout).unwrap());
        let keys = format!("cluster_catalogs = \"{way}\"\n{FILES}");
        run_with(&all, &keys, &tables);
    }
}

#[test]
fn the_roles_of_the_overlays_are_what_almanac_uses() {
    if skip_without("kubectl") {
        return;
    }
    for (path, way) in [("olm-v1-replace", "own"), ("olm-v1-follow", "follow")] {
        let all = overlay(&format!("deploy/kustomize/{path}"));
        run_with(&all, &format!("cluster_catalogs = \"{way}\"\n"), "");
    }
}

#[test]
fn the_roles_of_the_pages_are_what_almanac_uses() {
    let of = |page: &str| -> Vec<Value> {
        let found = in_pages()
            .into_iter()
            .filter(|(name, _)| name.ends_with(page));
        found.map(|(_, object)| object).collect()
    };
    let replacing = of("replace-catalogd.md");
    run_with(&replacing, "cluster_catalogs = \"own\"\n", "");
    let keys = format!("cluster_catalogs = \"follow\"\n{FILES}");
    let mut following = of("follow-cluster.md");
    for role in &mut following {
        // Without TLS here.
        if let Some(rules) = role["rules"].as_array_mut() {
            rules.retain(|rule| rule["resources"] != json!(["apiservers"]));
        }
    }
    run_with(&following, &keys, "");
}
