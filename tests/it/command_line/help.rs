//! The help of each command, as a terminal of 80 columns shows it.

use almanac::cli;
use clap::CommandFactory as _;

use super::plain;

/// Commands in the place of other programs, with flags of those.
const STAND_INS: [&str; 2] = ["opm", "grpc-health-probe"];

fn command() -> clap::Command {
    let mut command = cli::Arguments::command().term_width(80);
    command.build();
    command
}

#[test]
fn the_help_of_each_command_fits_80_columns() {
    for mut command in command().get_subcommands().cloned() {
        let name = command.get_name().to_owned();
        if name == "help" || STAND_INS.contains(&name.as_str()) {
            continue;
        }
        let help = command.render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
        // Brackets are escaped for rustdoc only.
        assert!(!help.contains('\\'), "{name}: {help}");
        // An example is typed as it stands, so none is wrapped.
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        for line in examples.lines().take_while(|line| !line.is_empty()) {
            assert!(
                line.starts_with("  ") && line.contains("almanac "),
                "{name}: {line}"
            );
        }
        insta::assert_snapshot!(format!("help_{name}"), help);
    }
    insta::assert_snapshot!("help", command().render_long_help().to_string());
}

#[test]
fn colours_change_nothing_else_in_a_help() {
    let mut command = command();
    let search = command.find_subcommand_mut("search").unwrap();
    let help = search.render_long_help();
    let coloured = help.ansi().to_string();
    assert!(coloured.contains("\u{1b}["), "{coloured}");
    assert_eq!(plain(&coloured), help.to_string());
    insta::assert_snapshot!("help_search_coloured", coloured.replace('\u{1b}', "ESC"));
}

#[test]
fn options_stand_in_groups() {
    let mut command = command();
    let check = command.find_subcommand_mut("check").unwrap();
    let help = check.render_long_help().to_string();
    for heading in ["Options:", "Sources:", "Registries:", "Log and terminal:"] {
        assert!(
            help.contains(&format!("\n{heading}\n")),
            "{heading}: {help}"
        );
    }
}
