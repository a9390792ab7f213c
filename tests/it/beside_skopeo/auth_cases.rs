//! Cases of credentials: files, keys and entries, for registries that want
//! them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::case::Case;
use super::conf_cases::{CONF, HOME, one_of};
use super::network::{Access, Host, TOKEN_HOST};

/// The start of the names of these cases.
pub(super) const NAME: &str = "credentials";

const IMAGES: [&str; 7] = [
    "a.test/team/app:v1",
    "a.test/team/sub/app:v1",
    "a.test/v1/app:v1",
    "b.test:5000/team/app:v1",
    "docker.io/team/app:v1",
    "docker.io/library/app:v1",
    "x.c.test/app:v1",
];

/// The files that hold credentials, in the order in which skopeo reads them.
pub(super) const FILES: [&str; 4] = [
    "run/containers/auth.json",
    "home/.config/containers/auth.json",
    "home/.docker/config.json",
    "home/.dockercfg",
];

/// The file that both programs are told of.
pub(super) const NAMED: &str = "auth.json";

/// The variable for the folder of configuration, and the file there.
const CONFIG_HOME: &str = "XDG_CONFIG_HOME";
pub(super) const CONFIG_HOME_FILE: &str = "xdg/containers/auth.json";

/// Auth files that chance does not make often, for a registry with tokens.
const RARE: [&[(&str, &str)]; 3] = [
    // The user is missing.
    &[(FILES[0], r#"{"auths":{"a.test":{"auth":"OnNlY3JldA=="}}}"#)],
    &[(FILES[0], r#"{"auths":{},"credsStore":"trial"}"#)],
    &[
        (
            FILES[0],
            r#"{"auths":{},"credHelpers":{"a.test":"failing"}}"#,
        ),
        (FILES[1], r#"{"auths":{"a.test":{"auth":"bWU6c2VjcmV0"}}}"#),
    ],
];

pub(super) fn case(seed: u64) -> Case {
    let rare = usize::try_from(seed).ok().and_then(|seed| RARE.get(seed));
    rare.map_or_else(|| by_chance(seed), |files| rare_case(seed, files))
}

fn rare_case(seed: u64, files: &[(&str, &str)]) -> Case {
    let host = Host {
        access: Access::Token(None),
        ..Host::open()
    };
    let mut case = Case {
        name: format!("{NAME} {seed}"),
        image: IMAGES[0].to_owned(),
        world: [("a.test".to_owned(), host)].into(),
        ..Case::default()
    };
    for (path, text) in files {
        case.file(path, *text);
    }
    case
}

fn by_chance(seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed);
    let image = one_of(&mut rng, &IMAGES).to_owned();
    let mut case = Case {
        name: format!("{NAME} {seed}"),
        image,
        ..Case::default()
    };
    let access = match rng.u8(..10) {
        0..=3 => Access::Basic,
        4..=6 => Access::Token(None),
        7 => Access::Token(Some(TOKEN_HOST)),
        8 => Access::BasicRefused,
        _ => Access::TokenRefused,
    };
    for name in ["a.test", "b.test:5000", "registry-1.docker.io", "x.c.test"] {
        let host = Host {
            access: access.clone(),
            ..Host::open()
        };
        case.world.insert(name.to_owned(), host);
    }
    case.world.insert(TOKEN_HOST.to_owned(), Host::open());
    if rng.u8(..6) == 0 {
        let helpers = [
            "[]",
            "[\"trial\"]",
            "[\"containers-auth.json\", \"trial\"]",
            "[\"trial\", \"containers-auth.json\"]",
            "[\"missing\", \"containers-auth.json\"]",
        ];
        let text = format!("credential-helpers = {}\n", one_of(&mut rng, &helpers));
        case.file(&format!("{HOME}{CONF}"), text);
    }
    if rng.bool() {
        let content = file(&mut rng, &case.image, "one");
        case.file(NAMED, content);
        case.flags.push("--authfile={folder}/auth.json".into());
        case.settings = "auth_files = [\"{folder}/auth.json\"]\n".into();
        return case;
    }
    if rng.u8(..6) == 0 {
        case.variables
            .push((CONFIG_HOME.into(), "{folder}/xdg".into()));
        let content = file(&mut rng, &case.image, "xdg");
        case.file(CONFIG_HOME_FILE, content);
    }
    for (number, path) in FILES.iter().enumerate() {
        if rng.u8(..5) < 2 {
            let owner = ["run", "home", "docker", "cfg"][number];
            let content = match *path {
                "home/.dockercfg" => old_file(&mut rng, &case.image),
                _ => file(&mut rng, &case.image, owner),
            };
            case.file(path, content);
        }
    }
    case
}

fn file(rng: &mut Rng, image: &str, owner: &str) -> Vec<u8> {
    if rng.u8(..20) == 0 {
        return fault(rng).as_bytes().to_vec();
    }
    let mut document = json!({ "auths": entries(rng, image, owner) });
    if rng.u8(..8) == 0 {
        // An address beside others would be one of several that mean the host.
        let key = match key(rng, image) {
            (key, false) => key,
            (_, true) => image.split('/').next().unwrap().to_owned(),
        };
        document["credHelpers"] = json!({ key: "trial" });
    }
    if rng.u8(..12) == 0 {
        document["credsStore"] = json!("trial");
    }
    document.to_string().into_bytes()
}

/// A file of Docker's first format.
fn old_file(rng: &mut Rng, image: &str) -> Vec<u8> {
    entries(rng, image, "cfg").to_string().into_bytes()
}

fn fault(rng: &mut Rng) -> &'static str {
    let faults = [
        "",
        "{",
        "[]",
        "{}",
        "null",
        "{\"auths\": []}",
        "{\"auths\": null}",
        "{\"auths\": {\"a.test\": {\"auth\": 7}}}",
        "{\"auths\": {\"a.test\": null}}",
        "{\"auths\": {}} trailing",
    ];
    one_of(rng, &faults)
}

fn entries(rng: &mut Rng, image: &str, owner: &str) -> Value {
    let mut entries = Map::new();
    // Of several unusual keys for one host skopeo takes any.
    let mut has_unusual = false;
    for number in 0..rng.u8(1..5) {
        let user = format!("{owner}{number}");
        let (key, is_unusual) = key(rng, image);
        if is_unusual && has_unusual {
            continue;
        }
        has_unusual |= is_unusual;
        entries.entry(key).or_insert_with(|| entry(rng, &user));
    }
    Value::Object(entries)
}

/// A key that mostly has to do with the image, and whether it is written
/// otherwise than skopeo writes it.
fn key(rng: &mut Rng, image: &str) -> (String, bool) {
    let name = image.rsplit_once(':').unwrap().0;
    let (host, repository) = name.split_once('/').unwrap();
    let first = repository.split('/').next().unwrap();
    let number = rng.u8(..24);
    let key = match number {
        0..=4 => host.to_owned(),
        5..=7 => format!("{host}/{first}"),
        8..=10 => name.to_owned(),
        11 => format!("{host}/v1"),
        12 => "*".to_owned(),
        13 => one_of(rng, &["b.test", "a.test:443", "c.test"]).to_owned(),
        14 => format!("https://{host}"),
        15 => format!("https://{host}/v1/"),
        16 => format!("https://{host}/v2/"),
        17 => format!("http://{host}"),
        18 => format!("{host}/"),
        19 => format!("https://{host}/{first}"),
        20 => "https://index.docker.io/v1/".to_owned(),
        21 => "index.docker.io".to_owned(),
        22 => "registry-1.docker.io".to_owned(),
        _ => host.to_uppercase(),
    };
    (key, number > 13)
}

fn entry(rng: &mut Rng, user: &str) -> Value {
    let plain = BASE64_STANDARD.encode(format!("{user}:secret"));
    match rng.u8(..24) {
        0..=9 => json!({ "auth": plain }),
        10 => json!({"auth": plain.trim_end_matches('=')}),
        11 => json!({"auth": format!("{}\n{}", &plain[..4], &plain[4..])}),
        12 => json!({"auth": format!(" {plain} ")}),
        13 => json!({"auth": BASE64_STANDARD.encode(b"latin:\xe9\xff")}),
        14 => json!({"auth": BASE64_STANDARD.encode(format!("{user}:se:cret\0\0"))}),
        15 => json!({"auth": "bWU6cX=="}),
        16 => json!({"auth": BASE64_STANDARD.encode("nocolon")}),
        17 => json!({"auth": BASE64_STANDARD.encode(":secret")}),
        18 => json!({"auth": "%%%"}),
        19 => json!({}),
        20 => json!({"username": user, "password": "secret"}),
        21 => json!({"identitytoken": format!("token-{user}")}),
        22 => json!({"auth": plain, "identitytoken": format!("token-{user}")}),
        _ => json!({"auth": BASE64_STANDARD.encode(format!("{user}:"))}),
    }
}
