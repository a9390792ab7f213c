//! The kinds of objects that are read and written.

use kube::core::{ApiResource, GroupVersionKind};

/// A kind of objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    /// Its name in objects.
    pub(super) object: &'static str,
    pub(super) plural: &'static str,
    /// The most objects; more are refused.
    pub(super) most: usize,
}

/// The catalogs of OLM v1.
pub(super) const CLUSTER_CATALOGS: Kind = Kind {
    group: "olm.operatorframework.io",
    version: "v1",
    object: "ClusterCatalog",
    plural: "clustercatalogs",
    most: 1_000,
};

/// Their status.
pub(super) const CATALOG_STATUS: Kind = Kind {
    plural: "clustercatalogs/status",
    ..CLUSTER_CATALOGS
};

/// Their labels and finalizers. They fail apart from what is read, and recover apart.
pub(super) const CATALOG_METADATA: Kind = Kind {
    plural: "clustercatalogs/metadata",
    ..CLUSTER_CATALOGS
};

/// The Leases of catalogd, likewise.
pub(super) const CATALOGD_LEASES: Kind = Kind {
    plural: "leases/catalogd",
    ..LEASES
};

/// Leases, by which a leader is elected.
pub(super) const LEASES: Kind = Kind {
    group: "coordination.k8s.io",
    version: "v1",
    object: "Lease",
    plural: "leases",
    most: 1,
};

/// Mirrors of OpenShift, as the registry client knows them.
pub(super) const MIRROR_SETS: [Kind; 3] = [
    Kind {
        group: "config.openshift.io",
        version: "v1",
        object: "ImageDigestMirrorSet",
        plural: "imagedigestmirrorsets",
        most: 10_000,
    },
    Kind {
        group: "config.openshift.io",
        version: "v1",
        object: "ImageTagMirrorSet",
        plural: "imagetagmirrorsets",
        most: 10_000,
    },
    Kind {
        group: "operator.openshift.io",
        version: "v1alpha1",
        object: "ImageContentSourcePolicy",
        plural: "imagecontentsourcepolicies",
        most: 10_000,
    },
];

/// The image policies of OpenShift for all namespaces.
pub(super) const CLUSTER_IMAGE_POLICIES: Kind = Kind {
    group: "config.openshift.io",
    version: "v1",
    object: "ClusterImagePolicy",
    plural: "clusterimagepolicies",
    most: 10_000,
};

/// The image policies of one namespace.
pub(super) const IMAGE_POLICIES: Kind = Kind {
    group: "config.openshift.io",
    version: "v1",
    object: "ImagePolicy",
    plural: "imagepolicies",
    most: 10_000,
};

/// The configuration of the API server of OpenShift, with its TLS profile.
pub(super) const API_SERVERS: Kind = Kind {
    group: "config.openshift.io",
    version: "v1",
    object: "APIServer",
    plural: "apiservers",
    most: 1,
};

/// Secrets.
pub(super) const SECRETS: Kind = Kind {
    group: "",
    version: "v1",
    object: "Secret",
    plural: "secrets",
    most: 1,
};

/// The secrets of almanac's service account. They fail apart from that of the
/// settings.
pub(super) const ACCOUNT_SECRETS: Kind = Kind {
    plural: "secrets/imagePullSecrets",
    ..SECRETS
};

/// Service accounts.
pub(super) const SERVICE_ACCOUNTS: Kind = Kind {
    group: "",
    version: "v1",
    object: "ServiceAccount",
    plural: "serviceaccounts",
    most: 1,
};

/// A review of the user that almanac is for the API server.
pub(super) const SELF_REVIEWS: Kind = Kind {
    group: "authentication.k8s.io",
    version: "v1",
    object: "SelfSubjectReview",
    plural: "selfsubjectreviews",
    most: 1,
};

/// Events.
pub(super) const EVENTS: Kind = Kind {
    group: "events.k8s.io",
    version: "v1",
    object: "Event",
    plural: "events",
    most: 0,
};

impl Kind {
    /// The resource, as the client takes it.
    pub(super) fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.object);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }

    /// The name of the resource: `PLURAL.GROUP`, with `/status` for a status.
    pub(super) fn name(self) -> String {
        let (plural, below) = self.plural.split_once('/').unwrap_or((self.plural, ""));
        let dot = if self.group.is_empty() { "" } else { "." };
        let slash = if below.is_empty() { "" } else { "/" };
        format!("{plural}{dot}{}{slash}{below}", self.group)
    }
}
