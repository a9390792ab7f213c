//! Messages of a command besides its output: their amount and their colours.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;

use clap::{ColorChoice, ValueEnum};

use crate::config::{Environment, LogSettings};

/// The options of every command for notes, progress, the log and colours.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Log and terminal")]
pub(super) struct TerminalArguments {
    /// Only errors: no notes, no progress, no warnings
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,

    /// Log more: -v for info, -vv for debug, -vvv for trace
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,

    /// Colours: on a terminal, always or never
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Colour,
}

/// When there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Colour {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always, also in a file
    Always,
    /// Never
    Never,
}

/// The choices of the command that runs. A process runs one command.
static CHOSEN: OnceLock<Chosen> = OnceLock::new();

#[derive(Clone, Copy)]
struct Chosen {
    quiet: bool,
    colour: Colour,
    /// Whether `NO_COLOR` is set.
    plain: bool,
    /// The width in `COLUMNS`.
    columns: Option<usize>,
}

impl TerminalArguments {
    /// Applies the options to the whole process.
    pub(super) fn apply(&self, environment: &Environment) {
        // A second command in one process exists in tests only.
        let _ = CHOSEN.set(Chosen {
            quiet: self.quiet,
            colour: self.color,
            plain: environment.get("NO_COLOR").is_some(),
            columns: environment.get("COLUMNS").and_then(columns),
        });
    }

    /// Adds the log filter that the options mean. `--log` takes precedence.
    pub(super) fn complete(&self, log: &mut LogSettings) {
        let filter = match (self.quiet, self.verbose) {
            (true, _) => "error",
            (false, 0) => return,
            (false, 1) => "info",
            (false, 2) => "debug",
            (false, _) => "trace",
        };
        log.filter.get_or_insert_with(|| filter.to_owned());
    }
}

/// Whether notes and progress are left out.
pub(super) fn is_quiet() -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen.quiet)
}

/// Whether progress is shown: on a terminal, unless it is unwanted.
pub(super) fn shows_progress() -> bool {
    !is_quiet() && io::stderr().is_terminal()
}

/// Whether standard output gets colours.
pub(super) fn colours_output() -> bool {
    coloured(io::stdout().is_terminal())
}

/// Whether standard error gets colours.
pub(super) fn colours_errors() -> bool {
    coloured(io::stderr().is_terminal())
}

/// The columns of the terminal that standard output is; none elsewhere, where tables
/// are not cut.
pub(super) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let set = CHOSEN.get().and_then(|chosen| chosen.columns);
    let window = || rustix::termios::tcgetwinsize(io::stdout()).ok();
    let width = set.or_else(|| Some(usize::from(window()?.ws_col)));
    width.filter(|width| *width > 0)
}

/// The number in `COLUMNS`.
fn columns(text: &OsStr) -> Option<usize> {
    let number = text.to_str()?.trim().parse().ok();
    number.filter(|number| *number > 0)
}

fn coloured(is_terminal: bool) -> bool {
    let Some(chosen) = CHOSEN.get() else {
        return false;
    };
    match chosen.colour {
        Colour::Auto => is_terminal && !chosen.plain,
        Colour::Always => true,
        Colour::Never => false,
    }
}

/// How many words at the beginning are options for the terminal, with their values.
pub(super) fn leading(words: &[std::ffi::OsString]) -> usize {
    let mut count = 0;
    while let Some(word) = words.get(count).and_then(|word| word.to_str()) {
        let flags = word.strip_prefix('-').unwrap_or_default();
        count += match word {
            "--quiet" | "--verbose" => 1,
            "--color" if words.len() > count + 1 => 2,
            _ if word.starts_with("--color=") => 1,
            _ if !flags.is_empty() && flags.bytes().all(|it| b"qv".contains(&it)) => 1,
            _ => break,
        };
    }
    count
}

/// The colours of help and of messages about arguments, which come before the
/// arguments are parsed.
pub(super) fn of_help(arguments: &[std::ffi::OsString]) -> ColorChoice {
    let words = arguments.iter().filter_map(|word| word.to_str());
    let words: Vec<&str> = words.take_while(|word| *word != "--").collect();
    let separate = words.windows(2).filter(|pair| pair[0] == "--color");
    let separate = separate.map(|pair| pair[1]);
    let joined = words
        .iter()
        .filter_map(|word| word.strip_prefix("--color="));
    match separate.chain(joined).last() {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colours_of_help_are_those_of_the_option() {
        let of = |words: &[&str]| of_help(&words.iter().map(Into::into).collect::<Vec<_>>());
        assert_eq!(
            of(&["almanac", "list", "--color", "always"]),
            ColorChoice::Always
        );
        assert_eq!(
            of(&["almanac", "--color=never", "--help"]),
            ColorChoice::Never
        );
        assert_eq!(of(&["almanac", "--", "--color=never"]), ColorChoice::Auto);
        assert_eq!(of(&["almanac", "--color"]), ColorChoice::Auto);
    }

    #[test]
    fn columns_are_a_number_above_zero() {
        for (text, number) in [("80", Some(80)), ("0", None), ("wide", None), ("-1", None)] {
            assert_eq!(columns(OsStr::new(text)), number, "{text}");
        }
    }

    #[test]
    fn options_choose_a_filter_unless_log_does() {
        let filter = |quiet, verbose, log: Option<&str>| {
            let terminal = TerminalArguments {
                quiet,
                verbose,
                ..TerminalArguments::default()
            };
            let mut settings = LogSettings {
                filter: log.map(str::to_owned),
                ..LogSettings::default()
            };
            terminal.complete(&mut settings);
            settings.filter
        };
        assert_eq!(filter(false, 0, None), None);
        assert_eq!(filter(true, 0, None).as_deref(), Some("error"));
        assert_eq!(filter(false, 2, None).as_deref(), Some("debug"));
        assert_eq!(filter(false, 9, None).as_deref(), Some("trace"));
        assert_eq!(filter(false, 1, Some("warn")).as_deref(), Some("warn"));
    }
}
