//! The pages for people: every link leads somewhere, nothing of a catalog runs, and
//! nobody sees more than the API shows them.

mod addresses;
mod baskets;
mod content;
mod deprecations;
mod facts;
mod lists;
mod plans;
mod readers;
mod shortened;
mod site;
mod statements;
mod twins;
mod ways_back;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use site::{BROWSER, attributes, page, served, text_of};

use crate::support::http::Reply;

/// Elements without an end tag.
const VOID: [&str; 7] = ["meta", "link", "input", "br", "hr", "img", "path"];
/// Elements that pages have.
const ELEMENTS: [&str; 80] = [
    "html",
    "head",
    "meta",
    "title",
    "link",
    "script",
    "body",
    "a",
    "header",
    "form",
    "label",
    "input",
    "datalist",
    "button",
    "nav",
    "ul",
    "li",
    "ol",
    "span",
    "main",
    "footer",
    "time",
    "code",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "p",
    "div",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "dl",
    "dt",
    "dd",
    "details",
    "summary",
    "pre",
    "img",
    "section",
    "aside",
    "select",
    "option",
    "fieldset",
    "legend",
    "svg",
    "path",
    "text",
    "strong",
    "em",
    "del",
    "br",
    "bdi",
    "hr",
    "small",
    "blockquote",
    "b",
    "i",
    "s",
    "u",
    "q",
    "sub",
    "sup",
    "abbr",
    "cite",
    "kbd",
    "samp",
    "var",
    "mark",
    "figure",
    "figcaption",
    "caption",
    "col",
    "colgroup",
    "article",
];

/// Every element is closed in its order, and none has code in it.
fn assert_sound(path: &str, text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text.strip_prefix("<!DOCTYPE html>").unwrap_or(text);
    while let Some((_, behind)) = rest.split_once('<') {
        let (tag, behind) = behind
            .split_once('>')
            .unwrap_or_else(|| panic!("{path}: <{behind}"));
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{path}: </{name}>");
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap();
        assert!(ELEMENTS.contains(&name), "{path}: <{tag}>");
        // Every second part stands in quotes: a value.
        let names: String = tag.split('"').step_by(2).collect();
        let mut names = names.split(' ').skip(1);
        let code = names.any(|name| name.starts_with("on") || name.starts_with("style="));
        assert!(!code, "{path}: <{tag}>");
        if name == "script" {
            assert!(tag.contains(" src=\"/assets/"), "{path}: <{tag}>");
        }
        if !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{path}: {open:?}");
}

fn assert_policy(path: &str, reply: &Reply) {
    let policy = reply.header("content-security-policy").unwrap_or_default();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'"),
        "{path}: {policy}"
    );
    for part in [
        "frame-ancestors 'none'",
        "form-action 'self'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{path}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{path}: {policy}");
    assert_eq!(
        reply.header("x-content-type-options"),
        Some("nosniff"),
        "{path}"
    );
    assert_eq!(
        reply.header("referrer-policy"),
        Some("no-referrer"),
        "{path}"
    );
    assert_eq!(
        reply.header("cross-origin-resource-policy"),
        Some("same-origin"),
        "{path}"
    );
}

#[test]
fn every_link_of_every_page_leads_somewhere_and_nothing_hostile_runs() {
    let served = served();
    let mut seen: BTreeSet<String> = BTreeSet::from(["/".to_owned()]);
    let mut queue: VecDeque<String> = seen.iter().cloned().collect();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(path) = queue.pop_front() {
        let reply = page(&served, &path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        let kind = reply.header("content-type").unwrap_or_default().to_owned();
        *kinds.entry(kind.clone()).or_default() += 1;
        if !kind.starts_with("text/html") {
            continue;
        }
        let text = reply.text();
        if path.contains("graphql") {
            continue;
        }
        assert_policy(&path, &reply);
        assert_sound(&path, &text);
        assert!(text.len() < 400_000, "{path}: {} bytes", text.len());
        assert!(
            !text.contains('\u{202e}') && !text.contains('\u{0}'),
            "{path}"
        );
        let mut links = attributes(&text, "href");
        links.extend(attributes(&text, "src"));
        links.extend(attributes(&text, "action"));
        for link in links {
            if let Some(id) = link.strip_prefix('#') {
                assert!(text.contains(&format!(" id=\"{id}\"")), "{path}: {link}");
                continue;
            }
            assert!(
                link.starts_with('/') || link.starts_with("http") || link.starts_with("mailto:"),
                "{path}: {link}"
            );
            // Filters can be combined without an end: one of them is enough.
            let deep = link.matches('&').count() > 1 || (link.contains('?') && path.contains('?'));
            let many = link.contains("from=hostile.v1.") && !link.contains("v1.499.0");
            let one_of_many = link.contains("/bundles/hostile.v1.") && !link.contains("9.0");
            let own = link.starts_with('/') && !link.contains("at=");
            if own && !deep && !many && !one_of_many && seen.insert(link.clone()) {
                queue.push_back(link);
            }
        }
        assert!(seen.len() < 2_500, "{path}");
    }
    assert!(kinds["text/html; charset=utf-8"] > 80, "{kinds:?}");
    for path in [
        "/catalogs/sample/packages/ferry-operator/versions",
        "/catalogs/hostile/packages/hostile/updates",
        "/catalogs/later",
        "/compare",
        "/mirror",
        "/api",
        "/problems",
    ] {
        assert!(seen.contains(path), "{path}: {seen:?}");
    }
}

#[test]
fn an_error_is_a_page_for_browsers_and_a_problem_for_programs() {
    let served = served();
    for (path, status, parts) in [
        ("/nowhere", 404, vec!["Unknown path"]),
        ("/catalogs/sampl", 404, vec!["href=\"/catalogs/sample\""]),
        (
            "/catalogs/sample/packages/ferry-operato",
            404,
            vec!["href=\"/catalogs/sample/packages/ferry-operator\""],
        ),
        (
            "/catalogs/hostile/packages/ferry-operator",
            404,
            vec!["href=\"/catalogs/sample/packages/ferry-operator\""],
        ),
        ("/catalogs/later/packages/a", 503, vec!["not loaded yet"]),
        ("/search?bogus=1", 400, vec!["There is no parameter"]),
        ("/search?page=0", 400, vec!["Page is a number"]),
        (
            "/catalogs/sample/packages/ferry-operator/versions?channel=nope",
            404,
            vec!["There is no channel"],
        ),
    ] {
        let reply = page(&served, path);
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert_eq!(
            reply.header("content-type"),
            Some("text/html; charset=utf-8"),
            "{path}"
        );
        assert_policy(path, &reply);
        let text = reply.text();
        assert_sound(path, &text);
        for part in parts {
            assert!(text.contains(part), "{path}: {part}: {text}");
        }
        let head = served.ask("HEAD", path, &BROWSER);
        assert_eq!((head.status, head.body.len()), (status, 0), "{path}");
        let program = served.ask("GET", path, &[("Accept", "application/problem+json")]);
        assert_eq!(program.status, status, "{path}");
        assert_eq!(
            program.header("content-type"),
            Some("application/problem+json"),
            "{path}"
        );
    }
    let longer = page(&served, "/search/?q=ferry");
    assert_eq!(longer.status, 308);
    assert_eq!(longer.header("location"), Some("/search?q=ferry"));
    assert_eq!(longer.header("vary"), Some("Accept"));
    let post = served.ask("POST", "/search", &BROWSER);
    assert_eq!(
        (post.status, post.header("allow")),
        (405, Some("GET, HEAD"))
    );
}

#[test]
fn a_page_is_sent_once_and_compressed() {
    let served = served();
    for path in ["/", "/search", "/catalogs/sample/packages/ferry-operator"] {
        let whole = page(&served, path);
        let etag = whole.header("etag").unwrap();
        let again = served.ask("GET", path, &[BROWSER[0], ("If-None-Match", etag)]);
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(
            again.header("content-security-policy"),
            whole.header("content-security-policy"),
            "{path}"
        );
        let head = served.ask("HEAD", path, &BROWSER);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("etag"), Some(etag), "{path}");
        let packed = served.ask("GET", path, &[BROWSER[0], ("Accept-Encoding", "gzip")]);
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
        assert!(packed.body.len() < whole.body.len(), "{path}");
    }
    let home = text_of(&served, "/");
    let assets: Vec<String> = [attributes(&home, "href"), attributes(&home, "src")]
        .concat()
        .into_iter()
        .filter(|link| link.starts_with("/assets/"))
        .collect();
    assert_eq!(assets.len(), 3, "{assets:?}");
    for asset in assets {
        let reply = served.get(&asset);
        assert_eq!(reply.status, 200, "{asset}");
        assert_eq!(
            reply.header("cache-control"),
            Some("public, max-age=31536000, immutable"),
            "{asset}"
        );
        let name = asset.rsplit('/').next().unwrap();
        assert_eq!(
            served.get(&format!("/assets/000000000000/{name}")).status,
            404
        );
    }
}
