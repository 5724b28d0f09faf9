//! What is not given is chosen on data that is held out: λ by one part, and a and b of
//! the steps by cross-validation, as in the paper.

use super::{Gossip, GossipEvent, GossipSteps, WatchGossip};
use crate::Result;
use crate::gossip::{Steps, Work};

/// Sizes a to choose from, in units of one over the curvature and ρ.
const SIZES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// The same for scaled steps, which have a unit of their own.
const SCALED_SIZES: [f64; 5] = [0.3, 1.0, 4.0, 16.0, 64.0];

/// Rates b to choose from.
const RATES: [f64; 5] = [0.0, 1e-3, 1e-2, 3e-2, 1e-1];

/// Parts that λ is judged by one of.
const PARTS: usize = 10;

/// Settings that were tried.
#[derive(Debug, Clone, PartialEq)]
pub struct GossipTrial {
    /// λ.
    pub regularization: f64,
    /// a and b, where they were tried.
    pub steps: Option<(f64, f64)>,
    /// The root mean squared error on what was held out.
    pub error: f64,
}

/// What each agent learns from and what it is judged by.
pub(super) struct Fold<W> {
    pub works: Vec<W>,
    pub held: Vec<W>,
}

/// What there is to choose from.
pub(super) struct Choice<'a, W> {
    /// λ's.
    pub ridges: Vec<f64>,
    /// ρ.
    pub rho: f64,
    /// The data with one of so many parts held out, for λ.
    pub fold: &'a mut dyn FnMut(usize, usize, f64) -> Result<Fold<W>>,
    pub trials: &'a mut Vec<GossipTrial>,
}

impl<W: Work + Clone> Choice<'_, W> {
    /// λ and steps, chosen where they were not given; `None` where `watch` stops it.
    pub fn make(
        mut self,
        options: &Gossip,
        watch: WatchGossip<'_>,
    ) -> Result<Option<(f64, Steps)>> {
        let mut lambda = self.ridges[0];
        if self.ridges.len() > 1 {
            let mut best = f64::INFINITY;
            for ridge in self.ridges.clone() {
                let fold = (self.fold)(0, PARTS, ridge)?;
                let steps = match options.steps {
                    GossipSteps::Given { a, b } => options.given((a, b)),
                    _ => Steps::Own,
                };
                let Some(error) = judge(options, &fold, self.rho, steps, watch)? else {
                    return Ok(None);
                };
                let trial = GossipTrial {
                    regularization: ridge,
                    steps: None,
                    error: error.sqrt(),
                };
                if !self.tell(trial, watch) {
                    return Ok(None);
                }
                // Of equal ones the first, which is the largest.
                if error < best {
                    (best, lambda) = (error, ridge);
                }
            }
        }
        let steps = match options.steps {
            GossipSteps::Own => Some(Steps::Own),
            GossipSteps::Given { a, b } => Some(options.given((a, b))),
            GossipSteps::CrossValidated { folds } => {
                self.cross_validate(options, lambda, folds, watch)?
            }
        };
        Ok(steps.map(|steps| (lambda, steps)))
    }

    fn tell(&mut self, trial: GossipTrial, watch: WatchGossip<'_>) -> bool {
        let go_on = watch(GossipEvent::Tried(&trial));
        self.trials.push(trial);
        go_on
    }

    fn cross_validate(
        &mut self,
        options: &Gossip,
        lambda: f64,
        folds: usize,
        watch: WatchGossip<'_>,
    ) -> Result<Option<Steps>> {
        let made: Result<Vec<Fold<W>>> =
            (0..folds).map(|i| (self.fold)(i, folds, lambda)).collect();
        let made = made?;
        let sizes = match options.precondition {
            true => SCALED_SIZES,
            false => {
                let unit = 1.0 / (curvature(options, &made[0], self.rho)? + self.rho);
                SIZES.map(|size| size * unit)
            }
        };
        let mut best: Option<(f64, Steps)> = None;
        for (a, b) in sizes.into_iter().flat_map(|a| RATES.map(|b| (a, b))) {
            let steps = options.given((a, b));
            let mut sum = 0.0;
            for fold in &made {
                let Some(error) = judge(options, fold, self.rho, steps, watch)? else {
                    return Ok(None);
                };
                sum += error;
            }
            let error = sum / folds as f64;
            let trial = GossipTrial {
                regularization: lambda,
                steps: Some((a, b)),
                error: error.sqrt(),
            };
            if !self.tell(trial, watch) {
                return Ok(None);
            }
            if best.is_none_or(|(least, _)| error < least) {
                best = Some((error, steps));
            }
        }
        Ok(best.map(|(_, steps)| steps))
    }
}

/// The mean squared error of the mean subspace on what was held out; `None` where it
/// was told to stop.
fn judge<W: Work + Clone>(
    options: &Gossip,
    fold: &Fold<W>,
    rho: f64,
    steps: Steps,
    watch: WatchGossip<'_>,
) -> Result<Option<f64>> {
    let mut trying = |event: GossipEvent<'_>| match event {
        GossipEvent::Slot(status) => watch(GossipEvent::Trying(status)),
        other => watch(other),
    };
    let (simulation, stopped) = options.run(fold.works.clone(), rho, steps, &mut trying)?;
    if stopped {
        return Ok(None);
    }
    let mean = simulation.mean()?;
    let (mut squares, mut count) = (0.0, 0);
    for (work, held) in fold.works.iter().zip(&fold.held) {
        let (more, numbers) = work.misfit(&work.local(&mean, None), held);
        squares += more;
        count += numbers;
    }
    Ok(Some(squares / count.max(1) as f64))
}

/// The largest curvature after a few steps that agents choose themselves.
fn curvature<W: Work + Clone>(options: &Gossip, fold: &Fold<W>, rho: f64) -> Result<f64> {
    let mut simulation = options.simulation(fold.works.clone(), rho, Steps::Own)?;
    for _ in 0..20 {
        simulation.slot()?;
    }
    let curvatures = simulation.agents().iter().map(|agent| agent.curvature());
    Ok(curvatures.fold(0.0, f64::max))
}
