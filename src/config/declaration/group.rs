//! Groups of settings.

use std::path::PathBuf;

use clap::{ArgMatches, Command};

use super::declared::Declared;
use crate::config::environment::Environment;
use crate::config::error::ConfigError;

/// A group of settings: a table of the file.
pub(crate) trait Group {
    /// The heading of its flags in the help.
    const HEADING: Option<&'static str>;
    /// Its settings.
    const DECLARED: &'static [Declared];

    /// The paths of its flags.
    fn flag_paths(&mut self) -> Vec<FlagPath>;

    /// Sets what flags say.
    fn read_flags(&mut self, matches: &mut ArgMatches);

    /// Sets what variables say.
    ///
    /// # Errors
    /// With the variable that has no valid value.
    fn read_variables(&mut self, environment: &Environment) -> Result<(), ConfigError>;
}

/// A path that a flag names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagPath {
    /// The flag, with its dashes.
    pub flag: &'static str,
    /// The path.
    pub path: PathBuf,
}

/// A table that may come several times has neither flags nor variables.
impl<T: Group> Group for Vec<T> {
    const HEADING: Option<&'static str> = T::HEADING;
    const DECLARED: &'static [Declared] = T::DECLARED;

    fn flag_paths(&mut self) -> Vec<FlagPath> {
        Vec::new()
    }

    fn read_flags(&mut self, _: &mut ArgMatches) {}

    fn read_variables(&mut self, _: &Environment) -> Result<(), ConfigError> {
        Ok(())
    }
}

/// The type of a setting with a default.
pub(crate) trait Defaulted {
    /// The type of its value.
    type Value;

    /// The value, or the default if it is absent.
    fn or_default(&self, default: impl FnOnce() -> Self::Value) -> Self::Value;
}

impl<T: Clone> Defaulted for Option<T> {
    type Value = T;

    fn or_default(&self, default: impl FnOnce() -> T) -> T {
        self.clone().unwrap_or_else(default)
    }
}

/// Adds the flags of settings to a command.
pub(crate) fn add_flags(settings: &[Declared], command: Command) -> Command {
    let settings = settings.iter();
    settings.fold(command, |command, setting| setting.add_flag(command))
}

/// Makes the flags of groups arguments of commands.
macro_rules! command_flags {
    ($($group:ident),*) => {$(
        impl clap::FromArgMatches for $group {
            fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
                Self::from_arg_matches_mut(&mut matches.clone())
            }

            fn from_arg_matches_mut(matches: &mut clap::ArgMatches) -> Result<Self, clap::Error> {
                let mut group = Self::default();
                $crate::config::declaration::Group::read_flags(&mut group, matches);
                Ok(group)
            }

            fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl clap::Args for $group {
            fn augment_args(command: clap::Command) -> clap::Command {
                let settings = <Self as $crate::config::declaration::Group>::DECLARED;
                $crate::config::declaration::add_flags(settings, command)
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                Self::augment_args(command)
            }
        }
    )*};
}
pub(crate) use command_flags;
