//! The run of agents: from works and settings to subspaces, slot by slot, on the
//! driver that all batch solvers have.

use super::crowd::Crowd;
use super::{Given, Gossip, GossipGeometry, GossipInit};
use crate::batch::{Ended, SolverState};
use crate::gossip::{
    Away, Elsewhere, Euclidean, Faults, Graph, Sent, Settings, Simulation, Status, Steps, Work,
    alone,
};
use crate::linalg::qf;
use crate::manifold::Grassmann;
use crate::model::{GossipCard, Metrics, Model, Standardize};
use crate::parallel::map_blocks;
use crate::random::normal_at;
use crate::task::course::Course;
use crate::task::driver::Driver;
use crate::task::inputs::Fingerprint;
use crate::task::run::{Report, Run, Unit};
use crate::{Error, Result};
use faer::Mat;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The side of random numbers that starts are made of; agent i has one for itself at
/// i + 1 above it.
const START: u64 = 0x6764;

/// The state of a simulation in a checkpoint.
const SOLVER: &str = "gossip";

/// What is decided before the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Decided {
    /// λ.
    pub regularization: f64,
    /// a and b, where agents do not choose their steps.
    pub steps: Option<(f64, f64)>,
    /// How features and targets of regressions are scaled.
    pub standardize: Option<Standardize>,
}

/// A run of agents.
pub(super) struct Talk<'a, 'r> {
    pub options: &'a Gossip,
    pub driver: Driver<'r, ()>,
    graph: Graph,
    graph_name: &'static str,
    slots: u64,
    every: u64,
    /// What goes wrong in the run, and what does now: trials are spared.
    script: Faults,
    faults: Faults,
    /// Where a checkpoint stands.
    resumed: Option<SolverState>,
    /// Where agents live in the run, unless here.
    elsewhere: Option<&'r mut dyn Elsewhere>,
}

impl<'a, 'r> Talk<'a, 'r> {
    /// A run on data of this fingerprint, and what was decided where it is resumed.
    pub fn new(
        options: &'a Gossip,
        given: &Gossip,
        given_data: Given<'_>,
        fingerprint: u64,
        (run, elsewhere): (Run<'r>, Option<&'r mut dyn Elsewhere>),
    ) -> Result<(Self, Option<Decided>)> {
        if elsewhere.is_some() && options.geometry == GossipGeometry::Euclidean {
            return Err(Error::option(
                "geometry",
                "is `euclidean`: agents elsewhere have subspaces, expected `grassmann`",
            ));
        }
        let (graph, graph_name) = options.graph_of(given_data.edges)?;
        let slots = options.usual_slots(&graph);
        let script = match given_data.faults {
            Some(script) => script
                .faults(&graph, slots)
                .map_err(|e| e.about("faults"))?,
            None => Faults::default(),
        };
        let every = options.curve_every.unwrap_or((slots / 50).max(1));
        // Other edges are another run.
        let ends = graph
            .edges()
            .iter()
            .flat_map(|&(i, j)| [i as u32, j as u32]);
        let mut hash = Fingerprint(fingerprint);
        hash.numbers(ends.collect::<Vec<u32>>().into_iter());
        let course = Course::new(slots, Some(every));
        let mut driver = Driver::new(run, course, given, hash.0)?;
        driver.run.unit = Unit::Slots;
        let resumed = driver.resume(given)?;
        let decided = resumed.as_ref().map(|resumed| resumed.stage::<Decided>());
        let talk = Talk {
            options,
            driver,
            graph,
            graph_name,
            slots,
            every,
            script,
            faults: Faults::default(),
            resumed: resumed.map(|resumed| resumed.solver),
            elsewhere,
        };
        Ok((talk, decided.transpose()?))
    }

    /// An error where the observer has asked for a stop.
    pub fn go_on(&mut self) -> Result<()> {
        match self.driver.goes_on() {
            true => Ok(()),
            false => Err(self.driver.run.no_model()),
        }
    }

    /// Steps as the simulation knows them.
    pub fn steps(&self, decided: &Decided) -> Steps {
        let precondition = self.options.precondition;
        decided
            .steps
            .map_or(Steps::Own, |(a, b)| Steps::Given { a, b, precondition })
    }

    /// Agents at their starts.
    fn crowd<W: Work + Clone>(
        &self,
        works: Vec<W>,
        rho: f64,
        steps: Steps,
    ) -> Result<Crowd<'r, W>> {
        Ok(match self.options.geometry {
            GossipGeometry::Grassmann => Crowd::Grassmann(self.simulation(works, rho, steps)?),
            GossipGeometry::Euclidean => Crowd::Euclidean(self.euclidean(works, rho, steps)?),
        })
    }

    fn euclidean<W: Work>(&self, works: Vec<W>, rho: f64, steps: Steps) -> Result<Euclidean<W>> {
        let starts = self.starts(&works)?;
        Euclidean::new(
            works,
            self.graph.clone(),
            rho,
            &starts,
            self.settings(steps),
        )
    }

    /// Agents with subspaces at their starts.
    pub fn simulation<W: Work + Clone>(
        &self,
        works: Vec<W>,
        rho: f64,
        steps: Steps,
    ) -> Result<Simulation<W>> {
        let starts = self.starts(&works)?;
        Simulation::new(
            works,
            self.graph.clone(),
            rho,
            &starts,
            self.settings(steps),
        )
    }

    /// Where agents start: a subspace each, or one for all.
    fn starts<W: Work>(&self, works: &[W]) -> Result<Vec<Mat<f64>>> {
        let options = self.options;
        if options.init != GossipInit::Own {
            return self.random_starts(works);
        }
        let starts = map_blocks(works.len(), 1, options.thread_count(), |i| {
            alone(&works[i.start], options.rank, options.seed)
        });
        found(starts)
    }

    /// The same where they do not follow from the data of agents; else none.
    fn random_starts<W: Work>(&self, works: &[W]) -> Result<Vec<Mat<f64>>> {
        let options = self.options;
        let random = |side: u64| {
            let entry = |i, j| normal_at(options.seed, side, i as u64, j as u64);
            qf(&Mat::from_fn(works[0].dimension(), options.rank, entry))
        };
        found(match options.init {
            GossipInit::Own => Vec::new(),
            GossipInit::Shared => vec![random(START)],
            GossipInit::Random => (1..=works.len() as u64)
                .map(|i| random(START + (i << 16)))
                .collect(),
        })
    }

    /// Agents elsewhere, at their starts or where a checkpoint has them.
    fn away<W: Sent>(
        &self,
        elsewhere: &'r mut dyn Elsewhere,
        works: Vec<W>,
        rho: f64,
        steps: Steps,
        checkpoint: Option<&[u8]>,
    ) -> Result<Crowd<'r, W>> {
        let starts = self.random_starts(&works)?;
        let away = Away::new(
            elsewhere,
            &works,
            (self.graph.clone(), rho, self.options.rank),
            (&starts, self.options.seed),
            self.settings(steps),
            checkpoint,
        )?;
        Ok(Crowd::Away(Box::new(away), works))
    }

    fn settings(&self, steps: Steps) -> Settings {
        Settings {
            schedule: self.options.schedule,
            steps,
            seed: self.options.seed,
            threads: self.options.thread_count(),
            trust: self.options.trust,
            faults: self.faults.clone(),
        }
    }

    /// A run that is not told of, for a trial.
    pub fn try_out<W: Work + Clone>(
        &mut self,
        works: Vec<W>,
        rho: f64,
        steps: Steps,
    ) -> Result<Crowd<'r, W>> {
        let mut crowd = self.crowd(works, rho, steps)?;
        for slot in 1..=self.slots {
            crowd.slot()?;
            if slot % self.every == 0 || !self.driver.run.goes_on() {
                self.go_on()?;
            }
        }
        Ok(crowd)
    }

    /// The run itself, from the start or from a checkpoint. `watch` says what the curve tells
    /// beside cost and consensus.
    pub fn run<W: Sent + Clone>(
        &mut self,
        works: Vec<W>,
        rho: f64,
        decided: &Decided,
        watch: &dyn Fn(&Crowd<'_, W>) -> Result<Metrics>,
    ) -> Result<Crowd<'r, W>> {
        self.driver.decided(decided)?;
        self.faults = self.script.clone();
        let steps = self.steps(decided);
        let resumed = self.resumed.take();
        let fresh = resumed.is_none();
        let mut crowd = match (self.elsewhere.take(), resumed, self.options.geometry) {
            (Some(elsewhere), resumed, _) => {
                let state = resumed.as_ref().map(|state| &state.bytes[..]);
                self.away(elsewhere, works, rho, steps, state)?
            }
            (None, None, _) => self.crowd(works, rho, steps)?,
            (None, Some(state), GossipGeometry::Grassmann) => {
                let (graph, settings) = (self.graph.clone(), self.settings(steps));
                let rank = self.options.rank;
                let found = Simulation::restore(works, graph, rho, rank, settings, &state.bytes);
                Crowd::Grassmann(found?)
            }
            (None, Some(state), GossipGeometry::Euclidean) => {
                Crowd::Euclidean(self.euclidean(works, rho, steps)?.restored(&state.bytes)?)
            }
        };
        if fresh {
            self.driver.start(told(&crowd.status(), watch(&crowd)?));
        }
        while self.driver.course.counters.steps < self.slots {
            crowd.slot()?;
            let crowd = &crowd;
            let slots = self.driver.course.counters.steps as usize + 1;
            let state = || SolverState::new(SOLVER, slots).with_bytes(crowd.checkpoint());
            let mut failed = None;
            let seen = || {
                let more = watch(crowd).unwrap_or_else(|error| {
                    failed = Some(error);
                    Metrics::new()
                });
                told(&crowd.status(), more)
            };
            let goes_on = self.driver.slot(seen, &state);
            if let Some(error) = failed {
                return Err(error);
            }
            if !goes_on {
                break;
            }
        }
        self.driver.check_interrupted()?;
        Ok(crowd)
    }

    /// How far the subspaces of neighbors are from each other.
    pub fn distances(&self, subspaces: &[Mat<f64>]) -> Vec<(usize, usize, f64)> {
        let edges = self.graph.edges().iter();
        let apart = |i: usize, j: usize| Grassmann::distance(&subspaces[i], &subspaces[j]);
        edges.map(|&(i, j)| (i, j, apart(i, j))).collect()
    }

    /// What models say of the run.
    pub fn card(&self, status: &Status, rho: f64, decided: &Decided) -> GossipCard {
        GossipCard {
            agents: self.options.agents as u64,
            graph: self.graph_name.into(),
            rho,
            schedule: self.options.schedule.name().into(),
            steps: decided.steps,
            precondition: self.options.precondition,
            euclidean: self.options.geometry == GossipGeometry::Euclidean,
            slots: status.slots,
            cost: status.cost,
            consensus: status.consensus,
            messages: status.counters.sent,
            bytes: status.counters.sent_bytes,
            agent: None,
            name: None,
        }
    }

    /// Tells the end, and what was done.
    pub fn finish(
        &mut self,
        (model, lost_rank): (&Model, Option<usize>),
        status: &Status,
        card: &GossipCard,
        decided: &Decided,
    ) -> Result<Report> {
        let mut report = self.driver.finish(Ended::Iterations)?;
        describe(&mut report, self.options, card);
        report = report
            .with("regularization", decided.regularization)
            .with("step_a", decided.steps.map(|steps| steps.0))
            .with("step_b", decided.steps.map(|steps| steps.1));
        report.unit = Unit::Slots;
        report.counters.updates = status.counters.steps;
        report.counters.refused = status.counters.refused_steps;
        if let Some(asked) = lost_rank {
            report.notes.push(format!(
                "the mean model has rank {} only, not {asked}",
                model.rank()
            ));
        }
        Ok(report)
    }
}

fn found(starts: Vec<Option<Mat<f64>>>) -> Result<Vec<Mat<f64>>> {
    let starts: Option<Vec<Mat<f64>>> = starts.into_iter().collect();
    starts.ok_or_else(|| Error::failure("no subspace to start from was found"))
}

/// What the agents of a run have in common, for its report.
pub(super) fn describe(report: &mut Report, options: &Gossip, card: &GossipCard) {
    let geometry = match card.euclidean {
        true => GossipGeometry::Euclidean,
        false => GossipGeometry::Grassmann,
    };
    let values: [(&str, Value); 12] = [
        ("task", options.task.name().into()),
        ("solver", "gossip".into()),
        ("agents", card.agents.into()),
        ("graph", card.graph.as_str().into()),
        ("schedule", card.schedule.as_str().into()),
        ("rho", card.rho.into()),
        ("precondition", card.precondition.into()),
        ("geometry", geometry.name().into()),
        ("init", options.init.name().into()),
        ("slots", card.slots.into()),
        ("cost", card.cost.into()),
        ("consensus", card.consensus.into()),
    ];
    for (name, value) in values {
        report.more.insert(name.into(), value);
    }
    report.more.insert("messages".into(), card.messages.into());
    report.more.insert("bytes".into(), card.bytes.into());
}

/// The cost of a run, and what the curve says beside it.
fn told(status: &Status, more: Metrics) -> (f64, Metrics) {
    let counters = &status.counters;
    let metrics = [
        ("cost", status.cost),
        ("consensus", status.consensus),
        ("messages", counters.sent as f64),
        ("bytes", counters.sent_bytes as f64),
    ];
    let metrics = metrics.map(|(name, value)| (name.to_owned(), value));
    (status.cost, metrics.into_iter().chain(more).collect())
}
