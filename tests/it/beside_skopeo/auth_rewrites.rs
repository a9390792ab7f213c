//! Rewritings of auth files.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::auth_cases::{CONFIG_HOME_FILE, FILES, NAMED};
use super::case::Case;
use super::network::Access;
use super::registry::NOBODY;

/// The name that stands for Docker Hub as a whole host.
const HUB: &str = "docker.io";

fn is_auth_file(path: &str) -> bool {
    path == NAMED || path == CONFIG_HOME_FILE || FILES.contains(&path)
}

fn is_old(path: &str) -> bool {
    path.ends_with(".dockercfg")
}

/// Edits each file as the object that it is.
fn edit(case: &Case, change: impl Fn(&mut Map<String, Value>) -> bool) -> Option<Case> {
    let (mut case, mut changed) = (case.clone(), false);
    for (path, content) in &mut case.files {
        if is_auth_file(path)
            && let Ok(Value::Object(mut document)) = serde_json::from_slice(content)
            && change(&mut document)
        {
            changed = true;
            *content = Value::Object(document).to_string().into_bytes();
        }
    }
    changed.then_some(case)
}

/// The entries of a file, which are all of it in Docker's first format.
fn entries(document: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    if document.contains_key("auths") {
        document.get_mut("auths")?.as_object_mut()
    } else {
        Some(document)
    }
}

/// Renames keys. Where two get the same name, the one that had it stays.
fn rename(case: &Case, name: impl Fn(&str) -> String) -> Option<Case> {
    let rename_all = |members: &mut Map<String, Value>| {
        let old: Vec<String> = members.keys().cloned().collect();
        let mut changed = false;
        for key in old {
            let new = name(&key);
            if new != key {
                changed = true;
                let member = members.remove(&key).unwrap();
                members.entry(new).or_insert(member);
            }
        }
        changed
    };
    edit(case, |document| {
        let helpers = document.get_mut("credHelpers");
        let helpers = helpers.and_then(Value::as_object_mut);
        let changed = helpers.is_some_and(&rename_all);
        entries(document).is_some_and(&rename_all) || changed
    })
}

pub(super) fn lower_hosts(case: &Case) -> Option<Case> {
    rename(case, |key| match key {
        // The members of a file are no hosts.
        "auths" | "credHelpers" | "credsStore" => key.to_owned(),
        key => key.to_lowercase(),
    })
}

pub(super) fn trim_keys(case: &Case) -> Option<Case> {
    rename(case, |key| {
        let is_address = key.contains("://");
        let key = if is_address {
            key
        } else {
            key.trim_end_matches('/')
        };
        key.to_owned()
    })
}

fn each_entry(case: &Case, change: impl Fn(&mut Map<String, Value>) -> bool) -> Option<Case> {
    edit(case, |document| {
        let Some(entries) = entries(document) else {
            return false;
        };
        let mut changed = false;
        for entry in entries.values_mut() {
            if let Value::Object(entry) = entry {
                changed |= change(entry);
            }
        }
        changed
    })
}

fn member(entry: &Map<String, Value>, name: &str) -> Option<String> {
    entry.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn set_auth(entry: &mut Map<String, Value>, auth: &str) -> bool {
    let old = entry.insert("auth".to_owned(), auth.into());
    old != Some(auth.into())
}

/// almanac takes user and password as members of their own.
pub(super) fn encode_passwords(case: &Case) -> Option<Case> {
    each_entry(case, |entry| {
        let (None, Some(user)) = (member(entry, "auth"), member(entry, "username")) else {
            return false;
        };
        let password = member(entry, "password").unwrap_or_default();
        set_auth(entry, &BASE64_STANDARD.encode(format!("{user}:{password}")))
    })
}

/// almanac takes base64 without padding and between spaces.
pub(super) fn canonical_base64(case: &Case) -> Option<Case> {
    each_entry(case, |entry| {
        let Some(auth) = member(entry, "auth").filter(|auth| !auth.contains('\n')) else {
            return false;
        };
        let trimmed = auth.trim().trim_end_matches('=');
        let padding = "=".repeat((4 - trimmed.len() % 4) % 4);
        set_auth(entry, &format!("{trimmed}{padding}"))
    })
}

/// almanac takes a password without a user, which skopeo cannot be told. It
/// gets a user that the hosts show as none.
pub(super) fn name_users(case: &Case) -> Option<Case> {
    each_entry(case, |entry| {
        let auth = member(entry, "auth").unwrap_or_default();
        let pair = BASE64_STANDARD.decode(auth).unwrap_or_default();
        pair.starts_with(b":")
            && pair.len() > 1
            && set_auth(
                entry,
                &BASE64_STANDARD.encode([NOBODY.as_bytes(), &pair].concat()),
            )
    })
}

/// almanac sends an empty password for a token, too. skopeo gets one that the
/// hosts show as none.
pub(super) fn send_empty_password(case: &Case) -> Option<Case> {
    each_entry(case, |entry| {
        let auth = member(entry, "auth").unwrap_or_default();
        let pair = BASE64_STANDARD.decode(auth).unwrap_or_default();
        pair.ends_with(b":")
            && set_auth(
                entry,
                &BASE64_STANDARD.encode([&pair, NOBODY.as_bytes()].concat()),
            )
    })
}

/// almanac reads auth files where credentials are wanted. skopeo reads them
/// before.
pub(super) fn ask_before_reading(case: &Case) -> Option<Case> {
    let is_broken = |(path, content): &(String, Vec<u8>)| {
        is_auth_file(path)
            && match serde_json::from_slice(content) {
                Ok(Value::Object(document)) => {
                    let auths = document.get("auths");
                    auths.is_some_and(|auths| !auths.is_object() && !auths.is_null())
                }
                _ => true,
            }
    };
    if !case.files.iter().any(is_broken) {
        return None;
    }
    let mut case = case.clone();
    case.files.retain(|(path, _)| !is_auth_file(path));
    let hosts = case.world.values_mut();
    for host in hosts.filter(|host| host.access != Access::Open) {
        host.access = Access::Unauthorized;
    }
    case.file(NAMED, "{}");
    Some(case)
}

/// almanac takes an identity token alone; skopeo wants any password beside it.
pub(super) fn add_to_tokens(case: &Case) -> Option<Case> {
    each_entry(case, |entry| {
        let auth = member(entry, "auth").unwrap_or_default();
        member(entry, "identitytoken").is_some()
            && auth.is_empty()
            && set_auth(entry, &BASE64_STANDARD.encode(format!("{NOBODY}:{NOBODY}")))
    })
}

/// almanac passes over entries without credentials to less specific ones and
/// to other files.
pub(super) fn drop_broken(case: &Case) -> Option<Case> {
    edit(case, |document| {
        let Some(entries) = entries(document) else {
            return false;
        };
        let before = entries.len();
        entries.retain(|_, entry| {
            let Value::Object(entry) = entry else {
                return !entry.is_null();
            };
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let auth: String = text("auth").split('\n').collect();
            let pair = BASE64_STANDARD.decode(auth).unwrap_or_default();
            !text("identitytoken").is_empty() || pair.contains(&b':')
        });
        entries.len() != before
    })
}

/// almanac asks helpers of namespaces and addresses.
pub(super) fn ask_helpers(case: &Case) -> Option<Case> {
    let host = case.image.split('/').next().unwrap().to_owned();
    edit(case, |document| {
        let helpers = document.get_mut("credHelpers");
        let Some(helpers) = helpers.and_then(Value::as_object_mut) else {
            return false;
        };
        let keys: Vec<String> = helpers
            .keys()
            .filter(|key| **key != host)
            .cloned()
            .collect();
        for key in &keys {
            helpers.remove(key);
        }
        let Some(entries) = entries(document) else {
            return false;
        };
        for key in &keys {
            let secret = BASE64_STANDARD.encode(format!("helper:for {key}"));
            entries.insert(key.clone(), json!({ "auth": secret }));
        }
        !keys.is_empty()
    })
}

/// almanac asks the helper of `credsStore` where no entry matches.
pub(super) fn ask_store(case: &Case) -> Option<Case> {
    let image = case.image.clone();
    let host = image.split('/').next().unwrap();
    edit(case, |document| {
        let has_store = document.remove("credsStore").is_some();
        let Some(entries) = entries(document).filter(|_| has_store) else {
            return has_store;
        };
        if !entries.keys().any(|key| is_for(key, &image)) {
            let server = match host {
                HUB => "https://index.docker.io/v1/",
                host => host,
            };
            let secret = BASE64_STANDARD.encode(format!("helper:for {server}"));
            entries.insert(host.to_owned(), json!({ "auth": secret }));
        }
        has_store
    })
}

/// almanac goes on after a helper that fails.
pub(super) fn drop_failing_helpers(case: &Case) -> Option<Case> {
    edit(case, |document| {
        let helpers = document.get_mut("credHelpers");
        let Some(helpers) = helpers.and_then(Value::as_object_mut) else {
            return false;
        };
        let before = helpers.len();
        helpers.retain(|_, helper| helper != "failing");
        helpers.len() != before
    })
}

/// Whether a key matches an image.
fn is_for(key: &str, image: &str) -> bool {
    let name = image.split('@').next().unwrap();
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
    let key = plain_key(key);
    let rest = name.strip_prefix(key.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A key without what stands for the whole host.
fn plain_key(key: &str) -> String {
    let plain = match key.split_once("://") {
        Some((_, rest)) => rest.split('/').next().unwrap_or_default(),
        None => key,
    };
    match plain {
        "index.docker.io" | "registry-1.docker.io" => HUB.to_owned(),
        plain => plain.to_owned(),
    }
}

/// almanac takes the longest key of all files, and of equal ones the first.
pub(super) fn merge(case: &Case) -> Option<Case> {
    let mut case = case.clone();
    let order = [FILES[0], CONFIG_HOME_FILE, FILES[1], FILES[2], FILES[3]];
    let has_config_home = case.files.iter().any(|(path, _)| path == CONFIG_HOME_FILE);
    let mut merged = Map::new();
    let mut found = 0;
    for path in order {
        if path == FILES[1] && has_config_home {
            continue;
        }
        let Some(text) = case.text(path) else {
            continue;
        };
        let Ok(Value::Object(mut document)) = serde_json::from_str(&text) else {
            return None;
        };
        found += 1;
        for (key, entry) in entries(&mut document)? {
            if is_old(path) && !entry.is_object() {
                continue;
            }
            merged.entry(plain_key(key)).or_insert(entry.clone());
        }
    }
    if found < 2 {
        return None;
    }
    case.files.retain(|(path, _)| !is_auth_file(path));
    let document = json!({ "auths": merged });
    case.file(FILES[0], document.to_string());
    Some(case)
}

/// almanac sends nothing where it has no credentials. skopeo sends an empty
/// user and password, which these hosts take for none.
pub(super) fn no_empty_password(case: &Case) -> Option<Case> {
    let mut case = case.clone();
    let mut changed = false;
    for host in case.world.values_mut() {
        if matches!(host.access, Access::Basic | Access::BasicRefused) {
            host.access = Access::Unauthorized;
            changed = true;
        }
    }
    changed.then_some(case)
}
