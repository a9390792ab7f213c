//! Cases of `certs.d`: authorities and client certificates of hosts.

use fastrand::Rng;

use super::case::{Case, LOCAL};
use super::conf_cases::one_of;
use super::network::{Access, Connection, Host, TOKEN_HOST};
use super::pki::{Signer, client};
use crate::support::tls::Pair;

/// The start of the names of these cases.
pub(super) const NAME: &str = "certs.d";

const HOSTS: [&str; 3] = ["a.test", "b.test:5000", "127.0.0.1:{local}"];

pub(super) const FOLDER: &str = "home/.config/containers/certs.d";

pub(super) fn case(seed: u64) -> Case {
    match seed {
        0 => token_service(),
        1 => two_pairs(),
        seed => by_chance(seed),
    }
}

/// A registry and its token service, on another host, which both want a
/// certificate.
fn token_service() -> Case {
    let mut case = wanting_certificate(0, Access::Token(Some(TOKEN_HOST)));
    let host = case.world["a.test"].clone();
    let access = Access::Open;
    case.world
        .insert(TOKEN_HOST.to_owned(), Host { access, ..host });
    put_pair(&mut case, "client", client());
    case
}

/// A registry with a second certificate in its folder, which is broken.
fn two_pairs() -> Case {
    let mut case = wanting_certificate(1, Access::Open);
    put_pair(&mut case, "a", client());
    let certificate = "no certificate".to_owned();
    let key = client().key;
    put_pair(&mut case, "b", Pair { certificate, key });
    case
}

fn wanting_certificate(seed: u64, access: Access) -> Case {
    let host = Host {
        wants_certificate: true,
        access,
        ..Host::open()
    };
    Case {
        name: format!("{NAME} {seed}"),
        image: "a.test/team/app:v1".to_owned(),
        world: [("a.test".to_owned(), host)].into(),
        ..Case::default()
    }
}

fn put_pair(case: &mut Case, name: &str, pair: Pair) {
    case.file(&format!("{FOLDER}/a.test/{name}.cert"), pair.certificate);
    case.file(&format!("{FOLDER}/a.test/{name}.key"), pair.key);
}

fn by_chance(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let host = one_of(&mut rng, &HOSTS);
    let mut case = Case {
        name: format!("{NAME} {seed}"),
        image: format!("{host}/team/app:v1"),
        ..Case::default()
    };
    let signer = match rng.u8(..6) {
        0 => Signer::Trusted,
        1 => Signer::Stranger,
        _ => Signer::Private,
    };
    let at = Host {
        connection: Connection::Tls(signer),
        wants_certificate: rng.u8(..3) == 0,
        access: match rng.u8(..6) {
            0 => Access::Token(Some(TOKEN_HOST)),
            1 => Access::Token(None),
            _ => Access::Open,
        },
        ..Host::open()
    };
    let token = Host {
        connection: Connection::Tls(if rng.bool() {
            Signer::Trusted
        } else {
            Signer::Private
        }),
        wants_certificate: rng.bool(),
        ..Host::open()
    };
    case.world.insert(host.to_owned(), at);
    case.world.insert(TOKEN_HOST.to_owned(), token);
    let folder = match rng.u8(..8) {
        // Without a folder, almanac asks this machine over plain http.
        _ if host.contains(LOCAL) => host.to_owned(),
        // A folder for the host without its port, or with the usual one.
        0 => host.split(':').next().unwrap().to_owned(),
        1 => format!("{host}:443"),
        _ => host.to_owned(),
    };
    for name in ["ca.crt", "other.crt", "ca.pem"] {
        if rng.u8(..5) < 3 {
            let text = authority(&mut rng);
            case.file(&format!("{FOLDER}/{folder}/{name}"), text);
        }
    }
    for name in ["client", "other"] {
        // One in three pairs is broken.
        let kind = rng.u8(..16);
        if kind < 9 {
            let pair = client();
            let certificate = match kind {
                0 => "no certificate".to_owned(),
                _ => pair.certificate,
            };
            if kind != 1 {
                case.file(&format!("{FOLDER}/{folder}/{name}.cert"), certificate);
            }
            if kind != 2 {
                case.file(&format!("{FOLDER}/{folder}/{name}.key"), pair.key);
            }
        }
    }
    if case.files.is_empty() {
        case.file(&format!("{FOLDER}/{folder}/ca.crt"), Signer::Private.pem());
    }
    case
}

fn authority(rng: &mut Rng) -> String {
    match rng.u8(..8) {
        0 => String::new(),
        1 => "no certificate".to_owned(),
        2 => Signer::Trusted.pem(),
        3 => Signer::Trusted.pem() + &Signer::Private.pem(),
        4 => "# The authority\n".to_owned() + &Signer::Private.pem() + "junk behind",
        _ => Signer::Private.pem(),
    }
}
