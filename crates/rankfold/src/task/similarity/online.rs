//! Triplets of rows whose classes are known, for a similarity that goes on learning.

use super::classes;
use crate::data::Labels;
use crate::random::{Random, splitmix64};
use crate::sample::{LabelTriplets, Triplets};
use crate::task::online::Online;
use crate::{Real, Result};

/// The stream of random numbers that draws triplets after training.
const LATER: u64 = 0x6c61_7465;

impl<R: Real> Online<R> {
    /// Draws triplets from the classes of rows. The draws follow from the seed of the
    /// model and from the number of its steps so far.
    pub fn triplets_of(&self, labels: &Labels) -> Result<Triplets> {
        let classes = classes(labels, |i| i.to_string())?;
        let all: Vec<u32> = (0..classes.len() as u32).collect();
        let purpose = splitmix64(LATER ^ self.card().counters.steps);
        let random = Random::new(self.card().seed, purpose);
        LabelTriplets::new(&classes, &all, random).map(Triplets::Labels)
    }
}
