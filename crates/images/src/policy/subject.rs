//! The images that a policy is asked about.

use std::path::{Path, PathBuf};

use crate::layout::Format;
use crate::reference::Reference;

/// An image that a policy is asked about.
#[derive(Clone, Debug)]
pub enum PolicySubject {
    /// An image of a registry.
    Registry(Reference),
    /// All images of a layout or archive.
    Layout(Format, PathBuf),
}

impl PolicySubject {
    /// The name of its transport (containers-transports(5)).
    pub(super) fn transport(&self) -> &'static str {
        match self {
            Self::Registry(_) => "docker",
            Self::Layout(Format::Folder, _) => "oci",
            Self::Layout(Format::Archive, _) => "oci-archive",
            Self::Layout(Format::DockerArchive, _) => "docker-archive",
        }
    }

    /// All images of its transport, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Registry(_) => "registries",
            Self::Layout(Format::Folder, _) => "layouts",
            Self::Layout(..) => "archives",
        }
    }

    /// The matching scopes, longest first.
    pub(crate) fn scopes(&self) -> Vec<String> {
        let mut scopes = match self {
            Self::Registry(reference) => registry_scopes(reference),
            // The format knows no scopes for these archives.
            Self::Layout(Format::DockerArchive, _) => Vec::new(),
            Self::Layout(_, path) => path_scopes(path),
        };
        scopes.push(String::new());
        scopes
    }
}

/// The image, its repository, the parents of that, its host, the domains of
/// that.
pub(crate) fn registry_scopes(reference: &Reference) -> Vec<String> {
    enclosing_scopes(&reference.to_string())
}

/// A scope of images in registries, and all others that it lies in, longest
/// first.
pub(super) fn enclosing_scopes(scope: &str) -> Vec<String> {
    let mut scopes = vec![scope.to_owned()];
    let host = if let Some(domain) = scope.strip_prefix("*.") {
        domain
    } else {
        let mut rest = without_version(scope);
        if rest != scope {
            scopes.push(rest.to_owned());
        }
        while let Some((above, _)) = rest.rsplit_once('/') {
            scopes.push(above.to_owned());
            rest = above;
        }
        rest
    };
    // A domain is written without a port.
    let mut domain = host.split(':').next().unwrap_or_default();
    while let Some((_, above)) = domain.split_once('.') {
        scopes.push(format!("*.{above}"));
        domain = above;
    }
    scopes
}

/// A name without its tag or digest. A colon behind a host begins a port.
fn without_version(scope: &str) -> &str {
    let name = scope.split('@').next().unwrap_or_default();
    match name.rsplit_once(':') {
        Some((name, tag)) if name.contains('/') && !tag.contains('/') => name,
        _ => name,
    }
}

/// The path without links, and the folders above it except the root.
fn path_scopes(path: &Path) -> Vec<String> {
    // A missing file is no image: any of its names will do.
    let resolved = path.canonicalize().or_else(|_| std::path::absolute(path));
    let resolved = resolved.unwrap_or_else(|_| path.to_owned());
    let above = resolved.ancestors().filter_map(Path::to_str);
    let above = above.filter(|path| !path.is_empty() && *path != "/");
    above.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_no_port() {
        let subject = PolicySubject::Registry("a.b.example:5000/c/d:v1".parse().unwrap());
        let expected = [
            "a.b.example:5000/c/d:v1",
            "a.b.example:5000/c/d",
            "a.b.example:5000/c",
            "a.b.example:5000",
            "*.b.example",
            "*.example",
            "",
        ];
        assert_eq!(subject.scopes(), expected);
    }

    #[test]
    fn a_scope_lies_in_those_that_contain_all_of_its_images() {
        for (scope, above) in [
            (
                "a.example/b@sha256:00",
                &["a.example/b", "a.example", "*.example"][..],
            ),
            ("a.example:5000", &["*.example"]),
            ("*.b.example", &["*.example"]),
            ("[::1]:5000/a", &["[::1]:5000"]),
            ("localhost/a", &["localhost"]),
            ("", &[]),
        ] {
            let scopes = enclosing_scopes(scope);
            assert_eq!(
                (&*scopes[0], &scopes[1..]),
                (
                    scope,
                    above
                        .iter()
                        .map(|it| (*it).to_owned())
                        .collect::<Vec<_>>()
                        .as_slice()
                )
            );
        }
    }

    #[test]
    fn a_layout_has_the_scopes_of_its_path_without_links() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let layout = root.join("layout");
        std::fs::create_dir(&layout).unwrap();
        let link = root.join("link");
        std::os::unix::fs::symlink(&layout, &link).unwrap();
        let scopes = PolicySubject::Layout(Format::Folder, link).scopes();
        assert_eq!(scopes[0], layout.to_str().unwrap());
        assert_eq!(scopes[1], root.to_str().unwrap());
        assert_eq!(scopes.last().unwrap(), "");
        assert!(!scopes.contains(&"/".to_owned()));
        let archive = PolicySubject::Layout(Format::DockerArchive, layout);
        assert_eq!(archive.scopes(), [""]);
    }
}
