//! Reading netrc, the file with logins of curl, git and others.
//!
//! A file has words: `machine HOST`, `default`, `login USER`, `password PASSWORD`,
//! `account NAME` and `macdef NAME`, whose text ends with an empty line. Words may be
//! quoted. `#` begins a comment.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The largest file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The text of the file.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

/// User and password of the first entry for one of the hosts, else of `default`.
pub(super) fn find(text: &str, hosts: &[&str]) -> Option<(String, String)> {
    let mut words = words(text).into_iter().peekable();
    let (mut fallback, mut found) = (None, None);
    while let Some(word) = words.next() {
        let (is_host, is_default) = match word.as_str() {
            "machine" => {
                let name = words.next()?;
                (
                    hosts.iter().any(|host| host.eq_ignore_ascii_case(&name)),
                    false,
                )
            }
            "default" => (false, true),
            _ => continue,
        };
        let (mut user, mut password) = (String::new(), None);
        while let Some(key) = words.next_if(|word| !["machine", "default"].contains(&&**word)) {
            match key.as_str() {
                "login" => user = words.next()?,
                "password" => password = words.next(),
                "account" => drop(words.next()),
                _ => {}
            }
        }
        let login = password.map(|password| (user, password));
        if is_host && found.is_none() {
            found = login;
        } else if is_default {
            fallback = fallback.or(login);
        }
    }
    found.or(fallback)
}

/// The words, without comments and macros.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let (word, after) = word(rest);
            if word == "macdef" {
                lines.by_ref().find(|line| line.trim().is_empty());
                break;
            }
            words.push(word);
            rest = after.trim_start();
        }
    }
    words
}

/// The first word of a text that is not empty, and the rest.
fn word(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut word = String::new();
    let mut signs = quoted.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return (word, &quoted[at + 1..]),
            '\\' => word.extend(signs.next().map(|(_, sign)| sign)),
            sign => word.push(sign),
        }
    }
    (word, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# logins\nmachine a.example login me password one\n\
        machine b.example:8443\n  login you\n  password \"two \\\" # words\" # old\n\
        macdef init\nmachine c.example login no password no\n\n\
        machine d.example login nobody\n\
        default login all password rest\n";

    #[test]
    fn a_login_is_found_by_its_host() {
        let login = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(
            find(FILE, &["A.example:1", "a.example"]),
            login("me", "one")
        );
        let quoted = login("you", "two \" # words");
        assert_eq!(find(FILE, &["b.example:8443", "b.example"]), quoted);
        let rest = login("all", "rest");
        // A macro is no entry, and an entry without a password no login.
        for host in ["c.example", "d.example", "e.example"] {
            assert_eq!(find(FILE, &[host]), rest, "{host}");
        }
    }

    #[test]
    fn a_broken_file_gives_no_login() {
        for text in [
            "",
            "machine",
            "machine a login",
            "login b password c",
            "machine a",
            "\"",
        ] {
            assert_eq!(find(text, &["a"]), None, "{text:?}");
        }
    }
}
