//! A catalog whose content is known, and what answers have shown of it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::fleet::Place;
use crate::support::catalog::{Catalog, Format, entry};
use crate::support::image::{Built, Image};

/// The number of variants. Fewer publications are under way at any time.
pub(crate) const VARIANTS: usize = 8;
const PACKAGES: usize = 12;

/// One content of the catalog.
pub(crate) struct Variant {
    pub(crate) image: Built,
    pub(crate) text: String,
    pub(crate) packages: Vec<String>,
}

/// The catalog.
pub(crate) struct Known {
    pub(crate) variants: Vec<Variant>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many contents were published.
    published: usize,
    /// The last publication that each client has seen, and where.
    seen: BTreeMap<usize, (usize, Place)>,
    answers: u64,
    excused: u64,
    /// What goes on, for violations.
    event: String,
    violations: Vec<String>,
}

impl Known {
    pub(crate) fn new() -> Self {
        Self {
            variants: (0..VARIANTS).map(Variant::new).collect(),
            state: Mutex::default(),
        }
    }

    /// Begins the next publication, and returns its content.
    pub(crate) fn next(&self) -> &Variant {
        let mut state = self.state.lock().unwrap();
        state.published += 1;
        &self.variants[(state.published - 1) % VARIANTS]
    }

    /// The last published content.
    pub(crate) fn last(&self) -> &Variant {
        let published = self.state.lock().unwrap().published;
        &self.variants[(published - 1) % VARIANTS]
    }

    /// Notes what goes on from now on.
    pub(crate) fn happens(&self, event: &str) {
        event.clone_into(&mut self.state.lock().unwrap().event);
    }

    /// Takes an answer of a replica to a client.
    pub(crate) fn take(
        &self,
        client: usize,
        replica: Option<Place>,
        of: impl Fn(&Variant) -> bool,
    ) {
        let mut state = self.state.lock().unwrap();
        state.answers += 1;
        let Some(variant) = self.variants.iter().position(of) else {
            state.violate("an answer is of no variant");
            return;
        };
        let last = (0..state.published).rfind(|number| number % VARIANTS == variant);
        let (Some(number), Some(replica)) = (last, replica) else {
            state.violate(&format!("variant {variant} was not published"));
            return;
        };
        let before = state.seen.insert(client, (number, replica));
        if let Some((seen, place)) = before
            && place == replica
            && seen > number
        {
            let port = replica.http.port();
            state.violate(&format!(
                "publication {number} came after {seen} from {port}"
            ));
        }
    }

    /// Notes a request that failed, and whether its replica was killed meanwhile.
    pub(crate) fn failed(&self, is_excused: bool, problem: &str) {
        let mut state = self.state.lock().unwrap();
        if is_excused {
            state.excused += 1;
        } else {
            state.violate(problem);
        }
    }

    /// Notes something that must not be.
    pub(crate) fn wrong(&self, problem: &str) {
        self.failed(false, problem);
    }

    /// Prints the counts of answers. Returns whether all were right.
    pub(crate) fn report(&self) -> bool {
        let state = self.state.lock().unwrap();
        println!(
            "  {} publications, {} answers, {} requests lost with what was killed",
            state.published, state.answers, state.excused
        );
        println!("  {} violations", state.violations.len());
        for problem in state.violations.iter().take(20) {
            println!("  VIOLATION {problem}");
        }
        state.violations.is_empty()
    }
}

impl State {
    /// Notes a violation, with the time of day as logs of replicas have it.
    fn violate(&mut self, problem: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let (of_day, millis) = (now.as_secs() % 86_400, now.subsec_millis());
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let during = &self.event;
        let told =
            format!("{hour:02}:{minute:02}:{second:02}.{millis:03} {problem}, during: {during}");
        self.violations.push(told);
    }
}

impl Variant {
    fn new(number: usize) -> Self {
        let mut catalog = Catalog::new();
        let mut packages = Vec::new();
        for package in 0..PACKAGES {
            let name = format!("p{number}-{package:02}");
            let version = format!("{name}.v1.0.0");
            catalog = catalog.package(&name, |filled| {
                filled
                    .description(&format!("variant {number} ").repeat(200))
                    .channel("stable", [entry(&version)])
            });
            packages.push(name);
        }
        Self {
            text: catalog.text(Format::JsonLines),
            image: Image::of_catalog(&catalog).build(),
            packages,
        }
    }
}
