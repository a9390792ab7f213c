//! Container images: references, registries, mirrors, credentials, signature
//! policy, layouts and layers.
//!
//! The crate pulls images by digest, without a daemon and without a storage of
//! its own. It applies the configuration files of podman, CRI-O and OpenShift,
//! verifies all content, and unpacks one folder of an image into one file.
//!
//! # References
//!
//! A reference is fully qualified and has either a tag or a digest.
//!
//! ```
//! use images::Reference;
//!
//! let reference: Reference = "registry.example:5000/team/app:v1".parse()?;
//! assert_eq!(reference.registry(), "registry.example:5000");
//! assert_eq!(reference.repository(), "team/app");
//! assert_eq!(reference.tag(), Some("v1"));
//!
//! // Short names mean another registry on every machine.
//! assert!("team/app:v1".parse::<Reference>().is_err());
//! # Ok::<(), images::ReferenceError>(())
//! ```
//!
//! # Pulling
//!
//! A [`Client`] talks to one registry after the other. [`Registries`] adds
//! mirrors and the policy: it makes one [`Route`] for each pull. [`Settings`]
//! names the files of credentials, certificates, mirrors and policy. Its default
//! names none, so that every image is admitted and pulled without credentials.
//!
//! ```no_run
//! use images::{Manifest, Platform, Registries, Settings};
//!
//! # async fn pull() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings {
//!     auth_files: vec!["/run/secrets/auth.json".into()],
//!     ..Settings::default()
//! };
//! let registries = Registries::new(&settings)?;
//! let route = registries.route(&"quay.io/team/app:v1".parse()?).await?;
//! // The digest of the tag, and the document that it names.
//! let digest = route.resolve().await?.digest;
//! let mut manifest = Manifest::parse(&route.manifest(&digest).await?, None)?;
//! // An index lists one image for each platform.
//! let mut instance = None;
//! if let Manifest::Index(index) = &manifest {
//!     let chosen = index.select(&Platform::default())?.digest;
//!     manifest = Manifest::parse(&route.manifest(&chosen).await?, None)?;
//!     instance = Some(chosen);
//! }
//! // Fails unless the policy admits the image.
//! route.admit(&digest, instance.as_ref()).await?;
//! if let Manifest::Image(image) = manifest {
//!     for layer in &image.layers {
//!         let (_, mut stream) = route.blob(layer).await?;
//!         while let Some(bytes) = stream.next().await? {
//!             println!("{} bytes", bytes.len());
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Requests are repeated a few times if that can help: [`Error::is_temporary`]
//! decides. A blob resumes after a cut. Longer waits are left to the caller:
//! [`Error::retry_after`] is the pause that the registry asks for.
//!
//! # Mirrors
//!
//! ```
//! use images::{MirrorFiles, Mirrors};
//!
//! let file = tempfile::NamedTempFile::new()?;
//! let text = r#"
//!     [[registry]]
//!     prefix = "quay.io/team"
//!     location = "quay.io/team"
//!     [[registry.mirror]]
//!     location = "mirror.example:5000/team"
//! "#;
//! std::fs::write(file.path(), text)?;
//! let files = MirrorFiles {
//!     named: vec![file.path().to_owned()],
//!     ..MirrorFiles::default()
//! };
//! let locations = Mirrors::read(&files)?.locations(&"quay.io/team/app:v1".parse()?);
//! let names: Vec<String> = locations
//!     .iter()
//!     .flatten()
//!     .map(|location| location.reference.to_string())
//!     .collect();
//! assert_eq!(names, ["mirror.example:5000/team/app:v1", "quay.io/team/app:v1"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Policy
//!
//! ```
//! use images::Format;
//! use images::policy::{Admission, PolicyError, PolicyFiles, PolicySubject};
//!
//! let file = tempfile::NamedTempFile::new()?;
//! let text = r#"{
//!     "default": [{"type": "reject"}],
//!     "transports": {"docker": {"quay.io/team": [{"type": "insecureAcceptAnything"}]}}
//! }"#;
//! std::fs::write(file.path(), text)?;
//! let files = PolicyFiles {
//!     named: Some(file.path().to_owned()),
//!     ..PolicyFiles::default()
//! };
//! let image = PolicySubject::Registry("quay.io/team/app:v1".parse()?);
//! let admission = Admission::read(&files, &image)?;
//! assert!(!admission.needs_signature());
//!
//! let other = PolicySubject::Layout(Format::Folder, "layout".into());
//! let other = Admission::read(&files, &other);
//! assert!(matches!(other, Err(PolicyError::Rejected(_))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layouts
//!
//! ```
//! use images::manifest::{Index, IndexEntry, OCI_MANIFEST, REFERENCE_NAME};
//! use images::{Choice, Descriptor, Format, Layout, document};
//!
//! let folder = tempfile::tempdir()?;
//! let manifest = b"{}";
//! let descriptor = Descriptor::new(OCI_MANIFEST, manifest);
//! let index = document::image_index(&Index {
//!     entries: vec![IndexEntry {
//!         descriptor: descriptor.clone(),
//!         platform: None,
//!         annotations: [(REFERENCE_NAME.to_owned(), "v1".to_owned())].into(),
//!     }],
//! })?;
//! let blobs = folder.path().join("blobs/sha256");
//! std::fs::create_dir_all(&blobs)?;
//! std::fs::write(blobs.join(descriptor.digest.hex()), manifest)?;
//! std::fs::write(folder.path().join("index.json"), index)?;
//! std::fs::write(folder.path().join("oci-layout"), document::layout_marker()?)?;
//!
//! let layout = Layout::open(Format::Folder, folder.path())?;
//! let found = layout.resolve(Some(&Choice::Name("v1".into())))?;
//! assert_eq!(&layout.manifest(&found.digest)?[..], manifest);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layers
//!
//! ```
//! use std::io::{Cursor, Read as _};
//!
//! use images::layers::{Layer, Limits, unpack};
//!
//! let mut archive = tar::Builder::new(Vec::new());
//! let mut header = tar::Header::new_gnu();
//! header.set_size(5);
//! archive.append_data(&mut header, "data/greeting", &b"hello"[..])?;
//! let layers = [archive.into_inner()?];
//!
//! // All contents go into one file; no path of the archive is opened.
//! let mut spool = tempfile::tempfile()?;
//! let open = |index: usize| {
//!     Ok(Layer {
//!         name: format!("layer {index}"),
//!         reader: Cursor::new(&layers[index]),
//!     })
//! };
//! let files = unpack(0..1, open, "/data", &Limits::default(), &mut spool)?;
//! let file = &files[0];
//! assert_eq!((file.path.as_str(), file.offset, file.size), ("greeting", 0, 5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules and their sources
//!
//! | Subject | Source |
//! |---|---|
//! | References, tags, registry API, referrers, tokens | OCI distribution-spec, token specification of the distribution project |
//! | Manifests, indexes, layouts, layers, whiteouts | OCI image-spec |
//! | Older media types | Docker image manifest version 2, schema 2 |
//! | Mirrors and blocked registries | containers-registries.conf(5), version 2; `ImageDigestMirrorSet`, `ImageTagMirrorSet`, `ImageContentSourcePolicy` |
//! | Signatures | containers-signature(5), containers-registries.d(5), RFC 9580 (OpenPGP), cosign's signature specification, sigstore's bundles |
//! | Signature policy | containers-policy.json(5), transports `docker`, `oci`, `oci-archive` and `docker-archive` |
//! | Credentials | containers-auth.json(5), Docker's `config.json`, credential helper protocol |
//! | Certificates | containers-certs.d(5) |
//!
//! All input is treated as hostile: sizes, counts, depths and times are
//! bounded, and error messages contain no secrets.
//!
//! # Limits of the crate
//!
//! It does not push, build or run images, and it stores nothing but the file
//! with unpacked contents. It does not resolve short names. The only
//! digest algorithm is sha256. Docker's manifest schema 1 and foreign layers
//! are rejected.

pub mod config_files;
pub mod credentials;
pub mod digest;
mod display;
pub mod document;
pub mod error;
mod folded_keys;
#[doc(hidden)]
pub mod fuzzing;
mod lasting_text;
pub mod layers;
mod layout;
mod local_address;
pub mod manifest;
mod mirrors;
pub mod platform;
pub mod policy;
mod pull;
pub mod reference;
mod registry;
mod serde_as_text;
pub mod server_trust;
mod settings;
mod signatures;
pub mod signing;
pub mod verify;
mod yaml;

pub use config_files::{AwaitedFile, FileError, FileKind, FileProblem};
pub use digest::Digest;
pub use error::Error;
pub use layout::{Choice, Format, Layout, LayoutError};
pub use local_address::is_local_address;
pub use manifest::{
    Attachment, Descriptor, ImageConfig, ImageManifest, Index, Manifest, ManifestError, cosign_tags,
};
pub use mirrors::{InvalidLocation, MirrorFiles, Mirrors, PullLocation};
pub use platform::Platform;
pub use policy::{Admission, PolicyFiles, PolicyRejection};
pub use pull::{LocationNumber, Registries, Route};
pub use reference::{Reference, ReferenceError};
pub use registry::{
    BlobStream, Client, MAX_HEADERS, Proxies, Proxy, Resolved, is_loopback, wants_tls,
};
pub use settings::Settings;
pub use signatures::SignatureStoreFiles;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
