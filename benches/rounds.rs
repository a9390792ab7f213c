//! Measuring two things in turns: medians with their spread, and what else ran on
//! the machine.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// The ticks of a second in `/proc`, on all systems that matter.
const TICKS: f64 = 100.0;
/// How long others are watched.
const WATCHED: Duration = Duration::from_secs(2);
/// The spread of ratios, as a part of their median, above which a run tells little.
#[allow(dead_code, reason = "not every bench has two things to compare")]
const TOO_WIDE: f64 = 0.15;

/// Pairs of values that were measured one right after the other.
#[allow(dead_code, reason = "not every bench has two things to compare")]
pub(crate) struct Rounds(Vec<(f64, f64)>);

#[allow(dead_code, reason = "not every bench has two things to compare")]
impl Rounds {
    /// Measures both in each round, and begins with the other one in every second
    /// round: a machine that slows down slows both.
    pub(crate) fn of(
        rounds: usize,
        mut ours: impl FnMut() -> f64,
        mut other: impl FnMut() -> f64,
    ) -> Self {
        let round = |number: usize| {
            if number.is_multiple_of(2) {
                let first = ours();
                (first, other())
            } else {
                let first = other();
                (ours(), first)
            }
        };
        Self((0..rounds).map(round).collect())
    }

    pub(crate) fn ours(&self) -> f64 {
        quartiles(self.0.iter().map(|round| round.0))[1]
    }

    pub(crate) fn other(&self) -> f64 {
        quartiles(self.0.iter().map(|round| round.1))[1]
    }

    /// Our part of the other's, in percent: the median and the quartiles.
    pub(crate) fn part(&self) -> String {
        let [low, median, high] = quartiles(self.0.iter().map(|round| 100.0 * round.0 / round.1));
        let wide = (high - low) / median > TOO_WIDE;
        let remark = if wide { ", too wide to tell" } else { "" };
        format!("{median:4.0} % ({low:.0} to {high:.0}{remark})")
    }
}

/// The lower quartile, the median and the upper quartile.
pub(crate) fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    [last / 4, values.len() / 2, (last * 3).div_ceil(4)]
        .map(|at| values.get(at).copied().unwrap_or(f64::NAN))
}

/// The work on the machine since a moment.
pub(crate) struct Machine {
    since: Instant,
    others: f64,
}

impl Machine {
    /// Prints the processors, the load, and the programs of others that use them.
    pub(crate) fn note() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or_default().to_owned();
        let (before, started) = (processes(), Instant::now());
        std::thread::sleep(WATCHED);
        let seconds = started.elapsed().as_secs_f64();
        let mut others: Vec<(f64, String)> = processes()
            .into_iter()
            .filter(|(id, _)| *id != std::process::id())
            .map(|(id, process)| {
                let since = process.ticks - before.get(&id).map_or(0.0, |before| before.ticks);
                (100.0 * since / TICKS / seconds, process.name)
            })
            .filter(|(part, _)| *part >= 1.0)
            .collect();
        others.sort_by(|a, b| b.0.total_cmp(&a.0));
        let all: f64 = others.iter().map(|(part, _)| part).fold(0.0, |a, b| a + b);
        let most = others.iter().take(4);
        let named: Vec<String> = most
            .map(|(part, name)| format!("{name} {part:.0} %"))
            .collect();
        println!(
            "machine: {processors} processors, load {load}; others use {all:.0} % of one: {}",
            if named.is_empty() {
                "nobody".into()
            } else {
                named.join(", ")
            }
        );
        Self {
            since: Instant::now(),
            others: ticks_of_others(),
        }
    }

    /// Prints how much others worked since then: processes that came and
    /// went between two looks make runs differ as well.
    pub(crate) fn report(&self) {
        let ticks = ticks_of_others() - self.others;
        let seconds = self.since.elapsed().as_secs_f64();
        println!(
            "machine: others used {:.0} % of one processor meanwhile",
            100.0 * ticks.max(0.0) / TICKS / seconds
        );
    }
}

/// The processor time of all that runs, without this program and those it started, in
/// ticks.
fn ticks_of_others() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = stat.lines().next().unwrap_or_default().split_whitespace();
    // User, nice and system. Interrupts are nobody's.
    let all = all.skip(1).take(3);
    let busy: f64 = all.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    let processes = processes();
    let own = std::process::id();
    let is_own = |mut id: u32| {
        while id != own {
            let Some(process) = processes.get(&id).filter(|one| one.parent != id) else {
                return false;
            };
            id = process.parent;
        }
        true
    };
    let ours = processes.iter().filter(|(id, _)| is_own(**id));
    busy - ours
        .map(|(_, process)| process.ticks_with_ended)
        .sum::<f64>()
}

struct Process {
    name: String,
    parent: u32,
    /// Its processor time, in ticks.
    ticks: f64,
    /// The same with that of its children that have ended.
    ticks_with_ended: f64,
}

fn processes() -> HashMap<u32, Process> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (head, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // User and system time.
        let ticks = |at: usize| {
            let [user, system] = [at, at + 1].map(|at| fields.get(at)?.parse::<f64>().ok());
            Some(user? + system?)
        };
        let process = Process {
            name: head.split_once('(')?.1.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            ticks: ticks(11)?,
            ticks_with_ended: ticks(11)? + ticks(13)?,
        };
        Some((id, process))
    });
    processes.collect()
}
