//! Where a map starts: classical scaling of all distances, those that are not known
//! replaced by the shortest way along known ones.

use crate::linalg::symmetric;
use crate::memory;
use crate::sparse::Dissimilarity;
use faer::Mat;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Items up to which all distances are found: the work grows with their cube.
const MOST_ITEMS: usize = 2000;

/// Parts that nothing connects are so many times the largest distance apart.
const APART: f64 = 1.5;

/// Classical scaling to `rank` coordinates; `None` where there are too many items.
pub(crate) fn classical(n: usize, known: &[Dissimilarity], rank: usize) -> Option<Mat<f64>> {
    let needed = 40 * n as u128 * n as u128;
    if n > MOST_ITEMS || memory::require(needed, "all distances").is_err() {
        return None;
    }
    let mut squares = completed(n, known);
    squares.iter_mut().for_each(|d| *d *= *d);
    let mean = |i: usize| squares[i * n..][..n].iter().sum::<f64>() / n as f64;
    let means: Vec<f64> = (0..n).map(mean).collect();
    let all = means.iter().sum::<f64>() / n as f64;
    let centered = Mat::from_fn(n, n, |i, j| {
        -0.5 * (squares[i * n + j] - means[i] - means[j] + all)
    });
    let (values, vectors) = symmetric::eigen(&centered)?;
    Some(Mat::from_fn(n, rank, |i, c| {
        vectors[(i, n - 1 - c)] * values[n - 1 - c].max(0.0).sqrt()
    }))
}

/// All distances, row by row.
fn completed(n: usize, known: &[Dissimilarity]) -> Vec<f64> {
    let all = n * (n - 1) / 2;
    let mut out = vec![f64::INFINITY; n * n];
    (0..n).for_each(|i| out[i * n + i] = 0.0);
    let put = |out: &mut [f64], d: &Dissimilarity| {
        let (i, j) = (d.left as usize, d.right as usize);
        out[i * n + j] = d.value;
        out[j * n + i] = d.value;
    };
    known.iter().for_each(|d| put(&mut out, d));
    // What is known stands as it is when everything is.
    if known.len() < all {
        if known.len() * 8 > all {
            through_each(n, &mut out);
        } else {
            from_each(n, known, &mut out);
        }
    }
    let largest = out.iter().copied().filter(|d| d.is_finite());
    let far = APART * largest.fold(0.0, f64::max);
    out.iter_mut()
        .filter(|d| d.is_infinite())
        .for_each(|d| *d = far);
    out
}

/// Shortest ways through each item in turn [Floyd 1962]: for many known distances.
fn through_each(n: usize, out: &mut [f64]) {
    for k in 0..n {
        let way = out[k * n..][..n].to_vec();
        for row in out.chunks_exact_mut(n) {
            let to = row[k];
            if to.is_finite() {
                row.iter_mut()
                    .zip(&way)
                    .for_each(|(d, on)| *d = d.min(to + on));
            }
        }
    }
}

/// Shortest ways from each item in turn [Dijkstra 1959]: for few.
fn from_each(n: usize, known: &[Dissimilarity], out: &mut [f64]) {
    let mut near: Vec<Vec<(usize, f64)>> = vec![Vec::new(); n];
    for d in known {
        let (i, j) = (d.left as usize, d.right as usize);
        near[i].push((j, d.value));
        near[j].push((i, d.value));
    }
    for (i, row) in out.chunks_exact_mut(n).enumerate() {
        row.fill(f64::INFINITY);
        row[i] = 0.0;
        let mut heap = BinaryHeap::from([Reached(0.0, i)]);
        while let Some(Reached(so_far, at)) = heap.pop() {
            if so_far > row[at] {
                continue;
            }
            for &(next, length) in &near[at] {
                let way = so_far + length;
                if way < row[next] {
                    row[next] = way;
                    heap.push(Reached(way, next));
                }
            }
        }
    }
}

/// An item that was reached; the nearest comes first out of a heap.
#[derive(PartialEq)]
struct Reached(f64, usize);

impl Eq for Reached {}

impl Ord for Reached {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Reached {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_complete_distances_agree() {
        let n = 12;
        let pairs = (0..n as u32).flat_map(|i| (0..i).map(move |j| (j, i)));
        let some = pairs.filter(|(i, j)| (i * 7 + j * 5) % 3 == 0 && *j != 11);
        let known: Vec<Dissimilarity> = some
            .map(|(left, right)| Dissimilarity {
                left,
                right,
                value: f64::from((left * 31 + right * 17) % 10) + 1.0,
            })
            .collect();
        let mut one = vec![f64::INFINITY; n * n];
        (0..n).for_each(|i| one[i * n + i] = 0.0);
        let mut two = one.clone();
        for d in &known {
            let (i, j) = (d.left as usize, d.right as usize);
            (one[i * n + j], one[j * n + i]) = (d.value, d.value);
        }
        through_each(n, &mut one);
        from_each(n, &known, &mut two);
        assert_eq!(one, two);
        // The last item is known by no pair, and is put apart.
        let all = completed(n, &known);
        let largest = one
            .iter()
            .copied()
            .filter(|d| d.is_finite())
            .fold(0.0, f64::max);
        assert_eq!(all[n - 1], 1.5 * largest);
    }
}
