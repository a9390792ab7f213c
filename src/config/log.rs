//! The settings of the log.

use serde::Deserialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::declaration::settings;
use crate::config::error::ConfigError;
use crate::config::value::LogFormat;
use fbc::text::suggest;

/// The crates of this program that log under their own targets.
const LIBRARY_TARGETS: [&str; 2] = ["images", "fbc"];
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// The target that stands for the whole program.
const PROGRAM_TARGET: &str = "almanac";

settings! {
    /// The filter and the format of the log.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct LogSettings in "Log and terminal" {
        /// Level, or levels by [module](operations.md#log), such as `info,almanac=debug`.
        pub filter: Option<String>, otherwise "`info` for `serve`, `warn` for other commands",
            example "info",
            flag "--log FILTER", variable "ALMANAC_LOG";

        /// `text`, `json`, or `auto`: `json` for `serve` without a terminal, else `text`.
        pub format: Option<LogFormat> = LogFormat::default(),
            flag "--log-format FORMAT", variable "ALMANAC_LOG_FORMAT";
    }
}

/// The format and the filter of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The format of a line.
    pub format: LogFormat,
    /// The events that are logged, in the syntax of
    /// `tracing_subscriber::EnvFilter`; it is valid.
    pub filter: String,
}

impl LogSettings {
    /// The settings of the log; `default` is the filter if none is given.
    pub fn resolve(self, default: &str) -> Result<LogConfig, ConfigError> {
        let format = self.format();
        let filter = self.filter.unwrap_or_else(|| default.to_owned());
        if let Some(word) = mistyped(&filter) {
            return Err(ConfigError::Filter {
                problem: format!("{word:?} is no level; a library is named as in {word}=trace"),
                filter,
            });
        }
        if let Err(error) = EnvFilter::builder().parse(&filter) {
            return Err(ConfigError::Filter {
                filter,
                problem: error.to_string(),
            });
        }
        Ok(LogConfig {
            format,
            filter: for_whole_program(&filter),
        })
    }
}

/// A word that is neither a level nor of the program, if it is close to a level or the only
/// directive. The parser takes it for a library, and all else is silent.
fn mistyped(filter: &str) -> Option<&str> {
    let mut directives = filter.split(',').map(str::trim).filter(|it| !it.is_empty());
    let is_only = directives.clone().count() == 1;
    directives.find(|directive| {
        let is_word = !directive.contains(['=', '[', ':']);
        let is_own = *directive == PROGRAM_TARGET || LIBRARY_TARGETS.contains(directive);
        let is_close = || !suggest::similar(directive, LEVELS).is_empty();
        is_word && !is_own && directive.parse::<LevelFilter>().is_err() && (is_only || is_close())
    })
}

/// Extends a directive for `almanac` to the library crates, unless the filter
/// names these. Users mean the whole program, not one of its crates.
fn for_whole_program(filter: &str) -> String {
    let directives: Vec<&str> = filter.split(',').collect();
    let of_target = |directive: &&str, target: &str| {
        let rest = directive.strip_prefix(target);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    // The last directive for a target takes precedence.
    let mut last = directives.iter().rev();
    let Some(own) = last.find(|directive| of_target(directive, PROGRAM_TARGET)) else {
        return filter.to_owned();
    };
    let level = own.strip_prefix(PROGRAM_TARGET).unwrap_or_default();
    let mut extended = filter.to_owned();
    for target in LIBRARY_TARGETS {
        if !directives
            .iter()
            .any(|directive| of_target(directive, target))
        {
            extended.extend([",", target, level]);
        }
    }
    extended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_level_does_not_silence_the_log() {
        for filter in [
            "info",
            "WARN",
            "off",
            "3",
            "almanac",
            "images",
            "hyper=debug",
            "almanac::ingest",
            "[follow]",
            "info,hyper",
        ] {
            assert_eq!(mistyped(filter), None, "{filter}");
        }
        for (filter, word) in [
            ("infoo", "infoo"),
            ("loud", "loud"),
            ("info,debgu", "debgu"),
        ] {
            assert_eq!(mistyped(filter), Some(word), "{filter}");
        }
    }

    #[test]
    fn a_directive_for_almanac_covers_the_whole_program() {
        for (written, wanted) in [
            ("info", "info"),
            (
                "info,almanac=debug",
                "info,almanac=debug,images=debug,fbc=debug",
            ),
            ("almanac", "almanac,images,fbc"),
            (
                "almanac=debug,images=warn",
                "almanac=debug,images=warn,fbc=debug",
            ),
            (
                "almanac=debug,images::registry=trace",
                "almanac=debug,images::registry=trace,images=debug,fbc=debug",
            ),
            (
                "almanac=warn,almanac=debug,fbc=off",
                "almanac=warn,almanac=debug,fbc=off,images=debug",
            ),
            ("almanac::ingest=debug", "almanac::ingest=debug"),
            ("images=debug", "images=debug"),
        ] {
            let settings = LogSettings {
                filter: Some(written.to_owned()),
                format: None,
            };
            let resolved = settings.resolve("warn").unwrap();
            assert_eq!(resolved.filter, wanted);
            EnvFilter::builder().parse(&resolved.filter).unwrap();
        }
    }
}
