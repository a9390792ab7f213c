//! The lifecycles of a package: whether there is at most one, and whether it fits its
//! schema. `opm` reads none of them, so all findings are warnings.

use std::collections::HashMap;

use crate::document::{Blobs, LifecycleBlob, Located};
use crate::graph::report::{About, Report};
use crate::problem::Code;

/// The lifecycles of a catalog, by package.
pub(crate) struct Lifecycles<'a>(HashMap<&'a str, Vec<&'a Located<LifecycleBlob>>>);

impl<'a> Lifecycles<'a> {
    pub(crate) fn new(blobs: &'a Blobs) -> Self {
        let mut of_package: HashMap<&str, Vec<_>> = HashMap::new();
        for located in &blobs.lifecycles {
            let package = located.blob.package.as_str();
            of_package.entry(package).or_default().push(located);
        }
        Self(of_package)
    }

    /// Checks those of a package.
    pub(crate) fn check(&self, package: &str, report: &mut Report<'_>) {
        let own = self.0.get(package).into_iter().flatten();
        for (number, located) in own.enumerate() {
            if number > 0 {
                let text = "has a second blob, so no support phase is shown; make them one";
                report.warning(Code::LifecycleDuplicate, About::Lifecycle, located, text);
            }
            for defect in &located.blob.defects {
                report.warning(defect.code, About::Lifecycle, located, &defect.message);
            }
        }
    }
}
