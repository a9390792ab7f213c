//! The services and methods, and their paths.

use tonic::Status;

use crate::serve::grpc::wire;

/// The service that OLM uses.
pub(super) const REGISTRY: &str = "api.Registry";
/// The service that consoles use.
pub(super) const EXPERIMENTAL: &str = "api.ExperimentalRegistry";
/// The service of probes.
pub(super) const HEALTH: &str = "grpc.health.v1.Health";
/// The label of unrecognised services and methods: clients can make up names, and
/// the number of labels must stay bounded.
const UNKNOWN: &str = "unknown";

/// The services with their methods.
const SERVICES: [(&str, &[&str]); 5] = [
    (
        REGISTRY,
        &[
            "ListPackages",
            "ListBundles",
            "GetPackage",
            "GetBundle",
            "GetBundleForChannel",
            "GetBundleThatReplaces",
            "GetChannelEntriesThatReplace",
            "GetChannelEntriesThatProvide",
            "GetLatestChannelEntriesThatProvide",
            "GetDefaultBundleThatProvides",
        ],
    ),
    (EXPERIMENTAL, &["ExperimentalListPackageCustomSchemas"]),
    (HEALTH, &["Check", "Watch"]),
    ("grpc.reflection.v1.ServerReflection", REFLECTION),
    // The older version, for older tools.
    ("grpc.reflection.v1alpha.ServerReflection", REFLECTION),
];
const REFLECTION: &[&str] = &["ServerReflectionInfo"];

/// The method that a path names.
#[derive(Debug)]
pub(super) struct CalledMethod {
    /// The service, as a label of logs and metrics.
    pub(super) service: &'static str,
    /// The method, or the status of an unknown one.
    pub(super) method: Result<&'static str, Status>,
}

impl CalledMethod {
    /// Reads a path. The texts for unknown names are grpc-go's.
    pub(super) fn of(path: &str) -> Self {
        let unknown = |service, text: String| Self {
            service,
            method: Err(Status::unimplemented(text)),
        };
        let Some((name, method)) = path.strip_prefix('/').and_then(|p| p.rsplit_once('/')) else {
            let path = wire::shortened(path);
            return unknown(UNKNOWN, format!("malformed method name: {path:?}"));
        };
        let Some((service, methods)) = SERVICES.into_iter().find(|(one, _)| *one == name) else {
            let name = wire::shortened(name);
            return unknown(UNKNOWN, format!("unknown service {name}"));
        };
        let Some(found) = methods.iter().find(|one| **one == method) else {
            let method = wire::shortened(method);
            return unknown(
                service,
                format!("unknown method {method} for service {name}"),
            );
        };
        Self {
            service,
            method: Ok(found),
        }
    }

    /// The label of the method.
    pub(super) fn method_label(&self) -> &'static str {
        self.method.as_ref().map_or(UNKNOWN, |method| method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_methods_are_labelled_unknown() {
        let asked = |path| {
            let asked = CalledMethod::of(path);
            let labels = [asked.service, asked.method_label()];
            (labels, asked.method.err().map(|s| s.message().to_owned()))
        };
        for (path, labels) in [
            ("/api.Registry/GetBundle", ["api.Registry", "GetBundle"]),
            (
                "/grpc.health.v1.Health/Watch",
                ["grpc.health.v1.Health", "Watch"],
            ),
        ] {
            assert_eq!(asked(path), (labels, None));
        }
        for (path, service, text) in [
            ("/a.B/C", UNKNOWN, "unknown service a.B"),
            (
                "/api.Registry/a/b",
                UNKNOWN,
                "unknown service api.Registry/a",
            ),
            ("//api.Registry/a", UNKNOWN, "unknown service /api.Registry"),
            (
                "/api.Registry/",
                "api.Registry",
                "unknown method  for service api.Registry",
            ),
            (
                "/grpc.health.v1.Health/Nope",
                "grpc.health.v1.Health",
                "unknown method Nope for service grpc.health.v1.Health",
            ),
            ("/nope", UNKNOWN, r#"malformed method name: "/nope""#),
            ("nope/a", UNKNOWN, r#"malformed method name: "nope/a""#),
        ] {
            let wanted = ([service, UNKNOWN], Some(text.to_owned()));
            assert_eq!(asked(path), wanted, "{path}");
        }
    }
}
