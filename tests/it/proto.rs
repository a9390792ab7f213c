//! The committed protobuf code and descriptors are those of the definition.

use std::fs;

use prost::Message as _;
use prost_types::FileDescriptorSet;

use crate::support::file::root;

/// Set to `1`, this variable has the test write what it would compare.
const REGENERATE: &str = "ALMANAC_REGENERATE";

#[test]
fn the_committed_code_is_what_the_definition_gives() {
    let folder = root().join("src/proto");
    let made = [
        ("api.rs", rust_code()),
        ("registry.fds", descriptors(false).encode_to_vec()),
    ];
    for (name, bytes) in made {
        let path = folder.join(name);
        if std::env::var_os(REGENERATE).is_some_and(|value| value == "1") {
            fs::write(&path, bytes).unwrap();
            continue;
        }
        assert!(
            fs::read(&path).unwrap_or_default() == bytes,
            "src/proto/{name} is not what proto/registry.proto gives: run \
             `{REGENERATE}=1 cargo test --test it proto::` and commit the result"
        );
    }
}

#[test]
fn the_descriptors_hold_every_service_and_what_they_import() {
    let set = FileDescriptorSet::decode(almanac::proto::DESCRIPTORS).unwrap();
    let files: Vec<&str> = set
        .file
        .iter()
        .map(prost_types::FileDescriptorProto::name)
        .collect();
    assert_eq!(files, ["google/protobuf/struct.proto", "registry.proto"]);

    let registry = &set.file[1];
    assert_eq!(registry.package(), "api");
    let calls: Vec<String> = registry
        .service
        .iter()
        .flat_map(|service| {
            service.method.iter().map(|method| {
                let stream = if method.server_streaming() {
                    "stream "
                } else {
                    ""
                };
                format!(
                    "{}/{} {} -> {stream}{}",
                    service.name(),
                    method.name(),
                    method.input_type(),
                    method.output_type()
                )
            })
        })
        .collect();
    assert_eq!(
        calls,
        [
            "Registry/ListPackages .api.ListPackageRequest -> stream .api.PackageName",
            "Registry/GetPackage .api.GetPackageRequest -> .api.Package",
            "Registry/GetBundle .api.GetBundleRequest -> .api.Bundle",
            "Registry/GetBundleForChannel .api.GetBundleInChannelRequest -> .api.Bundle",
            "Registry/GetChannelEntriesThatReplace .api.GetAllReplacementsRequest -> stream .api.ChannelEntry",
            "Registry/GetBundleThatReplaces .api.GetReplacementRequest -> .api.Bundle",
            "Registry/GetChannelEntriesThatProvide .api.GetAllProvidersRequest -> stream .api.ChannelEntry",
            "Registry/GetLatestChannelEntriesThatProvide .api.GetLatestProvidersRequest -> stream .api.ChannelEntry",
            "Registry/GetDefaultBundleThatProvides .api.GetDefaultProviderRequest -> .api.Bundle",
            "Registry/ListBundles .api.ListBundlesRequest -> stream .api.Bundle",
            "ExperimentalRegistry/ExperimentalListPackageCustomSchemas \
             .api.ExperimentalListPackageCustomSchemasRequest -> stream .google.protobuf.Struct",
        ]
    );
}

/// The Rust types of the definition, formatted.
fn rust_code() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .out_dir(folder.path())
        .compile_fds(descriptors(true))
        .unwrap();
    fs::read(folder.path().join("api.rs")).unwrap()
}

/// The definition and its imports. Comments are kept for the Rust types only:
/// nobody reads them through reflection.
fn descriptors(with_comments: bool) -> FileDescriptorSet {
    protox::Compiler::new([root().join("proto")])
        .unwrap()
        .include_imports(true)
        .include_source_info(with_comments)
        .open_file("registry.proto")
        .unwrap()
        .file_descriptor_set()
}
