//! The dense algorithm 4 of [Shalit2012], written for speed: pseudo-inverses
//! stored transposed, so that every pass streams through rows, and passes that
//! only need the row at hand done together.

/// One side of W = A Bᵀ: a factor and its pseudo-inverse, n×K by rows.
pub struct Side<const K: usize> {
    pub factor: Vec<[f64; K]>,
    /// (A⁺)ᵀ.
    pub inverse: Vec<[f64; K]>,
    change: Vec<f64>,
    residual: Vec<f64>,
    image: Vec<f64>,
}

/// In two chains of sums, so that the processor need not wait for each addition.
#[inline(always)]
fn dot<const K: usize>(a: &[f64; K], b: &[f64; K]) -> f64 {
    let mut sums = [0.0; 2];
    for j in 0..K / 2 {
        sums[0] += a[2 * j] * b[2 * j];
        sums[1] += a[2 * j + 1] * b[2 * j + 1];
    }
    if K % 2 == 1 {
        sums[0] += a[K - 1] * b[K - 1];
    }
    sums[0] + sums[1]
}

#[inline(always)]
fn add_scaled<const K: usize>(to: &mut [f64; K], c: f64, x: &[f64; K]) {
    for j in 0..K {
        to[j] += c * x[j];
    }
}

impl<const K: usize> Side<K> {
    pub fn new(factor: Vec<[f64; K]>, inverse: Vec<[f64; K]>) -> Self {
        let n = factor.len();
        let zeros = || vec![0.0; n];
        Side {
            factor,
            inverse,
            change: zeros(),
            residual: zeros(),
            image: zeros(),
        }
    }

    /// A⁺ p.
    #[inline(always)]
    fn coordinates(&self, p: &[f64]) -> [f64; K] {
        let mut out = [0.0; K];
        for (row, &v) in self.inverse.iter().zip(p) {
            add_scaled(&mut out, v, row);
        }
        out
    }

    /// A += c dᵀ with c = α A a + γ p, and A⁺ after it by algorithm 7.
    #[inline(always)]
    fn update(&mut self, p: &[f64], a: &[f64; K], d: &[f64; K], alpha: f64, gamma: f64) {
        // c, v = A⁺c, ν = A⁺ᵀd and the new factor, in one pass.
        let mut v = [0.0; K];
        let rows = self.factor.iter_mut().zip(&self.inverse);
        for ((row, inverse), ((c, nu), &p)) in
            rows.zip(self.change.iter_mut().zip(&mut self.image).zip(p))
        {
            *c = alpha * dot(row, a) + gamma * p;
            add_scaled(row, *c, d);
            add_scaled(&mut v, *c, inverse);
            *nu = dot(inverse, d);
        }
        let beta = 1.0 + dot(d, &v);
        assert!(beta != 0.0, "the step loses rank");
        // ν̂ = A⁺ν and w = c − A v, where A v = A' v − c (d·v).
        let mut nu_hat = [0.0; K];
        let (mut w2, mut nu2) = (0.0, 0.0);
        let rows = self.factor.iter().zip(&self.inverse);
        for ((row, inverse), ((&c, &nu), w)) in
            rows.zip(self.change.iter().zip(&self.image).zip(&mut self.residual))
        {
            add_scaled(&mut nu_hat, nu, inverse);
            *w = c * beta - dot(row, &v);
            w2 += *w * *w;
            nu2 += nu * nu;
        }
        // A⁺ += ν̂wᵀ/β − scale (w2/β ν̂ + v)(nu2/β w + ν)ᵀ, row by row.
        let scale = beta / (w2 * nu2 + beta * beta);
        let (mut by_w, mut by_nu) = ([0.0; K], [0.0; K]);
        for j in 0..K {
            let left = w2 / beta * nu_hat[j] + v[j];
            by_w[j] = nu_hat[j] / beta - scale * nu2 / beta * left;
            by_nu[j] = -scale * left;
        }
        let more = self.residual.iter().zip(&self.image);
        for (row, (&w, &nu)) in self.inverse.iter_mut().zip(more) {
            for j in 0..K {
                row[j] += w * by_w[j] + nu * by_nu[j];
            }
        }
    }
}

/// One dense step along p qᵀ, compiled for wide registers where there are.
pub fn step<const K: usize>(left: &mut Side<K>, right: &mut Side<K>, p: &[f64], q: &[f64]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn wide<const K: usize>(left: &mut Side<K>, right: &mut Side<K>, p: &[f64], q: &[f64]) {
            plain_step(left, right, p, q);
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, which was just asked for.
            return unsafe { wide(left, right, p, q) };
        }
    }
    plain_step(left, right, p, q);
}

#[inline(always)]
fn plain_step<const K: usize>(left: &mut Side<K>, right: &mut Side<K>, p: &[f64], q: &[f64]) {
    let a = left.coordinates(p);
    let b = right.coordinates(q);
    let s = dot(&a, &b);
    let (alpha, gamma) = (-0.5 + 0.375 * s, 1.0 - 0.5 * s);
    left.update(p, &a, &b, alpha, gamma);
    right.update(q, &b, &a, alpha, gamma);
}

/// Bytes that a step moves between memory and processor: for each side one
/// pass over the inverse; factor in and out with the inverse; both again; the
/// inverse in and out; and the vectors of length n that go with them.
pub fn bytes_moved(n: usize, m: usize, k: usize) -> usize {
    let matrices = 1 + (2 + 1) + (1 + 1) + 2;
    let vectors = 1 + (1 + 2) + (2 + 1) + 2;
    (n + m) * (matrices * k + vectors) * size_of::<f64>()
}
