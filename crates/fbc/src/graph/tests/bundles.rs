//! Bundles: images, versions, manifests.

use crate::graph::tests::*;

#[test]
fn a_bundle_has_a_name_of_its_own_and_a_channel() {
    let mut blobs = foo(&["a"]);
    blobs.bundles.push(at(bundle("foo", "", "1.0.0"), 9));
    refused(&blobs, &[Code::BundleNameMissing]);
    blobs.bundles[1].blob = bundle("foo", "b", "1.0.0");
    refused(&blobs, &[Code::BundleNotInChannel]);
    blobs.bundles[1].blob = bundle("foo", "a", "1.0.0");
    refused(&blobs, &[Code::BundleDuplicate]);
    blobs.channels[0].blob = channel("foo", "beta", &["a", "b v1 replaces a"]);
    blobs.bundles[1].blob = bundle("foo", "b v1", "1.0.0");
    accepted(&blobs);
}

#[test]
fn a_bundle_has_an_image_or_objects() {
    let mut blobs = foo(&["a"]);
    blobs.bundles[0].blob.has_image = false;
    refused(&blobs, &[Code::BundleImageMissing]);
    blobs.bundles[0].blob.has_objects = true;
    accepted(&blobs);
}

#[test]
fn a_malformed_bundle_is_not_blamed_for_what_it_lost() {
    let mut blobs = foo(&["a"]);
    blobs.bundles[0].blob.has_image = false;
    blobs.bundles[0].blob.defects.push(Defect {
        code: Code::BlobMalformed,
        message: "is malformed".into(),
    });
    refused(&blobs, &[Code::BlobMalformed]);
}

#[test]
fn a_version_stands_once_in_a_package() {
    let mut blobs = foo(&["bb replaces a", "a"]);
    for bundle in &mut blobs.bundles {
        bundle.blob.version = String::from("0.1.0");
    }
    refused_with(
        &blobs,
        Code::VersionDuplicate,
        "package \"foo\" has version \"0.1.0\" more than once, in the bundles \"a\", \"bb\"; give \
         each its own",
    );
    blobs.bundles[0].blob.version = String::from("0.1.0+1");
    accepted(&blobs);
}

#[test]
fn a_release_is_in_the_name_of_its_bundle() {
    let mut blobs = foo(&["foo-v0.0.0-1 replaces foo-v0.0.0-2", "foo-v0.0.0-2"]);
    for (bundle, release) in blobs.bundles.iter_mut().zip(["1", "2"]) {
        bundle.blob.version = String::from("0.0.0");
        bundle.blob.release = release.to_owned();
    }
    accepted(&blobs);
    blobs.bundles[1].blob.release = String::from("3");
    refused_with(
        &blobs,
        Code::ReleaseNameMismatch,
        "package \"foo\": channel \"beta\": bundle \"foo-v0.0.0-2\" does not have the name that its \
         version and release ask for; name it \"foo-v0.0.0-3\"",
    );
}

#[test]
fn a_release_can_be_read_and_excludes_a_build() {
    let mut blobs = foo(&["foo-v0.0.0+b-1"]);
    blobs.bundles[0].blob.version = String::from("0.0.0+b");
    blobs.bundles[0].blob.release = String::from("1");
    refused(&blobs, &[Code::VersionInvalid]);
    blobs.bundles[0].blob.version = String::from("0.0.0");
    blobs.bundles[0].blob.release = String::from("01");
    refused(&blobs, &[Code::VersionInvalid]);
}

#[test]
fn a_package_without_csv_metadata_is_not_seen() {
    let code = Code::BundleWithoutCsvMetadata;
    let mut blobs = foo(&["b replaces a", "a"]);
    // An old bundle without is nothing to warn of.
    without_metadata(&mut blobs.bundles[1].blob);
    accepted(&blobs);
    with_objects(&mut blobs.bundles[0].blob, CsvSource::Object);
    warned(
        &blobs,
        code,
        1,
        "package \"foo\" has no olm.csv.metadata property in any of its 2 bundles, such as \"a\", \
         so the OpenShift console does not show it with OLM v1; add the property, to the newest \
         bundle at least",
    );
    let mut blobs = foo(&["a"]);
    with_objects(&mut blobs.bundles[0].blob, CsvSource::None);
    warned(
        &blobs,
        code,
        1,
        "package \"foo\" has no olm.csv.metadata property in its bundle \"a\", so the OpenShift \
         console does not show it with OLM v1, and OLM's packageserver leaves out channels whose \
         heads have no ClusterServiceVersion either: \"beta\"; add the property, to the newest \
         bundle at least",
    );
}

#[test]
fn a_head_without_a_csv_hides_its_channel() {
    let mut blobs = foo(&["b replaces a", "a"]);
    blobs.channels.push(at(channel("foo", "alpha", &["a"]), 9));
    without_metadata(&mut blobs.bundles[1].blob);
    warned(
        &blobs,
        Code::BundleWithoutCsvMetadata,
        1,
        "package \"foo\" has channels that OLM's packageserver leaves out, since their heads have \
         neither one olm.csv.metadata property nor a ClusterServiceVersion among their objects: \
         \"alpha\"; add the property to these heads",
    );
}

#[test]
fn a_damaged_bundle_is_not_blamed_for_its_manifests() {
    let mut blobs = foo(&["a"]);
    without_metadata(&mut blobs.bundles[0].blob);
    blobs.bundles[0].blob.defects.push(Defect {
        code: Code::PropertyInvalid,
        message: "is damaged".into(),
    });
    refused(&blobs, &[Code::PropertyInvalid]);
}

#[test]
fn a_csv_that_crashes_packageserver_is_told_of_once_a_package() {
    let code = Code::CsvCrashesPackageserver;
    let mut blobs = foo(&["c replaces b", "b replaces a", "a"]);
    blobs.bundles[1].blob.crashes_packageserver = true;
    warned(
        &blobs,
        code,
        4,
        "package \"foo\": channel \"beta\": bundle \"b\" has a ClusterServiceVersion that crashes \
         OLM's packageserver when it is the head of a channel, for it has related images without \
         the install strategy \"deployment\"; set spec.install.strategy",
    );
    blobs.bundles[0].blob.crashes_packageserver = true;
    blobs.bundles[2].blob.crashes_packageserver = true;
    warned(
        &blobs,
        code,
        3,
        "package \"foo\": channel \"beta\": bundle \"c\" has a ClusterServiceVersion that crashes \
         OLM's packageserver, for it has related images without the install strategy \
         \"deployment\"; set spec.install.strategy, and in 2 more bundles of the package",
    );
}
