//! Names in a Rust file, read from its tokens: comments and strings do not
//! count, the insides of macros do.

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// Content of one file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Whether it holds nothing but comments.
    pub is_empty: bool,
    /// Every path of names, with the groups of `use` taken apart.
    pub paths: Vec<NamedPath>,
    /// The `mod name;` lines, each with the inline modules around it.
    pub modules: Vec<Vec<String>>,
    /// The lines that have the keyword `unsafe`.
    pub unsafe_lines: Vec<usize>,
}

/// A path such as `crate::oci::Reference`.
#[derive(Debug)]
pub(crate) struct NamedPath {
    /// The line it starts on.
    pub line: usize,
    /// Its names; `*` for a glob.
    pub names: Vec<String>,
    /// The inline modules around it.
    pub inside: Vec<String>,
    /// Whether it stands in an item under `#[cfg(test)]`.
    pub in_test: bool,
    /// Whether a `pub use` offers it to others, under its last name.
    pub is_offered: bool,
}

/// The surroundings of a path.
#[derive(Clone, Copy)]
struct Place<'a> {
    inside: &'a [String],
    in_test: bool,
    is_offered: bool,
}

/// Reads a file.
pub(crate) fn read(text: &str) -> Result<Source, String> {
    let tokens: TokenStream = text
        .parse()
        .map_err(|error: proc_macro2::LexError| error.to_string())?;
    let mut source = Source::default();
    let tokens = Vec::from_iter(tokens);
    // A comment with `//!` is an attribute by now: `#`, `!`, and a group.
    source.is_empty = tokens.iter().all(|token| match token {
        TokenTree::Punct(punct) => matches!(punct.as_char(), '#' | '!'),
        TokenTree::Group(group) => group.stream().to_string().starts_with("doc"),
        _ => false,
    });
    source.walk(&tokens, &[], false);
    Ok(source)
}

impl Source {
    fn walk(&mut self, tokens: &[TokenTree], inside: &[String], in_test: bool) {
        // An attribute holds until its item ends, at a `;` or a block.
        let mut item_is_test = false;
        let mut item_is_public = false;
        let mut item_is_offered = false;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let in_test_here = in_test || item_is_test;
            at += 1;
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    if let Some(TokenTree::Group(attribute)) = tokens.get(at) {
                        item_is_test |= is_cfg_test(attribute);
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => {
                    (item_is_test, item_is_public, item_is_offered) = (false, false, false);
                }
                TokenTree::Ident(word) if word == "pub" => {
                    item_is_public = true;
                    // Who may see it, as in `pub(crate)`, is no path.
                    let to = tokens.get(at);
                    if matches!(to, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
                    {
                        at += 1;
                    }
                }
                TokenTree::Ident(word) if word == "use" => item_is_offered = item_is_public,
                TokenTree::Group(group) => {
                    self.walk(&trees(group), inside, in_test_here);
                    item_is_public = false;
                    item_is_test &= group.delimiter() != Delimiter::Brace;
                }
                TokenTree::Ident(word) if word == "mod" => {
                    let (Some(TokenTree::Ident(name)), Some(next)) =
                        (tokens.get(at), tokens.get(at + 1))
                    else {
                        continue;
                    };
                    let mut place = inside.to_vec();
                    place.push(name.to_string());
                    if let TokenTree::Group(body) = next {
                        self.walk(&trees(body), &place, in_test_here);
                    } else {
                        self.modules.push(place);
                    }
                    item_is_test = false;
                    at += 2;
                }
                TokenTree::Ident(word) => {
                    if word == "unsafe" {
                        self.unsafe_lines.push(word.span().start().line);
                    }
                    let place = Place {
                        inside,
                        in_test: in_test_here,
                        is_offered: item_is_offered,
                    };
                    at = self.path(tokens, at - 1, &[], place);
                }
                _ => {}
            }
        }
    }

    /// Takes the path that starts at `at`, below `prefix`; gives where it ends.
    fn path(
        &mut self,
        tokens: &[TokenTree],
        mut at: usize,
        prefix: &[String],
        place: Place<'_>,
    ) -> usize {
        let mut names = prefix.to_vec();
        let line = tokens[at].span().start().line;
        loop {
            match tokens.get(at) {
                Some(TokenTree::Ident(name)) => {
                    names.push(name.to_string().trim_start_matches("r#").to_owned());
                }
                Some(TokenTree::Punct(star)) if star.as_char() == '*' => names.push("*".into()),
                // Only a `use` has a block after `::`.
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    let items = trees(group);
                    for item in items.split(|token| is_punct(token, ',')) {
                        if !item.is_empty() {
                            self.path(item, 0, &names, place);
                        }
                    }
                    return at + 1;
                }
                // Generics after `::<` and the like: the path has ended.
                _ => break,
            }
            at += 1;
            if !is_path_separator(&tokens[at.min(tokens.len())..]) {
                break;
            }
            at += 2;
        }
        self.paths.push(NamedPath {
            line,
            names,
            inside: place.inside.to_vec(),
            in_test: place.in_test,
            is_offered: place.is_offered,
        });
        at
    }
}

/// Whether an attribute leaves its item to tests.
fn is_cfg_test(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

fn is_path_separator(tokens: &[TokenTree]) -> bool {
    match tokens {
        [TokenTree::Punct(first), second, ..] => {
            first.as_char() == ':' && first.spacing() == Spacing::Joint && is_punct(second, ':')
        }
        _ => false,
    }
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

fn trees(group: &Group) -> Vec<TokenTree> {
    Vec::from_iter(group.stream())
}
