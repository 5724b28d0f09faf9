//! The nearest rows by cosine, for the pictures.

/// Points scaled to length one.
pub struct Searches {
    points: Vec<f64>,
    dimension: usize,
}

impl Searches {
    /// From points given row by row.
    pub fn new(points: &[f32], dimension: usize) -> Self {
        let mut points: Vec<f64> = points.iter().map(|&v| f64::from(v)).collect();
        for point in points.chunks_exact_mut(dimension) {
            let length = point.iter().map(|v| v * v).sum::<f64>().sqrt();
            if length > 0.0 {
                point.iter_mut().for_each(|v| *v /= length);
            }
        }
        Searches { points, dimension }
    }

    /// All points, row by row.
    pub fn points(&self) -> &[f64] {
        &self.points
    }

    /// The `k` points nearest to a point, nearest first, without itself.
    pub fn nearest(&self, query: usize, k: usize) -> Vec<usize> {
        let point = |i: usize| &self.points[i * self.dimension..][..self.dimension];
        let score = |i: usize| {
            point(query)
                .iter()
                .zip(point(i))
                .map(|(a, b)| a * b)
                .sum::<f64>()
        };
        let n = self.points.len() / self.dimension;
        let mut scored: Vec<(f64, usize)> = (0..n)
            .filter(|&i| i != query)
            .map(|i| (score(i), i))
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().take(k).map(|(_, i)| i).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_point_comes_first_and_the_query_never() {
        let points = [1.0, 0.0, 0.9, 0.1, 0.0, 1.0, 5.0, 5.0];
        let searches = Searches::new(&points, 2);
        assert_eq!(searches.nearest(0, 10), [1, 3, 2]);
        assert_eq!(searches.nearest(2, 1), [3]);
    }
}
