//! Scores from dense rows: the dot products of left rows with right rows, or how
//! near they are.
//!
//! The right rows are packed in panels of eight, coordinate by coordinate, so
//! that eight scores grow side by side and each is summed in the order of its
//! coordinates: a score has the same bits whatever is computed next to it. Sums
//! are `f64`, products of `f32` rows therefore exact, and nothing is fused, so
//! the bits are the same on processors with and without wide registers too.

use super::Scorer;
use super::rough::Rough;
use crate::Real;
use std::borrow::Cow;

/// Right rows of a panel.
pub(super) const LANES: usize = 8;
/// Queries that share a panel while their sums are in registers.
const QUERIES: usize = 4;

/// Right rows, packed to be scored with any left rows.
#[derive(Debug, Clone)]
pub struct Panels<R> {
    /// Panels of `rank` × [`LANES`], the last one filled up with zeros.
    panels: Vec<R>,
    rank: usize,
    candidates: usize,
    near: bool,
    /// The length of the longest row.
    longest: f64,
}

impl<R: Real> Panels<R> {
    /// Packs rows of `rank` coordinates, one after the other. Scores are dot products, or for
    /// `near` minus the squares of distances.
    #[track_caller]
    pub fn new(right: &[R], rank: usize, near: bool) -> Self {
        assert!(rank > 0, "rows need at least one coordinate");
        assert_eq!(right.len() % rank, 0, "whole rows of {rank} coordinates");
        let rows = right.len() / rank;
        let mut panels = vec![R::default(); rows.div_ceil(LANES) * LANES * rank];
        let sources = right.chunks(LANES * rank);
        for (panel, source) in panels.chunks_exact_mut(LANES * rank).zip(sources) {
            for (lane, row) in source.chunks_exact(rank).enumerate() {
                for (t, &value) in row.iter().enumerate() {
                    panel[t * LANES + lane] = value;
                }
            }
        }
        let length = |row: &[R]| row.iter().map(|v| v.to_f64().powi(2)).sum::<f64>().sqrt();
        // What is not a number stays to be seen.
        let longest = |longest: f64, row| match length(row) {
            length if length <= longest || longest.is_nan() => longest,
            length => length,
        };
        Panels {
            longest: right.chunks_exact(rank).fold(0.0, longest),
            panels,
            rank,
            candidates: rows,
            near,
        }
    }

    /// How many rows are packed.
    pub fn len(&self) -> usize {
        self.candidates
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.candidates == 0
    }

    /// Coordinates of a row.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The coordinates of a row.
    #[track_caller]
    pub fn row(&self, i: usize) -> impl Iterator<Item = R> + '_ {
        assert!(i < self.candidates, "row {i} of {}", self.candidates);
        let panel = &self.panels[i / LANES * LANES * self.rank..][..LANES * self.rank];
        panel.iter().skip(i % LANES).step_by(LANES).copied()
    }

    /// Where scores may be cut into parts: at multiples of this many rows.
    pub const PART: usize = 2048;

    /// The scores of left rows with the rows of a part, whose number counts from 0: those of the
    /// first left row, then those of the second.
    pub(super) fn scores_of_part(&self, out: &mut [f64], left: &[R], part: usize) -> usize {
        let first = part * Self::PART;
        let rows = Self::PART.min(self.candidates - first);
        let panels = &self.panels[first * self.rank..];
        let panels = &panels[..rows.div_ceil(LANES) * LANES * self.rank];
        self.score_panels(
            &mut out[..left.len() / self.rank * rows],
            left,
            panels,
            rows,
        );
        rows
    }

    fn score_panels(&self, out: &mut [f64], left: &[R], panels: &[R], rows: usize) {
        // Coordinates of the queries of a group side by side; a group that is
        // not full is filled up with zeros.
        let queries = left.len() / self.rank;
        let mut groups = vec![[0.0; QUERIES]; queries.div_ceil(QUERIES) * self.rank];
        for (i, row) in left.chunks_exact(self.rank).enumerate() {
            let group = &mut groups[i / QUERIES * self.rank..][..self.rank];
            for (slot, &value) in group.iter_mut().zip(row) {
                slot[i % QUERIES] = value.to_f64();
            }
        }
        let score = match self.near {
            true => score::<R, true>,
            false => score::<R, false>,
        };
        score(out, panels, &groups, self.rank, rows);
    }
}

/// Left and right rows of a low-rank model: the score of i with j is the dot
/// product of left row i and right row j.
///
/// Holds a copy of the right rows, and borrows the left ones or owns them.
#[derive(Debug, Clone)]
pub struct Embedded<'a, R: Clone> {
    left: Cow<'a, [R]>,
    right: Panels<R>,
}

impl<'a, R: Real> Embedded<'a, R> {
    /// The same rows scored by how near they are: minus the square of their
    /// distance, summed from differences, so that small ones keep their digits.
    #[track_caller]
    pub fn near(left: &'a [R], right: &[R], rank: usize) -> Self {
        Self::of(Cow::Borrowed(left), Panels::new(right, rank, true))
    }

    /// From rows of `rank` coordinates each, one row after the other.
    #[track_caller]
    pub fn new(left: &'a [R], right: &[R], rank: usize) -> Self {
        Self::of(Cow::Borrowed(left), Panels::new(right, rank, false))
    }

    /// The same with left rows of its own.
    #[track_caller]
    pub fn owning(left: Vec<R>, right: &[R], rank: usize) -> Self {
        Self::of(Cow::Owned(left), Panels::new(right, rank, false))
    }

    /// By how near they are, with left rows of its own.
    #[track_caller]
    pub fn owning_near(left: Vec<R>, right: &[R], rank: usize) -> Self {
        Self::of(Cow::Owned(left), Panels::new(right, rank, true))
    }

    #[track_caller]
    fn of(left: Cow<'a, [R]>, right: Panels<R>) -> Self {
        let rank = right.rank;
        assert_eq!(left.len() % rank, 0, "whole rows of {rank} coordinates");
        Embedded { left, right }
    }
}

impl<R: Real> Scorer for Embedded<'_, R> {
    fn rows(&self) -> usize {
        self.left.len() / self.right.rank
    }

    fn candidates(&self) -> usize {
        self.right.candidates
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        let (right, rank) = (&self.right, self.right.rank);
        let left = &self.left[first * rank..(first + queries) * rank];
        right.score_panels(out, left, &right.panels, right.candidates);
    }

    fn rough(&self, first: usize, queries: usize) -> Option<Rough<'_>> {
        let rank = self.right.rank;
        let left = R::singles(&self.left)?;
        Some(Rough {
            left: &left[first * rank..(first + queries) * rank],
            panels: R::singles(&self.right.panels)?,
            rank,
            candidates: self.right.candidates,
            near: self.right.near,
            longest: self.right.longest,
        })
    }

    fn score_one(&self, row: usize, candidate: usize) -> f64 {
        let rank = self.right.rank;
        let left = self.left[row * rank..][..rank].iter();
        let pairs = left.zip(self.right.row(candidate));
        let pairs = pairs.map(|(l, r)| (l.to_f64(), r.to_f64()));
        match self.right.near {
            true => pairs.fold(0.0, |sum, (l, r)| sum - (l - r) * (l - r)),
            false => pairs.fold(0.0, |sum, (l, r)| sum + l * r),
        }
    }
}

type Group = [f64; QUERIES];

/// Scores all groups of queries with all panels.
fn score<R: Real, const NEAR: bool>(
    out: &mut [f64],
    panels: &[R],
    groups: &[Group],
    rank: usize,
    rows: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has just been asked.
        unsafe { score_avx2::<R, NEAR>(out, panels, groups, rank, rows) };
        return;
    }
    score_anywhere::<R, NEAR>(out, panels, groups, rank, rows);
}

/// The same loops, compiled for wider registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn score_avx2<R: Real, const NEAR: bool>(
    out: &mut [f64],
    panels: &[R],
    groups: &[Group],
    rank: usize,
    rows: usize,
) {
    score_anywhere::<R, NEAR>(out, panels, groups, rank, rows);
}

#[inline(always)]
fn score_anywhere<R: Real, const NEAR: bool>(
    out: &mut [f64],
    panels: &[R],
    groups: &[Group],
    rank: usize,
    rows: usize,
) {
    for (p, panel) in panels.chunks_exact(rank * LANES).enumerate() {
        let columns = p * LANES..rows.min((p + 1) * LANES);
        let outs = out.chunks_mut(rows * QUERIES);
        for (group, out) in groups.chunks_exact(rank).zip(outs) {
            let sums = product::<R, NEAR>(panel.as_chunks().0, group);
            for (out, sums) in out.chunks_exact_mut(rows).zip(sums) {
                out[columns.clone()].copy_from_slice(&sums[..columns.len()]);
            }
        }
    }
}

/// Four queries by eight right rows, coordinate after coordinate.
#[inline(always)]
fn product<R: Real, const NEAR: bool>(
    panel: &[[R; LANES]],
    group: &[Group],
) -> [[f64; LANES]; QUERIES] {
    let mut sums = [[0.0; LANES]; QUERIES];
    for (right, left) in panel.iter().zip(group) {
        let right = right.map(R::to_f64);
        for (sums, left) in sums.iter_mut().zip(left) {
            for (sum, right) in sums.iter_mut().zip(right) {
                if NEAR {
                    let difference = left - right;
                    *sum -= difference * difference;
                } else {
                    *sum += left * right;
                }
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern that the loops could share.
    fn numbers(count: usize, seed: u32) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 24) - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn scores_are_plain_sums_in_every_block() {
        let shapes = [(1, 1), (7, 3), (8, 30), (9, 1), (21, 31), (40, 4)];
        for ((rows, rank), more) in shapes.into_iter().flat_map(|s| [(s, 0), (s, 11)]) {
            let candidates = rows + more;
            let (left, right) = (numbers(rows * rank, 1), numbers(candidates * rank, 2));
            let scorer = Embedded::new(&left, &right, rank);
            let dot = |i: usize, j: usize| {
                let coordinates = 0..rank;
                coordinates.fold(0.0, |sum, t| sum + left[i * rank + t] * right[j * rank + t])
            };
            for (first, queries) in [(0, rows), (0, 1), (rows - 1, 1), (rows / 3, rows / 2)] {
                let mut out = vec![f64::NAN; queries * candidates];
                scorer.scores(&mut out, first, queries);
                for (i, score) in out.into_iter().enumerate() {
                    assert_eq!(score, dot(first + i / candidates, i % candidates));
                }
            }
        }
    }

    #[test]
    fn nearness_is_minus_the_squared_distance() {
        let (left, right) = (numbers(15, 1), numbers(33, 2));
        let mut out = vec![f64::NAN; 5 * 11];
        Embedded::near(&left, &right, 3).scores(&mut out, 0, 5);
        for (at, score) in out.into_iter().enumerate() {
            let (i, j) = (at / 11, at % 11);
            let squares = (0..3).map(|t| (left[i * 3 + t] - right[j * 3 + t]).powi(2));
            assert_eq!(score, -squares.sum::<f64>());
        }
    }

    #[test]
    fn single_precision_rows_are_multiplied_exactly() {
        let left = [1e-20_f32, 3.0, 1.0, 1.0];
        let scorer = Embedded::new(&left, &left, 2);
        let mut out = [0.0; 4];
        scorer.scores(&mut out, 0, 2);
        let small = f64::from(1e-20_f32);
        assert_eq!(out, [small * small + 9.0, small + 3.0, small + 3.0, 2.0]);
    }
}
