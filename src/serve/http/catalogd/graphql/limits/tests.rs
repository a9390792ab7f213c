use super::*;

fn error(query: &str) -> String {
    parse(query).map_or_else(|error| error.to_string(), |_| "none".to_owned())
}

fn nested(depth: usize) -> String {
    format!("{}{{a}}{}", "{a".repeat(depth - 1), "}".repeat(depth - 1))
}

#[test]
fn depth_aliases_and_fields_are_counted_as_in_catalogd() {
    assert_eq!(error(&nested(10)), "none");
    assert_eq!(error(&nested(11)), "query exceeds maximum depth of 10");
    let inline = "{...{a".repeat(5) + &"}}".repeat(5);
    assert_eq!(error(&inline), "none");
    let inline = format!("{{a{inline}}}");
    assert_eq!(error(&inline), "query exceeds maximum depth of 10");
    let chain = |count: usize| {
        let links = (1..count).map(|n| format!("fragment f{n} on T{{...f{}}}", n + 1));
        let links: Vec<String> = links.collect();
        let links = links.concat();
        format!("{{...f1}}{links}fragment f{count} on T{{a}}")
    };
    assert_eq!(error(&chain(9)), "none");
    assert_eq!(error(&chain(10)), "query exceeds maximum depth of 10");
    assert_eq!(error(&chain(400)), "query exceeds maximum depth of 10");

    let aliases = |count: usize| {
        let fields: Vec<String> = (0..count).map(|n| format!("a{n}:b")).collect();
        format!("{{{}}}", fields.join(" "))
    };
    assert_eq!(error(&aliases(50)), "none");
    assert_eq!(
        error(&aliases(51)),
        "query exceeds maximum alias count of 50"
    );

    let fields = |count: usize| format!("{{{}}}", "a ".repeat(count));
    assert_eq!(error(&fields(500)), "none");
    assert_eq!(
        error(&fields(501)),
        "query exceeds maximum field count of 500"
    );
    let fragment = |spreads: usize| {
        format!(
            "{{{}}} fragment f on T {{{}}}",
            "...f ".repeat(spreads),
            "a ".repeat(480)
        )
    };
    assert_eq!(error(&fragment(10)), "none");
    assert_eq!(
        error(&fragment(11)),
        "query exceeds maximum field count of 5000 where fragments are spread"
    );
}

#[test]
fn introspection_may_nest_deeper_but_not_without_end() {
    let below = |depth: usize| format!("{{__schema{}}}", nested(depth));
    assert_eq!(error(&below(24)), "none");
    assert_eq!(
        error(&below(25)),
        "query exceeds maximum introspection depth of 25"
    );
    let by_fragment = format!(
        "{{...f}} fragment f on Query {{__type(name:\"a\"){}}}",
        nested(15)
    );
    assert_eq!(error(&by_fragment), "none");
    // The usual limit applies beside it.
    let beside = format!("{{__schema{} a{}}}", nested(15), nested(10));
    assert_eq!(error(&beside), "query exceeds maximum depth of 10");
}

#[test]
fn a_small_text_does_not_become_much_work() {
    let doubling: Vec<String> = (0..9)
        .map(|n| format!("fragment f{n} on T{{...f{0} ...f{0}}}", n + 1))
        .collect();
    let doubling = doubling.concat();
    let bomb = format!("{{...f0}} {doubling} fragment f9 on T{{a b c d e f g h i j}}");
    assert!(error(&bomb).ends_with("where fragments are spread") || error(&bomb).contains("depth"));
    assert_eq!(
        error("{...a} fragment a on T{...b} fragment b on T{...a}"),
        "fragment \"a\" spreads itself"
    );
    assert_eq!(
        error("{a} fragment a on T{b{...a}}"),
        "fragment \"a\" spreads itself"
    );
    let brackets = "query exceeds maximum nesting of 60 brackets";
    for open in ["{", "[", "(", "{a", "{a(b:[", "query($a:["] {
        assert_eq!(error(&open.repeat(20_000)), brackets, "{open}");
    }
    let name = "a".repeat(300);
    let too_long = "query exceeds maximum name length of 250";
    assert_eq!(error(&format!("{{{name}}}")), too_long);
    let directives = "@include(if:true)".repeat(1_500);
    let arguments = "query exceeds maximum count of 2000 variables, arguments and directives";
    assert_eq!(error(&format!("{{a {directives}}}")), arguments);
    let fragments: Vec<String> = (0..501)
        .map(|n| format!("fragment f{n} on T{{a}}"))
        .collect();
    let many = "query exceeds maximum fragment count of 500";
    assert_eq!(error(&format!("{{a}}{}", fragments.concat())), many);
    let operations: Vec<String> = (0..51).map(|n| format!("query q{n}{{a}}")).collect();
    let many = "query exceeds maximum operation count of 50";
    assert_eq!(error(&operations.concat()), many);
}

#[test]
fn brackets_in_strings_and_comments_do_not_count() {
    let many = "{[(".repeat(100);
    for query in [
        format!("{{a(b:\"{many}\")}}"),
        format!("{{a(b:\"\\\"{many}\")}}"),
        format!("{{a(b:\"\"\"{many}\\\"\"\"{many}\"\"\")}}"),
        format!("{{a #{many}\n b}}"),
    ] {
        assert_eq!(error(&query), "none", "{query}");
    }
    assert_eq!(error("{a(b:\"\")c}"), "none");
}

#[test]
fn a_parse_error_has_its_position() {
    for (query, places) in [
        ("{ ", vec![(1, 3)]),
        ("{a}}", vec![(1, 4)]),
        ("nope", vec![(1, 1)]),
        ("{a}\n{b}", vec![(2, 1), (1, 1)]),
        ("fragment a on T{b}", vec![]),
        ("{a(b:\"", vec![(1, 6)]),
        ("\u{0}", vec![(1, 1)]),
    ] {
        let Err(QueryError::Parse {
            positions: found, ..
        }) = parse(query)
        else {
            panic!("{query:?}");
        };
        let found: Vec<_> = found
            .iter()
            .map(|place| (place.line, place.column))
            .collect();
        assert_eq!(found, places, "{query:?}");
        assert!(error(query).starts_with("query parse error: "));
    }
}
