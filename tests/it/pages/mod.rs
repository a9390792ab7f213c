//! Every command of the pages runs, in the order in which they stand, against the
//! server that the page itself started.
//!
//! A page is a script: its blocks marked `sh` are run by bash in a folder of their
//! own, which has the files of `deploy`. A comment of Markdown before a block
//! says what the reader of the page sees anyway:
//!
//! - `<!-- not run: REASON -->`: the commands of the block are only parsed.
//! - `<!-- exit code N -->`: the last command of the block ends so.
//! - `<!-- file: NAME -->`: the block, of any language, is the content of a file.
//! - `<!-- run the table -->`: the commands in the rows of a table run, and its paths
//!   (`/catalogs`, or `:9090/status`) are asked for.
//! - `<!-- stop -->`: the server ends here.
//!
//! A block marked `text` after commands of the same section is what one of them
//! prints.
//!
//! `machine` says how a page's ports, registries and folders become those of the
//! test. `almanac serve` and `almanac opm serve` run until the next of them or the
//! end of the page. Questions (`curl`, `grpcurl`) have to get an answer without
//! errors.

mod machine;
mod steps;

use std::collections::BTreeMap;

use machine::Machine;
use steps::Step;

use crate::docs;
use crate::support::needs::skip_without;

/// How many commands of each page are not run, so that none drops out unseen.
const NOT_RUN: &[(&str, usize)] = &[
    ("README.md", 1),
    ("docs/how-to/develop.md", 3),
    ("docs/how-to/fleet.md", 9),
    ("docs/how-to/follow-cluster.md", 2),
    ("docs/how-to/fuzzing.md", 3),
    ("docs/how-to/image-policies.md", 2),
    ("docs/how-to/install.md", 8),
    ("docs/how-to/kubernetes.md", 8),
    ("docs/how-to/olm-v0.md", 11),
    ("docs/how-to/operate.md", 9),
    ("docs/how-to/redhat-signatures.md", 1),
    ("docs/how-to/replace-catalogd.md", 9),
    ("docs/how-to/replace-opm.md", 3),
    ("docs/how-to/restrict-readers.md", 3),
    ("docs/how-to/sign-images.md", 3),
    ("docs/how-to/soak.md", 1),
    ("docs/how-to/webhooks.md", 1),
    ("docs/reference/commands.md", 3),
    ("docs/reference/registries.md", 1),
    ("docs/tutorial.md", 1),
];

/// Runs a page.
fn run(page: &str) {
    if ["bash", "curl", "jq"].into_iter().any(skip_without) {
        return;
    }
    let mut machine = Machine::new();
    // What the commands of the last block have printed.
    let mut printed: Vec<String> = Vec::new();
    let mut number = 0;
    for step in steps::of(&docs::read(page)) {
        match step {
            Step::Commands { lines, exit_code } => {
                printed.clear();
                let last = lines.len() - 1;
                for (index, line) in lines.iter().enumerate() {
                    let code = if index == last { exit_code } else { 0 };
                    printed.push(machine.run(page, line, code));
                    number += 1;
                }
            }
            Step::NotRun { .. } | Step::Section => printed.clear(),
            Step::File { name, content } => machine.write(&name, &content),
            Step::Stop => machine.stop(),
            Step::Prints(text) => assert!(
                printed.is_empty() || printed.iter().any(|it| it.trim_end() == text),
                "{page}: no command above prints\n{text}\nthey print\n{}",
                printed.join("\n")
            ),
        }
    }
    assert!(number > 0, "{page} has no commands");
}

/// A test for each page with commands.
macro_rules! pages {
    ($($name:ident: $page:literal,)*) => {
        const RUN: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $name() {
                run($page);
            }
        )*
    };
}

pages! {
    the_commands_of_the_readme_run: "README.md",
    the_commands_of_the_tutorial_run: "docs/tutorial.md",
    the_commands_of_the_tasks_run: "docs/tasks.md",
    the_commands_about_curated_catalogs_run: "docs/how-to/curated-catalogs.md",
    the_commands_about_installing_run: "docs/how-to/install.md",
    the_commands_about_disconnected_sites_run: "docs/how-to/disconnected.md",
    the_commands_about_olm_v1_run: "docs/how-to/olm-v1.md",
    the_commands_about_restricted_readers_run: "docs/how-to/restrict-readers.md",
    the_commands_about_signing_run: "docs/how-to/sign-images.md",
    the_commands_about_verifying_run: "docs/how-to/verify-signatures.md",
    the_commands_that_replace_opm_run: "docs/how-to/replace-opm.md",
    the_commands_about_webhooks_run: "docs/how-to/webhooks.md",
    the_commands_of_the_reference_run: "docs/reference/commands.md",
    the_commands_about_the_configuration_run: "docs/reference/configuration.md",
    the_commands_about_graphql_run: "docs/reference/graphql.md",
    the_commands_about_operating_run: "docs/how-to/operate.md",
    the_commands_about_operations_run: "docs/reference/operations.md",
    the_commands_about_queries_run: "docs/reference/queries.md",
    the_commands_about_registries_run: "docs/reference/registries.md",
}

#[test]
fn every_command_of_the_pages_is_run_or_says_why_not() {
    let mut not_run = BTreeMap::new();
    for (page, text) in docs::pages() {
        let steps = steps::of(&text);
        let runs = steps.iter().any(|it| matches!(it, Step::Commands { .. }));
        assert_eq!(
            runs,
            RUN.contains(&page.as_str()),
            "{page}: the list of pages in tests/it/pages/mod.rs"
        );
        for step in steps {
            if let Step::NotRun { lines, reason } = step {
                assert!(reason.contains(' '), "{page}: {reason:?} is no reason");
                *not_run.entry(page.clone()).or_insert(0) += lines.len();
            }
        }
    }
    let expected = NOT_RUN.iter();
    let expected = expected.map(|(page, count)| ((*page).to_owned(), *count));
    assert_eq!(not_run, expected.collect());
}
