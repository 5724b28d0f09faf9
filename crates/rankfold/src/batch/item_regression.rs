//! A regression of every item on all others, of fixed rank: X ≈ X (E Dᵀ − diag(E Dᵀ)).
//!
//! Each item is predicted from what else a user chose. What an item says of itself is
//! left out, or a model of high rank would learn that who chose an item chose it. The
//! encoder E says what a choice means, the decoder D who an item is for. Both are found
//! by least squares in turn:
//!
//! - Given E, the users of item j are z = Eᵀx without their choice of j. Their Gram
//!   matrix is that of all users, changed by rank two, so that an item costs k².
//! - Given D, the normal equations of E are solved by some steps of conjugate gradients,
//!   each of which costs two products with XᵀX.
//!
//! Full rank is EASE [Steck2019], with the same penalty λ ‖E Dᵀ‖². A dropout δ adds δ n to the
//! λ of an item whose choices have the square n. That is what least squares in the mean come to
//! where a share δ/(1 + δ) of the choices that an item is predicted from is missing [Steck2020].

use super::chosen::Chosen;
use super::rowwise::Rowwise;
use crate::linalg::{Square, invert_definite, solve_tiny};
use crate::manifold::thin_qr;
use crate::random::normal_at;
use crate::{Error, Result, memory};
use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, MatRef, Side};

/// Passes of the subspace iteration that finds the start.
const START_PASSES: usize = 4;

/// Steps of conjugate gradients for the encoder.
pub(super) const ENCODER_STEPS: usize = 3;

/// The regression of what was chosen on itself.
#[derive(Debug, Clone, Copy)]
pub struct ItemRegression<'a> {
    /// What was chosen.
    pub chosen: &'a Chosen,
    /// λ.
    pub lambda: f64,
    /// δ.
    pub dropout: f64,
    /// Threads; results have the same bits for any number of them.
    pub threads: usize,
}

/// What a sweep ends with.
#[derive(Debug, Clone)]
pub struct ItemFactors {
    /// E: what choosing an item says.
    pub encoder: Mat<f64>,
    /// D: who an item is for.
    pub decoder: Mat<f64>,
    /// The cost, of which the decoder is a minimum.
    pub cost: f64,
}

pub(super) fn row_dot(a: &Mat<f64>, b: &Mat<f64>, i: usize) -> f64 {
    (0..a.ncols()).map(|j| a[(i, j)] * b[(i, j)]).sum()
}

fn inner(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let column = |j: usize| -> f64 {
        a.col(j)
            .iter()
            .zip(b.col(j).iter())
            .map(|(a, b)| a * b)
            .sum()
    };
    (0..a.ncols()).map(column).sum()
}

/// a + c b.
fn plus(a: &Mat<f64>, c: f64, b: &Mat<f64>) -> Mat<f64> {
    a + faer::Scale(c) * b
}

/// Steps of conjugate gradients from x, where `residual` is what is left of the right side.
pub(super) fn conjugate_steps(
    mut x: Mat<f64>,
    mut residual: Mat<f64>,
    steps: usize,
    apply: impl Fn(&Mat<f64>) -> Mat<f64>,
    precondition: impl Fn(&Mat<f64>) -> Mat<f64>,
) -> Mat<f64> {
    let mut z = precondition(&residual);
    let mut direction = z.clone();
    let mut rz = inner(&residual, &z);
    for _ in 0..steps {
        let q = apply(&direction);
        let curvature = inner(&direction, &q);
        if !(rz > 0.0 && curvature > 0.0) {
            break;
        }
        let length = rz / curvature;
        x = plus(&x, length, &direction);
        residual = plus(&residual, -length, &q);
        z = precondition(&residual);
        let next = inner(&residual, &z);
        direction = plus(&z, next / rz, &direction);
        rz = next;
    }
    x
}

impl ItemRegression<'_> {
    /// W of full rank: −p_ij / p_jj for the inverse P of XᵀDX + diag(λ + δ n), and zeros on the
    /// diagonal. Row i says what choosing i adds to others.
    pub(crate) fn full(&self) -> Result<Rowwise<f32>> {
        let items = self.chosen.items();
        // The Gram matrix, its factor, the inverse, and what is returned.
        let cells = (items as u128).pow(2);
        memory::require(
            cells * 32,
            &format!("a regression of full rank on {items} items"),
        )?;
        let mut gram = self.chosen.dense_gram(self.threads);
        let penalties = self.penalties(&self.chosen.squares());
        for (i, penalty) in penalties.iter().enumerate() {
            gram[i * (items + 1)] += penalty;
        }
        let gram = MatRef::from_row_major_slice(&gram, items, items);
        let factor = gram.llt(Side::Lower).map_err(|_| {
            Error::input(
                "the Gram matrix of items is not definite: choose a larger `regularization`",
            )
        })?;
        let inverse = factor.inverse();
        let mut out = Rowwise::zero(items, items);
        let width = out.width;
        for j in 0..items {
            let scale = -1.0 / inverse[(j, j)];
            let others = inverse.col(j).iter().enumerate().filter(|&(i, _)| i != j);
            others.for_each(|(i, p)| out.data[i * width + j] = (scale * p) as f32);
        }
        Ok(out)
    }

    /// λ + δ n of each item.
    fn penalties(&self, squares: &[f64]) -> Vec<f64> {
        let penalty = |n: &f64| self.lambda + self.dropout * n;
        squares.iter().map(penalty).collect()
    }

    /// The Gram matrix of users Eᵀx with what W is penalized by: EᵀXᵀDX E + Eᵀ diag(λ + δ n) E.
    /// `gram` is XᵀDX E.
    pub fn penalized(&self, encoder: &Mat<f64>, gram: &Mat<f64>) -> Mat<f64> {
        let penalties = self.penalties(&self.chosen.squares());
        let sums = Mat::from_fn(encoder.nrows(), encoder.ncols(), |i, j| {
            gram[(i, j)] + penalties[i] * encoder[(i, j)]
        });
        encoder.transpose() * sums
    }

    /// An encoder to start from: the leading eigenvectors of XᵀX, about. `None` where
    /// the choices have not this rank.
    pub fn start(&self, rank: usize, seed: u64) -> Option<Mat<f64>> {
        let items = self.chosen.items();
        let entry = |i: usize, j: usize| normal_at(seed, 29, i as u64, j as u64);
        let mut basis = Mat::from_fn(items, rank, entry);
        for _ in 0..START_PASSES {
            basis = thin_qr(&self.chosen.gram(&basis, self.threads))?.0;
        }
        Some(basis)
    }

    /// The best decoder for an encoder; `None` where the encoder has lost rank.
    pub fn decode(&self, encoder: Mat<f64>) -> Option<ItemFactors> {
        let gram = self.chosen.gram(&encoder, self.threads);
        self.decode_with(encoder, &gram)
    }

    fn decode_with(&self, encoder: Mat<f64>, gram: &Mat<f64>) -> Option<ItemFactors> {
        let (items, k) = (encoder.nrows(), encoder.ncols());
        let all = self.penalized(&encoder, gram);
        let inverse = invert_definite(&Square::from_faer(&all))?.to_faer();
        // C⁻¹ s and C⁻¹ e for all items at once.
        let (of_sums, of_rows) = (gram * &inverse, &encoder * &inverse);
        let squares = self.chosen.squares();
        let mut decoder = Mat::zeros(items, k);
        let mut cost = 0.0;
        for (j, &n) in squares.iter().enumerate() {
            // M = C + [s e] [0 −1; −1 n] [s e]ᵀ by the formula of Woodbury.
            let (ss, se, ee) = (
                row_dot(gram, &of_sums, j),
                row_dot(gram, &of_rows, j),
                row_dot(&encoder, &of_rows, j),
            );
            let small = [[ss - n, se - 1.0], [se - 1.0, ee]];
            // [s e]ᵀ C⁻¹ r, where r = s − n e.
            let mut through = [[ss - n * se], [se - n * ee]];
            let regular = solve_tiny(small, &mut through).abs() > f64::MIN_POSITIVE;
            let [[a], [b]] = through;
            if n > 0.0 && regular && a.is_finite() && b.is_finite() {
                for t in 0..k {
                    decoder[(j, t)] = (1.0 - a) * of_sums[(j, t)] - (n + b) * of_rows[(j, t)];
                }
            }
            let explained = row_dot(gram, &decoder, j) - n * row_dot(&encoder, &decoder, j);
            cost += n - explained;
        }
        Some(ItemFactors {
            encoder,
            decoder,
            cost,
        })
    }

    /// The cost of any factors.
    pub(crate) fn cost(&self, encoder: &Mat<f64>, decoder: &Mat<f64>) -> f64 {
        let gram = self.chosen.gram(encoder, self.threads);
        let through = decoder * self.penalized(encoder, &gram);
        let squares = self.chosen.squares();
        let of = |(j, n): (usize, &f64)| {
            let (s, e) = (row_dot(&gram, decoder, j), row_dot(encoder, decoder, j));
            n - 2.0 * (s - n * e) + row_dot(&through, decoder, j) - 2.0 * s * e + n * e * e
        };
        squares.iter().enumerate().map(of).sum()
    }

    /// A better encoder for a decoder.
    fn encode(&self, from: &ItemFactors, gram: &Mat<f64>) -> Option<Mat<f64>> {
        let (decoder, squares) = (&from.decoder, self.chosen.squares());
        let penalties = self.penalties(&squares);
        let mut h = Square::from_faer(&(decoder.transpose() * decoder));
        let product = h.to_faer();
        let k = h.size();
        h.add_diagonal(1e-9 * h.trace() / k as f64);
        let inverse = invert_definite(&h)?.to_faer();
        // The gradient of the squares at M, from XᵀX M.
        let apply = |m: &Mat<f64>, gram: &Mat<f64>| -> Mat<f64> {
            let itself: Vec<f64> = (0..m.nrows()).map(|i| row_dot(m, decoder, i)).collect();
            let through = m * &product;
            let t = Mat::from_fn(m.nrows(), k, |i, j| {
                through[(i, j)] - itself[i] * decoder[(i, j)]
            });
            let t = self.chosen.gram(&t, self.threads);
            let left: Vec<f64> = (0..m.nrows())
                .map(|i| row_dot(gram, decoder, i) - squares[i] * itself[i])
                .collect();
            Mat::from_fn(m.nrows(), k, |i, j| {
                t[(i, j)] - left[i] * decoder[(i, j)] + penalties[i] * through[(i, j)]
            })
        };
        let precondition = |r: &Mat<f64>| {
            let r = r * &inverse;
            Mat::from_fn(r.nrows(), k, |i, j| r[(i, j)] / (squares[i] + penalties[i]))
        };
        let right = self.chosen.gram(decoder, self.threads);
        let applied = apply(&from.encoder, gram);
        let residual = Mat::from_fn(decoder.nrows(), k, |i, j| {
            right[(i, j)] - squares[i] * decoder[(i, j)] - applied[(i, j)]
        });
        let apply = |m: &Mat<f64>| apply(m, &self.chosen.gram(m, self.threads));
        let encoder = conjugate_steps(
            from.encoder.clone(),
            residual,
            ENCODER_STEPS,
            apply,
            precondition,
        );
        // W does not see a change of basis: orthonormal columns keep numbers tame.
        thin_qr(&encoder).map(|(basis, _)| basis)
    }

    /// Solves for the encoder and then for the decoder; `None` where rank is lost.
    pub fn sweep(&self, from: &ItemFactors) -> Option<ItemFactors> {
        let gram = self.chosen.gram(&from.encoder, self.threads);
        let encoder = self.encode(from, &gram)?;
        self.decode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rows;

    fn choices(users: usize, items: usize) -> Rows<f32> {
        let entry = |u: usize, i: usize| match (u * 7 + i * 5 + u * i) % 11 {
            0..4 => 1.0,
            4 => 0.5,
            _ => 0.0,
        };
        let rows: Vec<Vec<f32>> = (0..users)
            .map(|u| (0..items).map(|i| entry(u, i)).collect())
            .collect();
        Rows::from_dense(&rows).unwrap()
    }

    /// ‖√D (X − X (W − diag W))‖² + Σ (λ + δ n) ‖row of W‖², as it is written.
    fn plain_cost(problem: &ItemRegression<'_>, factors: &ItemFactors) -> f64 {
        let rows = problem.chosen.by_user();
        let w = &factors.encoder * factors.decoder.transpose();
        let items = problem.chosen.items();
        // The weights of users, from the products that they are in.
        let weights = weights(rows);
        let mut cost = 0.0;
        for i in 0..items {
            let square = |(row, weight): (crate::SparseRow<'_, f32>, &f64)| {
                let of_item = row.iter().filter(|entry| entry.0 as usize == i);
                of_item
                    .map(|(_, v)| weight * f64::from(v).powi(2))
                    .sum::<f64>()
            };
            let n: f64 = rows.iter().zip(&weights).map(square).sum();
            cost += (problem.lambda + problem.dropout * n) * w.row(i).squared_norm_l2();
        }
        for (row, weight) in rows.iter().zip(weights) {
            let mut x = vec![0.0; items];
            row.iter().for_each(|(i, v)| x[i as usize] = f64::from(v));
            for j in 0..items {
                let others = (0..items).filter(|&i| i != j);
                let said: f64 = others.map(|i| x[i] * w[(i, j)]).sum();
                cost += weight * (x[j] - said).powi(2);
            }
        }
        cost
    }

    /// n^−½, scaled to leave the sum of choices.
    fn weights(rows: &Rows<f32>) -> Vec<f64> {
        let plain: Vec<f64> = rows
            .iter()
            .map(|r| (r.len().max(1) as f64).powf(-0.5))
            .collect();
        let sum: f64 = rows
            .iter()
            .zip(&plain)
            .map(|(r, w)| r.len() as f64 * w)
            .sum();
        plain.iter().map(|w| w * rows.nnz() as f64 / sum).collect()
    }

    #[test]
    fn sweeps_lower_the_plain_cost_to_a_minimum_of_both_factors() {
        let cases = [
            (30, 12, 3, 0.0),
            (30, 12, 1, 0.3),
            (9, 14, 5, 0.0),
            (40, 6, 6, 0.3),
            (40, 12, 4, 1.0),
        ];
        for (users, items, rank, dropout) in cases {
            let chosen = Chosen::new(choices(users, items), -0.5);
            let problem = ItemRegression {
                chosen: &chosen,
                lambda: 2.0,
                dropout,
                threads: 2,
            };
            let start = problem.start(rank, 1).unwrap();
            let mut factors = problem.decode(start).unwrap();
            let mut before = plain_cost(&problem, &factors);
            assert!((before - factors.cost).abs() < 1e-4 * before);
            for _ in 0..60 {
                factors = problem.sweep(&factors).unwrap();
                let cost = plain_cost(&problem, &factors);
                let other = &factors.decoder * faer::Scale(1.3);
                let found = problem.cost(&factors.encoder, &other);
                let moved = ItemFactors {
                    decoder: other,
                    ..factors.clone()
                };
                let plain = plain_cost(&problem, &moved);
                assert!((found - plain).abs() < 1e-4 * plain, "{found} {plain}");
                assert!(
                    (cost - factors.cost).abs() < 1e-4 * cost,
                    "{cost} {}",
                    factors.cost
                );
                assert!(cost <= before * (1.0 + 1e-5), "{cost} after {before}");
                before = cost;
            }
            // No small change of an entry of either factor is better.
            for side in 0..2 {
                for sign in [-1.0, 1.0] {
                    for (i, j) in [(0, 0), (items / 2, rank - 1), (items - 1, 0)] {
                        let mut moved = factors.clone();
                        let factor = match side {
                            0 => &mut moved.encoder,
                            _ => &mut moved.decoder,
                        };
                        factor[(i, j)] += sign * 1e-2;
                        let cost = plain_cost(&problem, &moved);
                        assert!(cost > before * (1.0 - 2e-4), "{cost} {before}");
                    }
                }
            }
        }
    }

    #[test]
    fn full_rank_is_the_closed_form_of_ease() {
        let items = 6;
        let chosen = Chosen::new(choices(40, items), 0.0);
        for dropout in [0.0, 0.4] {
            let problem = ItemRegression {
                chosen: &chosen,
                lambda: 3.0,
                dropout,
                threads: 1,
            };
            let mut factors = problem.decode(problem.start(items, 1).unwrap()).unwrap();
            for _ in 0..200 {
                factors = problem.sweep(&factors).unwrap();
            }
            let full = problem.full().unwrap();
            let w = &factors.encoder * factors.decoder.transpose();
            for i in 0..items {
                assert_eq!(full.row(i)[i], 0.0);
                for j in (0..items).filter(|&j| j != i) {
                    let ease = f64::from(full.row(i)[j]);
                    assert!((w[(i, j)] - ease).abs() < 2e-3, "{} {ease}", w[(i, j)]);
                }
            }
        }
    }

    #[test]
    fn items_that_nobody_chose_have_zeros() {
        let rows = Rows::from_dense([
            [1.0, 1.0, 0.0, 1.0],
            [0.0, 1.0, 0.0, 1.0],
            [1.0, 0.0, 0.0, 1.0],
        ]);
        let chosen = Chosen::new(rows.unwrap(), -0.5);
        let problem = ItemRegression {
            chosen: &chosen,
            lambda: 0.1,
            dropout: 0.2,
            threads: 1,
        };
        let factors = problem.decode(problem.start(2, 1).unwrap()).unwrap();
        let factors = problem.sweep(&factors).unwrap();
        for j in 0..2 {
            assert!(factors.encoder[(2, j)].abs() < 1e-9 && factors.decoder[(2, j)] == 0.0);
        }
    }
}
