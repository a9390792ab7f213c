//! Long lists in parts, each with an address.

use std::ops::Range;

use maud::{Markup, html};

use crate::serve::http::api::problem::Problem;

/// A part of a list.
pub(super) struct Part {
    /// Its number, from 1.
    number: usize,
    /// How many there are, at least 1.
    parts: usize,
    /// The places of its items in the list.
    pub(super) items: Range<usize>,
}

impl Part {
    /// The part that the parameter `page` names, the first one without it. `size` is the number
    /// of items in each.
    pub(super) fn of(page: Option<&str>, length: usize, size: usize) -> Result<Self, Problem> {
        let text = page.unwrap_or("1");
        let number = text.parse().ok();
        let number = number.filter(|number| (1..=10_000).contains(number));
        let number: usize = number.ok_or_else(|| {
            Problem::invalid_parameter("page", "page is a number from 1 to 10000")
        })?;
        let parts = length.div_ceil(size).max(1);
        let number = number.min(parts);
        let first = (number - 1) * size;
        Ok(Self {
            number,
            parts,
            items: first..(first + size).min(length),
        })
    }

    /// Links to the parts before and after. `link` makes the address of a number.
    pub(super) fn links(&self, link: impl Fn(&str) -> String) -> Markup {
        let link = |number: usize| link(&number.to_string());
        html! {
            @if self.parts > 1 {
                nav.pager aria-label="Pages" {
                    @if self.number > 1 { a href=(link(self.number - 1)) rel="prev" { "Previous" } " " }
                    "page " (self.number) " of " (self.parts)
                    @if self.number < self.parts { " " a href=(link(self.number + 1)) rel="next" { "Next" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_all_items_and_the_last_one_the_rest() {
        let items = |page: Option<&str>, length| Some(Part::of(page, length, 30).ok()?.items);
        for (page, length, wanted) in [
            (None, 31, 0..30),
            (Some("1"), 61, 0..30),
            (Some("3"), 61, 60..61),
            (Some("9"), 61, 60..61),
            (Some("1"), 0, 0..0),
        ] {
            assert_eq!(items(page, length), Some(wanted), "{page:?} of {length}");
        }
        for bad in ["0", "10001", "x", ""] {
            assert_eq!(items(Some(bad), 61), None, "{bad}");
        }
    }
}
