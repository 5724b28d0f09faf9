//! Iterative passive-aggressive learning of W = A Bᵀ: each factor in turn moves
//! just as far as the example asks, and not farther than C.
//!
//! With loss ℓ and slope s, A −= s η p (Bᵀq)ᵀ, η = min(ℓ / (s²‖p‖²‖Bᵀq‖²), C), and
//! the same for B with (q, Aᵀp). The paper leaves open when each factor moves.
//!
//! Cost: O((nnz p + nnz q) k). Reference: [Shalit2012], section 7.

use super::gradient::{Scratch, fits, moved};
use super::{Learned, Learner, Outcome, RankOne, Step};
use crate::form::Factored;
use crate::kernel::dot;
use crate::{Loss, Real, Result};

/// When the two factors move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A on the examples 0, 2, 4, …, B on the others.
    Alternate,
    /// Both on every example, from the old pair.
    Simultaneous,
    /// A, then B with what is left of the loss: a step of A that C does not cut
    /// short leaves nothing, so B stays.
    Sequential,
}

/// Passive-aggressive steps on A and B; [`Step::size`] is the cap C.
#[derive(Debug, Clone)]
pub struct PassiveAggressive<R> {
    form: Factored<R>,
    turn: Turn,
    /// Examples seen, to know whose turn it is.
    seen: u64,
    scratch: Scratch<R>,
}

impl<R: Real> PassiveAggressive<R> {
    /// Starts from a form; `seen` examples came before. As with
    /// [`super::Gradient`] the factors are A and B themselves.
    pub fn new(mut form: Factored<R>, turn: Turn, seen: u64) -> Self {
        form.make_plain();
        let scratch = Scratch::new(form.rank());
        PassiveAggressive {
            form,
            turn,
            seen,
            scratch,
        }
    }

    form_access!(mut Factored<R>);
}

/// −s η for a change of squared length `direction`.
fn length(loss: f64, slope: f64, direction: f64, cap: f64) -> f64 {
    if direction > 0.0 {
        -slope * (loss / (slope * slope * direction)).min(cap)
    } else {
        0.0
    }
}

impl<R: Real> Learner<R> for PassiveAggressive<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        let Factored { left, right, .. } = &self.form;
        self.scratch.score(left, right, example)
    }

    fn learn(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss, step: Step) -> Learned {
        let score = self.score(example);
        let left_turn = self.turn != Turn::Alternate || self.seen.is_multiple_of(2);
        let right_turn = self.turn != Turn::Alternate || !left_turn;
        self.seen += 1;
        let at = loss.at(score, target);
        let cap = step.size;
        moved(score, at, |slope| {
            let (p, q) = (example.left, example.right);
            let Scratch { u, v, .. } = &self.scratch;
            let (p2, q2) = (p.squared_norm(), q.squared_norm());
            let a = match left_turn {
                true => length(at.0, slope, p2 * dot(v, v), cap),
                false => 0.0,
            };
            let b = match (right_turn, self.turn) {
                (false, _) => 0.0,
                (true, Turn::Sequential) => {
                    // The score after the step of A; its new projection is u + a‖p‖² v.
                    let later = score + a * p2 * dot(v, v);
                    let (value, slope) = loss.at(later, target);
                    let direction = dot(u, u) + 2.0 * a * p2 * score + (a * p2).powi(2) * dot(v, v);
                    match slope == 0.0 {
                        true => 0.0,
                        false => length(value, slope, q2 * direction, cap),
                    }
                }
                (true, _) => length(at.0, slope, q2 * dot(u, u), cap),
            };
            if a == 0.0 && b == 0.0 {
                return Outcome::Idle;
            }
            if !fits(p, v, a) || !fits(q, u, b) {
                return Outcome::Refused;
            }
            if a != 0.0 {
                self.scratch.add_left(&mut self.form.left, p, a);
            }
            if b != 0.0 {
                if self.turn == Turn::Sequential {
                    self.form.left.project(&mut self.scratch.u, p);
                }
                self.scratch.add_right(&mut self.form.right, q, b);
            }
            Outcome::Moved
        })
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.form.grow(left, right)
    }
}
