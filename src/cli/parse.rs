//! Parses the arguments of the process, with help for mistakes in them.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _, Error, FromArgMatches as _};

use crate::cli::{Arguments, terminal};
use fbc::text::suggest;

/// Parses the arguments. Help and invalid arguments end the process.
pub(super) fn parse(arguments: &[OsString]) -> Arguments {
    let mut command = Arguments::command().color(terminal::of_help(arguments));
    command.build();
    let arguments = behind_the_command(&command, arguments);
    let parsed = command.try_get_matches_from_mut(&arguments);
    let parsed = parsed.and_then(|matches| Arguments::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| {
        let error = with_similar_value(without_help(&mut command, &arguments, error));
        error.format(&mut command).exit()
    })
}

/// Moves options for the terminal that stand before the command behind it, where they
/// are defined: cargo and kubectl take them in both places.
fn behind_the_command(command: &Command, arguments: &[OsString]) -> Vec<OsString> {
    let before = match arguments {
        [_, options @ ..] => terminal::leading(options),
        [] => 0,
    };
    let (mut command, mut verbs) = (command, 0);
    for word in arguments.iter().skip(before + 1) {
        match word.to_str().and_then(|word| command.find_subcommand(word)) {
            Some(found) => command = found,
            None => break,
        }
        verbs += 1;
    }
    let mut moved = arguments.to_vec();
    // The option is refused where the command does not have it, too.
    let takes = |name| command.get_arguments().any(|it| it.get_id() == name);
    if before > 0 && verbs > 0 && ["quiet", "verbose", "color"].into_iter().all(takes) {
        moved[1..=before + verbs].rotate_left(before);
    }
    moved
}

/// The error for a command that `help` does not find, as without `help`: that one
/// proposes similar commands.
fn without_help(command: &mut Command, arguments: &[OsString], error: Error) -> Error {
    let [program, verb, rest @ ..] = arguments else {
        return error;
    };
    if verb != "help" || error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let words = [program].into_iter().chain(rest);
    match command.try_get_matches_from_mut(words) {
        Err(other) if other.kind() == ErrorKind::InvalidSubcommand => other,
        _ => error,
    }
}

/// Adds the most similar value to an error about a value, where clap finds none: it
/// does not find letters that changed places in a short word.
fn with_similar_value(mut error: Error) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let similar = match (
        text(ContextKind::SuggestedValue),
        text(ContextKind::InvalidValue),
        error.get(ContextKind::ValidValue),
    ) {
        (None, Some(wanted), Some(ContextValue::Strings(values))) => {
            let values = values.iter().map(String::as_str);
            suggest::similar(wanted, values)
                .first()
                .map(|it| (*it).to_owned())
        }
        _ => None,
    };
    if let Some(similar) = similar {
        error.insert(ContextKind::SuggestedValue, ContextValue::String(similar));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_for_the_terminal_stand_before_or_behind_the_command() {
        let moved = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let mut command = Arguments::command();
            command.build();
            let moved = behind_the_command(&command, &words);
            let moved: Vec<&str> = moved.iter().filter_map(|word| word.to_str()).collect();
            moved.join(" ")
        };
        for (line, expected) in [
            ("almanac -q list packages a", "almanac list -q packages a"),
            ("almanac -vv list a", "almanac list -vv a"),
            (
                "almanac --color never check a",
                "almanac check --color never a",
            ),
            (
                "almanac --color=never -q check",
                "almanac check --color=never -q",
            ),
            ("almanac -q webhook test a", "almanac webhook test -q a"),
        ] {
            assert_eq!(moved(line), expected);
        }
        for line in [
            "almanac list -q packages",
            "almanac -q",
            "almanac -q version",
            "almanac --color",
            "almanac -x list",
            "almanac",
        ] {
            assert_eq!(moved(line), line);
        }
    }
}
