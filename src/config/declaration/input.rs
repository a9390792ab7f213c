//! The types of settings that flags and variables have.

use std::env;
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Arg, ArgAction, ArgMatches};

use crate::config::value::Host;

/// The type of a setting with a flag or a variable.
pub(crate) trait Input: Sized {
    /// How it is written in a variable, if that differs from the flag.
    const FORM: &'static str = "";
    /// Whether the flag may be repeated.
    const IS_LIST: bool = false;

    /// Adds the parser of its values to an argument.
    fn complete(argument: Arg) -> Arg;

    /// Its value on the command line.
    fn from_flag(matches: &mut ArgMatches, name: &str) -> Self;

    /// Its value in a variable, or the reason why that is invalid.
    fn from_variable(value: &OsStr) -> Result<Self, String>;
}

/// A value that flags and variables give as text.
pub(crate) trait Typed: Clone + Send + Sync + 'static {
    /// How variables separate the values of a list.
    const SEPARATED: &'static str = "separated by blanks";

    /// Adds its parser to an argument.
    fn add_parser(argument: Arg) -> Arg;

    /// Its value in a variable.
    fn from_variable(value: &OsStr) -> Result<Self, String>;

    /// The values of a list in a variable.
    fn list_from_variable(value: &OsStr) -> Result<Vec<Self>, String> {
        let words = text(value)?.split_whitespace();
        words
            .map(|word| Self::from_variable(word.as_ref()))
            .collect()
    }
}

impl<T: Typed> Input for Option<T> {
    fn complete(argument: Arg) -> Arg {
        T::add_parser(argument)
    }

    fn from_flag(matches: &mut ArgMatches, name: &str) -> Self {
        matches.remove_one(name)
    }

    fn from_variable(value: &OsStr) -> Result<Self, String> {
        T::from_variable(value).map(Some)
    }
}

/// The arguments of a command.
impl<T: Typed> Input for Vec<T> {
    const FORM: &'static str = T::SEPARATED;
    const IS_LIST: bool = true;

    fn complete(argument: Arg) -> Arg {
        T::add_parser(argument)
            .action(ArgAction::Append)
            .num_args(1..)
    }

    fn from_flag(matches: &mut ArgMatches, name: &str) -> Self {
        let values = matches.remove_many(name);
        values.map(Iterator::collect).unwrap_or_default()
    }

    fn from_variable(value: &OsStr) -> Result<Self, String> {
        T::list_from_variable(value)
    }
}

/// Flags that may be repeated.
macro_rules! repeated {
    ($($type:ty),*) => {$(
        impl Input for Option<Vec<$type>> {
            const FORM: &'static str = <$type as Typed>::SEPARATED;
            const IS_LIST: bool = true;

            fn complete(argument: Arg) -> Arg {
                <$type as Typed>::add_parser(argument).action(ArgAction::Append)
            }

            fn from_flag(matches: &mut ArgMatches, name: &str) -> Self {
                matches.remove_many(name).map(Iterator::collect)
            }

            fn from_variable(value: &OsStr) -> Result<Self, String> {
                <$type as Typed>::list_from_variable(value).map(Some)
            }
        }
    )*};
}
repeated!(Host, PathBuf);

impl Input for bool {
    const FORM: &'static str = "true or false";

    fn complete(argument: Arg) -> Arg {
        argument.action(ArgAction::SetTrue)
    }

    fn from_flag(matches: &mut ArgMatches, name: &str) -> Self {
        matches.get_flag(name)
    }

    fn from_variable(value: &OsStr) -> Result<Self, String> {
        match text(value)? {
            "true" | "1" => Ok(true),
            "false" | "0" | "" => Ok(false),
            other => Err(format!("{other:?} is neither true nor false")),
        }
    }
}

/// Paths of lists are separated as in `PATH`.
impl Typed for PathBuf {
    const SEPARATED: &'static str = "separated by colons";

    fn add_parser(argument: Arg) -> Arg {
        argument.value_parser(clap::value_parser!(PathBuf))
    }

    fn from_variable(value: &OsStr) -> Result<Self, String> {
        Ok(value.into())
    }

    fn list_from_variable(value: &OsStr) -> Result<Vec<Self>, String> {
        Ok(env::split_paths(value).collect())
    }
}

/// Types that flags and variables give as text.
macro_rules! typed {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::config::declaration::Typed for $type {
            fn add_parser(argument: clap::Arg) -> clap::Arg {
                argument.value_parser(clap::value_parser!($type))
            }

            fn from_variable(value: &std::ffi::OsStr) -> Result<Self, String> {
                $crate::config::declaration::parsed(value)
            }
        }
    )*};
}
pub(crate) use typed;

/// The value of a variable.
pub(crate) fn parsed<T: FromStr<Err: Display>>(value: &OsStr) -> Result<T, String> {
    let text = text(value)?;
    text.parse().map_err(|error: T::Err| {
        let problem = error.to_string();
        let shown = format!("{text:?}");
        // Most messages start with the text itself.
        if problem.starts_with(&shown) {
            problem
        } else {
            format!("{shown} cannot be used: {problem}")
        }
    })
}

/// The text of a variable.
pub(crate) fn text(value: &OsStr) -> Result<&str, String> {
    let text = value.to_str();
    text.ok_or_else(|| "its value is not UTF-8".to_owned())
}
