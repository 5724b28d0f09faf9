//! Factors of low rank with the lists of a regression of full rank.
//!
//! A regression of every item on all others ([`ItemRegression::full`]) knows what single items
//! say of each other, which a matrix of rank 64 has no room for. But users see the heads of
//! their lists only. So E Dᵀ is fitted to its scores S = X W where these are high, and hardly
//! elsewhere:
//!
//! Σ_u w_u ( Σ_{j in the head of u} (x_uᵀ E d_j − s_uj)² + ε Σ_j (x_uᵀ E d_j − s_uj)² ),
//!
//! where w are the weights of users, and the head of a user has the items with the highest
//! scores among those that the user did not choose.
//!
//! - Given E, an item is a least squares problem over the users whose heads have it: k² each,
//!   and k³ once.
//! - Given D, the normal equations of E are solved by some steps of conjugate gradients, each of
//!   which costs a pass over X and over the heads, k numbers an entry.
//!
//! The full regression costs the cube of the items, and heads the choices times the items, once.

use super::chosen::{Chosen, single, times};
use super::item_regression::{ENCODER_STEPS, ItemFactors, ItemRegression, conjugate_steps};
use super::normal::Normal;
use super::rowwise::Rowwise;
use crate::kernel::{dot, gather};
use crate::linalg::{Square, invert_definite};
use crate::manifold::thin_qr;
use crate::parallel::{map_blocks, map_rows};
use crate::{Result, memory};
use faer::Mat;

/// Items of a head, at most, and a share of all items where these are few.
const HEAD: usize = 100;
const LEAST_HEAD: usize = 10;
const SHARE_OF_ITEMS: usize = 16;

/// ε: what scores outside of heads weigh. On held-out choices of MovieLens 1M .02 to .1 are
/// alike.
const ELSEWHERE: f64 = 0.05;

/// What is added to the equations of items, as a share of what `ELSEWHERE` gives: items that
/// no head has are still definite.
const RIDGE: f64 = 1e-3;

/// Users, and items, of a block of work.
const BLOCK: usize = 64;

/// What the full regression says, and who hears it.
pub struct Taught<'a> {
    chosen: &'a Chosen,
    threads: usize,
    /// W, row by row.
    full: Rowwise<f32>,
    /// √w of users.
    roots: Vec<f64>,
    heads: Heads,
}

/// The items of each head with their scores, by user and by item.
struct Heads {
    by_user: Vec<Vec<(u32, f32)>>,
    by_item: Vec<(Vec<u32>, Vec<f64>)>,
}

/// Items of a head.
fn length(items: usize) -> usize {
    (items / SHARE_OF_ITEMS).clamp(LEAST_HEAD, HEAD)
}

impl Heads {
    /// The highest scores of each user; those of items are times √w.
    fn new(chosen: &Chosen, full: &Rowwise<f32>, roots: &[f64], threads: usize) -> Self {
        let (rows, items) = (chosen.by_user(), chosen.items());
        let length = length(items);
        let blocks = map_blocks(rows.len(), BLOCK, threads, |users| {
            let mut sum = vec![0.0; full.width];
            let mut order: Vec<u32> = Vec::with_capacity(items);
            let mut head = |user: usize| {
                let row = rows.row(user);
                gather(&mut sum, &full.data, full.width, row);
                row.indices
                    .iter()
                    .for_each(|&item| sum[item as usize] = f64::NEG_INFINITY);
                order.clear();
                order.extend(
                    (0..items as u32).filter(|&item| sum[item as usize] > f64::NEG_INFINITY),
                );
                let best_first =
                    |a: &u32, b: &u32| sum[*b as usize].total_cmp(&sum[*a as usize]).then(a.cmp(b));
                if order.len() > length {
                    order.select_nth_unstable_by(length - 1, best_first);
                    order.truncate(length);
                }
                order.sort_unstable();
                order
                    .iter()
                    .map(|&item| (item, sum[item as usize] as f32))
                    .collect::<Vec<_>>()
            };
            users.map(&mut head).collect::<Vec<_>>()
        });
        let by_user: Vec<Vec<(u32, f32)>> = blocks.into_iter().flatten().collect();
        let mut by_item = vec![(Vec::new(), Vec::new()); items];
        for (user, head) in by_user.iter().enumerate() {
            for &(item, score) in head {
                let (users, scores) = &mut by_item[item as usize];
                users.push(user as u32);
                scores.push(roots[user] * f64::from(score));
            }
        }
        Heads { by_user, by_item }
    }
}

impl<'a> ItemRegression<'a> {
    /// What this regression of full rank teaches; an error where there is no memory for it.
    pub fn taught(&self) -> Result<Taught<'a>> {
        let users = self.chosen.by_user().len() as u128;
        let heads = users * length(self.chosen.items()) as u128 * 32;
        memory::require(heads, &format!("lists of {users} users"))?;
        let full = self.full()?;
        let roots: Vec<f64> = self.chosen.weights().iter().map(|w| w.sqrt()).collect();
        Ok(Taught {
            heads: Heads::new(self.chosen, &full, &roots, self.threads),
            chosen: self.chosen,
            threads: self.threads,
            full,
            roots,
        })
    }
}

impl Taught<'_> {
    /// The best decoder for an encoder; `None` where the encoder has lost rank. The cost is
    /// without what scores come to by themselves.
    pub fn decode(&self, encoder: Mat<f64>) -> Option<ItemFactors> {
        let (items, k) = (encoder.nrows(), encoder.ncols());
        let gram = self.chosen.gram(&encoder, self.threads);
        let users = self.users(&encoder);
        let mut common = Square::from_faer(&(encoder.transpose() * &gram));
        common.symmetrize();
        let share = common.trace() / k as f64;
        common.add_diagonal(RIDGE * share);
        // ε EᵀXᵀDX W, an item a row.
        let aims = self.times_full(&gram, true);
        let mut rows: Rowwise = Rowwise::zero(users.rows(), k);
        let width = rows.width;
        let pairs = rows.data.chunks_exact_mut(width).zip(&self.roots);
        for ((to, root), from) in pairs.zip(users.data.chunks_exact(users.width)) {
            to.iter_mut()
                .zip(from)
                .for_each(|(to, v)| *to = root * f64::from(*v));
        }
        let solved = map_blocks(items, BLOCK, self.threads, |range| {
            let mut normal = Normal::new(width);
            let mut out = Vec::new();
            for item in range {
                let (index, value) = &self.heads.by_item[item];
                normal.gather((index, value), &rows.data, k, 0.0, None);
                for i in 0..k {
                    for j in i..k {
                        normal.a[i * width + j] += ELSEWHERE * common.get(i, j);
                    }
                    normal.b[i] += ELSEWHERE * aims[(item, i)];
                }
                let aim = normal.b.clone();
                if !normal.factor(k) {
                    return None;
                }
                normal.solve(k);
                out.push((normal.b[..k].to_vec(), -dot(&aim, &normal.b)));
            }
            Some(out)
        });
        let solved: Vec<(Vec<f64>, f64)> = solved.into_iter().collect::<Option<Vec<_>>>()?.concat();
        Some(ItemFactors {
            decoder: Mat::from_fn(items, k, |i, j| solved[i].0[j]),
            cost: solved.iter().map(|(_, cost)| cost).sum(),
            encoder,
        })
    }

    /// Solves for the encoder and then for the decoder; `None` where rank is lost.
    pub fn sweep(&self, from: &ItemFactors) -> Option<ItemFactors> {
        self.decode(self.encode(from)?)
    }

    /// A better encoder for a decoder.
    fn encode(&self, from: &ItemFactors) -> Option<Mat<f64>> {
        let decoder = &from.decoder;
        let (items, k) = (decoder.nrows(), decoder.ncols());
        let mut h = Square::from_faer(&(decoder.transpose() * decoder));
        let product = h.to_faer();
        h.add_diagonal(1e-9 * h.trace() / k as f64);
        let inverse = invert_definite(&h)?.to_faer();
        let squares = self.chosen.squares();
        let most = squares.iter().copied().fold(0.0, f64::max);
        let precondition = |r: &Mat<f64>| {
            let r = r * &inverse;
            Mat::from_fn(items, k, |i, j| r[(i, j)] / (squares[i] + 1e-6 * most))
        };
        let rows = single(decoder);
        // Xᵀ of what heads say of users, where `said` is what each score counts.
        let from_heads =
            |out: &mut Rowwise<f32>, said: &(dyn Fn(usize, &[f32], f32) -> f64 + Sync)| {
                let width = out.width;
                map_rows(&mut out.data, width, BLOCK, self.threads, |first, block| {
                    let mut sum = vec![0.0; width];
                    for (user, to) in (first..).zip(block.chunks_exact_mut(width)) {
                        sum.fill(0.0);
                        for &(item, score) in &self.heads.by_user[user] {
                            let row = rows.row(item as usize);
                            crate::kernel::sum_scaled(&mut sum, row, said(user, row, score));
                        }
                        let weight = self.roots[user].powi(2);
                        to.iter_mut()
                            .zip(&sum)
                            .for_each(|(to, sum)| *to += (weight * sum) as f32);
                    }
                });
            };
        let by_items = |users: &Rowwise<f32>| {
            let found = times(self.chosen.by_item(), users, k, None, self.threads);
            super::chosen::double(&found, k)
        };
        let apply = |m: &Mat<f64>| -> Mat<f64> {
            let users = self.users(m);
            let mut sums: Rowwise<f32> = Rowwise::zero(users.rows(), k);
            from_heads(&mut sums, &|user, row, _| {
                let user = users.row(user).iter();
                user.zip(row).map(|(u, v)| f64::from(u * v)).sum()
            });
            let everywhere = self.chosen.gram(&(m * &product), self.threads);
            by_items(&sums) + faer::Scale(ELSEWHERE) * everywhere
        };
        let mut sums: Rowwise<f32> = Rowwise::zero(self.roots.len(), k);
        from_heads(&mut sums, &|_, _, score| f64::from(score));
        let everywhere = self
            .chosen
            .gram(&self.times_full(decoder, false), self.threads);
        let aim = by_items(&sums) + faer::Scale(ELSEWHERE) * everywhere;
        let residual = aim - apply(&from.encoder);
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

    /// X M, a user a row.
    fn users(&self, m: &Mat<f64>) -> Rowwise<f32> {
        times(
            self.chosen.by_user(),
            &single(m),
            m.ncols(),
            None,
            self.threads,
        )
    }

    /// W M, or Wᵀ M.
    fn times_full(&self, m: &Mat<f64>, transposed: bool) -> Mat<f64> {
        let (items, k) = (m.nrows(), m.ncols());
        let full = faer::MatRef::from_row_major_slice_with_stride(
            &self.full.data,
            items,
            items,
            self.full.width,
        );
        let m = Mat::from_fn(items, k, |i, j| m[(i, j)] as f32);
        let out = match transposed {
            true => full.transpose() * &m,
            false => full * &m,
        };
        Mat::from_fn(items, k, |i, j| f64::from(out[(i, j)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rows;

    fn choices(users: usize, items: usize) -> Chosen {
        let entry = |u: usize, i: usize| match (u * 7 + i * 5 + u * i) % 11 {
            0..4 => 1.0,
            4 => 0.5,
            _ => 0.0,
        };
        let row = |u: usize| (0..items).map(|i| entry(u, i)).collect();
        let rows: Vec<Vec<f32>> = (0..users).map(row).collect();
        Chosen::new(Rows::from_dense(&rows).unwrap(), -0.5)
    }

    fn problem(chosen: &Chosen, threads: usize) -> ItemRegression<'_> {
        ItemRegression {
            chosen,
            lambda: 2.0,
            dropout: 0.2,
            threads,
        }
    }

    /// The cost as it is written, with every score and every head made anew.
    fn plain_cost(taught: &Taught<'_>, encoder: &Mat<f64>, decoder: &Mat<f64>) -> f64 {
        let (rows, items) = (taught.chosen.by_user(), taught.chosen.items());
        let w = encoder * decoder.transpose();
        let mut cost = 0.0;
        for (row, weight) in rows.iter().zip(taught.chosen.weights()) {
            let mut x = vec![0.0; items];
            row.iter().for_each(|(i, v)| x[i as usize] = f64::from(v));
            let sum = |at: &dyn Fn(usize) -> f64| -> f64 { (0..items).map(|i| x[i] * at(i)).sum() };
            let aims: Vec<f64> = (0..items)
                .map(|j| sum(&|i| f64::from(taught.full.row(i)[j])))
                .collect();
            let squares: Vec<f64> = (0..items)
                .map(|j| (sum(&|i| w[(i, j)]) - aims[j]).powi(2))
                .collect();
            let mut head: Vec<usize> = (0..items).filter(|&j| x[j] == 0.0).collect();
            head.sort_by(|&a, &b| aims[b].total_cmp(&aims[a]));
            head.truncate((items / SHARE_OF_ITEMS).clamp(LEAST_HEAD, HEAD));
            cost += weight * head.iter().map(|&j| squares[j]).sum::<f64>();
            cost += weight * ELSEWHERE * squares.iter().sum::<f64>();
        }
        cost
    }

    #[test]
    fn sweeps_lower_the_plain_cost_to_a_minimum_of_both_factors() {
        for (users, items, rank) in [(30, 12, 3), (30, 40, 1), (50, 25, 6), (9, 14, 5)] {
            let chosen = choices(users, items);
            let problem = problem(&chosen, 2);
            let taught = problem.taught().unwrap();
            let start = problem.start(rank, 1).unwrap();
            let mut factors = taught.decode(start).unwrap();
            let cost_of = |f: &ItemFactors| plain_cost(&taught, &f.encoder, &f.decoder);
            let first = cost_of(&factors);
            let mut before = first;
            // What the cost leaves out does not depend on the factors.
            let rest = before - factors.cost;
            for _ in 0..60 {
                factors = taught.sweep(&factors).unwrap();
                let cost = cost_of(&factors);
                assert!((cost - factors.cost - rest).abs() < 2e-3 * rest.abs());
                // Up to the ridge, and single precision.
                assert!(cost <= before + 1e-3 * first, "{cost} after {before}");
                before = cost;
            }
            assert!(before < first, "{before} of {first}");
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
                        let cost = cost_of(&moved);
                        assert!(cost > before - 1e-3 * first, "{cost} {before}");
                    }
                }
            }
        }
    }

    #[test]
    fn factors_of_full_rank_have_the_scores_of_the_full_regression() {
        for items in [3, 12] {
            let chosen = choices(40, items);
            let taught = problem(&chosen, 1).taught().unwrap();
            let found = taught.decode(Mat::identity(items, items)).unwrap();
            let left = plain_cost(&taught, &found.encoder, &found.decoder);
            // The full regression costs nothing but its ridge, so what is left is less than that.
            let gram: f64 = chosen.squares().iter().sum();
            let ridge = ELSEWHERE * RIDGE * gram / items as f64;
            let squares: f64 = (0..items)
                .flat_map(|i| &taught.full.row(i)[..items])
                .map(|w| f64::from(*w).powi(2))
                .sum();
            assert!(
                left < 1.01 * ridge * squares,
                "{left} of {}",
                ridge * squares
            );
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let chosen = choices(300, 150);
        let once = |threads: usize| {
            let problem = problem(&chosen, threads);
            let taught = problem.taught().unwrap();
            let start = taught.decode(problem.start(4, 1).unwrap()).unwrap();
            taught.sweep(&start).unwrap()
        };
        let (one, three) = (once(1), once(3));
        assert!(one.encoder == three.encoder && one.decoder == three.decoder);
        assert_eq!(one.cost.to_bits(), three.cost.to_bits());
    }

    #[test]
    fn heads_leave_out_what_was_chosen_and_may_be_short() {
        let rows = Rows::from_dense([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
        let chosen = Chosen::new(rows.unwrap(), 0.0);
        let taught = problem(&chosen, 1).taught().unwrap();
        let items = |user: usize| -> Vec<u32> {
            let head = &taught.heads.by_user[user];
            head.iter().map(|(item, _)| *item).collect()
        };
        assert_eq!(
            [items(0), items(1), items(2)],
            [vec![], vec![2], vec![0, 1]]
        );
    }
}
