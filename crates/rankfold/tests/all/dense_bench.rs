//! The dense algorithm that the benchmark compares with is the true one.

#[path = "../../benches/loreta/dense.rs"]
mod dense;

use crate::oracle::*;

#[test]
fn the_dense_algorithm_of_the_benchmark_is_algorithm_4() {
    const K: usize = 3;
    let (n, m) = (17, 11);
    let mut random = Random::new(6);
    let (a, b) = (random.matrix(n, K), random.matrix(m, K));
    let rows = |x: &M| -> Vec<[f64; K]> {
        (0..x.nrows())
            .map(|i| std::array::from_fn(|j| x[(i, j)]))
            .collect()
    };
    let side = |x: &M| dense::Side::new(rows(x), rows(&pinv(x).transpose().to_owned()));
    let (mut left, mut right) = (side(&a), side(&b));
    let mut plain = Algorithm4::new(a, b);
    for _ in 0..30 {
        let p: Vec<f64> = random.sparse(n, 5).iter().map(|v| 0.05 * v).collect();
        let q = random.sparse(m, 4);
        plain.step(&p, &q);
        dense::step(&mut left, &mut right, &p, &q);
    }
    for (fast, want) in [(&left.factor, &plain.a), (&right.factor, &plain.b)] {
        let got: Vec<f64> = fast.iter().flatten().copied().collect();
        let error: f64 = got
            .iter()
            .zip(flat(want))
            .map(|(x, y)| (x - y).powi(2))
            .sum::<f64>()
            .sqrt();
        assert!(error <= 1e-11 * norm(want), "{error:e}");
    }
    assert!(dense::bytes_moved(n, m, K) > 0);
}
