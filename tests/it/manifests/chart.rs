//! The Helm chart: what it renders for the examples, and what it refuses.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cluster::{Cluster, text};
use super::rendered::{EXAMPLES, chart, helm, template, values};
use crate::docs::{configuration, names_after, read, sources};
use crate::support::file::root;
use crate::support::needs::skip_without;
use crate::support::yaml;
use almanac::ingest::Source;
use images::Platform;

const DASHBOARD: &str = "deploy/helm/almanac/dashboards/almanac.json";

#[test]
fn the_chart_and_its_examples_pass_the_lint() {
    if skip_without("helm") {
        return;
    }
    for (example, _) in EXAMPLES {
        let values = values(example);
        let output = helm(&[
            "lint",
            "--strict",
            "deploy/helm/almanac",
            "--values",
            &values,
        ]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{example}: {said}");
    }
    // No file of values is without a test.
    let files = std::fs::read_dir(root().join("deploy/helm/examples")).unwrap();
    assert_eq!(files.count(), EXAMPLES.len());
}

#[test]
fn the_chart_renders_the_examples_as_recorded() {
    if skip_without("helm") {
        return;
    }
    // As it stands in the ConfigMap. It is a file of its own.
    let dashboard = format!("    {}\n", read(DASHBOARD).trim().replace('\n', "\n    "));
    for (example, _) in EXAMPLES {
        let text = chart(example).replace(&dashboard, "    # The dashboard.\n");
        insta::assert_snapshot!(example, text);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn values_that_cannot_work_are_refused() {
    if skip_without("helm") {
        return;
    }
    let values = values("olm-v0");
    for (change, said) in [
        ("--set=unknown=1", "unknown"),
        ("--set=settings.database=postgres://a@b/c", "needs both"),
        ("--set=fleet.secretName=almanac-fleet", "is for a fleet"),
        ("--set=fleet.migrate=often", "fleet.migrate"),
        (
            "--set=fleet.serviceAccountName=a,settings.kubernetes.mirror_sets=true",
            "fleet.serviceAccountName",
        ),
        ("--set=catalogs=null", "catalogs"),
        ("--set=catalogs[0].nam=x", "nam"),
        ("--set=catalogs[0].name=A_B", "catalogs.0.name"),
        ("--set=catalogs[0].name=almanac", "almanac's own"),
        (
            "--set=catalogs[1].name=a.b,catalogs[2].name=a-b",
            "both be the Service a-b",
        ),
        (
            "--set=catalogs[0].settings.grpc=0.0.0.0:50052",
            "settings.grpc",
        ),
        ("--set=settings.data_dir=/x", "settings.data_dir"),
        ("--set=settings.grpc_tls.key=/x", "settings.grpc_tls"),
        ("--set=olm.v1.enabled=true", "needs tls.mode"),
        ("--set=tls.mode=maybe", "tls.mode"),
        ("--set=replicas=0", "replicas"),
        ("--set-json=catalogs=[]", "at least one"),
        (
            "--set-string=podLabels.olm\\.managed=true",
            "OLM deletes pods",
        ),
        ("--set=image.digest=sha256:0", "image.digest"),
        ("--set=image=null", "image.repository is missing: write"),
        (
            "--set=image.repository=",
            "image.repository is missing: write",
        ),
        // An empty section takes its defaults away.
        ("--set=settings=null", "settings is required"),
        ("--set=olm.v0=null", "v0 is required"),
        (
            "--set=settings.http=:80",
            "settings.http: the chart sets it",
        ),
        (
            "--set=catalogs[0].settings.name=x",
            "settings.name: write name beside",
        ),
        ("--set=catalogs[0].source=operatorhub", "catalogs.0.source"),
        (
            "--set=catalogs[0].source=docker://quay.io/a/b:v1",
            "catalogs.0.source",
        ),
        (
            "--set=catalogs[0].source=https://quay.io/a/b",
            "catalogs.0.source",
        ),
        (
            "--set=catalogs[0].source=quay.io/Org/b:v1",
            "catalogs.0.source",
        ),
        (
            "--set=catalogs[0].source=quay.io/a/b:v1@sha256:\
             0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "catalogs.0.source",
        ),
        ("--set=settings.platform=linux", "settings.platform"),
        ("--set=settings.poll=5x", "settings.poll"),
        (
            "--set=resources.limits.memory=1GiB",
            "resources.limits.memory",
        ),
        ("--set=tls.mode=serviceCa", "is for platform: openshift"),
        ("--set=olm.v1.host=https://a.example/", "olm.v1.host"),
        (
            "--set=metrics.podMonitor.enabled=true",
            "metrics.podMonitor.enabled needs metrics.enabled",
        ),
        (
            "--set=metrics.dashboard.enabled=true",
            "metrics.dashboard.enabled needs metrics.enabled",
        ),
        ("--set=settings.polll=10m", "polll"),
        ("--set=settings.log.fromat=json", "fromat"),
        ("--set=catalogs[0].settings.pol=1m", "pol"),
        // What almanac would refuse at its start.
        ("--set=settings.poll=abc", "settings.poll"),
        (
            "--set=settings.kubernetes.cluster_catalogs=maybe",
            "cluster_catalogs",
        ),
        (
            "--set=settings.kubernetes.pull_secret=foo",
            "kubernetes.pull_secret",
        ),
        (
            "--set=settings.kubernetes.mirror_sets=yes",
            "kubernetes.mirror_sets",
        ),
        (
            "--set=settings.kubernetes.namespace=A_B",
            "kubernetes.namespace",
        ),
        (
            "--set=settings.kubernetes.cluster_catalogs=own,settings.kubernetes.webhook=:9443",
            "webhook needs tls.mode",
        ),
        (
            "--set=settings.kubernetes.cluster_catalogs=own,settings.kubernetes.webhook=:9443,\
             settings.http_tls.client_ca=/ca,tls.mode=secret",
            "needs client_certificates",
        ),
        (
            "--set=settings.kubernetes.cluster_catalogs=follow,settings.kubernetes.namespace=a",
            "cluster_catalogs: own alone",
        ),
        (
            "--set=settings.http_tls.min_version=cluster",
            "http_tls needs tls.mode",
        ),
    ] {
        let output = template(&values, &[change]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{change}");
        assert!(errors.contains(said), "{change}: {errors}");
    }
}

#[test]
fn sources_and_platforms_that_almanac_takes_are_taken() {
    if skip_without("helm") {
        return;
    }
    for source in [
        "Quay.IO/a/b__c:v1",
        "[::1]:5000/a",
        "localhost/a",
        "registry:5000/a/b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "oci-archive:/catalogs/a.tar:ours:latest",
    ] {
        source.parse::<Source>().unwrap();
        // An index in brackets would be one of helm.
        let values = json!([{"name": "a", "source": source}]);
        rendered("olm-v0", &[&format!("--set-json=catalogs={values}")]);
    }
    for platform in [
        "linux/x86_64",
        "Linux/ARM64",
        "linux/arm/v7",
        "linux/x86-64",
    ] {
        platform.parse::<Platform>().unwrap();
        rendered("olm-v0", &[&format!("--set=settings.platform={platform}")]);
    }
}

#[test]
fn a_name_that_is_too_long_for_a_service_is_shortened() {
    if skip_without("helm") {
        return;
    }
    let name = "a".repeat(64);
    let objects = rendered("olm-v0", &[&format!("--set=catalogs[0].name={name}")]);
    let mut services = objects.iter().filter(|it| it["kind"] == "Service");
    let shortened = |it: &Value| {
        let name = text(&it["metadata"]["name"]);
        name.starts_with(&"a".repeat(54)) && name.len() <= 63
    };
    assert!(services.any(shortened), "{objects:?}");
}

/// The objects of an example in the namespace "almanac", with further values.
fn rendered(example: &str, more: &[&str]) -> Vec<Value> {
    let file = values(example);
    let output = template(&file, &[&["--namespace=almanac"], more].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{more:?}: {errors}");
    yaml::documents(&String::from_utf8(output.stdout).unwrap())
}

/// The rules of the policy for the traffic to almanac, with further values.
fn ingress(example: &str, more: &[&str]) -> Value {
    let all = rendered(example, more);
    let mut found = all
        .iter()
        .filter(|it| it["kind"] == "NetworkPolicy" && it["metadata"]["name"] == "almanac");
    found.next().unwrap()["spec"]["ingress"].clone()
}

#[test]
fn the_values_name_the_clients_of_a_port() {
    if skip_without("helm") {
        return;
    }
    let tcp = |port: u64| json!([{"protocol": "TCP", "port": port}]);
    let peers = json!([{"namespaceSelector": {"matchLabels": {"team": "a"}}}]);
    let clients = |port: &str| format!("--set-json=networkPolicy.clients.{port}={peers}");
    let (grpc, http) = (clients("grpc"), clients("http"));
    assert_eq!(
        ingress("olm-v0", &[&grpc]),
        json!([{"ports": tcp(8080)}, {"ports": tcp(50051), "from": peers}])
    );
    assert_eq!(
        ingress("olm-v0", &[&grpc, &http]),
        json!([{"ports": tcp(50051), "from": peers}, {"ports": tcp(8080), "from": peers}])
    );
    // The API server asks the webhook, whoever reads catalogs.
    assert_eq!(
        ingress("olm-v1-replace", &[&http]),
        json!([{"ports": tcp(9443)}, {"ports": tcp(8443), "from": peers}])
    );
}

/// gRPC asks for no token.
#[test]
fn the_port_of_grpc_is_closed_without_olm_v0() {
    if skip_without("helm") {
        return;
    }
    for example in ["olm-v1-images", "olm-v1-replace", "olm-v1-follow"] {
        let rules = ingress(example, &[]);
        assert!(rules.to_string().contains("8443"), "{example}: {rules}");
        assert!(!rules.to_string().contains("50051"), "{example}: {rules}");
    }
}

/// catalogd compares the certificate with the host of the image.
#[test]
fn the_certificate_has_the_host_of_the_images() {
    if skip_without("helm") {
        return;
    }
    let names = |host: &str, more: &str| {
        let host = format!("--set=olm.v1.host={host}");
        let all = rendered("olm-v1-images", &[&host, more]);
        let certificate = all.iter().find(|it| it["kind"] == "Certificate").unwrap();
        let names = certificate["spec"]["dnsNames"].as_array().unwrap().clone();
        names
            .iter()
            .map(text)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let own = ["almanac.almanac.svc", "almanac.almanac.svc.cluster.local"];
    let expected = [&own[..], &["localhost", "catalogs.example.com"]].concat();
    let host = "catalogs.example.com";
    assert_eq!(names(&format!("{host}:8443"), "--set=replicas=2"), expected);
    let listed = format!("--set=tls.dnsNames[0]={host}");
    assert_eq!(names(host, &listed), expected);
    let without = names("", "--set=replicas=2");
    assert_eq!(without, expected[..3]);
}

/// A replica announces a digest before the others have pulled it.
#[test]
fn several_replicas_in_the_place_of_catalogd_are_refused() {
    if skip_without("helm") {
        return;
    }
    let values = values("olm-v1-replace");
    let output = template(&values, &["--set=replicas=2"]);
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("replicas: set 1"), "{errors}");
}

/// The schema has the keys of the program, table by table.
#[test]
fn the_schema_of_the_values_knows_the_settings_of_the_program() {
    let schema = read("deploy/helm/almanac/values.schema.json");
    let schema: Value = serde_json::from_str(&schema).unwrap();
    // The program lists the keys of a table when it refuses one.
    let known = |table: &str| -> BTreeSet<String> {
        let error = configuration(&format!("{table}\nzzzzzzzzzzzz = 1\n"))
            .err()
            .unwrap();
        let (_, keys) = error
            .split_once("expected ")
            .unwrap_or_else(|| panic!("{error}"));
        // After the keys stands the table.
        let keys = keys.split(" (in ").next().unwrap_or_default();
        let keys = keys.split('`').skip(1).step_by(2);
        keys.map(str::to_owned).collect()
    };
    let written = |place: &Value| -> BTreeSet<String> {
        assert_eq!(place["additionalProperties"], false, "{place}");
        place["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };
    let settings = &schema["properties"]["settings"];
    assert_eq!(written(settings), known(""));
    let mut tables = 0;
    for (key, place) in settings["properties"].as_object().unwrap() {
        let (place, header) = match place["type"].as_str() {
            Some("object") => (place, format!("[{key}]")),
            Some("array") if place["items"]["type"] == "object" => {
                (&place["items"], format!("[[{key}]]"))
            }
            _ => continue,
        };
        assert_eq!(written(place), known(&header), "{key}");
        tables += 1;
    }
    // All tables but those that the chart writes: grpc_tls and the catalogs.
    assert_eq!(tables, 13);
    let catalog = &schema["properties"]["catalogs"]["items"]["properties"]["settings"];
    assert_eq!(written(catalog), known("[[catalog]]"));
}

/// The settings are those that the program reads, and its ports those of the pods.
#[test]
fn almanac_reads_the_settings_that_the_chart_renders() {
    if skip_without("helm") {
        return;
    }
    for (example, _) in EXAMPLES {
        let all = yaml::documents(chart(example));
        let settings = all.iter().find_map(|it| {
            let data = [&it["data"], &it["stringData"]];
            data.into_iter().find_map(|it| it["almanac.toml"].as_str())
        });
        let config =
            configuration(settings.unwrap()).unwrap_or_else(|error| panic!("{example}: {error}"));
        let pod = pod_of(&all);
        let ports = pod["containers"][0]["ports"].as_array().unwrap();
        let port = |names: &[&str]| {
            let mut found = ports.iter();
            let found = found.find(|port| names.contains(&text(&port["name"])));
            found.map(|port| port["containerPort"].as_u64().unwrap())
        };
        assert_eq!(
            port(&["grpc"]),
            Some(config.grpc.port().into()),
            "{example}"
        );
        let http = port(&["http", "https"]);
        assert_eq!(http, Some(config.http.port().into()), "{example}");
        // Without metrics, the admin port is for the pod alone.
        let open = !config.admin.ip().is_loopback();
        assert_eq!(open, port(&["admin"]).is_some(), "{example}");
        // All sources are there, and each path is mounted.
        let has_catalogs = !config.catalogs.is_empty() || config.names_catalogs_later();
        assert!(has_catalogs, "{example}");
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        let mut volumes: BTreeSet<&str> = (pod["volumes"].as_array().unwrap().iter())
            .map(|it| text(&it["name"]))
            .collect();
        if all.iter().any(|it| it["kind"] == "StatefulSet") {
            volumes.insert("data");
        }
        for mount in mounts {
            assert!(volumes.contains(text(&mount["name"])), "{example}: {mount}");
        }
        for path in names_after(settings.unwrap(), "\"/", |sign| "/-.".contains(sign)) {
            let path = format!("/{path}");
            let mounted = |it: &Value| {
                let folder = text(&it["mountPath"]);
                path == folder || path.starts_with(&format!("{folder}/"))
            };
            assert!(mounts.iter().any(mounted), "{example}: {path}");
        }
    }
}

/// Output of the chart for a catalog with a dot, for numbers, lists and tables.
#[test]
fn settings_of_catalogs_survive_the_way_through_the_chart() {
    if skip_without("helm") {
        return;
    }
    let all = yaml::documents(chart("many-catalogs"));
    let cluster = Cluster::of(&all);
    let config = cluster.of_kind("ConfigMap")[0];
    let config = configuration(text(&config["data"]["almanac.toml"])).unwrap();
    let names: Vec<&str> = config.catalogs.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["community", "redhat-v4.20", "ours"]);
    assert_eq!(config.catalogs[1].authorities, ["redhat-v4-20.olm.svc"]);
    let shown = format!("{:?}", config.catalogs[2].source);
    for part in ["etcd", "singlenamespace-alpha", "0.9.4"] {
        assert!(shown.contains(part), "{shown}");
    }
    for source in cluster.of_kind("CatalogSource") {
        cluster.act_on(source).unwrap();
    }
    let of = |kind| {
        let found = cluster.of_kind(kind).into_iter();
        let names = found.map(|it| text(&it["metadata"]["name"]));
        names.collect::<Vec<_>>()
    };
    assert_eq!(of("CatalogSource"), ["community", "redhat-v4-20"]);
    assert_eq!(of("ClusterCatalog"), names);
}

/// The standard "restricted" of Pod Security, and what OpenShift's SCC wants.
#[test]
fn every_pod_of_the_chart_is_restricted() {
    if skip_without("helm") {
        return;
    }
    for (example, _) in EXAMPLES {
        let all = yaml::documents(chart(example));
        let pod = pod_of(&all);
        let user = &pod["securityContext"];
        assert_eq!(user["runAsNonRoot"], true, "{example}");
        assert_eq!(
            user["seccompProfile"]["type"], "RuntimeDefault",
            "{example}"
        );
        let container = &pod["containers"][0]["securityContext"];
        assert_eq!(container["allowPrivilegeEscalation"], false, "{example}");
        assert_eq!(container["readOnlyRootFilesystem"], true, "{example}");
        assert_eq!(container["capabilities"]["drop"][0], "ALL", "{example}");
        let reads_cluster = ["olm-v1-replace", "olm-v1-follow"].contains(&example);
        assert_eq!(
            pod["automountServiceAccountToken"], reads_cluster,
            "{example}"
        );
        for volume in pod["volumes"].as_array().unwrap() {
            assert!(volume["hostPath"].is_null(), "{example}");
        }
        for key in ["runAsUser", "runAsGroup", "fsGroup"] {
            assert_eq!(user[key].is_null(), example == "openshift", "{example}");
        }
    }
}

#[test]
fn rules_and_dashboard_name_metrics_that_the_program_has() {
    let used: BTreeSet<String> = (sources().iter())
        .flat_map(|(_, text)| names_after(text, "\"almanac_", |sign| sign == '_'))
        .collect();
    let mut count = 0;
    for path in [
        DASHBOARD,
        "deploy/helm/almanac/templates/monitoring.yaml",
        "deploy/kustomize/components/monitoring/rules.yaml",
    ] {
        for name in names_after(&read(path), "almanac_", |sign| sign == '_') {
            let plain = name.strip_suffix("_bucket").unwrap_or(&name);
            assert!(used.contains(plain), "{path}: almanac_{name}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}

#[test]
fn the_version_of_the_chart_is_that_of_the_program() {
    let [chart] = &yaml::documents(&read("deploy/helm/almanac/Chart.yaml"))[..] else {
        panic!("one document")
    };
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}

/// The template of the pods, whatever runs them.
pub(super) fn pod_of(all: &[Value]) -> &Value {
    let mut found =
        (all.iter()).filter(|it| it["kind"] == "StatefulSet" || it["kind"] == "Deployment");
    let pod = &found.next().unwrap()["spec"]["template"]["spec"];
    assert!(found.next().is_none());
    pod
}
