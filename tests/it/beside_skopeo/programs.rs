//! The two programs: skopeo for each case, and almanac's puller in one process
//! for all of them.
//!
//! The puller reads proxies and the system's authorities from the environment,
//! which a test cannot change for itself. So the test starts its own program
//! again, as a worker, which takes the cases over a socket.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use almanac::config::{Config, Environment, Settings};
use images::{Digest, Registries};
use serde_json::{Value, json};

use super::case::{Case, Outcome};
use super::network::Network;
use super::pki;
use crate::support::program::pause;
use crate::support::runtime::block_on;

/// The longest time for one case.
const PATIENCE: Duration = Duration::from_mins(1);
/// The variable that tells a worker where to get its cases.
const WORKER: &str = "ALMANAC_TEST_WORKER";
/// The name of the test that is the worker.
const WORKER_TEST: &str = "beside_skopeo::programs::worker";

/// The start of a configuration, whose catalog nobody follows.
const CONFIG: &str = "[[catalog]]\nsource = \"file:catalog\"\n[registries]\nattempts = 1\n";

/// Runs skopeo: it fetches a manifest and nothing else.
pub(super) fn skopeo(case: &Case, network: &Network, helpers: &Path) -> Outcome {
    let mut command = Command::new("skopeo");
    command
        .env_clear()
        .env("PATH", path_with(helpers))
        .envs(pki::variables())
        .envs(proxies(network))
        .envs(case.variables.iter().cloned())
        .arg("--command-timeout=30s")
        .args(&case.global_flags)
        .args(["inspect", "--raw"])
        .args(&case.flags)
        .arg(format!("docker://{}", case.image))
        .stdin(Stdio::null());
    let (output, seen) = network.visit(&case.world, || command.output().unwrap());
    let verdict = if output.status.success() {
        Ok(Digest::of(&output.stdout).to_string())
    } else {
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        assert!(!error.contains("unknown flag"), "{error}");
        Err(error)
    };
    Outcome::new(verdict, &seen)
}

fn path_with(helpers: &Path) -> String {
    let usual = std::env::var("PATH").unwrap_or_default();
    format!("{}:{usual}", helpers.display())
}

pub(super) fn proxies(network: &Network) -> [(&'static str, String); 2] {
    let url = format!("http://{}", network.proxy);
    [("HTTP_PROXY", url.clone()), ("HTTPS_PROXY", url)]
}

/// A process with almanac's puller.
pub(super) struct Worker {
    child: Child,
    stream: BufReader<TcpStream>,
}

impl Worker {
    pub(super) fn start(network: &Network, helpers: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", WORKER_TEST, "--ignored", "--nocapture"])
            .env_clear()
            .env("PATH", path_with(helpers))
            .envs(pki::variables())
            .envs(proxies(network))
            .env(WORKER, listener.local_addr().unwrap().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        listener.set_nonblocking(true).unwrap();
        let begin = Instant::now();
        let stream = loop {
            if let Ok((stream, _)) = listener.accept() {
                break stream;
            }
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "the worker ended: {ended:?}");
            assert!(begin.elapsed() < PATIENCE, "the worker does not connect");
            pause(begin);
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            child,
            stream: BufReader::new(stream),
        }
    }

    /// Fetches the manifest of an image.
    pub(super) fn pull(&mut self, case: &Case, network: &Network, config: &Path) -> Outcome {
        let text = format!("{CONFIG}{}", case.settings);
        std::fs::write(config, text).unwrap();
        let order = json!({
            "image": case.image,
            "config": config.to_str().unwrap(),
            "variables": case.variables,
        });
        let (answer, seen) = network.visit(&case.world, || {
            let line = order.to_string() + "\n";
            self.stream.get_mut().write_all(line.as_bytes()).unwrap();
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            serde_json::from_str::<Value>(&line).unwrap()
        });
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        let error = || text("error").unwrap();
        Outcome::new(text("digest").ok_or_else(error), &seen)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the trial starts it, with an environment of its own"]
fn worker() {
    let Ok(address) = std::env::var(WORKER) else {
        return;
    };
    let stream = TcpStream::connect(address).unwrap();
    let mut answers = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let order: Value = serde_json::from_str(&line).unwrap();
        let answer = match block_on(pull(&order)) {
            Ok(digest) => json!({ "digest": digest }),
            Err(error) => json!({ "error": error }),
        };
        let line = answer.to_string() + "\n";
        answers.write_all(line.as_bytes()).unwrap();
    }
}

async fn pull(order: &Value) -> Result<String, String> {
    let text = |name: &str| order[name].as_str().unwrap().to_owned();
    let variables: Vec<(String, String)> =
        serde_json::from_value(order["variables"].clone()).unwrap();
    let environment: Environment = variables.into_iter().collect();
    let config = text("config");
    let config = Config::load(Settings::default(), Some(config.as_ref()), &environment);
    let settings = config.map_err(|error| error.to_string())?.registries;
    let image = text("image").parse();
    let image = image.map_err(|error: images::ReferenceError| error.to_string())?;
    let pulling = async {
        let route = Registries::new(&settings)?.route(&image).await?;
        let digest = route.resolve().await?.digest;
        route.manifest(&digest).await?;
        Ok(digest.to_string())
    };
    pulling
        .await
        .map_err(|error: images::Error| error.to_string())
}
