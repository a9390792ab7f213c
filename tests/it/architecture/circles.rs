//! No circle between files: a file uses only files that do not lead back to it.
//!
//! A `mod.rs` that declares its children and offers their items with `pub use`
//! does not use them by that. Whoever names such an item uses the file that
//! defines it. Tests that share helpers with their siblings are let be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Tree, crate_of, held, module_of, tree};

#[test]
fn no_file_leads_back_to_itself() {
    held(&circles(&tree()));
}

/// The circles, each with its files and one line for each use between them.
fn circles(tree: &Tree) -> Vec<String> {
    let uses = uses(tree);
    let mut found = Vec::new();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for file in uses.keys() {
        if done.contains(file.as_str()) {
            continue;
        }
        let ahead = reach(&uses, file);
        if !ahead.contains(file.as_str()) {
            continue;
        }
        let mut circle: Vec<&str> = ahead
            .into_iter()
            .filter(|other| reach(&uses, other).contains(file.as_str()))
            .collect();
        circle.sort_unstable();
        done.extend(&circle);
        let mut text = format!("{}: a circle", circle.join(", "));
        for one in &circle {
            for (other, line) in &uses[*one] {
                if circle.contains(&other.as_str()) {
                    let _ = write!(text, "\n    {one}:{line} uses {other}");
                }
            }
        }
        text.push_str("\n    give what both need a file below both");
        found.push(text);
    }
    found
}

/// For each file the files that it uses, with the line of the first use.
type Uses = BTreeMap<String, BTreeMap<String, usize>>;

/// All files that `from` leads to.
fn reach<'a>(uses: &'a Uses, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut to_visit = vec![from.to_owned()];
    while let Some(file) = to_visit.pop() {
        for other in uses.get(&file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(other.as_str()) {
                to_visit.push(other.clone());
            }
        }
    }
    reached
}

fn uses(tree: &Tree) -> Uses {
    let files: BTreeMap<Vec<String>, &str> = tree
        .keys()
        .map(|file| (absolute(file), file.as_str()))
        .collect();
    let offers = offers(tree, &files);
    let mut uses = Uses::new();
    for (file, source) in tree.iter().filter(|(file, _)| !is_of_tests(file)) {
        let own = uses.entry(file.clone()).or_default();
        for path in &source.paths {
            if path.in_test || path.is_offered {
                continue;
            }
            let Some(names) = resolve(file, &path.inside, &path.names, &files) else {
                continue;
            };
            if let Some(other) = defining_file(&names, &files, &offers)
                && other != file
            {
                own.entry(other.to_owned()).or_insert(path.line);
            }
        }
    }
    uses
}

/// Whether only tests compile a file.
fn is_of_tests(file: &str) -> bool {
    let names = module_of(file);
    names
        .iter()
        .any(|name| name == "tests" || name == "testing")
}

/// The names that files offer with `pub use`, and where each leads.
type Offers = BTreeMap<Vec<String>, Vec<String>>;

fn offers(tree: &Tree, files: &BTreeMap<Vec<String>, &str>) -> Offers {
    let mut offers = Offers::new();
    for (file, source) in tree {
        for path in source.paths.iter().filter(|path| path.is_offered) {
            if let (Some(target), Some(name)) = (
                resolve(file, &path.inside, &path.names, files),
                path.names.last(),
            ) {
                let mut offered = absolute(file);
                offered.push(name.clone());
                offers.insert(offered, target);
            }
        }
    }
    offers
}

/// The file that defines an item, with all `pub use` on the way followed.
fn defining_file<'a>(
    names: &[String],
    files: &BTreeMap<Vec<String>, &'a str>,
    offers: &Offers,
) -> Option<&'a str> {
    let mut names = names.to_vec();
    // A chain of `pub use` is never as long; one that is would be a circle.
    for _ in 0..10 {
        let offered = (1..=names.len()).find_map(|length| {
            let target = offers.get(&names[..length])?;
            Some([target, &names[length..]].concat())
        });
        match offered {
            Some(target) => names = target,
            None => break,
        }
    }
    (1..=names.len())
        .rev()
        .find_map(|length| files.get(&names[..length]).copied())
}

/// The names of a path from the root of the workspace: the crate, then modules
/// and items. Nothing for what comes from outside.
fn resolve(
    file: &str,
    inside: &[String],
    names: &[String],
    files: &BTreeMap<Vec<String>, &str>,
) -> Option<Vec<String>> {
    let mut place = absolute(file);
    let mut rest = names.iter().map(String::as_str).peekable();
    match *rest.peek()? {
        "crate" => {
            place.truncate(1);
            rest.next();
        }
        "self" => {
            place.extend(inside.iter().cloned());
            rest.next();
        }
        "super" => {
            place.extend(inside.iter().cloned());
            while rest.next_if_eq(&"super").is_some() {
                place.pop();
            }
        }
        // A child of this module, or a crate of the workspace.
        first => {
            let mut child = place.clone();
            child.push(first.to_owned());
            if !files.contains_key(&child) {
                if !crate::architecture::CRATES.contains(&first) {
                    return None;
                }
                place.clear();
            }
        }
    }
    place.extend(rest.map(str::to_owned));
    Some(place)
}

/// The crate and the modules that a file is.
fn absolute(file: &str) -> Vec<String> {
    let mut names = vec![crate_of(file).to_owned()];
    names.extend(module_of(file));
    names
}

mod checks {
    use super::*;
    use crate::support::source;

    fn of(files: &[(&str, &str)]) -> Vec<String> {
        let tree: Tree = files
            .iter()
            .map(|&(file, text)| (file.to_owned(), source::read(text).unwrap()))
            .collect();
        circles(&tree)
    }

    #[test]
    fn files_that_use_each_other_are_found() {
        let found = of(&[
            ("src/lib.rs", "pub mod a; pub mod b; pub mod c;"),
            ("src/a.rs", "use crate::b::B; pub struct A;"),
            ("src/b.rs", "fn f() { super::c::g(); } pub struct B;"),
            ("src/c.rs", "pub fn g() -> crate::a::A { todo!() }"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("src/a.rs, src/b.rs, src/c.rs: a circle"),
            "{found:?}"
        );
        assert!(found[0].contains("src/a.rs:1 uses src/b.rs"), "{found:?}");
    }

    #[test]
    fn a_child_that_uses_its_parent_is_found_only_if_the_parent_uses_it() {
        let child = ("src/a/b.rs", "use super::A; pub struct B;");
        let found = of(&[
            ("src/a/mod.rs", "mod b; pub use b::B; pub struct A;"),
            child,
        ]);
        assert!(found.is_empty(), "{found:?}");
        let found = of(&[
            ("src/a/mod.rs", "mod b; pub struct A; fn f(_: b::B) {}"),
            child,
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn an_offered_name_leads_to_the_file_that_defines_it() {
        let found = of(&[
            ("src/a/mod.rs", "mod b; mod c; pub use b::B; use c::C;"),
            ("src/a/b.rs", "pub struct B;"),
            ("src/a/c.rs", "use crate::a::B; pub struct C;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn another_crate_and_tests_make_no_circle() {
        let found = of(&[
            ("src/a.rs", "#[cfg(test)] mod tests { use crate::b::B; }"),
            ("src/b.rs", "use crate::a::A; use fbc::document::C;"),
            ("crates/fbc/src/document.rs", "pub struct C;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
