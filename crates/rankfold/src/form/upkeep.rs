//! When to repair the small state, and when to choose a new gauge.

use crate::Real;
use serde::{Deserialize, Serialize};

/// Updates between two repairs of the inverses: these cost k³ and an update
/// k², so this many times k keeps them a small part.
fn polish_every(rank: usize) -> u64 {
    (4 * rank as u64).max(32)
}

/// Updates between two refreshes when nothing else asks for one.
const REFRESH_EVERY: u64 = 10_000;

/// A refresh passes over all rows; this many times its cost goes into steps first.
const REFRESH_SHARE: u64 = 8;

/// Updates after which a gauge may be to blame for a step that fails.
const STALE: u64 = 32;

/// The share of its squared norm below which a factor is refreshed.
const SHRUNK: f64 = 0.01;

/// Residual of an inverse beyond which polishing it is not enough.
const WORN: f64 = 1e-6;

/// The largest count of anything in a file: what a double holds exactly.
pub(crate) const MOST: u64 = 1 << 53;

/// Counters that decide on repairs. They are saved with the form, so that a
/// resumed run repairs at the same steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Upkeep {
    /// Updates since the last refresh.
    updates: u64,
    /// Rows changed since the last refresh.
    rows_changed: u64,
    /// What the form was like right after the last refresh.
    fresh: Health,
    /// Refreshes so far.
    pub refreshes: u64,
}

/// What tells how well the numbers of a form serve it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Health {
    /// What the condition of W may be at most, from its small matrices.
    pub condition: f64,
    /// The squared norm of its tall factors.
    pub size: f64,
}

impl Health {
    /// Whether a form whose worst Gram matrix has this condition can still be
    /// told from a singular one, and a refresh can make a good one of it again.
    /// A step drives the condition of S towards the square of that of W, and
    /// that of K the other way, so together they may look worse than W is.
    pub fn is_regular(&self, worst_gram: f64) -> bool {
        worst_gram < 1e14 && self.condition < 1e22
    }
}

/// What a form should do after an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Polish,
    Refresh,
}

impl Upkeep {
    pub fn new(fresh: Health) -> Self {
        Upkeep {
            updates: 0,
            rows_changed: 0,
            fresh,
            refreshes: 0,
        }
    }

    /// Counts an update that changed `rows` rows of a form of this rank and
    /// `height` rows in all, and says what is due.
    ///
    /// The condition is judged by its growth: right after a refresh it is that
    /// of W, which no gauge can improve. A factor that has shrunk has lost the
    /// digits of what it was, and its Gram matrix with it.
    pub fn after_update<R: Real>(
        &mut self,
        rows: usize,
        height: usize,
        rank: usize,
        now: Health,
    ) -> Due {
        self.updates += 1;
        self.rows_changed += rows as u64;
        let limit = if R::EPSILON > 1e-10 { 1e3 } else { 1e6 };
        let worse = now.condition > limit && now.condition > 10.0 * self.fresh.condition
            || now.size < SHRUNK * self.fresh.size;
        let old = self.updates >= REFRESH_EVERY
            && self.rows_changed >= REFRESH_SHARE * (height * rank) as u64;
        if worse || old {
            Due::Refresh
        } else if self.updates.is_multiple_of(polish_every(rank)) {
            Due::Polish
        } else {
            Due::Nothing
        }
    }

    /// Rows changed since the last refresh, each as often as it was.
    pub fn rows_changed(&self) -> u64 {
        self.rows_changed
    }

    /// Whether counters that were read can be those of a form.
    pub fn is_possible(&self) -> bool {
        let counts = [self.updates, self.rows_changed, self.refreshes];
        counts.iter().all(|count| *count <= MOST)
            && self.fresh.size >= 0.0
            && self.fresh.condition >= 0.0
    }

    /// Updates since the last refresh.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Whether an inverse with this residual needs more than polishing.
    pub fn worn(residual: f64) -> bool {
        residual.is_nan() || residual > WORN
    }

    /// Whether the form has moved so often since its gauge was chosen that a
    /// new one is worth a pass over all rows.
    pub fn is_stale(&self) -> bool {
        self.updates >= STALE
    }

    /// Starts counting anew.
    pub fn refreshed(&mut self, fresh: Health) {
        *self = Upkeep {
            refreshes: self.refreshes + 1,
            ..Upkeep::new(fresh)
        };
    }
}
