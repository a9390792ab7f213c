//! The services and methods, and their paths.

use tonic::Status;

use crate::serve::grpc::wire;

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum GrpcService {
    /// The service that OLM uses.
    Registry,
    /// The service that consoles use.
    Experimental,
    Health,
    Reflection,
    /// The older version of reflection, for older tools.
    ReflectionAlpha,
}

/// The method that a path names, or the status of an unknown one.
#[derive(Debug)]
pub(super) struct CalledMethod {
    pub(super) service: Option<GrpcService>,
    pub(super) method: Result<&'static str, Status>,
}

/// The label of unrecognised services and methods: clients can make up names, and
/// the number of labels must stay bounded.
const UNKNOWN: &str = "unknown";

impl GrpcService {
    const ALL: [Self; 5] = [
        Self::Registry,
        Self::Experimental,
        Self::Health,
        Self::Reflection,
        Self::ReflectionAlpha,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Registry => "api.Registry",
            Self::Experimental => "api.ExperimentalRegistry",
            Self::Health => "grpc.health.v1.Health",
            Self::Reflection => "grpc.reflection.v1.ServerReflection",
            Self::ReflectionAlpha => "grpc.reflection.v1alpha.ServerReflection",
        }
    }

    fn methods(self) -> &'static [&'static str] {
        match self {
            Self::Registry => &[
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
            Self::Experimental => &["ExperimentalListPackageCustomSchemas"],
            Self::Health => &["Check", "Watch"],
            Self::Reflection | Self::ReflectionAlpha => &["ServerReflectionInfo"],
        }
    }
}

impl CalledMethod {
    /// Reads a path. The texts for unknown names are grpc-go's.
    pub(super) fn of(path: &str) -> Self {
        let none = |text: String| Err(Status::unimplemented(text));
        let Some((name, method)) = path.strip_prefix('/').and_then(|p| p.rsplit_once('/')) else {
            let path = wire::shortened(path);
            return Self {
                service: None,
                method: none(format!("malformed method name: {path:?}")),
            };
        };
        let service = GrpcService::ALL.into_iter().find(|one| one.name() == name);
        let Some(known) = service else {
            let name = wire::shortened(name);
            return Self {
                service,
                method: none(format!("unknown service {name}")),
            };
        };
        let found = known.methods().iter().find(|one| **one == method);
        Self {
            service,
            method: found.copied().ok_or_else(|| {
                let method = wire::shortened(method);
                Status::unimplemented(format!("unknown method {method} for service {name}"))
            }),
        }
    }

    /// The label of the service in logs and metrics.
    pub(super) fn service_label(&self) -> &'static str {
        self.service.map_or(UNKNOWN, GrpcService::name)
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
            let labels = [asked.service_label(), asked.method_label()];
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
