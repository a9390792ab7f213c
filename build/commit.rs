//! The commit of the source, read from files.

use std::fs;
use std::path::{Path, PathBuf};

/// State of the repository.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// The hash of the commit that is checked out.
    pub(crate) commit: Option<String>,
    /// The files that change with it.
    pub(crate) files: Vec<PathBuf>,
}

/// The hash of a commit: 40 hexadecimal digits, or 64 in repositories with SHA-256.
pub(crate) fn parse(text: &str) -> Option<String> {
    let text = text.trim();
    let is_hash = matches!(text.len(), 40 | 64) && text.bytes().all(|it| it.is_ascii_hexdigit());
    is_hash.then(|| text.to_ascii_lowercase())
}

/// The commit in the file that `cargo package` adds to a package.
pub(crate) fn of_package(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(".cargo_vcs_info.json")).ok()?;
    // {"git": {"sha1": "…"}, …}
    let (_, rest) = text.split_once("\"sha1\"")?;
    parse(rest.split('"').nth(1)?)
}

/// The commit that is checked out in `root`, a repository of git or one of its
/// worktrees. A repository around `root` is another project's.
pub(crate) fn of_repository(root: &Path) -> Head {
    head(root).unwrap_or_default()
}

fn head(root: &Path) -> Option<Head> {
    let git = root.join(".git");
    let own = if git.is_dir() {
        git
    } else {
        // In a worktree, a file names the folder.
        let text = fs::read_to_string(&git).ok()?;
        root.join(text.strip_prefix("gitdir:")?.trim())
    };
    let common = match fs::read_to_string(own.join("commondir")) {
        Ok(path) => own.join(path.trim()),
        Err(_) => own.clone(),
    };
    let head = own.join("HEAD");
    let text = fs::read_to_string(&head).ok()?;
    let mut files = vec![head, own.join("logs/HEAD")];
    let commit = match text.strip_prefix("ref:") {
        None => parse(&text),
        Some(name) => {
            let name = name.trim();
            let (loose, packed) = (common.join(name), common.join("packed-refs"));
            let commit = match fs::read_to_string(&loose) {
                Ok(text) => parse(&text),
                Err(_) => packed_commit(&fs::read_to_string(&packed).ok()?, name),
            };
            files.extend([loose, packed]);
            commit
        }
    };
    // cargo runs the script each time where one of the files is missing.
    files.retain(|file| file.exists());
    Some(Head { commit, files })
}

/// The commit of a reference in `packed-refs`: lines of a hash and a name.
fn packed_commit(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (hash, _) = lines.find(|(_, found)| *found == name)?;
    parse(hash)
}
