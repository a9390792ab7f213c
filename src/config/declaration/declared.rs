//! What is known of a setting besides its value.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// A declared setting, or table of settings.
pub(crate) struct Declared {
    /// The name of the field, which names the argument as well.
    pub(crate) field: &'static str,
    /// The key in the file.
    #[cfg(test)]
    pub(crate) key: &'static str,
    /// The text of the reference page and of the help, in Markdown.
    pub(crate) text: &'static str,
    /// What applies without the setting.
    pub(crate) default: Default,
    /// Its flag, if there is one.
    pub(crate) flag: Option<Flag>,
    /// Its variable, if there is one.
    pub(crate) variable: Option<Variable>,
    /// Its settings, if it is a table.
    pub(crate) table: Option<Table>,
    /// The JSON schema of its values.
    #[cfg(test)]
    pub(crate) schema: fn() -> serde_json::Value,
    /// A value for the sample.
    #[cfg(test)]
    pub(crate) example: Option<&'static str>,
    /// The text for an absent value without a default.
    #[cfg(test)]
    pub(crate) absent: &'static str,
}

/// What applies without a setting.
pub(crate) enum Default {
    /// Nothing.
    None,
    /// A value, as a file has it, without quotes.
    Value(fn() -> String),
    /// A text that says what.
    Text(&'static str),
}

/// A flag.
pub(crate) struct Flag {
    /// `--NAME VALUE`, or the name of an argument without a flag.
    pub(crate) form: &'static str,
    /// The heading of its group in the help.
    pub(crate) heading: Option<&'static str>,
    /// Whether it may be repeated.
    pub(crate) is_list: bool,
    /// Adds the parser of its values.
    pub(crate) complete: fn(Arg) -> Arg,
}

/// A variable of the environment.
#[derive(Clone, Copy)]
pub(crate) struct Variable {
    /// Its name.
    pub(crate) name: &'static str,
    /// How a list is written in it.
    pub(crate) form: &'static str,
}

/// A table of the file.
pub(crate) struct Table {
    /// Its header.
    #[cfg(test)]
    pub(crate) name: &'static str,
    /// Its settings.
    pub(crate) settings: &'static [Declared],
}

impl Declared {
    /// The name of its option, or that of the field for an argument without a flag.
    pub(crate) fn option(&self) -> Option<&'static str> {
        let flag = self.flag.as_ref()?;
        Some(flag.long().unwrap_or(self.field))
    }

    /// What its variable sets: the flag and the form of a list, or without a flag its text.
    pub(crate) fn meaning_of_variable(&self) -> String {
        let Some(flag) = &self.flag else {
            return plain(self.text).replace('`', "");
        };
        let name = match flag.long() {
            Some(long) => format!("--{long}"),
            None => flag.form.to_owned(),
        };
        match self.variable {
            Some(Variable { form, .. }) if !form.is_empty() => format!("{name}, {form}"),
            _ => name,
        }
    }

    /// Adds its flag, or those of its table, to a command.
    pub(super) fn add_flag(&self, command: Command) -> Command {
        let Some(flag) = &self.flag else {
            let settings = self.table.iter().flat_map(|table| table.settings);
            return settings.fold(command, |command, setting| setting.add_flag(command));
        };
        let mut argument = Arg::new(self.field)
            .help(self.help(flag))
            .help_heading(flag.heading);
        argument = match (flag.long(), flag.value()) {
            (Some(long), Some(value)) => argument.long(long).value_name(value),
            (Some(long), None) => argument.long(long),
            (None, _) => argument.value_name(flag.form),
        };
        command.arg((flag.complete)(argument))
    }

    /// The help of its flag.
    fn help(&self, flag: &Flag) -> String {
        let mut help = plain(self.text);
        if flag.is_list && flag.long().is_some() {
            help.push_str("; repeatable");
        }
        // Writing to a String cannot fail.
        let _ = match self.default {
            Default::None => Ok(()),
            Default::Value(shown) => write!(help, " [default: {}]", shown()),
            Default::Text(text) => write!(help, " [default: {text}]"),
        };
        help
    }
}

impl Flag {
    /// Its name without dashes; none for an argument without a flag.
    pub(crate) fn long(&self) -> Option<&'static str> {
        flag_name(self.form).strip_prefix("--")
    }

    fn value(&self) -> Option<&'static str> {
        let (_, value) = self.form.split_once(' ')?;
        Some(value)
    }
}

/// The flag without the name of its value.
pub(crate) fn flag_name(form: &'static str) -> &'static str {
    form.split_once(' ').map_or(form, |(flag, _)| flag)
}

/// The heading of a flag: its own, or that of its group.
pub(crate) const fn heading(
    own: Option<&'static str>,
    group: Option<&'static str>,
) -> Option<&'static str> {
    match own {
        Some(own) => Some(own),
        None => group,
    }
}

/// Settings, with those of their tables.
pub(crate) fn all(settings: &'static [Declared]) -> Vec<&'static Declared> {
    let mut found = Vec::new();
    for setting in settings {
        found.push(setting);
        if let Some(table) = &setting.table {
            found.extend(all(table.settings));
        }
    }
    found
}

/// A text without the addresses of its links and without the period at its end.
fn plain(text: &str) -> String {
    let text = text.trim();
    let text = text.strip_suffix('.').unwrap_or(text);
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((start, label)) = before.rsplit_once('[') else {
            break;
        };
        plain.extend([start, label]);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
pub(crate) mod reference {
    use serde_json::{Value, json};

    use super::{Declared, Default, plain};

    /// The line of a setting in the sample.
    pub(crate) struct SampleLine {
        /// What is to be said of the value, if it is not the default.
        pub(crate) remark: Option<String>,
        /// The value.
        pub(crate) value: String,
    }

    impl Declared {
        /// The text without links.
        pub(crate) fn plain_text(&self) -> String {
            plain(self.text)
        }

        /// The line of the sample: an example, or the default.
        pub(crate) fn sample(&self) -> SampleLine {
            let schema = (self.schema)();
            let is_text = schema["type"] == "string" || schema["enum"].is_array();
            let quoted = |text: String| if is_text { format!("\"{text}\"") } else { text };
            let remark = match self.default {
                Default::Text("required") => "Required. An example:".to_owned(),
                Default::Text(text) => format!("Default: {text}. An example:"),
                Default::Value(shown) => format!("Default: {}. An example:", quoted(shown())),
                Default::None => "An example:".to_owned(),
            };
            match (self.example, &self.default) {
                (Some(example), _) => SampleLine {
                    remark: Some(remark),
                    value: quoted(example.to_owned()),
                },
                (None, Default::Value(shown)) => SampleLine {
                    remark: None,
                    value: quoted(shown()),
                },
                (None, _) => SampleLine {
                    remark: None,
                    value: self.absent.trim_matches('`').to_owned(),
                },
            }
        }

        /// The row of the reference page: key and flag, default, meaning.
        pub(crate) fn row(&self) -> String {
            let mut key = format!("`{}`", self.key);
            if let Some(long) = self.flag.as_ref().and_then(super::Flag::long) {
                key = format!("{key}, `--{long}`");
            }
            let default = match self.default {
                Default::None => self.absent.to_owned(),
                Default::Value(shown) => format!("`{}`", shown()),
                Default::Text(text) => text.to_owned(),
            };
            let text = self.text.trim();
            let text = text.strip_suffix('.').unwrap_or(text);
            format!("| {key} | {default} | {} |", in_lower_case(text))
        }

        /// The JSON schema of a table.
        pub(crate) fn schema_of(settings: &'static [Self]) -> Value {
            let entries = settings.iter();
            let properties = entries.map(|one| (one.key.to_owned(), (one.schema)()));
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": properties.collect::<serde_json::Map<_, _>>(),
            })
        }
    }

    /// A text that begins in lower case, unless its first word is an abbreviation or a name
    /// with another capital.
    fn in_lower_case(text: &str) -> String {
        let words = text.trim_start_matches('[');
        let word = words.split(|sign: char| !sign.is_alphanumeric()).next();
        let mut signs = word.unwrap_or_default().chars();
        let is_plain =
            signs.next().is_some_and(char::is_uppercase) && signs.all(|sign| !sign.is_uppercase());
        if !is_plain {
            return text.to_owned();
        }
        let begin = text.len() - words.len();
        let (start, rest) = text.split_at(begin + 1);
        format!("{}{rest}", start.to_lowercase())
    }

    #[test]
    fn a_help_has_no_addresses_of_links() {
        let text = " See [a](b.md#c) and `[d]`, or [e](#f).";
        assert_eq!(plain(text), "See a and `[d]`, or e");
    }

    #[test]
    fn a_row_begins_in_lower_case() {
        assert_eq!(in_lower_case("A b"), "a b");
        assert_eq!(in_lower_case("The TLS"), "the TLS");
        assert_eq!(in_lower_case("TLS of"), "TLS of");
        assert_eq!(in_lower_case("`a` B"), "`a` B");
        assert_eq!(in_lower_case("[Words](#a)"), "[words](#a)");
    }
}
