//! Cases of properties.

use proptest::test_runner::Config;

/// So many cases, which are not kept in files.
pub(crate) fn cases(count: u32) -> Config {
    Config {
        failure_persistence: None,
        ..Config::with_cases(count)
    }
}
