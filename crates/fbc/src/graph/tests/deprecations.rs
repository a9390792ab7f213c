//! Deprecations.

use crate::graph::tests::*;

#[test]
fn deprecations_say_what_and_why_once() {
    for (entries, code, message) in [
        (
            &["- - m"] as &[&str],
            Code::DeprecationInvalid,
            "in entries[0] do not say what they deprecate; set the reference's \"schema\"",
        ),
        (
            &["x.y n m"],
            Code::DeprecationInvalid,
            "in entries[0] have a reference with schema \"x.y\", which cannot be deprecated; use \
             olm.package, olm.channel or olm.bundle",
        ),
        (
            &["olm.package foo m"],
            Code::DeprecationInvalid,
            "in entries[0] name the package as \"foo\"; leave the name of an olm.package away",
        ),
        (
            &["olm.package - -"],
            Code::DeprecationInvalid,
            "have no message in entries[0]; say why",
        ),
        (
            &["olm.channel gone m"],
            Code::DeprecationUnknown,
            "in entries[0] name the channel \"gone\", which the package does not have; correct \
             the name or remove them",
        ),
        (
            &["olm.bundle gone m"],
            Code::DeprecationUnknown,
            "in entries[0] name the bundle \"gone\", which the package does not have; correct \
             the name or remove them",
        ),
        (
            &["olm.bundle a m", "olm.bundle a n"],
            Code::DeprecationDuplicate,
            "name olm.bundle \"a\" more than once; keep one of them",
        ),
    ] {
        let mut blobs = foo(&["a"]);
        blobs.deprecations.push(at(deprecations("foo", entries), 9));
        let problems = refused(&blobs, &[code]);
        assert_eq!(
            problems[0].message,
            format!("package \"foo\": the deprecations {message}")
        );
        assert_eq!(problems[0].subject.schema, "olm.deprecations");
    }
}

#[test]
fn deprecations_stand_in_one_blob() {
    let mut blobs = foo(&["a"]);
    for entry in ["olm.package - m", "olm.bundle a m"] {
        blobs
            .deprecations
            .push(at(deprecations("foo", &[entry]), 9));
    }
    refused(&blobs, &[Code::DeprecationDuplicate]);
}

#[test]
fn deprecations_deprecate_something() {
    let mut blobs = foo(&["a"]);
    blobs.deprecations.push(at(deprecations("foo", &[]), 9));
    warned(
        &blobs,
        Code::DeprecationWithoutEffect,
        10,
        "package \"foo\": the deprecations have no entries, so they deprecate nothing; add entries \
         or remove the blob",
    );
    blobs.deprecations[0].blob = deprecations("foo", &["olm.package - m"]);
    accepted(&blobs);
}
