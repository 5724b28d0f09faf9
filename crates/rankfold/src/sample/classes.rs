//! Drawing triplets from things that are sorted by class: a query with a positive, then a
//! negative of another class, at random or the hardest of several.

use super::Triplet;
use crate::random::Random;

/// The first place of a class among sorted things, and the one behind its last.
pub(super) type Class = (u32, u32);

/// A source that draws from classes in constant time.
pub(super) trait FromClasses {
    /// A query with a positive, and the class of both. The negative is still to be drawn.
    fn draw_pair(&mut self) -> (Class, Triplet);

    /// The generator, and what negatives are drawn from, sorted by class.
    fn candidates(&mut self) -> (&mut Random, &[u32]);

    /// A triplet.
    #[inline]
    fn draw(&mut self) -> Triplet {
        let (class, mut triplet) = self.draw_pair();
        triplet.negative = self.draw_negative(class);
        triplet
    }

    /// A triplet whose negative is, of so many drawn for the query, the one that
    /// `hardness` rates highest, the first of equals.
    fn draw_hard(
        &mut self,
        candidates: usize,
        mut hardness: impl FnMut(Triplet) -> f64,
    ) -> Triplet {
        let (class, mut triplet) = self.draw_pair();
        let mut hardest = (f64::NEG_INFINITY, triplet);
        for candidate in 0..candidates {
            triplet.negative = self.draw_negative(class);
            let found = hardness(triplet);
            if candidate == 0 || found > hardest.0 {
                hardest = (found, triplet);
            }
        }
        hardest.1
    }

    /// One of the candidates, not of the class from `start` to `end`.
    #[inline]
    fn draw_negative(&mut self, (start, end): Class) -> u32 {
        let (random, things) = self.candidates();
        let (start, size) = (start as usize, (end - start) as usize);
        let mut drawn = random.below(things.len() - size);
        if drawn >= start {
            drawn += size;
        }
        things[drawn]
    }
}
