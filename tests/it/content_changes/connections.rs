//! Connections that are asked to go.

use std::time::{Duration, Instant};

use almanac::proto;
use almanac::serve::{Limits, Renewal};

use super::{Connecting, GET_PACKAGE, LIST_BUNDLES, Place, generation};
use crate::support::h2;
use crate::support::in_process::InProcess;
use crate::support::program::PATIENCE;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watch_keeps_no_connection_that_is_asked_to_go() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let mut channel = Connecting::ready(served.grpc).await;
    let request = tonic_health::pb::HealthCheckRequest::default();
    let mut watch = channel.call("/grpc.health.v1.Health/Watch", &request).await;
    let told: Option<tonic_health::pb::HealthCheckResponse> = watch.next().await;
    assert!(told.is_some());
    let name = "package-0".to_owned();
    let _: proto::Package = channel
        .unary(GET_PACKAGE, &proto::GetPackageRequest { name })
        .await;
    place.put(&generation(2));
    let ended = tokio::time::timeout(PATIENCE, async {
        while watch
            .next::<tonic_health::pb::HealthCheckResponse>()
            .await
            .is_some()
        {}
    });
    assert!(ended.await.is_ok(), "the watch goes on");
    assert!(channel.idle(PATIENCE).await);
    served.program.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn connections_that_see_old_content_are_counted() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let mut channel = Connecting::ready(served.grpc).await;
    let mut stream = channel
        .call(LIST_BUNDLES, &proto::ListBundlesRequest {})
        .await;
    let _: proto::Bundle = stream.next().await.unwrap();
    let counted = |current: u32, old: u32| {
        let line = |generation: &str, number: u32| {
            format!(
                "almanac_grpc_pinned_connections{{catalog=\"catalog\",generation=\"{generation}\"}} {number}\n"
            )
        };
        let begin = Instant::now();
        loop {
            let reply = crate::support::http::get(served.admin, "/metrics");
            let metrics = reply.unwrap().text();
            // What never was is not there.
            let is = |generation, number| {
                metrics.contains(&line(generation, number))
                    || number == 0 && !metrics.contains(&format!("generation=\"{generation}\""))
            };
            if is("current", current) && is("old", old) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{metrics}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    counted(1, 0);
    place.put(&generation(2));
    counted(0, 1);
    while stream.next::<proto::Bundle>().await.is_some() {}
    assert!(channel.idle(PATIENCE).await);
    counted(0, 0);
    let _: proto::Package = channel
        .unary(
            GET_PACKAGE,
            &proto::GetPackageRequest {
                name: "package-0".into(),
            },
        )
        .await;
    counted(1, 0);
    served.program.terminate();
}

/// Asks for a package, frame by frame, and returns the generation of the answer.
fn asked(connection: &mut h2::Connection, stream: u32) -> u32 {
    let package = Some(&b"\x0a\x09package-0"[..]);
    connection
        .call(stream, "catalog", GET_PACKAGE, package)
        .unwrap();
    let mut answer = Vec::new();
    loop {
        let frame = connection.any().unwrap();
        assert_ne!(frame.kind, h2::RST_STREAM);
        if frame.stream == stream {
            answer.extend_from_slice(&frame.payload);
            if frame.flags & h2::END_STREAM != 0 {
                break;
            }
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let (_, version) = text.split_once("package-0.v").expect(&text);
    version.split('.').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_crosses_with_goaway_is_answered_with_the_new_content() {
    let limits = Limits {
        renewal: Renewal {
            half_asked: Duration::from_secs(2),
            ..Renewal::default()
        },
        ..Limits::default()
    };
    let inside = InProcess::serve(&generation(1), limits).await;
    let mut connection = h2::Connection::open(inside.grpc, &[]).unwrap();
    assert_eq!(asked(&mut connection, 1), 1);
    inside.publish(&generation(2)).await;
    let third = inside.made(&generation(3)).await;
    // The ping that comes with it is not answered, as if both were under way.
    while connection.any().unwrap().kind != h2::GOAWAY {}
    assert_eq!(asked(&mut connection, 3), 2);
    // Calls that belong to it see the same over the next connection.
    inside.publisher.publish(third);
    let mut next = h2::Connection::open(inside.grpc, &[]).unwrap();
    assert_eq!(asked(&mut next, 1), 2);
    assert_eq!(asked(&mut connection, 5), 2);
    // Then that connection makes room for the newest.
    while next.next().unwrap().kind != h2::GOAWAY {}
    let mut last = h2::Connection::open(inside.grpc, &[]).unwrap();
    assert_eq!(asked(&mut last, 1), 3);
    drop((connection, next, last));
    inside.end().await;
}

/// The client may come to another replica, which shows the new content a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_fleet_a_client_is_asked_to_reconnect_when_all_replicas_show_the_new_content() {
    let of_fleet = Renewal::default().of_fleet();
    assert!(of_fleet.earliest > Renewal::default().earliest);
    let earliest = Duration::from_millis(1500);
    let limits = Limits {
        renewal: Renewal {
            earliest,
            ..of_fleet
        },
        ..Limits::default()
    };
    let inside = InProcess::serve(&generation(1), limits).await;
    let mut connection = h2::Connection::open(inside.grpc, &[]).unwrap();
    assert_eq!(asked(&mut connection, 1), 1);
    // It is at nothing for long, so nothing else holds GOAWAY back.
    tokio::time::sleep(Renewal::default().quiet * 2).await;
    let second = inside.made(&generation(2)).await;
    let begin = Instant::now();
    inside.publisher.publish(second);
    while connection.any().unwrap().kind != h2::GOAWAY {}
    assert!(begin.elapsed() >= earliest, "{:?}", begin.elapsed());
    drop(connection);
    inside.end().await;
}
