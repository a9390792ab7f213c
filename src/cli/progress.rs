//! Progress on standard error, for work that takes more than a moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use crate::cli::runtime::Signals;
use crate::cli::terminal;
use crate::fetch::Received;
use crate::ingest::archive::Progress;
use crate::store::content::Tally;

/// Shorter work shows nothing.
const DELAY: Duration = Duration::from_millis(500);
/// With a known end: the bytes, the rate and the time left. With the longest numbers it
/// still fits on a terminal of 80 columns.
const BYTES: &str = "{msg:11} [{bar:16}] {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
/// Without one.
const OPEN: &str = "{msg:11} {spinner} {bytes} {bytes_per_sec} {elapsed}";
/// Work without bytes.
const WAITING: &str = "{msg:11} {spinner} {elapsed}";
/// The time between two turns of a spinner.
const TICK: Duration = Duration::from_millis(100);

/// A line on standard error that is gone once the work is done. It is only drawn on a
/// terminal, and not with `--quiet`. Clones share the line.
#[derive(Clone)]
pub(super) struct Line(Arc<Drawn>);

struct Drawn {
    bar: ProgressBar,
    wanted: bool,
    began: Instant,
    style: Mutex<&'static str>,
}

impl Line {
    /// A line that `work` begins, such as `pulling`.
    pub(super) fn new(work: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self(Arc::new(Drawn {
            bar: bar.with_message(work),
            wanted: terminal::shows_progress(),
            began: Instant::now(),
            style: Mutex::new(""),
        }))
    }

    /// Shows that work goes on, until the line is dropped.
    pub(super) fn waiting(work: &'static str) -> Self {
        let line = Self::new(work);
        if line.0.wanted {
            line.style(WAITING);
            line.0.bar.set_draw_target(ProgressDrawTarget::stderr());
            line.0.bar.enable_steady_tick(TICK);
        }
        line
    }

    /// So many bytes are done, of so many if that is known.
    pub(super) fn at(&self, done: u64, of: Option<u64>) {
        let drawn = &self.0;
        if !drawn.wanted || drawn.began.elapsed() < DELAY {
            return;
        }
        match of {
            Some(of) => {
                self.style(BYTES);
                drawn.bar.set_length(of.max(done));
            }
            None => self.style(OPEN),
        }
        if drawn.bar.is_hidden() {
            drawn.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        drawn.bar.set_position(done);
    }

    fn style(&self, template: &'static str) {
        let mut style = self.0.style.lock();
        if *style != template
            && let Ok(made) = ProgressStyle::with_template(template)
        {
            *style = template;
            self.0.bar.set_style(made.progress_chars("##-"));
        }
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Shows how much of an image is pulled.
pub(super) fn pulling() -> Tally {
    let line = Line::new("pulling");
    Tally::new(move |done, of| line.at(done, Some(of)))
}

/// Shows how much of a download is received.
pub(super) fn receiving() -> Received {
    let line = Line::new("receiving");
    Arc::new(move |done, of| line.at(done, of))
}

/// Shows the progress of an archive, step by step.
pub(super) fn progress() -> Progress {
    let current: Mutex<Option<(&'static str, Line)>> = Mutex::new(None);
    Progress::new(move |what, done, of| {
        let mut current = current.lock();
        if current.as_ref().is_none_or(|(shown, _)| *shown != what) {
            *current = Some((what, Line::new(what)));
        }
        if done >= of {
            *current = None;
        } else if let Some((_, line)) = &*current {
            line.at(done, Some(of));
        }
    })
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
    use indicatif::InMemoryTerm;

    use super::*;

    fn drawn(done: u64, of: Option<u64>) -> String {
        let terminal = InMemoryTerm::new(5, 80);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let line = Line(Arc::new(Drawn {
            bar: ProgressBar::with_draw_target(None, target).with_message("pulling"),
            wanted: true,
            began: Instant::now().checked_sub(DELAY).unwrap(),
            style: Mutex::new(""),
        }));
        line.at(done, of);
        line.0.bar.tick();
        let text = terminal.contents();
        drop(line);
        assert_eq!(terminal.contents(), "", "the line is gone at the end");
        text
    }

    #[test]
    fn a_line_has_bytes_rate_and_time_left_within_80_columns() {
        let text = drawn(1 << 20, Some(4 << 20));
        assert!(text.starts_with("pulling     [####"), "{text}");
        assert!(text.contains("1.00 MiB/4.00 MiB"), "{text}");
        // The rate depends on how fast the machine is: here it may be very long.
        for (done, of) in [
            (1 << 20, 4 << 20),
            (1023 << 20, 1023 << 20),
            (1023 << 20, 1023 << 30),
        ] {
            let text = drawn(done, Some(of));
            assert!(text.contains("/s") && text.ends_with("left"), "{text}");
            assert!(text.chars().count() <= 80, "{text}");
        }
        let open = drawn(1 << 20, None);
        assert!(open.contains("1.00 MiB"), "{open}");
    }

    #[test]
    fn nothing_is_drawn_without_a_terminal() {
        let line = Line::new("pulling");
        line.at(1, Some(2));
        assert_eq!(line.0.wanted, terminal::shows_progress());
        assert!(line.0.bar.is_hidden());
    }
}
