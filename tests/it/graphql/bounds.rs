//! Answers and requests that are too large.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Ask, PATH, fruit, fruit_served};
use crate::support::catalog::Catalog;
use crate::support::served::{Folders, Served};

#[test]
fn a_name_that_is_taken_is_a_problem_and_no_more() {
    let catalog = fruit()
        .blob(json!({"schema": "IO.example.THINGS", "name": "third"}))
        .blob(json!({"schema": "query", "name": "reserved"}));
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let status = served.status("fruit");
    let problems: Vec<&Value> = status["problems"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|problem| problem["code"] == "graphql-name-taken")
        .collect();
    assert_eq!(problems.len(), 2, "{status:#}");
    assert!(
        problems
            .iter()
            .all(|problem| problem["severity"] == "warning")
    );
    let schemas: Vec<&Value> = problems.iter().map(|problem| &problem["schema"]).collect();
    assert_eq!(schemas, ["io.example.things", "query"]);
    // The first by name has it; everything else is there as ever.
    let data =
        served.data("{ ioexamplethingss { name } olmpackages { name } summary { totalSchemas } }");
    assert_eq!(
        data,
        json!({
            "ioexamplethingss": [{"name": "third"}],
            "olmpackages": [{"name": "apple"}, {"name": "banana"}],
            "summary": {"totalSchemas": 6},
        })
    );
    let metas = served.get("/catalogs/fruit/api/v1/metas?schema=io.example.things");
    assert_eq!(metas.text().lines().count(), 2);
}

#[test]
fn a_blob_or_list_that_is_too_large_is_an_error_of_its_field() {
    let long: Vec<&str> = vec![""; 20_001];
    let catalog = fruit()
        .blob(json!({"schema": "huge", "name": "big", "text": "x".repeat(17 << 20)}))
        .blob(json!({"schema": "long", "name": "long", "list": long}));
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let answer = served.answer(&json!({"query": "{ huges { name } olmpackages { name } }"}));
    assert!(answer["data"]["huges"].is_null());
    assert_eq!(answer["data"]["olmpackages"][0]["name"], "apple");
    let error = &answer["errors"][0];
    assert_eq!(error["path"], json!(["huges"]));
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("larger than 16 MiB")
    );

    let answer = served.answer(&json!({"query": "{ longs { name list } }"}));
    assert_eq!(
        answer["data"]["longs"],
        json!([{"name": "long", "list": null}])
    );
    assert_eq!(answer["errors"][0]["path"], json!(["longs", 0, "list"]));
}

#[test]
fn an_answer_is_bounded_in_size_values_and_time() {
    let text = "x".repeat(1 << 20);
    let numbers: Vec<u32> = (0..19_000).collect();
    let catalog = (0..40).fold(Catalog::one("apple"), |catalog, number| {
        catalog.blob(json!({"schema": "large", "number": number, "text": text, "list": numbers}))
    });
    let served = Served::catalogs(&Folders::of("fruit", &catalog));
    let begin = Instant::now();
    let error = served.error("{ larges { text } }");
    assert!(error.contains("maximum size of 32 MiB"), "{error}");
    let error = served.error("{ larges { list } }");
    assert!(error.contains("maximum of 300000 values"), "{error}");
    assert_eq!(
        served.data("{ larges(limit: 20) { text } }")["larges"][19]["text"],
        text
    );
    assert_eq!(
        served.data("{ larges { number } }")["larges"][39]["number"],
        39
    );

    // Types have fields that have types that have fields.
    let nested = "fields{type{".repeat(11) + "name" + &"}}".repeat(11);
    served.data(&format!("{{__schema{{types{{{nested}}}}}}}"));
    let nested = "fields{type{ofType{fields{name}}".repeat(5) + &"}}".repeat(5);
    served.answer(&json!({"query": format!("{{__schema{{types{{{nested}}}}}}}")}));
    assert!(
        begin.elapsed() < Duration::from_mins(1),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(
        served.data("{ summary { totalSchemas } }")["summary"]["totalSchemas"],
        4
    );
}

#[test]
fn hostile_bodies_end_in_an_answer_and_almanac_goes_on() {
    let served = fruit_served();
    let nested = |open: &str, close: &str| open.repeat(400) + &close.repeat(400);
    let bodies = [
        json!({"query": nested("{", "}")}).to_string(),
        json!({"query": format!("{{a(b:{})}}", nested("[", "]"))}).to_string(),
        json!({"query": format!("query($a:{}){{a}}", nested("[", "]"))}).to_string(),
        json!({"query": "{a(b:".repeat(10_000)}).to_string(),
        json!({"query": "\"".repeat(99_999)}).to_string(),
        json!({"query": "{a(b:\"\"\"".to_owned() + &"\\\"\"\"".repeat(20_000)}).to_string(),
        json!({"query": "#".repeat(99_999)}).to_string(),
        json!({"query": format!("{{{}}}", "...".repeat(30_000))}).to_string(),
        json!({"query": format!("{{a{}}}", "@a".repeat(40_000))}).to_string(),
        json!({"query": format!("query({}){{summary{{totalSchemas}}}}", "$a:Int,".repeat(10_000))})
            .to_string(),
        json!({"query": format!("{{olmbundles({}){{name}}}}", "limit:1,".repeat(10_000))})
            .to_string(),
        json!({"query": "é".repeat(40_000)}).to_string(),
        format!(
            "{{\"query\":\"{{a}}\",\"variables\":{{\"a\":{}}}}}",
            nested("[", "]")
        ),
        format!(
            "{{\"query\":\"{{a}}\",\"variables\":{}",
            "{\"a\":".repeat(100_000)
        ),
        "[".repeat(1 << 20),
    ];
    for body in bodies {
        let begin = Instant::now();
        let reply = served.post(PATH, &body);
        let shown = &body[..80];
        assert!(
            matches!(reply.status, 200 | 400),
            "{shown}: {}",
            reply.status
        );
        if reply.status == 200 {
            let answer: Value = serde_json::from_slice(&reply.body).unwrap();
            assert!(answer["data"].is_null(), "{shown}: {answer}");
        }
        assert!(reply.body.len() < 1 << 20, "{shown}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{shown}");
    }
    // A body that never comes, and a client that goes away.
    for _ in 0..20 {
        let mut connection = TcpStream::connect(served.http).unwrap();
        let head = format!("POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{");
        connection.write_all(head.as_bytes()).unwrap();
    }
    assert_eq!(
        served.data("{ summary { totalSchemas } }")["summary"]["totalSchemas"],
        4
    );
}
