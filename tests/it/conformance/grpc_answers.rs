//! The registry API on the sample catalog, compared with the answers of opm.
//!
//! Questions and answers are read through the descriptors of the API, so that
//! a field which opm does not send shows up too. JSON inside of strings is
//! compared as JSON, and the messages of a stream in any order.

use std::net::SocketAddr;

use almanac::proto::DESCRIPTORS;
use prost::Message as _;
use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, Value as Field,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tonic::{Code, Status};
use tonic_reflection::pb::v1 as reflection;

use crate::support::fixtures;
use crate::support::grpc::{Client, rest};
use crate::support::served::{Served, source};

/// How many distinct questions were recorded, the list of services among them.
const QUESTIONS: usize = 88;

/// Without it the experimental service answers nothing.
const ACKNOWLEDGE: (&str, &str) = ("x-acknowledge-experimental", "true");

/// A line of the recording.
#[derive(Deserialize)]
#[serde(untagged)]
enum Recorded {
    Services { services: Vec<String> },
    Answer(Answer),
}

#[derive(Deserialize)]
struct Answer {
    rpc: String,
    req: Map<String, Value>,
    code: i32,
    #[serde(rename = "msg")]
    message: String,
    #[serde(rename = "resp")]
    messages: Vec<Value>,
}

#[tokio::test]
async fn every_grpc_answer_on_the_sample_catalog_is_that_of_opm() {
    let sample = source("sample", &super::sample());
    let served = Served::start([sample.as_str(), "--poll", "never"]);
    let differing = differing(served.grpc).await;
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// Asks everything that was recorded; gives the questions that are answered
/// otherwise, with both answers.
pub(super) async fn differing(address: SocketAddr) -> Vec<String> {
    let client = Client::new(address);
    let acknowledging = client.clone().header(ACKNOWLEDGE.0, ACKNOWLEDGE.1);
    let pool = pool();
    let mut asked = std::collections::BTreeSet::new();
    let mut differing = Vec::new();
    for recorded in fixtures::json_lines("sample/grpc.jsonl") {
        let answer = match recorded {
            Recorded::Services { services } => {
                asked.insert("services".to_owned());
                let ours = list_services(&client).await;
                let missing = services.iter().filter(|name| !ours.contains(name));
                differing.extend(missing.map(|name| format!("the service {name} is missing")));
                continue;
            }
            Recorded::Answer(answer) => answer,
        };
        let question = format!("{} {}", answer.rpc, Value::from(answer.req.clone()));
        // The experimental service was asked twice: with the header, then without.
        let client = if asked.insert(question.clone()) {
            &acknowledging
        } else {
            &client
        };
        let ours = ask(&pool, client, &answer.rpc, &answer.req).await;
        let (code, message, messages) = match ours {
            Ok(messages) => (Code::Ok, String::new(), messages),
            Err(status) => (status.code(), status.message().to_owned(), Vec::new()),
        };
        let ours = (i32::from(code), message, sorted(messages));
        let theirs = (answer.code, answer.message, sorted(answer.messages));
        if ours != theirs {
            differing.push(format!("{question}\n  opm:  {theirs:?}\n  ours: {ours:?}"));
        }
    }
    assert_eq!(asked.len(), QUESTIONS);
    differing
}

/// The descriptors of everything that is asked.
fn pool() -> DescriptorPool {
    let mut pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let health = tonic_health::pb::FILE_DESCRIPTOR_SET;
    pool.decode_file_descriptor_set(health).unwrap();
    pool
}

/// Asks one question; gives the messages of the answer in canonical form.
async fn ask(
    pool: &DescriptorPool,
    client: &Client,
    rpc: &str,
    fields: &Map<String, Value>,
) -> Result<Vec<Value>, Status> {
    let methods = pool.services().flat_map(|service| {
        let methods: Vec<_> = service.methods().collect();
        methods
    });
    let mut named = methods.into_iter().filter(|method| method.name() == rpc);
    let method = named.next().unwrap();
    let mut question = DynamicMessage::new(method.input());
    for (name, value) in fields {
        let text = value.as_str().unwrap().to_owned();
        question.set_field_by_name(name, Field::String(text));
    }
    let path = format!("/{}/{rpc}", method.parent_service().full_name());
    let messages = client.raw_stream(&path, &question.encode_to_vec()).await?;
    let messages = messages.into_iter().map(|message| {
        let message = DynamicMessage::decode(method.output(), message).unwrap();
        canonical_message(&message)
    });
    Ok(messages.collect())
}

async fn list_services(client: &Client) -> Vec<String> {
    use reflection::server_reflection_client::ServerReflectionClient;
    use reflection::server_reflection_request::MessageRequest;
    use reflection::server_reflection_response::MessageResponse;

    let request = reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answer = ServerReflectionClient::new(client.channel())
        .server_reflection_info(futures_util::stream::iter([request]))
        .await
        .unwrap();
    let answers = rest(&mut answer.into_inner()).await.unwrap();
    let services = answers
        .into_iter()
        .filter_map(|answer| match answer.message_response {
            Some(MessageResponse::ListServicesResponse(list)) => Some(list.service),
            _ => None,
        });
    services.flatten().map(|service| service.name).collect()
}

/// A message in protobuf's JSON form, without the fields that are not sent.
fn canonical_message(message: &DynamicMessage) -> Value {
    let fields = message
        .fields()
        .map(|(field, value)| (field.json_name().to_owned(), canonical(&field, value)));
    Value::Object(fields.collect())
}

fn canonical(field: &FieldDescriptor, value: &Field) -> Value {
    match value {
        Field::String(text) if text.starts_with(['{', '[']) => {
            let json = serde_json::from_str::<Value>(text);
            json.map_or_else(|_| text.as_str().into(), |json| json!({ "$json": json }))
        }
        Field::String(text) => text.as_str().into(),
        Field::Message(message) => canonical_message(message),
        Field::List(list) => list.iter().map(|one| canonical(field, one)).collect(),
        Field::EnumNumber(number) => match field.kind() {
            Kind::Enum(names) => names.get_value(*number).unwrap().name().into(),
            kind => panic!("{kind:?} has a number"),
        },
        // The recorded answers hold no others.
        other => panic!("{}: {other:?}", field.full_name()),
    }
}

/// In an order of their own: that of a stream does not count.
fn sorted(mut messages: Vec<Value>) -> Vec<Value> {
    messages.sort_by_cached_key(Value::to_string);
    messages
}
