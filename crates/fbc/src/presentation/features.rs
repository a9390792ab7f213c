//! Infrastructure features of an operator, stated by two families of annotations.
//!
//! The newer family has an annotation for each feature with `"true"` or `"false"`; the
//! older one is a JSON list. A `"false"` of the newer outweighs the list. The spellings
//! in lists are folded as the console of OpenShift folds them
//! (`operator-hub-utils.ts`).

use std::collections::BTreeSet;

/// The features, as the newer annotations name them.
const KNOWN: [&str; 10] = [
    "disconnected",
    "fips-compliant",
    "proxy-aware",
    "tls-profiles",
    "token-auth-aws",
    "token-auth-azure",
    "token-auth-gcp",
    "cnf",
    "cni",
    "csi",
];

/// Spellings in lists, in lower case without hyphens, and the feature that they mean.
const SPELLINGS: [(&str, &str); 14] = [
    ("disconnected", "disconnected"),
    ("proxy", "proxy-aware"),
    ("proxyaware", "proxy-aware"),
    ("fips", "fips-compliant"),
    ("fipsmode", "fips-compliant"),
    ("tls", "tls-profiles"),
    ("tlsprofiles", "tls-profiles"),
    ("cnf", "cnf"),
    ("cni", "cni"),
    ("csi", "csi"),
    ("sno", "single-node"),
    ("tokenauth", "token-auth-aws"),
    ("tokenauthaws", "token-auth-aws"),
    ("tokenauthgcp", "token-auth-gcp"),
];

/// The features of a bundle, while its annotations are read.
#[derive(Debug, Default)]
pub(super) struct Features {
    supported: BTreeSet<&'static str>,
    refused: BTreeSet<&'static str>,
    unclear: BTreeSet<&'static str>,
}

impl Features {
    /// Adds the items of the older annotation. Unknown ones are passed over.
    pub(super) fn list(&mut self, items: &[String]) {
        for item in items {
            let folded = item.to_ascii_lowercase().replace(['-', '_', ' '], "");
            let known = SPELLINGS.iter().find(|(spelling, _)| *spelling == folded);
            self.supported.extend(known.map(|(_, feature)| *feature));
        }
    }

    /// Adds an annotation of the newer family.
    pub(super) fn state(&mut self, feature: &str, value: &str) {
        let Some(known) = KNOWN.iter().find(|known| **known == feature) else {
            return;
        };
        match value {
            "true" => self.supported.insert(known),
            "false" => self.refused.insert(known),
            // Such as a word in curly quotes.
            _ => self.unclear.insert(known),
        };
    }

    /// The supported features, sorted.
    pub(super) fn supported(&self) -> Vec<String> {
        let supported = self.supported.difference(&self.refused);
        supported.map(|feature| (*feature).to_owned()).collect()
    }

    /// The features with another value than `true` and `false`, sorted.
    pub(super) fn unclear(&self) -> Vec<String> {
        let unclear = self.unclear.iter();
        unclear.map(|feature| (*feature).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_false_outweighs_the_list_and_only_true_supports() {
        let mut features = Features::default();
        features.list(&["Disconnected", "FIPS", "ProxyAware", "unheard"].map(str::to_owned));
        features.state("fips-compliant", "false");
        features.state("csi", "true");
        features.state("cni", "\u{201c}true\u{201d}");
        features.state("unheard", "true");
        assert_eq!(features.supported(), ["csi", "disconnected", "proxy-aware"]);
        assert_eq!(features.unclear(), ["cni"]);
    }
}
