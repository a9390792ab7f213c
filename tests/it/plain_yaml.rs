//! The two readers of YAML held against each other on real catalogs: the one
//! that goes by the parser, and the one for plain documents without it. Where
//! the latter answers, both have to say the same, to the byte.
//!
//! Real catalogs lie beside the project; where they are absent the tests say
//! that they are skipped. `ALMANAC_MUTATIONS` tells how many changed documents
//! are tried, if not a few.

use std::io::Read as _;
use std::path::Path;

use fbc::text::yaml::{self, Limits};

use crate::support::needs::{shared, skip_without};

/// How many changed documents are tried where nobody tells.
const MUTATIONS: usize = 20_000;
/// Lines are cut to this, so that changes hit what matters.
const LONGEST_LINE: usize = 200;
/// Parts of values that have a meaning in YAML, or might.
const PIECES: &[&str] = &[
    "a",
    "b: ",
    ": ",
    ":",
    "- ",
    "-",
    "\n",
    "\n  ",
    "\n    ",
    "\n\n",
    " \n",
    "\t\n",
    "[",
    "]",
    "{",
    "}",
    "[]",
    "{}",
    ", ",
    ",",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "!",
    "!a,",
    "|",
    "|-\n",
    "|+",
    "|2\n",
    ">\n",
    ">-",
    ">1-\n",
    "'",
    "''",
    "'\n  x'",
    "\"",
    "\"\n  \"",
    "\\",
    "\\\n",
    "\\\r\n",
    "\\ ",
    "\\n",
    "\\x41",
    "\\u00e9",
    "\\/",
    " #",
    "#",
    "\n#c\n",
    "\n  #c\n",
    "? ",
    "---",
    "---\n",
    "\n---\n",
    "...",
    "%",
    "@",
    "`",
    "\r\n",
    "\r",
    "\t",
    " ",
    "  ",
    "   ",
    "1",
    "0x1",
    "1_0",
    "+1",
    "1.0",
    "1e3",
    ".inf",
    "9007199254740993",
    "~",
    "null",
    "yes",
    "=",
    ".",
    "é",
    "“",
    "\u{a0}",
    "\u{2028}",
    "\u{85}",
    "\u{feff}",
    "\0",
    "\u{7f}",
    "k: v\n",
    "k:\n",
    "\n- ",
    "\n  - ",
    " - ",
];

#[test]
fn real_catalogs_are_read_without_the_parser_as_with_it() {
    if skip_without("shared") {
        return;
    }
    let files = real_files();
    let documents = files.iter().flat_map(|file| yaml::documents(file));
    let (mut all, mut answered) = (0, 0);
    for document in documents {
        all += 1;
        answered += usize::from(agrees(document.bytes, &Limits::default()));
    }
    eprintln!("{answered} of {all} documents were read without the parser");
    assert!(answered * 10 > all * 9, "{answered} of {all}");
}

#[test]
fn changed_catalogs_are_read_without_the_parser_as_with_it() {
    if skip_without("shared") {
        return;
    }
    let count =
        std::env::var("ALMANAC_MUTATIONS").map_or(MUTATIONS, |count| count.parse().unwrap());
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let tight = Limits {
        depth: 3,
        expansion: 1,
        small: 100,
        ..Limits::default()
    };
    let files = real_files();
    let files: Vec<Vec<&[u8]>> = files.iter().map(|file| lines(file).collect()).collect();
    let (mut answered, mut tightly) = (0, 0);
    for _ in 0..count {
        let mut text = excerpt(&files, &mut random);
        for _ in 0..random.usize(1..5) {
            change(&mut text, &mut random);
        }
        answered += usize::from(agrees(&text, &Limits::default()));
        if random.u8(..8) == 0 {
            tightly += usize::from(agrees(&text, &tight));
        }
    }
    eprintln!("{answered} of {count} were read without the parser, {tightly} in tight limits");
    assert!(answered * 10 > count, "{answered} of {count}");
}

/// Reads a document both ways, which have to agree; whether the parser was not
/// needed.
fn agrees(document: &[u8], limits: &Limits) -> bool {
    let mut out = Vec::new();
    let Some(found) = yaml::plain_to_json(document, limits, &mut out) else {
        return false;
    };
    let mut expected = Vec::new();
    let parsed = yaml::parse(document, limits, &mut expected).map(|converted| converted.found);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(Ok(found), parsed, "{:?}", text(document));
    assert_eq!(text(&out), text(&expected), "{:?}", text(document));
    true
}

/// The YAML files of the cases and of the catalogs that lie beside the project.
fn real_files() -> Vec<Vec<u8>> {
    fn is_yaml(path: &Path) -> bool {
        path.extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
    }
    let shared = shared().unwrap();
    let mut files = Vec::new();
    for case in std::fs::read_dir(shared.join("cases")).unwrap() {
        let case = case.unwrap().path();
        for file in std::fs::read_dir(&case).into_iter().flatten() {
            let file = file.unwrap().path();
            if is_yaml(&file) {
                files.push(std::fs::read(&file).unwrap());
            }
        }
    }
    for archive in std::fs::read_dir(shared.join("corpus")).unwrap() {
        let archive = archive.unwrap().path();
        if !archive.to_string_lossy().ends_with(".tar.zst") {
            continue;
        }
        let archive = std::fs::File::open(&archive).unwrap();
        let mut archive = tar::Archive::new(zstd::Decoder::new(archive).unwrap());
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            if is_yaml(&entry.path().unwrap()) {
                let mut file = Vec::new();
                entry.read_to_end(&mut file).unwrap();
                files.push(file);
            }
        }
    }
    assert!(!files.is_empty());
    files
}

/// Some lines that follow each other, none of them to the left of the first,
/// and without the indentation of that.
fn excerpt(files: &[Vec<&[u8]>], random: &mut fastrand::Rng) -> Vec<u8> {
    let file = &files[random.usize(..files.len())];
    let from = random.usize(..=file.len());
    let excerpt = file[from..].iter().take(random.usize(1..25));
    let left = file.get(from).map_or(0, |line| indent(line));
    let lines = excerpt.take_while(|line| line.len() < 2 || indent(line) >= left);
    let lines = lines.flat_map(|line| {
        let line = &line[left.min(line.len() - 1)..];
        if line.len() > LONGEST_LINE {
            [&line[..LONGEST_LINE], b"\n"].concat()
        } else {
            line.to_vec()
        }
    });
    lines.collect()
}

/// Changes something: a character, a piece, or the place of a line.
fn change(text: &mut Vec<u8>, random: &mut fastrand::Rng) {
    let at = random.usize(..=text.len());
    let piece = PIECES[random.usize(..PIECES.len())];
    match random.u8(..14) {
        0 if at < text.len() => drop(text.remove(at)),
        1 if at < text.len() => text.insert(at, text[at]),
        2 if at + 1 < text.len() => text.swap(at, at + 1),
        3 => text.truncate(at),
        4 if !text.contains(&b'\r') => {
            let windows = String::from_utf8_lossy(text).replace('\n', "\r\n");
            *text = windows.into_bytes();
        }
        5 | 6 => {
            let end = text.len().min(at + random.usize(1..4));
            text.splice(at..end, piece.bytes());
        }
        7..=10 => change_lines(text, piece, random),
        _ => drop(text.splice(at..at, piece.bytes())),
    }
}

fn change_lines(text: &mut Vec<u8>, piece: &str, random: &mut fastrand::Rng) {
    let mut lines: Vec<Vec<u8>> = lines(text).map(<[u8]>::to_vec).collect();
    if lines.is_empty() {
        return;
    }
    let (one, other) = (random.usize(..lines.len()), random.usize(..lines.len()));
    let line = &mut lines[one];
    let indent = indent(line);
    match random.u8(..8) {
        0 => drop(line.splice(..0, vec![b' '; random.usize(1..5)])),
        1 => drop(line.drain(..random.usize(..=indent))),
        // Where the text begins.
        2 => drop(line.splice(indent..indent, piece.bytes())),
        // Where a value begins.
        3 => {
            let value = line
                .windows(2)
                .position(|pair| pair == b": " || pair == b"- ");
            let at = value.map_or(indent, |at| at + 2);
            line.splice(at..at, piece.bytes());
        }
        // Where the line ends.
        4 => {
            let end = line.len() - usize::from(line.ends_with(b"\n"));
            line.splice(end..end, piece.bytes());
        }
        5 => drop(lines.remove(one)),
        6 => lines.insert(other, lines[one].clone()),
        _ => lines.swap(one, other),
    }
    *text = lines.concat();
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

fn indent(line: &[u8]) -> usize {
    line.iter().take_while(|byte| **byte == b' ').count()
}
