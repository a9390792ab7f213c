//! Folders as sources: `listing` lists the files of one, `open_beneath` opens them without
//! leaving it, `watch` waits for changes and `wait_until_quiet` for the end of a writer.

pub(crate) mod listing;
pub(crate) mod open_beneath;
pub(crate) mod wait_until_quiet;
pub(crate) mod watch;
pub(crate) mod watched_paths;
