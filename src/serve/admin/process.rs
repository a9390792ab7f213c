//! The metrics of the process, with the names that Prometheus's clients agree on.
//!
//! They are written here and not with the other metrics: the library's counters are
//! whole numbers, and seconds of processor time are not. What the system does not
//! tell is left out.

use std::fmt::Write as _;
use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Numbers of `/proc/self/stat` (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// When the process started, in clock ticks since the system did.
    started: u64,
    /// Its virtual memory, in bytes.
    virtual_bytes: u64,
    /// Its resident memory, in pages.
    resident_pages: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // The name of the program may have blanks and parentheses. The field after
        // it is the third.
        let (_, fields) = text.rsplit_once(") ")?;
        let field = |number: usize| fields.split(' ').nth(number - 3)?.parse().ok();
        Some(Self {
            started: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// The metrics in Prometheus's text format.
pub(super) fn render() -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            let _ = writeln!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
            );
        }
    };
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.as_deref().and_then(Stat::read);
    metric(
        "process_cpu_seconds_total",
        "counter",
        "Processor time of the process, of all its threads",
        Some(seconds(ClockId::ProcessCPUTime).as_secs_f64()),
    );
    metric(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory, mapped files included",
        stat.as_ref()
            .map(|stat| stat.resident_pages as f64 * page_size() as f64),
    );
    metric(
        "process_virtual_memory_bytes",
        "gauge",
        "Virtual memory",
        stat.as_ref().map(|stat| stat.virtual_bytes as f64),
    );
    metric(
        "process_open_fds",
        "gauge",
        "Open file descriptors",
        open_descriptors().map(|count| count as f64),
    );
    metric(
        "process_max_fds",
        "gauge",
        "The most open file descriptors; absent without a limit",
        getrlimit(Resource::Nofile).current.map(|most| most as f64),
    );
    metric(
        "process_start_time_seconds",
        "gauge",
        "Start of the process, as a Unix timestamp",
        *STARTED,
    );
    text
}

/// The start of the process. It is computed once: the system's clock may be set.
static STARTED: LazyLock<Option<f64>> = LazyLock::new(|| {
    let stat = Stat::read(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let up = seconds(ClockId::Boottime).as_secs_f64();
    let started = stat.started as f64 / clock_ticks_per_second() as f64;
    Some(now.as_secs_f64() - (up - started))
});

/// When the process started.
pub(super) fn started() -> Option<SystemTime> {
    let since = Duration::try_from_secs_f64((*STARTED)?).ok()?;
    Some(UNIX_EPOCH + since)
}

/// The memory of the process that no file backs, in bytes.
pub(super) fn anonymous_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}

/// The time of a clock.
fn seconds(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().unwrap_or_default()
}

/// How many descriptors are open, without that of the listing itself.
fn open_descriptors() -> Option<usize> {
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    listed.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_the_name_of_the_program() {
        let numbers: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        let text = format!("7 (a) b (c)) S {}\n", numbers.join(" "));
        let wanted = Stat {
            started: 22,
            virtual_bytes: 23,
            resident_pages: 24,
        };
        assert_eq!(Stat::read(&text), Some(wanted));
        assert_eq!(Stat::read("7 (a) S 1 2"), None);
        assert_eq!(Stat::read(""), None);
    }
}
