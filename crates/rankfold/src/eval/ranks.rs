//! Where the positives of one query stand among all candidates, without
//! sorting the candidates.
//!
//! Only the positives are sorted. Every other score falls into the gap
//! between two of them, and the negatives in all gaps down to a positive are
//! those that rank before it: O(n log p) without a branch to mispredict, for p
//! positives among n candidates.

use std::hint::select_unpredictable;

/// Searches that run side by side, so that one waits for memory while
/// another compares.
const SEARCHES: usize = 8;

/// No candidate: below every score, and so before no positive.
const ABSENT: u64 = 0;

/// The buffers of one thread.
#[derive(Default)]
pub(super) struct Ranks {
    keys: Vec<u64>,
    positives: Vec<u64>,
    /// Negatives in the gap before each positive, then below the last one.
    gaps: Vec<u32>,
    ranks: Vec<usize>,
}

impl Ranks {
    /// The ranks, from 1 and rising, of the `members` of a class. Where the query
    /// itself is one of them, it is no candidate.
    pub fn of_members(
        &mut self,
        scores: &[f64],
        members: &[u32],
        query: Option<usize>,
    ) -> &[usize] {
        self.keys.clear();
        self.keys.extend(scores.iter().map(|&score| key(score)));

        self.positives.clear();
        for &member in members {
            let key = std::mem::replace(&mut self.keys[member as usize], ABSENT);
            if Some(member as usize) != query {
                self.positives.push(key);
            }
        }
        self.positives.sort_unstable_by(|a, b| b.cmp(a));

        self.gaps.clear();
        self.gaps.resize(self.positives.len() + 1, 0);
        self.keys
            .resize(scores.len().next_multiple_of(SEARCHES), ABSENT);
        count_gaps(&mut self.gaps, &self.positives, &self.keys);

        self.ranks.clear();
        let mut negatives = 0;
        for (j, &gap) in self.gaps[..self.positives.len()].iter().enumerate() {
            negatives += gap as usize;
            self.ranks.push(j + 1 + negatives);
        }
        &self.ranks
    }
}

/// An integer in the order of the scores: equal for ±0, [`ABSENT`] for none,
/// 1 for NaN.
#[inline(always)]
pub(super) fn key(score: f64) -> u64 {
    // Adding 0 turns −0 into 0.
    let bits = (score + 0.0).to_bits();
    // A negative number has all its bits flipped, another one its sign set.
    let flip = ((bits as i64 >> 63) as u64) | 1 << 63;
    if score.is_nan() { 1 } else { bits ^ flip }
}

/// Counts each key in the gap before the first positive that is not above it.
fn count_gaps(gaps: &mut [u32], falling: &[u64], keys: &[u64]) {
    if falling.is_empty() {
        return;
    }
    let (chunks, _) = keys.as_chunks::<SEARCHES>();
    for keys in chunks {
        let mut found = [0; SEARCHES];
        let mut length = falling.len();
        while length > 1 {
            let half = length / 2;
            for (found, key) in found.iter_mut().zip(keys) {
                let above = falling[*found + half - 1] > *key;
                // Even odds: a jump would be mispredicted every other time.
                *found += select_unpredictable(above, half, 0);
            }
            length -= half;
        }
        for (found, key) in found.iter().zip(keys) {
            let above = falling[*found] > *key;
            gaps[found + usize::from(above)] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_order_of_scores() {
        let rising = [
            f64::NAN,
            f64::NEG_INFINITY,
            -1e300,
            -1.0,
            -f64::MIN_POSITIVE / 2.0,
            0.0,
            f64::MIN_POSITIVE,
            1.0,
            f64::INFINITY,
        ];
        assert!(rising.map(key).is_sorted_by(|a, b| a < b));
        assert_eq!(key(-0.0), key(0.0));
        assert_eq!(key(-f64::NAN), key(f64::NAN));
        assert!(key(f64::NAN) > ABSENT);
    }

    #[test]
    fn ranks_of_a_small_example() {
        //            query          positive  negative  positive       negative
        let scores = [f64::INFINITY, 2.0, 2.0, f64::NAN, f64::NEG_INFINITY];
        let mut ranks = Ranks::default();
        assert_eq!(ranks.of_members(&scores, &[0, 1, 3], Some(0)), [2, 4]);
        assert_eq!(ranks.of_members(&scores, &[2, 4], Some(2)), [3]);
        assert!(ranks.of_members(&scores, &[4], Some(4)).is_empty());
        // A query that is no candidate: all members count.
        assert_eq!(ranks.of_members(&scores, &[0, 1, 3], None), [1, 3, 5]);
    }
}
