//! Following sources: what makes revisions of catalogs and publishes them.
//!
//! `pass` is one pass, `follow` the loop around it, `curate` what a pass over a
//! selection of other catalogs is, `folder` a revision of a folder that is not
//! followed, `load` a reading without a revision, `encode` what is made of a
//! revision once it is served, `images` what can be pulled of a catalog,
//! `archive` carries catalogs in a file. Answering clients is left to `serve`;
//! the two meet in `snapshot`.

pub mod archive;
mod build;
mod curate;
mod encode;
mod error;
mod files;
mod folder;
mod follow;
mod images;
mod labels;
mod legacy;
mod load;
mod ordered;
mod pass;
mod problem_log;
mod pull;
mod queries;
mod read;
mod source;
mod wait_until_quiet;
mod watch;

pub use curate::{CurateError, Curation};
pub use encode::encode;
pub use error::{Cause, PassError, Stage};
pub use files::FilesError;
pub use folder::{digest_of_folder, store_folder};
pub use follow::{follow, forget, restore};
pub use images::{Mirror, keep_image, restore_image};
pub use load::{LoadOptions, Loaded, Reading, Spool, load};
pub use pass::{Followed, PassResult, Workshop, run_once};
pub use source::{LayoutSource, Source, SourceError};

/// Says what the metrics of this module mean.
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
    describe_counter!(
        "almanac_pulled_bytes_total",
        Unit::Bytes,
        "Bytes of layers and image configurations that came from registries"
    );
    describe_counter!(
        "almanac_pull_resumptions_total",
        "Times that a pull went on after its body was cut"
    );
    describe_gauge!(
        "almanac_spare_blob_bytes",
        Unit::Bytes,
        "Bytes of blobs that are kept though no revision was made from them"
    );
    describe_counter!(
        "almanac_passes_total",
        "Passes over a catalog, by catalog and outcome"
    );
    describe_counter!(
        "almanac_pass_failures_total",
        "Passes that failed or were refused, by catalog, stage and reason"
    );
    describe_gauge!(
        "almanac_last_pass_timestamp_seconds",
        "When the last pass over a catalog ended"
    );
    describe_histogram!(
        "almanac_stage_seconds",
        Unit::Seconds,
        "Time that a stage of a pass took, by stage"
    );
    describe_histogram!(
        "almanac_image_seconds",
        Unit::Seconds,
        "Time that the making of an image took"
    );
    describe_counter!(
        "almanac_image_failures_total",
        "Images that could not be made, by catalog and reason"
    );
    describe_gauge!(
        "almanac_catalog_objects",
        "What is served of a catalog, by catalog and kind"
    );
    describe_gauge!(
        "almanac_catalog_problems",
        "Problems of the catalog that is served, by catalog and severity"
    );
    describe_gauge!(
        "almanac_catalog_modified_timestamp_seconds",
        "When the content of a catalog last changed"
    );
    describe_gauge!(
        "almanac_catalog_encoded_bytes",
        Unit::Bytes,
        "Size of the whole catalog in an encoding that is ready, by catalog and encoding"
    );
}

/// What to do with a catalog whose packages are not all valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnInvalid {
    /// Leave those packages out of the gRPC answers and serve the rest.
    #[default]
    Quarantine,
    /// Refuse the catalog and keep what was served.
    Reject,
}
