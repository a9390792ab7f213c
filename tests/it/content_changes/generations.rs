//! No client mixes two generations of content.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use almanac::proto;
use almanac::serve::{Limits, Renewal};
use tokio::task::JoinHandle;

use super::{
    Connecting, GET_PACKAGE, LIST_BUNDLES, PACKAGES, Place, ROUNDS, SOON, generation, pause, told,
};
use crate::support::in_process::InProcess;
use crate::support::program::PATIENCE;

/// How often content is swapped, and under how many connections.
const GENERATIONS: u32 = 100;
const CONNECTIONS: u32 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_snapshot_mixes_two_generations_however_often_content_changes() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let over = Arc::new(AtomicBool::new(false));
    let snapshots = Arc::new(AtomicU32::new(0));
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let (over, snapshots) = (Arc::clone(&over), Arc::clone(&snapshots));
            let address = served.grpc;
            tokio::spawn(async move {
                let mut channel = Connecting::ready(address).await;
                let mut latest = 0;
                while !over.load(Ordering::Relaxed) {
                    let generation = channel.snapshot().await;
                    assert!(generation >= latest, "{generation} after {latest}");
                    latest = generation;
                    snapshots.fetch_add(1, Ordering::Relaxed);
                    // Most wait for GOAWAY; some ask again unasked, as when a
                    // Subscription is made.
                    let most = if number % 3 == 0 { 2_000 } else { 10_000 };
                    let patience = Duration::from_millis(fastrand::u64(0..most));
                    channel.idle(patience).await;
                }
                channel
            })
        })
        .collect();
    for number in 2..=GENERATIONS + 1 {
        place.put(&generation(number));
        let begin = Instant::now();
        while served.status("catalog")["revision"]["id"] != number {
            assert!(begin.elapsed() < PATIENCE, "generation {number}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if clients.iter().any(JoinHandle::is_finished) {
            break;
        }
    }
    over.store(true, Ordering::Relaxed);
    for client in clients {
        let mut channel = client.await.expect("no snapshot fails");
        // The last generation comes to all, and then nothing more does.
        while channel.snapshot().await != GENERATIONS + 1 {
            assert!(channel.idle(PATIENCE).await, "an old generation stays");
        }
    }
    let snapshots = snapshots.load(Ordering::Relaxed);
    assert!(snapshots > CONNECTIONS * 10, "{snapshots} snapshots");
    let log = served.program.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    let metrics = crate::support::http::get(served.admin, "/metrics")
        .unwrap()
        .text();
    let refused = r#"code="Ok""#;
    for line in metrics.lines() {
        if line.starts_with("almanac_grpc_requests_total") {
            assert!(line.contains(refused), "{line}");
        }
    }
    served.program.terminate();
    assert!(served.program.wait(PATIENCE).success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_that_pauses_between_its_calls_sees_one_generation() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let get = |name: &str| proto::GetPackageRequest { name: name.into() };
    for number in 1..=ROUNDS {
        let mut channel = Connecting::ready(served.grpc).await;
        let mut stream = channel
            .call(LIST_BUNDLES, &proto::ListBundlesRequest {})
            .await;
        let mut names = std::collections::BTreeSet::new();
        while let Some(bundle) = stream.next::<proto::Bundle>().await {
            names.insert(bundle.package_name);
        }
        let mut names = names.into_iter();
        let first = names.next().unwrap();
        let _: proto::Package = channel.unary(GET_PACKAGE, &get(&first)).await;
        place.put(&generation(number + 1));
        served.wait_for_status("catalog", |status| status["revision"]["id"] == number + 1);
        for name in names {
            assert!(!channel.idle(SOON).await, "asked to go before {name}");
            let package: proto::Package = channel.unary(GET_PACKAGE, &get(&name)).await;
            assert_eq!(told(&package.channels[0].csv_name), number);
        }
        // It has all that it was listed.
        let elapsed = channel.until_idle().await;
        assert_eq!(channel.snapshot().await, number + 1);
        if elapsed < SOON {
            return;
        }
    }
    panic!("it is asked to go late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_that_lists_twice_and_asks_once_hears_of_new_content_soon() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let mut soonest = Duration::MAX;
    for number in 1..=ROUNDS {
        let mut channel = Connecting::ready(served.grpc).await;
        // As packageserver does.
        for list in [LIST_BUNDLES, "/api.Registry/ListPackages"] {
            let mut stream = channel.call(list, &proto::ListBundlesRequest {}).await;
            while stream.next::<proto::PackageName>().await.is_some() {}
        }
        let mut names: Vec<String> = (0..PACKAGES).map(|n| format!("package-{n}")).collect();
        names.push(format!("only-{number}"));
        for name in names {
            let request = proto::GetPackageRequest { name };
            let _: proto::Package = channel.unary(GET_PACKAGE, &request).await;
        }
        place.put(&generation(number + 1));
        served.wait_for_status("catalog", |status| status["revision"]["id"] == number + 1);
        soonest = soonest.min(channel.until_idle().await);
    }
    assert!(soonest < SOON, "{soonest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_pauses_has_to_come_again_in_the_end() {
    let limits = Limits {
        renewal: Renewal {
            latest: Duration::from_secs(1),
            ..Renewal::default()
        },
        ..Limits::default()
    };
    let inside = InProcess::serve(&generation(1), limits).await;
    let mut channel = Connecting::ready(inside.grpc).await;
    // A list that is not read on, and calls all the while.
    let mut stream = channel
        .call(LIST_BUNDLES, &proto::ListBundlesRequest {})
        .await;
    let first: proto::Bundle = stream.next().await.unwrap();
    assert_eq!(told(&first.csv_name), 1);
    inside.publish(&generation(2)).await;
    let begin = Instant::now();
    loop {
        let name = "package-0".to_owned();
        let request = proto::GetPackageRequest { name };
        let package: proto::Package = channel.unary(GET_PACKAGE, &request).await;
        match told(&package.channels[0].csv_name) {
            1 => assert!(begin.elapsed() < PATIENCE, "it is never asked to go"),
            number => {
                assert_eq!(number, 2);
                break;
            }
        }
        pause(10, 20).await;
    }
    // What is open ends as it began.
    let mut rest = 0;
    while let Some(bundle) = stream.next::<proto::Bundle>().await {
        assert_eq!(told(&bundle.csv_name), 1);
        rest += 1;
    }
    assert_eq!(rest, 2 * (PACKAGES + 1) - 1);
    drop(channel);
    inside.end().await;
}
