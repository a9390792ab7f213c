//! How deep and how large a document may become.

use crate::text::json::Canonicaliser;
use crate::text::json::MAX_DEPTH;
use crate::text::yaml::tests::*;

#[test]
fn what_nests_as_deep_as_json_may_is_read_back_from_yaml() {
    let nested = |depth: usize, open: &str, close: &str| {
        let (open, close) = (open.repeat(depth), close.repeat(depth));
        format!("{{\"a\":{open}\"x\"{close}}}")
    };
    let read = move || {
        for (depth, open, close) in [
            (MAX_DEPTH - 1, "[", "]"),
            (MAX_DEPTH - 1, "{\"a\":", "}"),
            ((MAX_DEPTH - 1) / 2, "[{\"a\":", "}]"),
        ] {
            let json = nested(depth, open, close);
            let mut canonical = Vec::new();
            let end = Canonicaliser::default().read(json.as_bytes(), 0, &mut canonical);
            assert_eq!(end, Ok(Some(json.len())));
            assert_eq!(canonical, json.as_bytes());
            let mut yaml = Vec::new();
            from_json(&canonical, &mut yaml);
            assert_eq!(convert(&yaml).unwrap().as_deref(), Some(&*json));
            // As it stands it is YAML as well, of flow collections.
            assert_eq!(convert(&json).unwrap().as_deref(), Some(&*json));
        }
        let too_deep = nested(MAX_DEPTH, "[", "]");
        let read = Canonicaliser::default().read(too_deep.as_bytes(), 0, &mut Vec::new());
        assert!(read.unwrap_err().message.contains("deeper than 500"));
        let error = convert(&too_deep).unwrap_err();
        assert!(error.message.contains("deeper than 500"), "{error}");
    };
    // No thread that reads catalogs has less.
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    thread.spawn(read).unwrap().join().unwrap();
}

#[test]
fn nesting_is_bounded_aliases_included() {
    let limits = Limits {
        depth: 5,
        ..Limits::default()
    };
    assert!(convert_within("[[[[[]]]]]", &limits).is_ok());
    assert!(
        convert_within("[[[[[[]]]]]]", &limits)
            .unwrap_err()
            .message
            .contains("deeper than 5")
    );
    assert!(
        convert_within("{a: {a: {a: {a: {a: {}}}}}}", &limits)
            .unwrap_err()
            .message
            .contains("deeper than 5")
    );
    assert!(convert_within("[&a [[1]], [[*a]]]", &limits).is_ok());
    assert!(
        convert_within("[&a [[1]], [[[*a]]]]", &limits)
            .unwrap_err()
            .message
            .contains("deeper than 5")
    );
    let deep = "[".repeat(100_000);
    assert!(convert(deep).is_err());
    let deep = "- ".repeat(100_000);
    assert!(convert(deep).is_err());
}

#[test]
fn documents_that_only_want_to_be_large_are_refused() {
    let level = |(name, before)| {
        let aliases = vec![format!("*{before}"); 9].join(",");
        format!("{name}: &{name} [{aliases}]\n")
    };
    let levels: String = ('b'..='h').zip('a'..).map(level).collect();
    let bomb = format!("a: &a [x,x,x,x,x,x,x,x,x]\n{levels}");
    assert!(
        convert(&bomb)
            .unwrap_err()
            .message
            .contains("excessive aliasing")
    );

    let merges = "a: &a {b: 1}\n".to_owned() + &"c: {<<: *a}\n".repeat(1000);
    assert!(convert(&merges).is_ok());

    let text = "x".repeat(20_000);
    let large = format!("a: &a {text}\nb: [{}]\n", vec!["*a"; 90].join(","));
    assert!(convert(&large).unwrap_err().message.contains("too large"));
    let roomy = Limits {
        small: 4 << 20,
        ..Limits::default()
    };
    assert!(convert_within(&large, &roomy).is_ok());

    let anchors = format!("[{}]", "&a ,".repeat(100_000));
    assert!(convert(&anchors).unwrap_err().message.contains("too large"));

    let nested = "[&a ".repeat(150) + &text + &"]".repeat(150);
    assert!(convert(&nested).unwrap_err().message.contains("too large"));
}

#[test]
fn what_is_large_may_not_become_much_larger() {
    let limits = Limits {
        small: 0,
        large: 10_000,
        ..Limits::default()
    };
    let numbers = |count: usize| "- 1e20\n".repeat(count);
    assert!(convert_within(numbers(400), &limits).is_ok());
    let refused = convert_within(numbers(4000), &limits).unwrap_err();
    assert!(refused.message.contains("too large"), "{refused:?}");
    let texts = "- a text of some length\n".repeat(4000);
    assert!(convert_within(&texts, &limits).is_ok());
}

#[test]
fn directives_are_bounded() {
    let lines: Vec<String> = (0..100).map(|index| format!("%TAG !a{index}! x")).collect();
    let many = lines.join("\n") + "\n---\na: 1\n";
    assert!(convert(&many).unwrap_err().message.contains("%TAG"));
    let long = format!("%TAG !a! {}\n---\n!a!b c\n", "x".repeat(2000));
    assert!(convert(&long).unwrap_err().message.contains("%TAG"));
}

#[test]
fn plain_yaml_stays_within_the_expansion() {
    let tight = Limits {
        small: 0,
        ..Limits::default()
    };
    for yaml in [
        "{a,",
        "[~,",
        "[1e20,",
        "[\"\\0\\0\\0\\0\",",
        "[y,",
        "[[],",
        "- -\n",
        "[9e20,",
        "[\u{2028}x,",
    ] {
        let mut text = yaml.repeat(1000);
        if let Some(open) = yaml.chars().next().filter(|char| "[{".contains(*char)) {
            text = open.to_string() + &yaml[1..].repeat(1000) + if open == '[' { "]" } else { "}" };
        }
        if let Err(error) = convert_within(&text, &tight) {
            panic!("{yaml:?}: {error}");
        }
    }
}
