//! Layers of settings: flags, the environment and the file.

/// A setting, or a group of settings, of one layer.
pub(super) trait Layer {
    /// This setting, or that of the `lower` layer if it is absent.
    fn or_lower(self, lower: Self) -> Self;
}

impl<T> Layer for Option<T> {
    fn or_lower(self, lower: Self) -> Self {
        self.or(lower)
    }
}

/// A list replaces the whole list of the lower layer.
impl<T> Layer for Vec<T> {
    fn or_lower(self, lower: Self) -> Self {
        if self.is_empty() { lower } else { self }
    }
}

impl Layer for bool {
    fn or_lower(self, lower: Self) -> Self {
        self || lower
    }
}

/// Makes a group of these settings. All fields must be named, so that a new one
/// cannot be forgotten.
macro_rules! layer {
    ($group:ident: $($field:ident),* $(,)?) => {
        impl $crate::config::layer::Layer for $group {
            fn or_lower(self, lower: Self) -> Self {
                use $crate::config::layer::Layer;
                Self { $($field: Layer::or_lower(self.$field, lower.$field)),* }
            }
        }
    };
}
pub(super) use layer;
