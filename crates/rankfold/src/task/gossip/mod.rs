//! Gossip from data to models: users or tasks are divided among agents, which agree on
//! a subspace and keep their data.
//!
//! Before a run, agents share a few numbers that concern all: the mean of the ratings,
//! or scales and common weights of tasks, and ρ. From then on they send subspaces only.

mod choose;
mod completion;
mod multitask;

pub use choose::GossipTrial;

use crate::gossip::{Graph, Schedule, Settings, Simulation, Status, Steps, Work, alone};
use crate::linalg::qf;
use crate::model::{GossipCard, Model};
use crate::parallel::map_blocks;
use crate::random::normal_at;
use crate::task::Clip;
use crate::{Error, Result, memory};
use faer::Mat;

/// The side of random numbers that the common start is made of.
const START: u64 = 0x6764;

/// How often each edge is used, unless told otherwise.
const USES: usize = 100;

/// ρ unless told otherwise, as a share of the curvature that an agent would have if
/// the subspace explained everything.
const SHARE_OF_CURVATURE: f64 = 0.1;

/// Who talks to whom.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GraphShape {
    /// 0 – 1 – 2 – …
    #[default]
    Path,
    /// A path whose ends are joined.
    Ring,
    /// Rows of equal length.
    Grid,
    /// Agent 0 in the middle.
    Star,
    /// A random tree and some more edges.
    Random,
    /// These edges.
    Edges(Vec<(usize, usize)>),
}

impl GraphShape {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            GraphShape::Path => "path",
            GraphShape::Ring => "ring",
            GraphShape::Grid => "grid",
            GraphShape::Star => "star",
            GraphShape::Random => "random",
            GraphShape::Edges(_) => "edges",
        }
    }

    fn graph(&self, agents: usize, seed: u64) -> Result<Graph> {
        match self {
            GraphShape::Path => Graph::path(agents),
            GraphShape::Ring => Graph::ring(agents),
            GraphShape::Grid => Graph::grid(agents),
            GraphShape::Star => Graph::star(agents),
            GraphShape::Random => Graph::random(agents, seed),
            GraphShape::Edges(edges) => Graph::new(agents, edges.iter().copied()),
        }
    }
}

/// Who says how long steps are.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum GossipSteps {
    /// Each agent for itself.
    #[default]
    Own,
    /// a/(1 + bk) in slot k.
    Given {
        /// a.
        a: f64,
        /// b.
        b: f64,
    },
    /// The same, with a and b from cross-validation.
    CrossValidated {
        /// Parts that the data is cut into.
        folds: usize,
    },
}

/// Gossip between agents: options, checked once.
///
/// ```no_run
/// use rankfold::data::{RatingColumns, Ratings};
/// let ratings = Ratings::read("ratings.csv", &RatingColumns::default())?;
/// let gossip = rankfold::task::Gossip::new(5).rank(3).seed(1);
/// let found = gossip.completion::<f32>(ratings, &mut |_| true)?.expect("was not stopped");
/// found.model.save("mean.safetensors")?;
/// # Ok::<(), rankfold::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Gossip {
    agents: usize,
    shape: GraphShape,
    rank: usize,
    rho: Option<f64>,
    regularization: Option<f64>,
    centre: Option<f64>,
    schedule: Schedule,
    steps: GossipSteps,
    precondition: bool,
    slots: Option<u64>,
    report_every: Option<u64>,
    clip: Clip,
    seed: u64,
    threads: usize,
}

/// What happens on the way.
#[derive(Debug, Clone, Copy)]
pub enum GossipEvent<'a> {
    /// Settings were tried on data that was held out.
    Tried(&'a GossipTrial),
    /// How far a run has come that tries settings.
    Trying(&'a Status),
    /// How far the run itself has come.
    Slot(&'a Status),
}

/// Called on the way; false ends the run.
pub type WatchGossip<'a> = &'a mut dyn FnMut(GossipEvent<'_>) -> bool;

/// What agents came to.
#[derive(Debug, Clone)]
pub struct Gossiped {
    /// The model of the mean subspace, for all users or tasks.
    pub model: Model,
    /// The model of each agent, for its own.
    pub agents: Vec<Model>,
    /// How far the run came.
    pub status: Status,
    /// What is remarkable of the run, as the models have it.
    pub card: GossipCard,
    /// λ.
    pub regularization: f64,
    /// What was tried.
    pub trials: Vec<GossipTrial>,
    /// Whether it was told to stop.
    pub stopped: bool,
    /// The rank asked for, where the mean model has less.
    pub lost_rank: Option<usize>,
}

impl Gossip {
    /// So many agents on a path, with rank 5 and steps of their own.
    pub fn new(agents: usize) -> Self {
        Gossip {
            agents,
            shape: GraphShape::default(),
            rank: 5,
            rho: None,
            regularization: None,
            centre: None,
            schedule: Schedule::default(),
            steps: GossipSteps::default(),
            precondition: false,
            slots: None,
            report_every: None,
            clip: Clip::Auto,
            seed: 0,
            threads: 1,
        }
    }

    /// Who talks to whom.
    pub fn graph(mut self, shape: GraphShape) -> Self {
        self.shape = shape;
        self
    }

    /// The dimension of the subspace.
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = rank;
        self
    }

    /// The weight of squared distances between neighbours; by default a tenth of the
    /// curvature that an agent would have if the subspace explained everything.
    pub fn rho(mut self, rho: f64) -> Self {
        self.rho = Some(rho);
        self
    }

    /// λ of the weights of each user or task; chosen on data that is held out unless
    /// given.
    pub fn regularization(mut self, lambda: f64) -> Self {
        self.regularization = Some(lambda);
        self
    }

    /// What is subtracted from ratings; their mean unless given.
    pub fn centre(mut self, centre: f64) -> Self {
        self.centre = Some(centre);
        self
    }

    /// Which edges a slot uses.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Who says how long steps are.
    pub fn steps(mut self, steps: GossipSteps) -> Self {
        self.steps = steps;
        self
    }

    /// Whether steps of given sizes are scaled by (WᵀW + ρI)⁻¹.
    pub fn precondition(mut self, precondition: bool) -> Self {
        self.precondition = precondition;
        self
    }

    /// How many slots there are; by default each edge is used a hundred times.
    pub fn slots(mut self, slots: u64) -> Self {
        self.slots = Some(slots);
        self
    }

    /// After how many slots cost and consensus are told, which costs time; by default
    /// fifty times.
    pub fn report_every(mut self, slots: u64) -> Self {
        self.report_every = Some(slots);
        self
    }

    /// To which range predicted ratings are clipped.
    pub fn clip(mut self, clip: Clip) -> Self {
        self.clip = clip;
        self
    }

    /// The seed of everything random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Threads; the result does not depend on them.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Checks the options, and that the graph is connected.
    pub fn check(&self) -> Result<()> {
        self.shape.graph(self.agents, self.seed)?;
        let error = |message: String| Err(Error::input(message));
        if self.rank == 0 {
            return error("the rank must be at least 1".into());
        }
        if let Some(rho) = self.rho
            && !(rho >= 0.0 && rho.is_finite())
        {
            return error(format!("rho must be 0 or more, found {rho}"));
        }
        if let Some(lambda) = self.regularization
            && !(lambda >= 0.0 && lambda.is_finite())
        {
            return error(format!(
                "the regularization must be 0 or more, found {lambda}"
            ));
        }
        if let Some(centre) = self.centre
            && !centre.is_finite()
        {
            return error(format!("the center must be a number, found {centre}"));
        }
        match self.steps {
            GossipSteps::Given { a, b } if !(a > 0.0 && a.is_finite() && b >= 0.0) => {
                return error(format!(
                    "steps a/(1 + bk) need a above 0 and b of 0 or more, found {a} and {b}"
                ));
            }
            GossipSteps::CrossValidated { folds } if folds < 2 => {
                return error(format!("at least 2 folds are needed, found {folds}"));
            }
            GossipSteps::Own if self.precondition => {
                return error(
                    "steps that agents choose themselves are scaled already: preconditioning \
                     is for given ones"
                        .into(),
                );
            }
            _ => {}
        }
        if self.slots == Some(0) || self.report_every == Some(0) {
            return error("at least 1 slot is needed".into());
        }
        Ok(())
    }

    /// That there is something for each agent, and enough for the rank.
    fn check_shares(&self, what: &str, count: usize, (m, of): (usize, &str)) -> Result<()> {
        if self.agents > count {
            return Err(Error::input(format!(
                "{} agents are more than the {count} {what} to divide among them",
                self.agents
            )));
        }
        if self.rank > m.min(count) {
            return Err(Error::input(format!(
                "a rank of {} is not possible with {m} {of} and {count} {what}",
                self.rank
            )));
        }
        // Each agent remembers its neighbours, and its last step.
        let room = 8 * (m * self.rank) as u128 * 12 * self.agents as u128;
        memory::require(room, &format!("the subspaces of {} agents", self.agents))
    }

    /// What agent `i` owns of so many users or tasks.
    fn share(&self, i: usize, count: usize) -> std::ops::Range<usize> {
        i * count / self.agents..(i + 1) * count / self.agents
    }

    fn usual_slots(&self, graph: &Graph) -> u64 {
        let groups = match self.schedule {
            Schedule::Stochastic => graph.edges().len(),
            Schedule::Parallel => graph.matchings().len(),
        };
        self.slots.unwrap_or((USES * groups) as u64)
    }

    /// ρ for data with this sum of squares.
    fn usual_rho(&self, squares: f64) -> f64 {
        let curvature = squares / (self.agents * self.rank) as f64;
        self.rho.unwrap_or(SHARE_OF_CURVATURE * curvature)
    }

    fn simulation<W: Work + Clone>(
        &self,
        works: Vec<W>,
        rho: f64,
        steps: Steps,
    ) -> Result<Simulation<W>> {
        let starts = match steps {
            // What each finds alone.
            Steps::Own => map_blocks(works.len(), 1, self.threads, |i| {
                alone(&works[i.start], self.rank, self.seed)
            }),
            // As in the paper, one for all.
            Steps::Given { .. } => {
                let (m, r) = (works[0].dimension(), self.rank);
                let entry = |i, j| normal_at(self.seed, START, i as u64, j as u64);
                vec![qf(&Mat::from_fn(m, r, entry))]
            }
        };
        let starts: Option<Vec<Mat<f64>>> = starts.into_iter().collect();
        let starts = starts.ok_or_else(|| Error::failure("no subspace to start from was found"))?;
        let settings = Settings {
            schedule: self.schedule,
            steps,
            seed: self.seed,
            threads: self.threads,
            ..Settings::default()
        };
        let graph = self.shape.graph(self.agents, self.seed)?;
        Simulation::new(works, graph, rho, &starts, settings)
    }

    /// The run itself; and whether it was told to stop.
    fn run<W: Work + Clone>(
        &self,
        works: Vec<W>,
        rho: f64,
        steps: Steps,
        watch: WatchGossip<'_>,
    ) -> Result<(Simulation<W>, bool)> {
        let slots = self.usual_slots(&self.shape.graph(self.agents, self.seed)?);
        let every = self.report_every.unwrap_or((slots / 50).max(1));
        let mut simulation = self.simulation(works, rho, steps)?;
        for slot in 0..=slots {
            if slot > 0 {
                simulation.slot()?;
            }
            if slot % every == 0 || slot == slots {
                let status = simulation.status();
                if !watch(GossipEvent::Slot(&status)) {
                    return Ok((simulation, slot < slots));
                }
            }
        }
        Ok((simulation, false))
    }

    fn card(&self, status: &Status, rho: f64, steps: Steps) -> GossipCard {
        GossipCard {
            agents: self.agents as u64,
            graph: self.shape.name().into(),
            rho,
            schedule: match self.schedule {
                Schedule::Stochastic => "stochastic".into(),
                Schedule::Parallel => "parallel".into(),
            },
            steps: match steps {
                Steps::Own => None,
                Steps::Given { a, b, .. } => Some((a, b)),
            },
            precondition: self.precondition,
            slots: status.slots,
            cost: status.cost,
            consensus: status.consensus,
            messages: status.counters.sent,
            bytes: status.counters.sent_bytes,
            agent: None,
        }
    }

    /// Steps as the simulation knows them, after a choice.
    fn given(&self, (a, b): (f64, f64)) -> Steps {
        Steps::Given {
            a,
            b,
            precondition: self.precondition,
        }
    }
}
