//! Lists of the images that a selection needs, in the forms that tools read.

mod forms;
mod places;

pub use forms::{Form, FormError};
pub use places::{Places, Taken};
