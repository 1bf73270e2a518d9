//! The kinds of objects that are watched.

use kube::core::{ApiResource, GroupVersionKind};

/// A kind of Flux or of Flux Operator. They are watched in the versions that the shipped templates use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    HelmRelease,
    Kustomization,
    OciRepository,
    HelmRepository,
    HelmChart,
    GitRepository,
    Bucket,
    ResourceSet,
    InputProvider,
}

impl Kind {
    pub(crate) const ALL: [Kind; 9] = [
        Kind::HelmRelease,
        Kind::Kustomization,
        Kind::OciRepository,
        Kind::HelmRepository,
        Kind::HelmChart,
        Kind::GitRepository,
        Kind::Bucket,
        Kind::ResourceSet,
        Kind::InputProvider,
    ];

    /// Group, version, kind and plural.
    const fn names(self) -> [&'static str; 4] {
        const SOURCE: &str = "source.toolkit.fluxcd.io";
        const OPERATOR: &str = "fluxcd.controlplane.io";
        match self {
            Kind::HelmRelease => ["helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"],
            Kind::Kustomization => ["kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations"],
            Kind::OciRepository => [SOURCE, "v1", "OCIRepository", "ocirepositories"],
            Kind::HelmRepository => [SOURCE, "v1", "HelmRepository", "helmrepositories"],
            Kind::HelmChart => [SOURCE, "v1", "HelmChart", "helmcharts"],
            Kind::GitRepository => [SOURCE, "v1", "GitRepository", "gitrepositories"],
            Kind::Bucket => [SOURCE, "v1", "Bucket", "buckets"],
            Kind::ResourceSet => [OPERATOR, "v1", "ResourceSet", "resourcesets"],
            Kind::InputProvider => [OPERATOR, "v1", "ResourceSetInputProvider", "resourcesetinputproviders"],
        }
    }

    /// As objects name it: `HelmRelease`.
    pub(crate) fn name(self) -> &'static str {
        self.names()[2]
    }

    /// `helm.toolkit.fluxcd.io/v2`
    pub(crate) fn api_version(self) -> String {
        let [group, version, ..] = self.names();
        format!("{group}/{version}")
    }

    /// How Kubernetes' API is asked for it.
    pub(crate) fn resource(self) -> ApiResource {
        let [group, version, kind, plural] = self.names();
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }
}
