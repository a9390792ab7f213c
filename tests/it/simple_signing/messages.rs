//! The messages: their form, their content, and version 3 of their packets.

use images::digest::Digest;

use super::{GOOD, Peer, REPOSITORY, Setup, old_packets};
use crate::support::cosign::Signer;
use crate::support::needs::skip_without;

#[test]
fn other_messages_than_signed_ones_are_refused() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("rsa2048");
    let document = setup.document(&setup.tagged());
    let run = |more: &[&str]| setup.gpg.run(&[&["-u", &key], more].concat(), &document);
    let unsigned = run(&["--store"]);
    // The literal packet of an uncompressed one begins like nothing else.
    let is_bare = unsigned.first() == Some(&0xCB);
    let unsigned_problem = if is_bare {
        "neither a binary"
    } else {
        "without a signature"
    };
    // 16 MiB of zeros.
    let bomb = setup
        .gpg
        .sign(&key, &vec![0; 16 << 20], &["--compress-level", "9"]);
    for (name, message, problem) in [
        ("clear-signed", run(&["--clear-sign"]), "neither a binary"),
        ("armoured", run(&["--armor", "--sign"]), "neither a binary"),
        ("detached", run(&["--detach-sign"]), "without its message"),
        ("unsigned", unsigned, unsigned_problem),
        ("bare", document.clone(), "neither a binary"),
        ("empty", Vec::new(), "neither a binary"),
        ("no packet", vec![0xA3, 0x01, 0xFF], "damaged"),
        ("bomb", bomb, "more than 1 MiB"),
    ] {
        setup.judge(name, message, problem);
    }
    let other = setup.gpg.key("other", &["rsa2048", "sign", "never"]);
    setup.require(&[&key, &other]);
    setup.judge(
        "two signatures",
        setup.signed(&key, &["-u", &other]),
        "more than",
    );
}

#[test]
fn a_message_with_anything_behind_it_is_refused() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("rsa2048");
    let good = setup.signed(&key, &[]);
    for (name, more) in [("twice", &good[..]), ("junk", b"junk")] {
        setup.judge_alone(name, [&good, more].concat(), "something behind");
    }
    setup.judge("good", good, GOOD);
}

#[test]
fn a_payload_of_the_other_kind_is_refused() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("ed25519");
    let good = String::from_utf8(setup.document(&setup.tagged())).unwrap();
    let (digest, other) = (
        setup.image.digest().to_string(),
        Digest::of(b"other").to_string(),
    );
    for (name, from, to, problem) in [
        (
            "cosign's",
            "atomic container",
            "cosign container image",
            "is no \"atomic",
        ),
        ("another digest", &*digest, &*other, "it signs sha256:"),
        ("another tag", ":v1", ":v2", "it signs"),
        (
            "one more member",
            "\"type\":",
            "\"more\":1,\"type\":",
            "not a simple signing",
        ),
        ("no document", &*good, "{}", "not a simple signing"),
    ] {
        assert!(good.contains(from), "{from} in {good}");
        let document = good.replace(from, to);
        setup.judge(
            name,
            setup.gpg.sign(&key, document.as_bytes(), &[]),
            problem,
        );
    }
    // Of cosign's kind nothing counts.
    let made = Signer::new().sign(&setup.image.digest(), &setup.tagged());
    made.put_tag(&setup.upstream, REPOSITORY, &setup.image.digest());
    setup.judge_all("cosign", &[], "there is no signature", Peer::Same);
}

#[test]
fn a_signature_of_version_3_is_accepted() {
    if skip_without("gpg") {
        return;
    }
    let (setup, key) = Setup::with_key("rsa2048");
    let secret = setup.gpg.run(&["--export-secret-keys", &key], b"");
    let good = old_packets::message(&secret, &setup.document(&setup.tagged()));
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    setup.judge("version 3", good, GOOD);
    setup.judge("damaged", damaged, "was not made with the key");
}
