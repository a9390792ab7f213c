//! Rewritings of `registries.conf`, and of what hosts answer.

use std::cell::RefCell;
use std::path::Path;

use images::Reference;
use toml::{Table, Value};

use super::case::{Case, LOCAL};
use super::conf_cases::{CONF, HOME};
use super::registry::Answer;

/// A host that every rewritten file blocks.
const BLOCKED: &str = "blocked.invalid";

/// Whether skopeo reads a file of a case as `registries.conf`.
fn is_conf(path: &str) -> bool {
    let path = path.strip_prefix(HOME).unwrap_or(path);
    let is_drop_in = Path::new(path).extension().is_some_and(|end| end == "conf");
    path == CONF || path.starts_with(&format!("{CONF}.d/")) && is_drop_in
}

/// Edits each file; none where nothing changes.
fn edit(case: &Case, change: impl Fn(&mut Table) -> bool) -> Option<Case> {
    let (mut case, mut changed) = (case.clone(), false);
    for (path, content) in &mut case.files {
        let text = String::from_utf8_lossy(content);
        if is_conf(path)
            && let Ok(mut table) = toml::from_str::<Table>(&text)
            && change(&mut table)
        {
            changed = true;
            *content = toml::to_string(&table).unwrap().into_bytes();
        }
    }
    changed.then_some(case)
}

fn registries(table: &mut Table) -> impl Iterator<Item = &mut Table> {
    let tables = table.get_mut("registry").and_then(Value::as_array_mut);
    let tables = tables.into_iter().flatten();
    tables.filter_map(Value::as_table_mut)
}

fn mirrors(registry: &mut Table) -> Option<&mut Vec<Value>> {
    registry.get_mut("mirror").and_then(Value::as_array_mut)
}

fn text<'t>(table: &'t Table, key: &str) -> &'t str {
    table.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// almanac refuses the older version, which skopeo reads.
pub(super) fn refuse_version_1(case: &Case) -> Option<Case> {
    edit(case, |table| {
        let is_old = table.contains_key("registries") && !table.contains_key("registry");
        if is_old {
            table.insert("registry".to_owned(), Value::Integer(7));
        }
        is_old
    })
}

/// almanac ignores settings for short names, which skopeo checks.
pub(super) fn drop_short_names(case: &Case) -> Option<Case> {
    edit(case, |table| {
        let names = ["short-name-mode", "unqualified-search-registries"];
        names
            .map(|name| table.remove(name).is_some())
            .contains(&true)
    })
}

/// almanac refuses names that no image can have. skopeo never finds them.
pub(super) fn refuse_odd_names(case: &Case) -> Option<Case> {
    edit(case, |table| {
        let is_odd = |registry: &mut Table| {
            let mut locations = vec![text(registry, "location").to_owned()];
            let prefix = text(registry, "prefix");
            locations.push(prefix.strip_prefix("*.").unwrap_or(prefix).to_owned());
            let mirrors = mirrors(registry).into_iter().flatten();
            let mirrors = mirrors.filter_map(|mirror| mirror.as_table());
            locations.extend(mirrors.map(|mirror| text(mirror, "location").to_owned()));
            let odd = |name: &String| name.contains(['*', ' ']);
            locations.iter().any(odd)
        };
        let has_odd = registries(table).any(is_odd);
        if has_odd {
            table.insert("registry".to_owned(), Value::Integer(7));
        }
        has_odd
    })
}

/// The prefix of a table.
fn prefix(registry: &Table) -> &str {
    match text(registry, "prefix") {
        "" => text(registry, "location"),
        prefix => prefix,
    }
}

/// Of a host and a wildcard of one length, almanac takes the host.
pub(super) fn host_before_wildcard(case: &Case) -> Option<Case> {
    let hosts = RefCell::new(Vec::new());
    edit(case, |table| {
        let found = registries(table).map(|registry| prefix(registry).to_owned());
        hosts.borrow_mut().extend(found);
        false
    });
    let hosts = hosts.into_inner();
    edit(case, |table| {
        let tables = table.get_mut("registry").and_then(Value::as_array_mut);
        let Some(tables) = tables else { return false };
        let before = tables.len();
        tables.retain(|registry| {
            let prefix = registry.as_table().map_or("", prefix);
            let mut hosts = hosts.iter().filter(|host| host.len() == prefix.len());
            prefix
                .strip_prefix('*')
                .is_none_or(|domain| !hosts.any(|host| host != prefix && host.ends_with(domain)))
        });
        tables.len() != before
    })
}

/// almanac compares hosts without regard to case.
pub(super) fn lower_hosts(case: &Case) -> Option<Case> {
    edit(case, |table| {
        let mut changed = false;
        for registry in registries(table) {
            for key in ["prefix", "location"] {
                let written = text(registry, key).to_owned();
                let (host, rest) = written.split_at(written.find('/').unwrap_or(written.len()));
                let lower = host.to_lowercase() + rest;
                if lower != written {
                    changed = true;
                    registry.insert(key.to_owned(), lower.into());
                }
            }
        }
        changed
    })
}

/// The rest of the image's name behind the prefix of a table; none if the
/// prefix does not match.
fn rest<'i>(image: &'i str, registry: &Table) -> Option<&'i str> {
    let prefix = prefix(registry);
    let rest = match prefix.strip_prefix('*') {
        None => image.strip_prefix(prefix)?,
        Some(domain) => {
            let (before, rest) = image.split_once(domain)?;
            (!before.contains('/')).then_some(rest)?
        }
    };
    rest.starts_with([':', '/', '@']).then_some(rest)
}

/// almanac passes over a location that makes no image name. skopeo refuses the
/// image.
pub(super) fn drop_bad_locations(case: &Case) -> Option<Case> {
    let image = case.image.clone();
    edit(case, |table| {
        let (mut changed, mut needs_block) = (false, false);
        for registry in registries(table) {
            let Some(rest) = rest(&image, registry) else {
                continue;
            };
            let is_bad = |table: &Table| {
                let location = text(table, "location").replace(LOCAL, "1");
                !location.is_empty() && format!("{location}{rest}").parse::<Reference>().is_err()
            };
            if is_bad(registry) {
                let prefix = text(registry, "location").to_owned();
                registry
                    .entry("prefix")
                    .or_insert_with(|| Value::from(prefix));
                let elsewhere = format!("{BLOCKED}/image");
                registry.insert("location".to_owned(), elsewhere.into());
                (changed, needs_block) = (true, true);
            }
            if let Some(mirrors) = mirrors(registry) {
                let before = mirrors.len();
                mirrors.retain(|mirror| !mirror.as_table().is_some_and(is_bad));
                changed |= mirrors.len() != before;
            }
        }
        if needs_block {
            add_block(table, BLOCKED, false);
        }
        changed
    })
}

/// almanac holds a block for the location that a rule leads to. skopeo asks
/// there.
pub(super) fn block_rewritten(case: &Case) -> Option<Case> {
    let image = case.image.clone();
    edit(case, |table| {
        let mut blocks = Vec::new();
        for registry in registries(table) {
            let is_blocked = registry.get("blocked").and_then(Value::as_bool);
            let location = text(registry, "location").to_owned();
            let prefix = text(registry, "prefix");
            if is_blocked == Some(true)
                && !prefix.is_empty()
                && prefix != location
                && !location.is_empty()
                && rest(&image, registry).is_some()
            {
                let insecure = registry.get("insecure").and_then(Value::as_bool);
                blocks.push((location, insecure == Some(true)));
            }
        }
        for (location, insecure) in &blocks {
            add_block(table, location, *insecure);
        }
        !blocks.is_empty()
    })
}

fn add_block(table: &mut Table, location: &str, insecure: bool) {
    let mut block = Table::new();
    block.insert("location".to_owned(), location.into());
    block.insert("blocked".to_owned(), true.into());
    block.insert("insecure".to_owned(), insecure.into());
    let tables = table.get_mut("registry").and_then(Value::as_array_mut);
    tables.unwrap().push(Value::Table(block));
}

/// almanac asks each place once.
pub(super) fn ask_once(case: &Case) -> Option<Case> {
    edit(case, |table| {
        let mut changed = false;
        for registry in registries(table) {
            let Some(mirrors) = mirrors(registry) else {
                continue;
            };
            let mut seen: Vec<(String, bool)> = Vec::new();
            let before = mirrors.len();
            mirrors.retain(|mirror| {
                let Some(mirror) = mirror.as_table() else {
                    return true;
                };
                let insecure = mirror.get("insecure").and_then(Value::as_bool);
                let place = (text(mirror, "location").to_owned(), insecure == Some(true));
                let is_new = !seen.contains(&place);
                seen.push(place);
                is_new
            });
            changed |= mirrors.len() != before;
        }
        changed
    })
}

/// almanac goes on after a manifest with another digest, as if it were absent.
pub(super) fn no_wrong_bytes(case: &Case) -> Option<Case> {
    let mut case = case.clone();
    let mut changed = false;
    for host in case.world.values_mut() {
        if host.answer == Answer::WrongBytes {
            host.answer = Answer::NotFound;
            changed = true;
        }
    }
    changed.then_some(case)
}
