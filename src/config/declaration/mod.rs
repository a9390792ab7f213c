//! The declaration of a setting: its key, type, default, text, flag and variable, once.
//!
//! [`settings`] makes a group of settings of such declarations. Everything else follows:
//! the keys of the file, the flags and their help, the environment, the order of layers,
//! the folder where relative paths start, the tables of the reference page, the sample and the
//! schema of the chart's values. `config::reference` holds the last three against
//! the files.
//!
//! - [`Setting`]: what every type of a setting can do.
//! - [`Input`]: the types that flags and variables have.
//! - [`Shown`]: the types of defaults.
//! - [`Group`]: a table of the file.

mod declared;
mod group;
mod input;
mod kinds;
mod setting;
mod shown;

pub(crate) use declared::{Declared, Default, Flag, Table, Variable, all, flag_name, heading};
pub use group::FlagPath;
pub(crate) use group::{Defaulted, Group, add_flags, command_flags};
pub(crate) use input::{Input, Typed, parsed, text, typed};
pub(crate) use setting::{Setting, plain_setting};
pub(crate) use shown::Shown;

/// A group of settings, which is a table of the file:
///
/// ```text
/// /// The text of the reference page and of the help, in Markdown.
/// pub FIELD [as "KEY"]: TYPE [= DEFAULT] [, otherwise "text instead of a default"]
///     [, example "value for the sample"]
///     [, flag "--FLAG VALUE" [in "Heading of the help"]] [, variable "ALMANAC_FLAG"]
///     [, table "[KEY]"];
/// ```
///
/// A setting with a default gets a method of its name, which returns the default where the
/// setting is absent. A flag without dashes is the argument of the command.
macro_rules! settings {
    (
        $(#[$attribute:meta])*
        pub struct $group:ident $(in $group_heading:literal)? {
            $(
                $(#[doc = $text:tt])+
                $(#[serde $serde:tt])?
                pub $field:ident $(as $key:literal)?: $type:ty
                $(= $default:expr)?
                $(, otherwise $otherwise:literal)?
                $(, example $example:literal)?
                $(, flag $flag:literal $(in $heading:literal)?)?
                $(, variable $variable:literal)?
                $(, table $table:literal)?;
            )+
        }
    ) => {
        $(#[$attribute])*
        pub struct $group {
            $(
                $(#[doc = $text])+
                $(#[serde $serde])?
                $(#[serde(rename = $key)])?
                pub $field: $type,
            )+
        }

        impl $group {
            $($(
                #[doc = concat!("`", stringify!($field), "`, or its default.")]
                pub(crate) fn $field(&self) -> <$type as $crate::config::declaration::Defaulted>::Value {
                    $crate::config::declaration::Defaulted::or_default(&self.$field, || $default)
                }
            )?)+
        }

        impl $crate::config::declaration::Setting for $group {
            fn or_lower(self, lower: Self) -> Self {
                Self {
                    $($field: $crate::config::declaration::Setting::or_lower(self.$field, lower.$field),)+
                }
            }

            fn visit_paths(&mut self, visit: &mut dyn FnMut(&mut std::path::PathBuf)) {
                $($crate::config::declaration::Setting::visit_paths(&mut self.$field, visit);)+
            }

            #[cfg(test)]
            fn schema() -> serde_json::Value {
                $crate::config::declaration::Declared::schema_of(
                    <Self as $crate::config::declaration::Group>::DECLARED,
                )
            }
        }

        impl $crate::config::declaration::Group for $group {
            const HEADING: Option<&'static str> =
                $crate::config::declaration::first!($(Some($group_heading),)? None);

            const DECLARED: &'static [$crate::config::declaration::Declared] = &[
                $($crate::config::declaration::Declared {
                    field: stringify!($field),
                    #[cfg(test)]
                    key: $crate::config::declaration::first!($($key,)? stringify!($field)),
                    text: concat!($($text),+),
                    default: $crate::config::declaration::first!(
                        $($crate::config::declaration::Default::Value(|| {
                            $crate::config::declaration::Shown::shown(&$default)
                        }),)?
                        $($crate::config::declaration::Default::Text($otherwise),)?
                        $crate::config::declaration::Default::None
                    ),
                    flag: $crate::config::declaration::first!(
                        $(Some($crate::config::declaration::Flag {
                            form: $flag,
                            heading: $crate::config::declaration::heading(
                                $crate::config::declaration::first!($(Some($heading),)? None),
                                <Self as $crate::config::declaration::Group>::HEADING,
                            ),
                            is_list: <$type as $crate::config::declaration::Input>::IS_LIST,
                            complete: <$type as $crate::config::declaration::Input>::complete,
                        }),)?
                        None
                    ),
                    variable: $crate::config::declaration::first!(
                        $(Some($crate::config::declaration::Variable {
                            name: $variable,
                            form: <$type as $crate::config::declaration::Input>::FORM,
                        }),)?
                        None
                    ),
                    table: $crate::config::declaration::first!(
                        $(Some($crate::config::declaration::Table {
                            #[cfg(test)]
                            name: $table,
                            settings: <$type as $crate::config::declaration::Group>::DECLARED,
                        }),)?
                        None
                    ),
                    #[cfg(test)]
                    schema: <$type as $crate::config::declaration::Setting>::schema,
                    #[cfg(test)]
                    example: $crate::config::declaration::first!($(Some($example),)? None),
                    #[cfg(test)]
                    absent: <$type as $crate::config::declaration::Setting>::ABSENT,
                },)+
            ];

            fn flag_paths(&mut self) -> Vec<$crate::config::declaration::FlagPath> {
                #[allow(unused_mut, reason = "a group may have no flags")]
                let mut found = Vec::new();
                $($(
                    $crate::config::declaration::Setting::visit_paths(
                        &mut self.$field,
                        &mut |path| {
                            found.push($crate::config::declaration::FlagPath {
                                flag: $crate::config::declaration::flag_name($flag),
                                path: path.clone(),
                            });
                        },
                    );
                )?)+
                found
            }

            fn read_flags(&mut self, matches: &mut clap::ArgMatches) {
                let _ = &matches;
                $(
                    $(
                        let _ = $flag;
                        self.$field =
                            $crate::config::declaration::Input::from_flag(matches, stringify!($field));
                    )?
                    $(
                        let _ = $table;
                        $crate::config::declaration::Group::read_flags(&mut self.$field, matches);
                    )?
                )+
            }

            fn read_variables(
                &mut self,
                environment: &$crate::config::environment::Environment,
            ) -> Result<(), $crate::config::error::ConfigError> {
                let _ = environment;
                $(
                    $(
                        if let Some(value) = environment.get($variable) {
                            let read = $crate::config::declaration::Input::from_variable(value);
                            self.$field = read.map_err(|problem| {
                                $crate::config::error::ConfigError::Variable {
                                    name: $variable,
                                    problem,
                                }
                            })?;
                        }
                    )?
                    $(
                        let _ = $table;
                        $crate::config::declaration::Group::read_variables(
                            &mut self.$field,
                            environment,
                        )?;
                    )?
                )+
                Ok(())
            }
        }
    };
}
pub(crate) use settings;

/// The first of some expressions.
macro_rules! first {
    ($first:expr $(, $other:expr)* $(,)?) => {
        $first
    };
}
pub(crate) use first;
