//! A progress bar on standard error.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::cli::runtime::Signals;
use crate::ingest::archive::Progress;

/// The time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);
/// The width of the bar, in characters.
const WIDTH: usize = 30;

/// Shows progress on standard error if that is a terminal.
pub(super) fn progress() -> Progress {
    let shown = io::stderr().is_terminal();
    let last: Mutex<Option<Instant>> = Mutex::new(None);
    Progress::new(move |what, done, of| {
        if !shown {
            return;
        }
        let mut last = last.lock();
        let end = done >= of;
        if !end && last.is_some_and(|last| last.elapsed() < INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
        let line = line(what, done, of);
        let end = if end { "\n" } else { "" };
        // Without standard error, this cannot be reported.
        let _ = write!(io::stderr(), "\r{line}{end}");
    })
}

fn line(what: &str, done: u64, of: u64) -> String {
    let done = done.min(of);
    let part = done.checked_mul(100).and_then(|done| done.checked_div(of));
    let percent = part.unwrap_or(100);
    let full = usize::try_from(percent).map_or(WIDTH, |percent| percent * WIDTH / 100);
    let bar = format!("{}{}", "#".repeat(full), "-".repeat(WIDTH - full));
    format!("{what:10} [{bar}] {percent:3} %")
}

/// Runs work, and asks it to stop on SIGINT or SIGTERM.
pub(super) async fn stop_on_signal<T>(progress: &Progress, work: impl Future<Output = T>) -> T {
    let signalled = async {
        let Ok(mut signals) = Signals::new() else {
            return std::future::pending().await;
        };
        loop {
            signals.next().await;
            progress.stop();
        }
    };
    tokio::select! {
        done = work => done,
        () = signalled => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_it_is() {
        assert_eq!(
            line("verifying", 1, 2),
            "verifying  [###############---------------]  50 %"
        );
        assert!(line("a", 0, 0).ends_with("100 %"));
        assert!(line("a", 9, 3).ends_with("100 %"));
    }
}
