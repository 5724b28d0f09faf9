//! The dense algorithms of [Shalit2012], written as plainly as possible: the
//! fast sparse forms are held equal to these.

use faer::{Mat, MatRef};

pub type M = Mat<f64>;

/// A generator of test numbers: splitmix64, turned into normal deviates.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    pub fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform(), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    pub fn matrix(&mut self, rows: usize, columns: usize) -> M {
        let mut out = M::zeros(rows, columns);
        for i in 0..rows {
            for j in 0..columns {
                out[(i, j)] = self.normal();
            }
        }
        out
    }

    /// A dense vector with about `nnz` non-zeros (all, when nnz is the size).
    pub fn sparse(&mut self, size: usize, nnz: usize) -> Vec<f64> {
        let mut out = vec![0.0; size];
        for j in 0..nnz {
            let at = if nnz >= size {
                j % size
            } else {
                self.below(size)
            };
            out[at] = self.normal();
        }
        out
    }
}

pub fn column(v: &[f64]) -> M {
    M::from_fn(v.len(), 1, |i, _| v[i])
}

pub fn from_rows(rows: &[Vec<f64>]) -> M {
    M::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}

pub fn flat(m: &M) -> Vec<f64> {
    (0..m.nrows())
        .flat_map(|i| (0..m.ncols()).map(move |j| (i, j)))
        .map(|ij| m[ij])
        .collect()
}

pub fn norm(m: &M) -> f64 {
    m.norm_l2()
}

fn scaled(c: f64, m: &M) -> M {
    M::from_fn(m.nrows(), m.ncols(), |i, j| c * m[(i, j)])
}

/// Moore–Penrose inverse, by the SVD.
pub fn pinv(a: &M) -> M {
    let svd = a.thin_svd().unwrap();
    let s = svd.S().column_vector();
    let largest = s.iter().copied().fold(0.0, f64::max);
    let (u, v) = (svd.U(), svd.V());
    let cut = 1e-13 * a.nrows().max(a.ncols()) as f64 * largest;
    let inverse = M::from_fn(v.nrows(), s.nrows(), |i, j| {
        if s[j] > cut { v[(i, j)] / s[j] } else { 0.0 }
    });
    inverse * u.transpose()
}

/// An orthonormal basis of the complement of the columns of a.
fn complement(a: &M) -> M {
    let svd = a.svd().unwrap();
    let u: MatRef<'_, f64> = svd.U();
    let (n, k) = (a.nrows(), a.ncols());
    M::from_fn(n, n - k, |i, j| u[(i, k + j)])
}

/// Algorithm 2: tangent coordinates M, N₁, N₂ of Z, then the retraction.
pub fn algorithm_2(a: &M, b: &M, z: &M) -> (M, M) {
    let k = a.ncols();
    let (ap, bp) = (pinv(a), pinv(b));
    let (ac, bc) = (complement(a), complement(b));
    let m = &ap * z * bp.transpose();
    let n1 = bc.transpose() * z.transpose() * ap.transpose();
    let n2 = ac.transpose() * z * bp.transpose();
    let unit = M::identity(k, k);
    let half = scaled(0.5, &m);
    let eighth = scaled(0.125, &(&m * &m));
    let inner = &unit + &half - &eighth;
    let outer = &unit - &half;
    let z1 = a * &inner + &ac * &n2 * &outer;
    let z2 = b * inner.transpose() + &bc * &n1 * outer.transpose();
    (z1, z2)
}

/// The parts of the tangent vector that is the projection of Z at W = ABᵀ.
pub struct Tangent {
    pub both: M,
    pub left_only: M,
    pub right_only: M,
}

impl Tangent {
    pub fn of(a: &M, b: &M, z: &M) -> Self {
        let (pa, pb) = (a * pinv(a), b * pinv(b));
        let (ca, cb) = (
            M::identity(a.nrows(), a.nrows()) - &pa,
            M::identity(b.nrows(), b.nrows()) - &pb,
        );
        Tangent {
            both: &pa * z * &pb,
            left_only: &ca * z * &pb,
            right_only: &pa * z * &cb,
        }
    }

    pub fn total(&self) -> M {
        &self.both + &self.left_only + &self.right_only
    }
}

/// Theorem 3: R = V₁ W⁺ V₂, on W itself.
pub fn theorem_retraction(a: &M, b: &M, z: &M) -> M {
    let w = a * b.transpose();
    let wp = pinv(&w);
    let t = Tangent::of(a, b, z);
    let quad = &t.both * &wp * &t.both;
    let common = &w + scaled(0.5, &t.both) - scaled(0.125, &quad);
    let v1 = &common + &t.left_only - scaled(0.5, &(&t.left_only * &wp * &t.both));
    let v2 = &common + &t.right_only - scaled(0.5, &(&t.both * &wp * &t.right_only));
    v1 * wp * v2
}

/// Algorithm 3 (LORETA-r): G₁G₂ᵀ is the gradient step.
pub fn algorithm_3(a: &M, b: &M, g1: &M, g2: &M) -> (M, M) {
    let (ap, bp) = (pinv(a), pinv(b));
    let a1 = &ap * g1;
    let b1 = &bp * g2;
    let q = b1.transpose() * &a1;
    let a2 = a * &a1;
    let a3 = scaled(-0.5, &a2) + scaled(0.375, &(&a2 * &q)) + g1 - scaled(0.5, &(g1 * &q));
    let b2 = g2.transpose() * b * &bp;
    let g2t = g2.transpose().to_owned();
    let b3 = scaled(-0.5, &b2) + scaled(0.375, &(&q * &b2)) + &g2t - scaled(0.5, &(&q * &g2t));
    (a + a3 * b1.transpose(), b + (a1 * b3).transpose())
}

/// Algorithm 7: the pseudo-inverse of A + c dᵀ from that of A, and its branch.
pub fn algorithm_7(a: &M, ap: &M, c: &M, d: &M) -> (M, usize) {
    let tolerance = 1e-12;
    let scalar = |m: M| m[(0, 0)];
    let v = ap * c;
    let dv = scalar(d.transpose() * &v);
    let beta = 1.0 + dv;
    let nu = ap.transpose() * d;
    let nu_hat = ap * &nu;
    let w = c - a * &v;
    let (w2, nu2, v2) = (norm(&w).powi(2), norm(&nu).powi(2), norm(&v).powi(2));
    let beta_zero = beta.abs() <= tolerance * (1.0 + dv.abs());
    let w_zero = w2.sqrt() <= tolerance * norm(c);
    let (g, branch) = match (beta_zero, w_zero) {
        (false, false) => {
            let left = scaled(w2 / beta, &nu_hat) + &v;
            let right = scaled(nu2 / beta, &w) + &nu;
            let first = scaled(1.0 / beta, &(&nu_hat * w.transpose()));
            (
                first - scaled(beta / (w2 * nu2 + beta * beta), &(left * right.transpose())),
                1,
            )
        }
        (true, false) => {
            let first = scaled(-1.0 / nu2, &(&nu_hat * nu.transpose()));
            (first - scaled(1.0 / w2, &(&v * w.transpose())), 2)
        }
        (false, true) => (scaled(-1.0 / beta, &(&v * nu.transpose())), 3),
        (true, true) => {
            let vn = scalar(v.transpose() * &nu_hat);
            let first = scaled(vn / (v2 * nu2), &(&v * nu.transpose()));
            let second = scaled(1.0 / v2, &(&v * (v.transpose() * ap)));
            let third = scaled(1.0 / nu2, &(&nu_hat * nu.transpose()));
            (first - second - third, 4)
        }
    };
    (ap + g, branch)
}

/// Algorithm 4 (LORETA-1) with the pseudo-inverses it keeps.
pub struct Algorithm4 {
    pub a: M,
    pub b: M,
    pub ap: M,
    pub bp: M,
}

impl Algorithm4 {
    pub fn new(a: M, b: M) -> Self {
        let (ap, bp) = (pinv(&a), pinv(&b));
        Algorithm4 { a, b, ap, bp }
    }

    pub fn w(&self) -> M {
        &self.a * self.b.transpose()
    }

    /// One step along p qᵀ; returns s.
    pub fn step(&mut self, p: &[f64], q: &[f64]) -> f64 {
        let (p, q) = (column(p), column(q));
        let a1 = &self.ap * &p;
        let b1 = &self.bp * &q;
        let s = (b1.transpose() * &a1)[(0, 0)];
        let a2 = &self.a * &a1;
        let b2 = self.bp.transpose() * (self.b.transpose() * &q);
        let alpha = -0.5 + 0.375 * s;
        let gamma = 1.0 - 0.5 * s;
        let a3 = scaled(alpha, &a2) + scaled(gamma, &p);
        let b3 = scaled(alpha, &b2) + scaled(gamma, &q);
        let ap = algorithm_7(&self.a, &self.ap, &a3, &b1).0;
        let bp = algorithm_7(&self.b, &self.bp, &b3, &a1).0;
        self.a = &self.a + &a3 * b1.transpose();
        self.b = &self.b + &b3 * a1.transpose();
        self.ap = ap;
        self.bp = bp;
        s
    }
}

/// Algorithm 5 (LORETA-1-PSD), with the pseudo-inverse computed afresh.
pub fn algorithm_5(y: &M, p: &[f64], q: &[f64]) -> M {
    let (p, q) = (column(p), column(q));
    let yp = pinv(y);
    let (h1, h2) = (&yp * &p, &yp * &q);
    let scalar = |m: M| m[(0, 0)];
    let n1 = scalar(h1.transpose() * &h1);
    let n2 = scalar(h2.transpose() * &h2);
    let s = scalar(h1.transpose() * &h2);
    let (g1, g2) = (y * &h1, y * &h2);
    let c = -0.25 + 3.0 * s / 32.0;
    let d = 0.5 - s / 8.0;
    let l1 = scaled(c, &g1) + scaled(d, &p) + scaled(3.0 * n1 / 32.0, &g2) - scaled(n1 / 8.0, &q);
    let l2 = scaled(c, &g2) + scaled(d, &q) + scaled(3.0 * n2 / 32.0, &g1) - scaled(n2 / 8.0, &p);
    y + l1 * h2.transpose() + l2 * h1.transpose()
}

/// The theorem behind algorithm 5, corrected: R = V W⁺ Vᵀ.
pub fn theorem_retraction_psd(y: &M, p: &[f64], q: &[f64]) -> M {
    let w = y * y.transpose();
    let wp = pinv(&w);
    let pq = column(p) * column(q).transpose();
    let z = scaled(0.5, &(&pq + pq.transpose()));
    let t = Tangent::of(y, y, &z);
    let v = &w + scaled(0.5, &t.both) + &t.left_only
        - scaled(0.125, &(&t.both * &wp * &t.both))
        - scaled(0.5, &(&t.left_only * &wp * &t.both));
    &v * wp * v.transpose()
}

/// The nearest matrix of rank k.
pub fn truncate(w: &M, k: usize) -> M {
    let svd = w.thin_svd().unwrap();
    let (u, s, v) = (svd.U(), svd.S().column_vector(), svd.V());
    M::from_fn(w.nrows(), w.ncols(), |i, j| {
        (0..k).map(|l| u[(i, l)] * s[l] * v[(j, l)]).sum()
    })
}
