//! What every type of a setting can do.

use std::path::PathBuf;

/// The type of a setting: a value, a list or a group.
pub(crate) trait Setting: Sized {
    /// The text for an absent value.
    #[cfg(test)]
    const ABSENT: &'static str = "none";

    /// This setting, or that of the `lower` layer if it is absent. A value that is never
    /// absent stays.
    fn or_lower(self, _lower: Self) -> Self {
        self
    }

    /// Calls a function with each path.
    fn visit_paths(&mut self, _visit: &mut dyn FnMut(&mut PathBuf)) {}

    /// The JSON schema of its values.
    #[cfg(test)]
    fn schema() -> serde_json::Value;
}

impl<T: Setting> Setting for Option<T> {
    #[cfg(test)]
    const ABSENT: &'static str = T::ABSENT;

    fn or_lower(self, lower: Self) -> Self {
        self.or(lower)
    }

    fn visit_paths(&mut self, visit: &mut dyn FnMut(&mut PathBuf)) {
        if let Some(value) = self {
            value.visit_paths(visit);
        }
    }

    #[cfg(test)]
    fn schema() -> serde_json::Value {
        T::schema()
    }
}

/// A list replaces the whole list of the lower layer.
impl<T: Setting> Setting for Vec<T> {
    #[cfg(test)]
    const ABSENT: &'static str = "`[]`";

    fn or_lower(self, lower: Self) -> Self {
        if self.is_empty() { lower } else { self }
    }

    fn visit_paths(&mut self, visit: &mut dyn FnMut(&mut PathBuf)) {
        for value in self {
            value.visit_paths(visit);
        }
    }

    #[cfg(test)]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "array", "items": T::schema() })
    }
}

/// A switch is on if any layer says so.
impl Setting for bool {
    #[cfg(test)]
    const ABSENT: &'static str = "`false`";

    fn or_lower(self, lower: Self) -> Self {
        self || lower
    }

    #[cfg(test)]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "boolean" })
    }
}

/// Types that have no paths, with their JSON schemas.
macro_rules! plain_setting {
    ($($type:ty: $schema:tt;)*) => {$(
        impl $crate::config::declaration::Setting for $type {
            #[cfg(test)]
            fn schema() -> serde_json::Value {
                serde_json::json!($schema)
            }
        }
    )*};
}
pub(crate) use plain_setting;
