//! The keys of a requirement: kinds, subkeys, ends and revocations.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::{GOOD, Peer, Setup};
use crate::support::needs::skip_without;

const LONG_AGO: [&str; 2] = ["--faked-system-time", "20240101T000000!"];

#[test]
fn signatures_of_each_usual_key_are_accepted() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    for (name, algorithm) in [
        ("edwards", "ed25519"),
        ("rsa", "rsa2048"),
        ("p256", "nistp256"),
        ("p384", "nistp384"),
    ] {
        let key = setup.gpg.key(name, &[algorithm, "sign", "never"]);
        setup.require(&[&key]);
        setup.judge(name, setup.signed(&key, &[]), GOOD);
    }
    let key = setup.gpg.fingerprints("rsa@example.com")[0].clone();
    setup.require(&[&key]);
    for (name, more) in [
        ("uncompressed", &["-z", "0"][..]),
        ("zlib", &["--compress-algo", "zlib"]),
        ("SHA-512", &["--digest-algo", "SHA512"]),
        ("text", &["--textmode"]),
    ] {
        setup.judge(name, setup.signed(&key, more), GOOD);
    }
    // The verdict names the key.
    assert!(setup.admitted().unwrap().contains(&key));
}

#[test]
fn the_keys_of_a_requirement_come_from_any_of_its_files() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("ed25519");
    let other = setup.gpg.key("other", &["rsa2048", "sign", "never"]);
    setup.store(&[setup.signed(&key, &[])]);
    let (junk, keys) = (setup.path("junk.gpg"), setup.path("keys.gpg"));
    fs::write(&junk, "nothing").unwrap();
    // Armoured keys, in several blocks with anything between them.
    let armoured = |name: &str| {
        let text = setup.gpg.run(&["--armor", "--export", name], b"");
        String::from_utf8(text).unwrap()
    };
    let blocks = format!("Keys:\n{}\nand\n{}\n", armoured(&other), armoured(&key));
    for (sources, problem) in [
        (json!({"keyData": BASE64_STANDARD.encode(blocks)}), GOOD),
        (json!({"keyPaths": [junk, keys]}), GOOD),
        (json!({"keyPaths": [junk]}), "no OpenPGP key"),
        (json!({"keyPaths": []}), "no OpenPGP key"),
        (
            json!({"keyPaths": [keys, setup.path("missing")]}),
            "missing cannot be read",
        ),
    ] {
        setup.require_of(&sources);
        match setup.admitted() {
            Ok(_) => assert_eq!(problem, GOOD, "{sources}"),
            Err(error) => {
                assert_eq!(error.reason(), "policy");
                let text = error.to_string();
                assert!(
                    problem != GOOD && text.contains(problem),
                    "{sources}: {text}"
                );
            }
        }
    }
}

#[test]
fn a_subkey_signs_if_its_primary_key_says_so() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = setup.gpg.key("sub", &["rsa2048", "cert", "never"]);
    let more = ["--quick-add-key", &key, "ed25519", "sign", "never"];
    setup.gpg.run(&more, b"");
    let subkey = setup.gpg.fingerprints(&key)[1].clone();
    setup.require(&[&key]);
    let signature = setup.signed(&format!("{subkey}!"), &[]);
    // skopeo 1.9 knows primary keys only.
    setup.judge_alone("subkey", signature.clone(), GOOD);
    // 0 is the reason, and an empty line ends its text.
    let commands = b"key 1\nrevkey\ny\n0\n\ny\nsave\n";
    let edit = ["--command-fd", "0", "--no-batch", "--edit-key", &key];
    setup.gpg.run(&edit, commands);
    setup.require(&[&key]);
    setup.judge("revoked", signature.clone(), "is revoked");
    // One by a hash that is not known is not known to be false.
    let mut keyring = setup.gpg.export(&[&key]);
    change_hash(&mut keyring, [4, 0x28, RSA]);
    setup.require_keyring(&keyring);
    setup.judge_all("unknown hash", &[signature], "is revoked", Peer::Same);
}

#[test]
fn a_signature_or_key_that_ended_is_refused() {
    if skip_without("gpg") {
        return;
    }
    let setup = Setup::new();
    let key = |name: &str, end: &str| {
        let key = setup
            .gpg
            .key(name, &[&["rsa2048", "sign", end], &LONG_AGO[..]].concat());
        setup.require(&[&key]);
        key
    };
    let old = key("old", "never");
    let expiring = [&["--default-sig-expire", "10d"], &LONG_AGO[..]].concat();
    let problem = "its signature has expired";
    setup.judge("signature", setup.signed(&old, &expiring), problem);
    let good = setup.signed(&old, &LONG_AGO);
    setup.judge("long ago", good.clone(), GOOD);
    let future = setup.signed(&old, &["--faked-system-time", "20990101T000000!"]);
    setup.judge_alone("future", future, "made in the future");
    let stranger = setup.gpg.key("stranger", &["ed25519", "sign", "never"]);
    let foreign = setup.signed(&stranger, &[]);
    setup.judge("foreign", foreign, "not made with a key of the policy");
    setup.judge_all("nothing", &[], "there is no signature", Peer::Same);
    setup.gpg.revoke(&old);
    setup.require(&[&old]);
    setup.judge("revoked", good, "it is revoked");
    let short = key("short", "30d");
    setup.judge(
        "expired key",
        setup.signed(&short, &LONG_AGO),
        "it has expired",
    );
}

/// The algorithms of the keys.
const RSA: u8 = 1;
const EDWARDS: u8 = 22;
/// A hash of nobody.
const UNKNOWN_HASH: u8 = 99;

/// Changes the hash of the first signature with this version, type and algorithm.
/// Returns its place.
fn change_hash(keyring: &mut [u8], start: [u8; 3]) -> usize {
    let at = keyring.windows(3).position(|bytes| bytes == start).unwrap();
    keyring[at + 3] = UNKNOWN_HASH;
    at
}

#[test]
fn a_revocation_counts_unless_it_proves_false() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("ed25519");
    let signature = setup.signed(&key, &[]);
    setup.judge("before", signature.clone(), GOOD);
    setup.gpg.revoke(&key);
    let revoked = setup.gpg.export(&[&key]);
    setup.require_keyring(&revoked);
    setup.judge("revoked", signature.clone(), "it is revoked");
    let start = [4, 0x20, EDWARDS];
    // GnuPG drops what it cannot verify.
    let mut keyring = revoked.clone();
    let at = change_hash(&mut keyring, start);
    setup.require_keyring(&keyring);
    setup.judge_alone("unknown hash", signature.clone(), "it is revoked");
    // Its attributes are longer than itself.
    let mut keyring = revoked.clone();
    keyring[at + 4] = 0xFF;
    setup.require_keyring(&keyring);
    setup.store(std::slice::from_ref(&signature));
    let error = setup.admitted().unwrap_err().to_string();
    assert!(error.contains("it is revoked"), "{error}");
    // Somebody else made it.
    let mut keyring = revoked;
    assert_eq!(keyring[at - 2], 0x88, "a length of one byte");
    let last = at + usize::from(keyring[at - 1]) - 1;
    keyring[last] ^= 1;
    setup.require_keyring(&keyring);
    setup.judge("false", signature, GOOD);
}

#[test]
fn weak_hashes_and_keys_are_refused() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("rsa2048");
    let weak = setup.signed(&key, &["--digest-algo", "SHA1"]);
    setup.judge_alone("SHA-1", weak, "accepted are SHA-256");
    for (algorithm, problem) in [
        ("rsa1024", "RSA with 1024 bits"),
        ("nistp521", "not supported"),
        ("secp256k1", "not supported"),
    ] {
        let key = setup.gpg.key(algorithm, &[algorithm, "sign", "never"]);
        setup.require(&[&key]);
        setup.judge_alone(algorithm, setup.signed(&key, &[]), problem);
    }
}
