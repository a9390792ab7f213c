//! A line that tells how far long work is, when somebody looks.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use crate::ingest::archive::Progress;

/// How often the line is written anew.
const STEP: Duration = Duration::from_millis(100);
/// How wide the bar is, in characters.
const WIDTH: usize = 30;

/// Shows progress on standard error when that is a terminal.
pub(super) fn progress() -> Progress {
    let shown = io::stderr().is_terminal();
    let last: Mutex<Option<Instant>> = Mutex::new(None);
    Progress::new(move |what, done, of| {
        if !shown {
            return;
        }
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let end = done >= of;
        if !end && last.is_some_and(|last| last.elapsed() < STEP) {
            return;
        }
        *last = Some(Instant::now());
        let line = line(what, done, of);
        let end = if end { "\n" } else { "" };
        // There is nobody left to tell that this failed.
        let _ = write!(io::stderr(), "\r{line}{end}");
    })
}

fn line(what: &str, done: u64, of: u64) -> String {
    let done = done.min(of);
    let part = done.checked_mul(100).and_then(|done| done.checked_div(of));
    let percent = part.unwrap_or(100) as usize;
    let full = percent * WIDTH / 100;
    let bar = format!("{}{}", "#".repeat(full), "-".repeat(WIDTH - full));
    format!("{what:10} [{bar}] {percent:3} %")
}

/// Runs work, and has it end when the program is told to.
pub(super) async fn until_told<T>(progress: &Progress, work: impl Future<Output = T>) -> T {
    let told = async {
        let (Ok(mut interrupt), Ok(mut terminate)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
        ) else {
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                _ = interrupt.recv() => progress.stop(),
                _ = terminate.recv() => progress.stop(),
            }
        }
    };
    tokio::select! {
        done = work => done,
        () = told => std::future::pending().await,
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
