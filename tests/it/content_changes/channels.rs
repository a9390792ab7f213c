//! Channels of other libraries, and how soon content comes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Connecting, Place, ROUNDS, SOON, generation};
use crate::support::needs::skip_without;
use crate::support::program::PATIENCE;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn new_content_reaches_a_client_within_a_second() {
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let mut channel = Connecting::ready(served.grpc).await;
    // Read just now, or at nothing for long.
    let mut soonest = [Duration::MAX; 2];
    for number in 2..2 + 2 * ROUNDS {
        assert_eq!(channel.snapshot().await, number - 1);
        let long = number % 2;
        tokio::time::sleep(Duration::from_millis(u64::from(long) * 500)).await;
        place.put(&generation(number));
        served.wait_for_status("catalog", |status| status["revision"]["id"] == number);
        let elapsed = channel.until_idle().await;
        assert_eq!(channel.snapshot().await, number);
        let soonest = &mut soonest[long as usize];
        *soonest = elapsed.min(*soonest);
    }
    assert!(soonest.iter().all(|time| *time < SOON), "{soonest:?}");
}

/// What a channel of gRPC's own library goes through, and what it reads then.
const WATCHING: &str = r#"
import sys
import grpc

channel = grpc.insecure_channel(sys.argv[1])
list_packages = channel.unary_stream("/api.Registry/ListPackages")

def changed(state):
    print(state.name, flush=True)
    if state is grpc.ChannelConnectivity.IDLE:
        channel.subscribe(lambda state: None, try_to_connect=True)

channel.subscribe(changed, try_to_connect=True)
for _ in sys.stdin:
    packages = b" ".join(list_packages(b"", timeout=20)).decode("latin-1")
    only = next(word for word in packages.replace("\n", " ").split() if "only-" in word)
    print("read", only[only.index("only-"):], flush=True)
"#;

#[test]
fn a_channel_of_another_library_goes_idle_and_comes_back_with_new_content() {
    if skip_without("python:grpc") {
        return;
    }
    let place = Place::of(&generation(1));
    let mut served = place.serve();
    let mut watching = Watching::start(served.grpc);
    watching.until("READY");
    assert_eq!(watching.read(), "only-1");
    let mut soonest = Duration::MAX;
    for number in 2..2 + ROUNDS {
        let before = watching.states().len();
        place.put(&generation(number));
        served.wait_for_status("catalog", |status| status["revision"]["id"] == number);
        let published = Instant::now();
        let states = watching.after(before, "READY");
        assert_eq!(watching.read(), format!("only-{number}"));
        soonest = soonest.min(published.elapsed());
        // Nobody sees the catalog gone: that is what TRANSIENT_FAILURE means.
        assert_eq!(states.first().unwrap(), "IDLE", "{states:?}");
        assert!(!states.contains(&"TRANSIENT_FAILURE".into()), "{states:?}");
    }
    assert!(soonest < SOON, "{soonest:?}");
}

/// A program that runs [`WATCHING`].
struct Watching {
    child: std::process::Child,
    lines: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Watching {
    fn start(server: SocketAddr) -> Self {
        use std::io::BufRead as _;
        use std::process::{Command, Stdio};
        let mut child = Command::new("python3")
            .args(["-c", WATCHING, &server.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (told, output) = (Arc::clone(&lines), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in std::io::BufReader::new(output)
                .lines()
                .map_while(Result::ok)
            {
                told.lock().unwrap().push(line);
            }
        });
        Self { child, lines }
    }

    /// The states of the channel so far.
    fn states(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let states = lines.iter().filter(|line| !line.starts_with("read "));
        states.cloned().collect()
    }

    /// Waits for a state that is not among the first ones; gives those from
    /// there on.
    fn after(&self, first: usize, wanted: &str) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let states = self.states().split_off(first);
            if states.iter().any(|state| state == wanted) {
                return states;
            }
            assert!(begin.elapsed() < PATIENCE, "{:?}", self.states());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn until(&self, wanted: &str) {
        self.after(0, wanted);
    }

    /// Has it read; gives what.
    fn read(&mut self) -> String {
        use std::io::Write as _;
        let reads = || {
            let lines = self.lines.lock().unwrap();
            let reads = lines.iter().filter_map(|line| line.strip_prefix("read "));
            reads.map(str::to_owned).collect::<Vec<_>>()
        };
        let before = reads().len();
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
        let begin = Instant::now();
        loop {
            if let Some(read) = reads().into_iter().nth(before) {
                return read;
            }
            assert!(begin.elapsed() < PATIENCE, "nothing was read");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
