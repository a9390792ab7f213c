//! Held against the parser: whatever is answered here, it answers the same.

use proptest::prelude::*;

use crate::text::yaml::{Limits, parse, plain_to_json};

/// Reads a document both ways, which have to agree; whether this one did not
/// give it back.
pub(crate) fn agrees(document: &[u8], limits: &Limits) -> bool {
    let shown = || String::from_utf8_lossy(document);
    let mut out = b"before".to_vec();
    let Some(found) = plain_to_json(document, limits, &mut out) else {
        assert_eq!(out, b"before", "{:?}", shown());
        return false;
    };
    let mut expected = b"before".to_vec();
    let parsed = parse(document, limits, &mut expected).map(|converted| converted.found);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(Ok(found), parsed, "{:?}", shown());
    assert_eq!(text(&out), text(&expected), "{:?}", shown());
    true
}

#[test]
fn plain_documents_are_read_without_the_parser() {
    for document in [
        // Nothing.
        "",
        "\n  \n# comment\n  # another",
        "---\n",
        "--- # comment\n\n",
        // Mappings and lists in each other.
        "a: 1\nb: true\nc:\nd: ~\n",
        "---\nb:\n  d: 1\n  c: 2\na: x\n",
        "  a: 1\n  b:\n     c: 2\n",
        "a:\n- b\n- c\nd:\n  - e\n  -\n  - f",
        "- a: 1\n  b:\n  - c: 2\n    d: 3\n  -\n    e: 4\n- - x\n  - - y\n-   z:\n      1\n",
        "a: # comment\n  # comment\n\n  b: 1 # comment\n# comment\n  c: 2\n",
        "a:\n  - b\n  -\nc:\n-\nd:\n",
        "a: {}\nb: [ ]\nc: { } # comment\nd: [x, 'y', \"z\", 1.5, true, ]\n",
        // Keys.
        "\"a b\": 1\n'it''s': 2\nyes: 3\n1.0: 4\na c : 5\n\"c\" : 6\n",
        "\"b\\n\": 1\n\"\\u0061\": 2\n",
        "-a: 1\n?b: 2\n:c: 3\n",
        // Without quotes.
        "a: x y  \nb: x:y#z\nc: -x\nd: ---\ne: a\tb\t\nf: x \t# comment\n",
        "a: x\n  y\n\n\n  z # comment\nb:\n  - x\n    - y\n   [z\nc:\n  - 1\n\n    2\n",
        "a: 2026-01-02\nb: 0x1f\nc: 1_000\nd: 1e3\ne: 'yes'\nf: yes\n",
        "a:\n  next line\nb:\n  'next line'\n",
        // In quotes.
        "a: 'it''s' # comment\nb: \"\\t\\x41\\u00e9\\U0001F600\\0\\e\\_\\N\\L\\P\\a\\v\\b\\f\\r\\/\\ \"\n",
        "a: 'x \n\n  y\n\t z '\nb: \"x  \n\n\n  y\\n\n  z\"\n",
        "a: \"x \\\n   \\  y\\\n\n  z\"\n",
        "- \"x\n  y\"\n- 'z\n  '\n",
        // Block scalars.
        "a: |\n  x\n   y\n\n  z\nb: >\n  x\n  y\n\n   z\n  z\n\n",
        "a: |-\n  x\n\n\nb: |+\n  x\n\n\nc: >-\n  x\n\nd: >+\n\ne: |\nf: |+\n\n",
        "a: |2\n    x\n   y\nb: |-1\n  x\nc: >3+\n    x\n\nd: | # comment\n  # text\n",
        "- |\n x\n- >-\n    x\n    y\n-\n  |\n   z\n",
        "a:\n  b: |\n    {\n      \"c\": \"\\\"\\t\"\n    }\n\n  d: 1\n",
        "a: |\n  x\n  \ty\n      \n  z",
        // Characters and line ends.
        "a: é “😀”\u{a0}\r\n\r\nb: |\r\n  x\r\n\r\n  y\r\nc: \"x\r\n  y\\\r\n  z\"\r\nd: x\r\n  y\r\n",
        "a: x!=\n\nb: x !y z, <<\nc: <<\n",
    ] {
        assert!(
            agrees(document.as_bytes(), &Limits::default()),
            "{document:?}"
        );
    }
}

#[test]
fn what_is_rare_or_wrong_is_given_back() {
    for document in [
        // The parser reports a key that stands twice.
        "a: 1\nb: 2\na: 3\n",
        "b: 1\n\"\\u0062\": 2\n",
        "x",
        "\"x\"",
        "[]",
        "{}",
        "|\n x",
        "a: &x 1",
        "a: *x",
        "a: !!str 1",
        "<<: {}\n",
        "? a\n: b",
        ": a",
        "%YAML 1.1\n---\na: 1",
        "a: 1\n---\nb: 2",
        "a: 1\n...\n",
        "a: \"x\n---\ny\"",
        "a: \"x\ny\"",
        "--- a: 1",
        "---a: 1",
        "a:\tb",
        "\ta: b",
        "a: b\n\tc",
        "a: 'b'\t'c'",
        "-\ta",
        "a: |\n\tb",
        "a: [b,\n c]",
        "a: [b: c]",
        "a: [[b]]",
        "a: {b: c}",
        "a: [,]",
        "a: [b c]",
        "a: [b] c",
        "a: b: c",
        "a: b\n  c: d",
        "a: b\nc",
        "a: b\n- c",
        "a:\n  - b\n c",
        "a:\n    b: 1\n  c: 2",
        "a: 1\n b: 2",
        "  a: 1\nb: 2",
        "- a\nb: c",
        "- a\n - b: c",
        "a: - b",
        "a: 'b",
        "a: \"b",
        "a: \"\\q\"",
        "a: \"\\xZZ\"",
        "a: \"\\x+1\"",
        "a: \"\\uD800\"",
        "a: 'b' c",
        "a: 'b'#c",
        "a: |0\n x",
        "a: |--\n x",
        "a: |x\n",
        "a: |\n    \n  x\n",
        "a: |\n   x\n  y\n",
        "~: 1",
        "a: .inf",
        "a: @x",
        "a: %x",
        "a: ,x",
        "a: so!, x",
        "a: b\rc: d\r",
        "a: x\u{85}b: y",
        "a: x\u{2028}b: y",
        "\u{feff}a: b",
        "a: \u{7f}",
        "a: \0",
        "a: |\n  \tx",
        "a: !=",
    ] {
        assert!(
            !agrees(document.as_bytes(), &Limits::default()),
            "{document:?}"
        );
    }
    assert!(!agrees(b"a: \xff", &Limits::default()));
}

#[test]
fn limits_hold_without_the_parser_too() {
    let deep = Limits {
        depth: 3,
        ..Limits::default()
    };
    assert!(agrees(b"a:\n- b: 1\n", &deep));
    assert!(!agrees(b"a:\n- b: []\n", &deep));
    assert!(!agrees(b"- - - - x\n", &deep));
    assert!(agrees(b"- - []\n", &deep));

    let tight = Limits {
        expansion: 1,
        small: 0,
        ..Limits::default()
    };
    assert!(agrees(b"- 'a'\n", &tight));
    assert!(!agrees(b"- a\n- b\n- c\n-\n-\n-\n", &tight));
    assert!(!agrees(b"- |\n  \"\"\"\"\"\"\"\"\"\"\"\"\n", &tight));

    let key = "k".repeat(1025) + ": 1";
    assert!(!agrees(key.as_bytes(), &Limits::default()));
    assert!(!agrees(format!("\"{key}").as_bytes(), &Limits::default()));
    let value = format!("a: {}\n", "v".repeat(5000));
    assert!(agrees(value.as_bytes(), &Limits::default()));
}

/// Every text of up to so many pieces.
fn every_text(pieces: &[&str], length: usize) -> (usize, usize) {
    let (mut all, mut answered) = (0, 0);
    for length in 1..=length {
        let mut chosen = vec![0; length];
        loop {
            let text: String = chosen.iter().map(|index| pieces[*index]).collect();
            all += 1;
            answered += usize::from(agrees(text.as_bytes(), &Limits::default()));
            let Some(last) = chosen.iter().rposition(|index| index + 1 < pieces.len()) else {
                break;
            };
            chosen[last] += 1;
            chosen[last + 1..].fill(0);
        }
    }
    (all, answered)
}

#[test]
fn every_short_text_is_read_as_the_parser_reads_it() {
    let characters = ["a", " ", "\n", "-", ":", "#", "'", "\"", "|", ">"];
    let structure = [
        "x", "\n", "\n ", "\n  ", "- ", "a: ", "a:", "b: 1", "# c", "\r\n",
    ];
    let blocks = ["a: |", "- >", "-", "+", "2", "\n", " ", "x", "\t", "#"];
    let quotes = ["a: \"", "- '", "'", "\"", "\n", " ", "x", "\\", "\t", ":"];
    let flow = ["a: [", "]", ",", "\n", " ", "x", "{", "}", "'", ":"];
    for pieces in [characters, structure, blocks, quotes, flow] {
        let (all, answered) = every_text(&pieces, 4);
        assert_eq!(all, 11_110);
        assert!(answered > 100, "{answered} with {pieces:?}");
    }
}

/// Lines that begin, continue or end something.
const LINES: &[&str] = &[
    "",
    "",
    "  ",
    "# comment",
    "a:",
    "b:",
    "c: 1",
    "d: yes",
    "a: x",
    "b: x y  ",
    "-",
    "- a",
    "- b: 1",
    "- c:",
    "- - x",
    "- 'x'",
    "text",
    "more text",
    "text # comment",
    "a: |",
    "b: >-",
    "- |+",
    "c: |2",
    "a: \"x",
    "b: 'x",
    "y\"",
    "y'",
    "y\\",
    "\\ z\"",
    "a: \"x y\" # comment",
    "'a b': \"\\u00e9\\n\"",
    "\"a\": '''x'''",
    "a: []",
    "- {}",
    "b: [x, 'y']",
    "a : b",
    "url: http://x/y#z",
    "\"json\": \"text\",",
    "{",
    "}",
    "1.5: 0x1f",
    "é: “x”",
];

/// Documents of such lines, indented at will.
fn lines() -> impl Strategy<Value = String> {
    let line = (0_usize..8, prop::sample::select(LINES));
    let lines = prop::collection::vec(line, 1..14);
    (lines, any::<bool>(), 0_usize..8).prop_map(|(lines, windows, dice)| {
        let end = if windows { "\r\n" } else { "\n" };
        let lines: Vec<String> = lines
            .iter()
            .map(|(indent, line)| " ".repeat(indent / 2 * 2 + usize::from(*indent == dice)) + line)
            .collect();
        lines.join(end) + if dice > 1 { end } else { "" }
    })
}

/// A value as YAML, as programs and as people write it.
fn written() -> impl Strategy<Value = String> {
    let text = prop_oneof!["[ -~]{0,12}", "[a-c \n\t:#'\"-]{0,16}", "[a-zé“ ]{20,60}"];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i32>().prop_map(serde_json::Value::from),
        text.clone().prop_map(serde_json::Value::from),
    ];
    let tree = leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-z]{1,4}", tree, 1..4).prop_map(|map| {
        let json = serde_json::to_vec(&map).unwrap();
        let mut yaml = Vec::new();
        crate::text::yaml::from_json(&json, &mut yaml);
        String::from_utf8(yaml).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn lines_at_random_are_read_as_the_parser_reads_them(document in lines()) {
        agrees(document.as_bytes(), &Limits::default());
    }

    #[test]
    fn written_values_are_read_as_the_parser_reads_them(document in written()) {
        agrees(document.as_bytes(), &Limits::default());
    }

    #[test]
    fn a_change_is_read_as_the_parser_reads_it(
        document in prop_oneof![lines(), written()],
        line in prop::sample::select(LINES),
        at in any::<prop::sample::Index>(),
        removed in 0_usize..3,
    ) {
        let mut characters: Vec<char> = document.chars().collect();
        let at = at.index(characters.len() + 1);
        let end = characters.len().min(at + removed);
        characters.splice(at..end, line.chars());
        let changed: String = characters.into_iter().collect();
        agrees(changed.as_bytes(), &Limits::default());
    }
}
