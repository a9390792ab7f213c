//! The view in an address: channels, rows, rules and selected versions.

use std::cmp::Reverse;

use crate::answers::drawing::matrix::{Matrix, MatrixView, WayStep};
use crate::answers::rest::plan::{Plan, Rules, plan};
use crate::answers::rest::records::ChannelRecord;
use crate::answers::rest::updates::Installed;
use crate::serve::http::api::parameters::Parameters;
use crate::serve::http::api::plan::rules;
use crate::serve::http::api::problem::{Problem, cut};
use crate::serve::http::pages::links;
use crate::serve::http::pages::package::subject::Subject;
use fbc::text::semver::Version;

/// The parameters of the page and of the files.
pub(crate) const PARAMETERS: &[&str] =
    &["channel", "channels", "rows", "rules", "view", "from", "to"];

/// How many channels are shown at first.
pub(super) const CHANNELS: usize = 8;

/// The view in the address.
pub(crate) struct View<'a> {
    /// The chosen channels. Without any, the first ones.
    channels: Vec<&'a str>,
    /// Whether all channels are shown.
    pub(super) all_channels: bool,
    /// Whether all rows are shown.
    pub(super) all_rows: bool,
    pub(super) rules: Rules,
    /// Whether words stand in place of the picture.
    pub(super) words: bool,
    pub(super) from: Option<&'a str>,
    pub(super) to: Option<&'a str>,
}

impl<'a> View<'a> {
    pub(crate) fn of(
        parameters: &'a Parameters,
        all: &[ChannelRecord<'_>],
    ) -> Result<Self, Problem> {
        let one_of = |name: &str, value: &str| match parameters.get(name) {
            None => Ok(false),
            Some(given) if given == value => Ok(true),
            Some(given) => {
                let detail = format!("{name} is {value}, and not {:?}", cut(given));
                Err(Problem::invalid_parameter(name, detail))
            }
        };
        let view = Self {
            channels: parameters.all("channel").collect(),
            all_channels: one_of("channels", "all")?,
            all_rows: one_of("rows", "all")?,
            words: one_of("view", "table")?,
            rules: rules(parameters.get("rules"))?,
            from: parameters.get("from"),
            to: parameters.get("to"),
        };
        for name in &view.channels {
            if !all.iter().any(|channel| channel.name == *name) {
                let names = all.iter().map(|channel| &*channel.name);
                return Err(Problem::unknown("channel", name, names));
            }
        }
        for name in [view.from, view.to].into_iter().flatten() {
            let entries = || all.iter().flat_map(|channel| &channel.entries);
            let is_named = entries().any(|entry| {
                entry.name == name
                    || entry.replaces == name
                    || entry.skips.iter().any(|it| it == name)
            });
            if !is_named {
                let names = entries().map(|entry| &*entry.name);
                return Err(Problem::unknown("bundle", name, names));
            }
        }
        Ok(view)
    }

    /// The same with all channels if none is chosen, for files.
    pub(crate) fn whole(mut self) -> Self {
        self.all_channels = self.channels.is_empty();
        self
    }

    /// The shown channels, of all in their order.
    pub(crate) fn shown<'b>(&self, order: &[&'b ChannelRecord<'b>]) -> Vec<&'b ChannelRecord<'b>> {
        let all = order.iter().copied();
        if self.all_channels {
            all.collect()
        } else if self.channels.is_empty() {
            all.take(CHANNELS).collect()
        } else {
            let is_chosen = |one: &&ChannelRecord<'_>| self.channels.contains(&&*one.name);
            all.filter(is_chosen).collect()
        }
    }

    /// The selected way as a plan of updates; `None` without both ends.
    pub(crate) fn way<'b>(&'b self, all: &'b mut [ChannelRecord<'b>]) -> Option<Plan<'b>> {
        let (from, to) = (self.from?, self.to?);
        let has = |one: &ChannelRecord<'_>| one.entries.iter().any(|entry| entry.name == from);
        let is_chosen = |one: &ChannelRecord<'_>| self.channels.contains(&&*one.name) && has(one);
        // OLM v0 begins in the channel of the subscription.
        let start = all
            .iter()
            .position(is_chosen)
            .or_else(|| all.iter().position(|one| one.default && has(one)))
            .or_else(|| all.iter().position(has));
        all[..=start.unwrap_or_default()].rotate_right(1);
        let all = &*all;
        let mut entries = all.iter().flat_map(|channel| &channel.entries);
        let entry = entries.find(|entry| entry.name == from);
        let installed = Installed {
            name: from,
            version: entry.and_then(|entry| Version::parse(&entry.version).ok()),
        };
        Some(plan(all, &installed, Some(to), self.rules))
    }

    /// The table of the shown channels.
    pub(crate) fn matrix<'b>(
        &self,
        shown: &[&'b ChannelRecord<'b>],
        way: Option<&Plan<'_>>,
    ) -> Matrix<'b> {
        let steps = way.map_or(&[][..], |way| &way.steps);
        let way: Vec<WayStep<'_>> = steps
            .iter()
            .map(|step| WayStep {
                channel: step.channel,
                from: step.from,
                to: step.to,
            })
            .collect();
        let selected: Vec<&str> = [self.from, self.to].into_iter().flatten().collect();
        let view = MatrixView {
            all: self.all_rows,
            rules: self.rules,
            selected: &selected,
            way: &way,
        };
        Matrix::of(shown, view)
    }

    /// The parameters of the address, with another selection.
    fn parameters(&self, from: Option<&'a str>, to: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
        let channels = self.channels.iter().filter(|_| !self.all_channels);
        let mut parameters: Vec<(&str, &str)> = channels.map(|name| ("channel", *name)).collect();
        let default = Rules::default();
        for (is_so, name, value) in [
            (self.all_channels, "channels", "all"),
            (self.rules != default, "rules", self.rules.as_str()),
            (self.all_rows, "rows", "all"),
            (self.words, "view", "table"),
        ] {
            if is_so {
                parameters.push((name, value));
            }
        }
        parameters.push(("from", from.unwrap_or_default()));
        parameters.push(("to", to.unwrap_or_default()));
        parameters
    }

    /// The address of the page with another selection.
    pub(super) fn selecting(
        &self,
        subject: &Subject<'_>,
        from: Option<&str>,
        to: Option<&str>,
    ) -> String {
        let view: &View<'_> = self;
        links::with(&subject.tab("versions"), &view.parameters(from, to))
    }

    /// The address of the page with all rows, or with all channels.
    pub(super) fn with_all(&self, subject: &Subject<'_>, rows: bool, channels: bool) -> String {
        let view = View {
            channels: self.channels.clone(),
            all_channels: self.all_channels || channels,
            all_rows: self.all_rows || rows,
            ..*self
        };
        view.selecting(subject, self.from, self.to)
    }

    /// The address of a file with the same content as the page.
    pub(super) fn file(
        &self,
        subject: &Subject<'_>,
        shown: &[&ChannelRecord<'_>],
        name: &str,
    ) -> String {
        let mut parameters = self.parameters(self.from, self.to);
        parameters.retain(|(name, _)| !matches!(*name, "channel" | "view"));
        if !self.all_channels {
            parameters.extend(shown.iter().map(|channel| ("channel", &*channel.name)));
        }
        links::with(&subject.tab(name), &parameters)
    }
}

/// The default channel, then the others by their heads, the highest first.
pub(crate) fn ordered<'a>(all: &'a [ChannelRecord<'a>]) -> Vec<&'a ChannelRecord<'a>> {
    let mut order: Vec<&ChannelRecord<'_>> = all.iter().collect();
    order.sort_by_cached_key(|one| {
        let version = Version::parse(&one.version).ok();
        (!one.default, Reverse(version), one.name.clone())
    });
    order
}
