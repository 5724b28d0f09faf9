//! What is not given is chosen on data that is held out: λ by one part, and a and b of
//! the steps by cross-validation, as in the paper.

use super::talk::{Decided, Talk};
use crate::Result;
use crate::gossip::{Steps, Work};
use crate::task::run::Trial;

/// Sizes a to choose from, in units of one over the curvature and ρ.
const SIZES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// The ratio between sizes of scaled steps, and how far they go beyond their units.
const RATIO: f64 = 4.0;

/// Sizes a of scaled steps. Where ρ weighs little, the curvature of a row of U is
/// `density` times WᵀW, and 1/density is the unit; where ρ weighs most, it is 1.
fn scaled_sizes(density: f64) -> Vec<f64> {
    let unit = 1.0 / density.clamp(1e-9, 1e9);
    let (first, last) = (unit.min(1.0) / RATIO, unit.max(1.0) * RATIO);
    let sizes = std::iter::successors(Some(first), |size| Some(size * RATIO));
    sizes.take_while(|&size| size <= last).collect()
}

/// Rates b to choose from.
const RATES: [f64; 5] = [0.0, 1e-3, 1e-2, 3e-2, 1e-1];

/// Parts that λ is judged by one of.
const PARTS: usize = 10;

/// What each agent learns from and what it is judged by.
pub(super) struct Fold<W> {
    pub works: Vec<W>,
    pub held: Vec<W>,
}

/// What there is to choose from.
pub(super) struct Choice<'c, 'a, 'r, W> {
    pub talk: &'c mut Talk<'a, 'r>,
    /// λ's.
    pub ridges: Vec<f64>,
    /// ρ.
    pub rho: f64,
    /// The data with one of so many parts held out, for λ.
    pub fold: &'c mut dyn FnMut(usize, usize, f64) -> Result<Fold<W>>,
}

impl<W: Work + Clone> Choice<'_, '_, '_, W> {
    /// λ and steps, chosen where they were not given.
    pub fn make(mut self) -> Result<Decided> {
        let options = self.talk.options;
        let mut decided = Decided {
            regularization: self.ridges[0],
            steps: options.step_a.map(|a| (a, options.step_b)),
            standardize: None,
        };
        if self.ridges.len() > 1 {
            let mut best = f64::INFINITY;
            for ridge in self.ridges.clone() {
                let fold = (self.fold)(0, PARTS, ridge)?;
                let error = self.judge(&fold, decided.steps)?;
                self.tried(ridge, None, error)?;
                // Of equal ones the first, which is the largest.
                if error < best {
                    (best, decided.regularization) = (error, ridge);
                }
            }
        }
        if let Some(parts) = options.cross_validate {
            decided.steps = self.cross_validate(decided.regularization, parts)?;
        }
        Ok(decided)
    }

    fn tried(&mut self, ridge: f64, steps: Option<(f64, f64)>, error: f64) -> Result<()> {
        let mut trial = Trial::of("regularization", ridge, "rmse", error.sqrt());
        if let Some((a, b)) = steps {
            trial.settings.insert("step_a".into(), a.into());
            trial.settings.insert("step_b".into(), b.into());
        }
        match self.talk.driver.tried(trial) {
            true => Ok(()),
            false => Err(self.talk.driver.run.no_model()),
        }
    }

    fn cross_validate(&mut self, lambda: f64, parts: usize) -> Result<Option<(f64, f64)>> {
        let folds: Result<Vec<Fold<W>>> =
            (0..parts).map(|i| (self.fold)(i, parts, lambda)).collect();
        let folds = folds?;
        let sizes = match self.talk.options.precondition {
            true => {
                let works = &folds[0].works;
                let sum: f64 = works.iter().map(|work| work.density()).sum();
                scaled_sizes(sum / works.len() as f64)
            }
            false => {
                let unit = 1.0 / (self.curvature(&folds[0])? + self.rho);
                SIZES.map(|size| size * unit).to_vec()
            }
        };
        let mut best: Option<(f64, (f64, f64))> = None;
        for steps in sizes.into_iter().flat_map(|a| RATES.map(|b| (a, b))) {
            let mut sum = 0.0;
            for fold in &folds {
                sum += self.judge(fold, Some(steps))?;
            }
            let error = sum / parts as f64;
            self.tried(lambda, Some(steps), error)?;
            if best.is_none_or(|(least, _)| error < least) {
                best = Some((error, steps));
            }
        }
        Ok(best.map(|(_, steps)| steps))
    }

    /// The mean squared error of the mean subspace on what was held out.
    fn judge(&mut self, fold: &Fold<W>, steps: Option<(f64, f64)>) -> Result<f64> {
        let precondition = self.talk.options.precondition;
        let steps = steps.map_or(Steps::Own, |(a, b)| Steps::Given { a, b, precondition });
        let crowd = self.talk.try_out(fold.works.clone(), self.rho, steps)?;
        // Steps that are too long may leave no subspace.
        let Ok(mean) = crowd.mean() else {
            return Ok(f64::INFINITY);
        };
        let (mut squares, mut count) = (0.0, 0);
        for (work, held) in fold.works.iter().zip(&fold.held) {
            let (more, numbers) = work.misfit(&work.local(&mean, None), held);
            squares += more;
            count += numbers;
        }
        Ok(squares / count.max(1) as f64)
    }

    /// The largest curvature after a few steps that agents choose themselves.
    fn curvature(&self, fold: &Fold<W>) -> Result<f64> {
        let works = fold.works.clone();
        let mut simulation = self.talk.simulation(works, self.rho, Steps::Own)?;
        for _ in 0..20 {
            simulation.slot()?;
        }
        let curvatures = simulation.agents().iter().map(|agent| agent.curvature());
        Ok(curvatures.fold(0.0, f64::max))
    }
}

#[cfg(test)]
mod tests {
    use super::scaled_sizes;

    #[test]
    fn sizes_of_scaled_steps_reach_beyond_one_over_the_density() {
        for density in [1.0, 0.05, 1e-3, 30.0] {
            let sizes = scaled_sizes(density);
            let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
            assert!(first <= 0.25 && first <= 0.25 / density, "{sizes:?}");
            assert!(last > 1.0 && last > 1.0 / density, "{sizes:?}");
            assert!(sizes.windows(2).all(|pair| pair[1] == 4.0 * pair[0]));
        }
        assert_eq!(scaled_sizes(0.0).len(), scaled_sizes(1e-9).len());
    }
}
