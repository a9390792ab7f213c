//! The numbers of tracks and generations.

/// A catalog of one configuration, as the database numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrackId(pub(super) i32);

/// The number of a generation. The numbers of all tracks are one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GenerationNumber(pub(super) i64);

/// The numbers of tracks, as statements take them.
pub(super) fn numbers(tracks: &[TrackId]) -> Vec<i32> {
    tracks.iter().map(|track| track.0).collect()
}
