//! The texts that packages are searched by.

/// The searched texts of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchRow {
    /// Its number in the index's `queries`.
    pub package: u32,
    /// Its name.
    pub name: String,
    /// Its display name.
    pub display_name: String,
    /// Its keywords.
    pub keywords: String,
    /// The kinds it provides.
    pub kinds: String,
    /// The name of its provider.
    pub provider: String,
    /// Its description.
    pub description: String,
}
