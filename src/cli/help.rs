//! The parts of help texts that are made from the options of a command.

use std::fmt::Write as _;

use crate::config::{Environment, VariableHelp};

/// The heading of an option that stands after a group of options.
pub(super) const NO_HEADING: Option<&str> = None;
/// The heading above which the variables are inserted.
const CODES: &str = "\n\nExit codes:";
/// The widest name of a variable that its description stands beside.
const WIDTH: usize = 26;

/// The help below the options of a command that reads catalogs: examples and exit
/// codes. [`complete`] adds the variables. Lines begin with two blanks.
macro_rules! help_of_reading {
    ($examples:literal, $codes:literal) => {
        concat!("Examples:\n", $examples, "\n\nExit codes:\n", $codes)
    };
}
pub(super) use help_of_reading;

/// Stands for an option `--output` that has tables.
const TABLE: &str = "output table";
/// Stands for the settings of a fleet, which have no flags: others can read command lines.
const FLEET: &str = "fleet";
/// The commands that use the database or the bucket of a fleet.
const OF_FLEET: [&str; 4] = ["serve", "export", "import", "migrate"];

/// Variables without a flag, each with the option whose commands read it and its
/// meaning.
const OTHERS: &[(&str, &str, &str)] = &[
    (
        FLEET,
        "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN",
        "key of the bucket, without credentials_file",
    ),
    (
        FLEET,
        "GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY",
        "the same for gs:// and az://",
    ),
    ("token-file", "ALMANAC_TOKEN", "the bearer token for a URL"),
    (
        "token-file",
        "NETRC",
        "file with logins for URLs [~/.netrc]",
    ),
    (
        "password-file",
        "ALMANAC_SIGNING_PASSWORD",
        "password of the signing key",
    ),
    (
        "auth-file",
        "REGISTRY_AUTH_FILE",
        "credentials, without --auth-file",
    ),
    (
        "auth-file",
        "XDG_RUNTIME_DIR, XDG_CONFIG_HOME, DOCKER_CONFIG, HOME",
        "folders of podman's and docker's files",
    ),
    (
        "registries-conf",
        "CONTAINERS_REGISTRIES_CONF",
        "without --registries-conf",
    ),
    (
        "insecure",
        "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY",
        "proxies, also in lower case",
    ),
    ("color", "NO_COLOR", "no colours if it is set"),
    (TABLE, "COLUMNS", "width of tables on a terminal"),
];

/// Adds the variables of its options to the help of a command, above its exit codes.
pub(super) fn complete(command: clap::Command) -> clap::Command {
    let written = command.get_after_long_help().map(ToString::to_string);
    let variables = variables(&command);
    match written {
        Some(text)
            if text.contains(CODES)
                && !text.contains("\nEnvironment:")
                && !variables.is_empty() =>
        {
            let end = format!("\n\nEnvironment:\n{variables}{CODES}");
            command.after_long_help(text.replacen(CODES, &end, 1))
        }
        _ => command,
    }
}

/// Whether the format of an option may be a table.
fn has_table(argument: &clap::Arg) -> bool {
    let values = argument.get_possible_values();
    values.iter().any(|value| value.get_name() == "table")
}

/// The variables, one line each.
fn variables(command: &clap::Command) -> String {
    let mut options: Vec<&str> = (command.get_arguments())
        .map(|argument| match argument.get_long() {
            Some("output") if has_table(argument) => TABLE,
            Some(long) => long,
            // The only arguments without a name that a variable gives.
            None if command.get_name() == "serve" => "catalogs",
            None => "",
        })
        .collect();
    let variables = options.iter();
    let mut variables: Vec<VariableHelp> = variables
        .filter_map(|option| Environment::variable_for(option))
        .collect();
    if OF_FLEET.contains(&command.get_name()) {
        options.push(FLEET);
        variables.extend(Environment::variables_without_flag());
    }
    let lines = variables.into_iter();
    let mut lines: Vec<(&str, String)> = lines.map(|one| (one.name, one.meaning)).collect();
    let others = OTHERS
        .iter()
        .filter(|(option, _, _)| options.contains(option));
    lines.extend(others.map(|(_, name, meaning)| (*name, (*meaning).to_owned())));
    let mut text = String::new();
    for (name, meaning) in lines {
        let line = if name.len() > WIDTH {
            format!("{name}\n  {:WIDTH$}  {meaning}", "")
        } else {
            format!("{name:WIDTH$}  {meaning}")
        };
        // Writing to a String cannot fail.
        let _ = write!(text, "{}  {line}", if text.is_empty() { "" } else { "\n" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_listed_above_the_exit_codes() {
        let option = |name: &'static str| clap::Arg::new(name).long(name);
        let command = clap::Command::new("a")
            .arg(option("data-dir"))
            .arg(option("ca-file"))
            .arg(option("color"))
            .arg(option("package"))
            .after_long_help("Examples:\n  a\n\nExit codes:\n  0  done");
        let text = complete(command).get_after_long_help().unwrap().to_string();
        assert_eq!(
            text,
            "Examples:\n  a\n\nEnvironment:\n  \
             ALMANAC_DATA_DIR            --data-dir\n  \
             ALMANAC_CA_FILE             --ca-file, separated by colons\n  \
             NO_COLOR                    no colours if it is set\n\nExit codes:\n  0  done"
        );
    }

    #[test]
    fn a_command_that_reads_no_variables_lists_none() {
        let help = "Examples:\n  a\n\nExit codes:\n  0  done";
        let command = complete(clap::Command::new("a").after_long_help(help));
        assert_eq!(command.get_after_long_help().unwrap().to_string(), help);
    }
}
