//! `.indexignore` files: the files of a catalog folder that are not catalog files.
//!
//! The rules are those of `.gitignore`, as `opm` applies them: of all patterns
//! that match a file *or a folder above it*, the last one decides, patterns of
//! deeper folders coming after those of the folders above. So, other than in
//! git, `!*.yaml` after `**/*` takes YAML files back in at every depth; the
//! documented sample in a catalog's root relies on it.
//!
//! The caller finds and reads the files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The name of the files with patterns.
pub const FILE_NAME: &str = ".indexignore";

/// The most bytes of one file.
const MAX_BYTES: usize = 1 << 20;

/// The most bytes of one line.
const MAX_LINE: usize = 4096;

/// The most patterns of one file.
const MAX_FILE_PATTERNS: usize = 1000;

/// The most patterns of all files together.
const MAX_PATTERNS: usize = 10_000;

/// The patterns of all `.indexignore` files of one catalog folder.
#[derive(Clone, Debug, Default)]
pub struct IndexIgnore {
    /// By the folder they stand in, `""` for the catalog folder itself.
    folders: BTreeMap<String, Gitignore>,
}

/// Why `.indexignore` files are rejected.
#[derive(Debug, thiserror::Error)]
pub enum IndexIgnoreError {
    /// A file is too large.
    #[error("{path} has {size} bytes, more than {MAX_BYTES}")]
    Size {
        /// The file, relative to the catalog folder.
        path: String,
        /// Its bytes.
        size: usize,
    },
    /// A pattern is too long.
    #[error("line {line} of {path} has more than {MAX_LINE} bytes")]
    Line {
        /// The file, relative to the catalog folder.
        path: String,
        /// Counted from 1.
        line: usize,
    },
    /// A file has too many patterns.
    #[error("{0} has more than {MAX_FILE_PATTERNS} patterns")]
    FilePatterns(String),
    /// The files up to this one have too many patterns together.
    #[error("the .indexignore files up to {0} have more than {MAX_PATTERNS} patterns")]
    Patterns(String),
    /// The patterns of a file are too large together.
    #[error("the patterns of {path} cannot be used")]
    Build {
        /// The file, relative to the catalog folder.
        path: String,
        /// Why.
        source: ignore::Error,
    },
}

impl IndexIgnore {
    /// Takes the `.indexignore` files of a catalog folder: each with its path
    /// relative to that folder (`packages/.indexignore`), `/` between names.
    ///
    /// A line that is no valid pattern matches nothing, as in git.
    pub fn new<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, IndexIgnoreError> {
        let mut folders = BTreeMap::new();
        let mut total = 0;
        for (path, contents) in files {
            let patterns = read_patterns(path, contents, &mut total)?;
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            folders.insert(folder.to_owned(), patterns);
        }
        Ok(Self { folders })
    }

    /// Whether the file at `path`, relative to the catalog folder, is no
    /// catalog file. The `.indexignore` files themselves never are.
    pub fn is_ignored(&self, path: &str) -> bool {
        if path.rsplit('/').next() == Some(FILE_NAME) {
            return true;
        }
        // From the file's own folder up: the deepest that says something wins.
        let mut folder = path;
        while !folder.is_empty() {
            folder = folder.rsplit_once('/').map_or("", |(folder, _)| folder);
            let Some(patterns) = self.folders.get(folder) else {
                continue;
            };
            let below = path[folder.len()..].trim_start_matches('/');
            if let Some(ignored) = decide(patterns, below) {
                return ignored;
            }
        }
        false
    }
}

fn read_patterns(
    path: &str,
    contents: &[u8],
    total: &mut usize,
) -> Result<Gitignore, IndexIgnoreError> {
    if contents.len() > MAX_BYTES {
        let (path, size) = (path.into(), contents.len());
        return Err(IndexIgnoreError::Size { path, size });
    }
    let text = String::from_utf8_lossy(contents);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut builder = GitignoreBuilder::new("");
    let mut count = 0;
    for (index, line) in text.lines().enumerate() {
        // opm trims both ends.
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.len() > MAX_LINE {
            let (path, line) = (path.into(), index + 1);
            return Err(IndexIgnoreError::Line { path, line });
        }
        count += 1;
        *total += 1;
        if count > MAX_FILE_PATTERNS {
            return Err(IndexIgnoreError::FilePatterns(path.into()));
        }
        if *total > MAX_PATTERNS {
            return Err(IndexIgnoreError::Patterns(path.into()));
        }
        // A pattern carries its place, to tell later ones from earlier ones.
        // An invalid pattern is not added, and so matches nothing.
        let place = PathBuf::from(count.to_string());
        let _ = builder.add_line(Some(place), &literal_braces(line));
    }
    builder.build().map_err(|source| IndexIgnoreError::Build {
        path: path.into(),
        source,
    })
}

/// The decision of the last pattern that matches `path` or a folder above it.
fn decide(patterns: &Gitignore, path: &str) -> Option<bool> {
    let ends = path.match_indices('/').map(|(at, _)| (at, true));
    ends.chain([(path.len(), false)])
        .filter_map(
            |(end, is_folder)| match patterns.matched(&path[..end], is_folder) {
                Match::None => None,
                Match::Ignore(glob) => Some((place(glob), true)),
                Match::Whitelist(glob) => Some((place(glob), false)),
            },
        )
        .max()
        .map(|(_, ignored)| ignored)
}

fn place(glob: &ignore::gitignore::Glob) -> usize {
    glob.from()
        .and_then(|place| place.to_str())
        .and_then(|place| place.parse().ok())
        .unwrap_or(0)
}

/// Braces are plain characters in gitignore patterns, but alternatives to the
/// matcher.
fn literal_braces(line: &str) -> String {
    let mut pattern = String::with_capacity(line.len());
    let mut escaped = false;
    for character in line.chars() {
        if matches!(character, '{' | '}') && !escaped {
            pattern.push('\\');
        }
        escaped = character == '\\' && !escaped;
        pattern.push(character);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// The rest of `paths` with the given `.indexignore` files.
    #[track_caller]
    fn check(files: &[(&str, &str)], paths: &str, expected: &str) {
        let files = files.iter().map(|(path, text)| (*path, text.as_bytes()));
        let ignore = IndexIgnore::new(files).unwrap();
        let left: Vec<&str> = paths
            .split(' ')
            .filter(|path| !ignore.is_ignored(path))
            .collect();
        assert_eq!(left.join(" "), expected);
    }

    #[test]
    fn without_patterns_only_the_pattern_files_are_ignored() {
        let paths = "a .indexignore b/.indexignore b/x.indexignore .indexignore/a";
        check(&[], paths, "a b/x.indexignore .indexignore/a");
        check(&[(".indexignore", "\n# a\n   \n\r\n")], "a #", "a #");
        check(&[(".indexignore", "!.indexignore")], "a .indexignore", "a");
    }

    #[test]
    fn patterns_match_as_in_gitignore() {
        let paths = "README.md a/README.md a/x.txt a/b/x.txt x.txt xx.txt";
        for (pattern, expected) in [
            ("README.md", "a/x.txt a/b/x.txt x.txt xx.txt"),
            ("/README.md", "a/README.md a/x.txt a/b/x.txt x.txt xx.txt"),
            ("*.txt", "README.md a/README.md"),
            ("?.txt", "README.md a/README.md xx.txt"),
            ("a/*.txt", "README.md a/README.md a/b/x.txt x.txt xx.txt"),
            ("a/**/x.txt", "README.md a/README.md x.txt xx.txt"),
            ("**/b", "README.md a/README.md a/x.txt x.txt xx.txt"),
            ("a/", "README.md x.txt xx.txt"),
            ("a", "README.md x.txt xx.txt"),
            ("b/", "README.md a/README.md a/x.txt x.txt xx.txt"),
            ("x.txt/", paths),
            ("[xy].txt", "README.md a/README.md xx.txt"),
            ("*.txt\r", "README.md a/README.md"),
            ("  *.txt  ", "README.md a/README.md"),
            ("\u{feff}*.txt", "README.md a/README.md"),
            ("{x,xx}.txt", paths),
            ("\\*.txt", paths),
            ("x.txt\\", paths),
            ("[z-a].txt\n*.md", "a/x.txt a/b/x.txt x.txt xx.txt"),
        ] {
            check(&[(".indexignore", pattern)], paths, expected);
        }
        check(&[(".indexignore", "\\#a\n\\!b\n{c}")], "#a !b {c} c", "c");
    }

    #[test]
    fn the_last_pattern_decides() {
        check(
            &[(".indexignore", "*.txt\n!keep.txt")],
            "a.txt keep.txt b/keep.txt",
            "keep.txt b/keep.txt",
        );
        check(
            &[(".indexignore", "!keep.txt\n*.txt")],
            "a.txt keep.txt",
            "",
        );
        check(&[(".indexignore", "!d/keep.txt\nd/")], "d/keep.txt e", "e");
        check(
            &[(".indexignore", "d/\n!d/keep.txt")],
            "d/keep.txt d/a",
            "d/keep.txt",
        );
        check(&[(".indexignore", "*\n!d/")], "d/a d/b/c e", "d/a d/b/c");
    }

    #[test]
    fn the_documented_sample_works_at_every_depth() {
        let sample = "# Ignore everything except non-object .json and .yaml files\n\
                      **/*\n!*.json\n!*.yaml\n**/objects/*.json\n**/objects/*.yaml\n";
        check(
            &[("b/.indexignore", sample)],
            "README.md b/README.md b/index.yaml b/objects/x.yaml b/c/index.json",
            "README.md b/index.yaml b/c/index.json",
        );
        check(
            &[(".indexignore", sample)],
            "README.md index.json b/README.md b/index.yaml b/objects/x.yaml",
            "index.json b/index.yaml",
        );
    }

    #[test]
    fn patterns_hold_below_their_folder_and_deeper_ones_come_first() {
        let paths = "x.txt a/x.txt a/b/x.txt a/b/c/x.txt ab/x.txt";
        check(&[("a/.indexignore", "*.txt")], paths, "x.txt ab/x.txt");
        check(
            &[("a/.indexignore", "/x.txt")],
            paths,
            "x.txt a/b/x.txt a/b/c/x.txt ab/x.txt",
        );
        check(&[("a/.indexignore", "a")], paths, paths);
        let files = [("a/b/.indexignore", "!x.txt"), (".indexignore", "*.txt")];
        check(&files, paths, "a/b/x.txt a/b/c/x.txt");
        let files = [
            ("a/.indexignore", "*.txt"),
            (".indexignore", "!x.txt"),
            ("a/b/c/.indexignore", "!x.txt"),
        ];
        check(&files, paths, "x.txt a/b/c/x.txt ab/x.txt");
    }

    #[test]
    fn sizes_are_bounded() {
        let build = |contents: &[u8]| IndexIgnore::new([("a/.indexignore", contents)]).unwrap_err();
        let large = build(&vec![b'\n'; MAX_BYTES + 1]);
        assert_eq!(
            large.to_string(),
            "a/.indexignore has 1048577 bytes, more than 1048576"
        );
        let long = build(format!("a\n{}", "x".repeat(MAX_LINE + 1)).as_bytes());
        assert_eq!(
            long.to_string(),
            "line 2 of a/.indexignore has more than 4096 bytes"
        );
        let many = build("a\n".repeat(MAX_FILE_PATTERNS + 1).as_bytes());
        assert_eq!(
            many.to_string(),
            "a/.indexignore has more than 1000 patterns"
        );
        let text = "a\n".repeat(MAX_FILE_PATTERNS);
        let paths: Vec<String> = (0..11).map(|i| format!("{i}/.indexignore")).collect();
        let files = paths.iter().map(|path| (path.as_str(), text.as_bytes()));
        let all = IndexIgnore::new(files).unwrap_err();
        assert!(matches!(all, IndexIgnoreError::Patterns(path) if path == "10/.indexignore"));
        // Whatever comes out of patterns as large as they may be, it comes.
        let mut text = String::new();
        for i in 0..200 {
            writeln!(text, "**/{}{i}", "*?[a-z]".repeat(500)).unwrap();
        }
        if let Err(error) = IndexIgnore::new([(".indexignore", text.as_bytes())]) {
            assert!(matches!(error, IndexIgnoreError::Build { .. }), "{error}");
        }
        assert!(IndexIgnore::new([(".indexignore", &[0xff, 0, b'\n'][..])]).is_ok());
    }
}
