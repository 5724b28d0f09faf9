//! Gossip from data to models: users or tasks are divided among agents, which agree on
//! a subspace and keep their data.
//!
//! Before a run, agents share a few numbers that concern all: the mean of the ratings,
//! or scales and common weights of tasks, and ρ. From then on they send subspaces only.

mod beside;
mod choose;
mod completion;
mod crowd;
mod member;
mod multitask;
mod parts;
mod site;
mod site_ratings;
mod site_tasks;
mod talk;
mod watch;

pub use beside::{Beside, Compared};
pub use member::{Ending, Member};
pub use parts::{join_ratings, join_tasks};
pub use site::{Site, SiteData, SiteState};
pub use watch::Watch;

use super::run::{Fit, Run};
use super::{Learn, TaskData, threads};
use crate::data::Ratings;
use crate::gossip::{Elsewhere, Graph, Rehearsal, Schedule};
use crate::model::{Model, Standardize};
use crate::options::{Options, Range};
use crate::task::Clip;
use crate::{Error, Real, Result, choices, memory, options};
use parts::Division;
use std::borrow::Cow;

/// How often each edge is used, unless told otherwise.
const USES: usize = 100;

/// The same in the paper, and the parts of its cross-validation.
const USES_OF_PAPER: usize = 200;
const PARTS_OF_PAPER: usize = 5;

/// ρ unless told otherwise, as a share of the curvature that an agent would have if
/// the subspace explained everything.
const SHARE_OF_CURVATURE: f64 = 0.1;

choices! {
    /// What agents learn together.
    pub enum GossipTask {
        /// Ratings, with the users divided among the agents
        Completion = "completion" (default),
        /// Regressions, divided among the agents
        Multitask = "multitask",
    }
}

choices! {
    /// Who talks to whom.
    pub enum GraphShape {
        /// 0 – 1 – 2 – …
        Path = "path" (default),
        /// A path whose ends are joined
        Ring = "ring",
        /// Rows of equal length
        Grid = "grid",
        /// Agent 0 in the middle
        Star = "star",
        /// A random tree and some more edges
        Random = "random",
    }
}

choices! {
    /// Where agents start.
    pub enum GossipInit {
        /// Each agent at the subspace of its own data
        Own = "own" (default),
        /// All agents at one random subspace
        Shared = "shared",
        /// Each agent at a random subspace of its own
        Random = "random",
    }
}

choices! {
    /// What agents hold and send.
    pub enum GossipGeometry {
        /// Subspaces, which do not depend on a basis
        Grassmann = "grassmann" (default),
        /// Plain matrices, which do: the baseline of the paper
        Euclidean = "euclidean",
    }
}

options! {
    /// Gossip between agents, in one process.
    ///
    /// ```
    /// use rankfold::data::Ratings;
    /// use rankfold::task::Gossip;
    ///
    /// let ratings = (0..60).map(|i| (i % 6, i / 6, f64::from((i % 6) * (i / 6) % 5)));
    /// let ratings = Ratings::from_entries(ratings)?;
    /// let gossip = Gossip::default().agents(3).rank(2).slots(20);
    /// let found = gossip.fit_agents::<f32>((&ratings).into(), Default::default())?;
    /// assert_eq!(found.agents.len(), 3);
    /// assert_eq!(found.fit.model.rank(), 2);
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub struct Gossip: "gossip" {
        /// What the agents learn.
        task: GossipTask = GossipTask::Completion;
        /// Number of agents; the default is lowered to the data.
        agents: usize = 5, within Range::between(2.0, f64::INFINITY);
        /// Who talks to whom.
        graph: GraphShape = GraphShape::Path;
        /// Dimension of the subspace; the default is lowered to the data.
        rank: usize = 5, in Range::COUNT;
        /// Where agents start.
        init: GossipInit = GossipInit::Own;
        /// ρ of ρ/2 Σ dist² between neighbors [default: a tenth of the curvature that an agent
        /// would have if the subspace explained everything].
        rho: Option<f64> = None, in Range::NOT_NEGATIVE;
        /// Penalty λ [default: chosen on held-out data]. Of ratings, it weighs what is
        /// predicted where nothing is known, from 0 to 1. Of regressions, λ/2 ‖w‖² stands
        /// beside half of the squared errors.
        regularization: Option<f64> = None, in Range::NOT_NEGATIVE;
        /// Subtract this number from all ratings [default: their mean].
        center: Option<f64> = None, in Range::FINITE,
            for "`completion`" if Gossip::is_completion;
        /// The range to which predictions are clipped: that of the ratings, none, or a given
        /// one.
        clip: Clip = Clip::Auto, for "`completion`" if Gossip::is_completion;
        /// How features and targets are scaled [default: global or task, chosen by validation].
        standardize: Option<Standardize> = None,
            for "`multitask`" if |o| !o.is_completion();
        /// Learn no biases: without features a target is 0.
        no_bias: bool = false, for "`multitask`" if |o| !o.is_completion();
        /// Learn no common weights: tasks share the subspace only.
        no_common: bool = false, for "`multitask`" if |o| !o.is_completion();
        /// μ of μ/2 ‖c‖², the ridge of the common weights, which are learned before the run.
        common_ridge: f64 = 1.0, in Range::NOT_NEGATIVE,
            for "`multitask` without `--no-common`" if |o| !o.is_completion() && !o.no_common;
        /// Cap the pull of a neighbor as if its subspace were never farther than this, in
        /// radians [default: no cap].
        trust: Option<f64> = None, in Range::POSITIVE,
            for "steps that agents choose" if |o| !o.has_given_steps();
        /// Which edges a slot uses.
        schedule: Schedule = Schedule::Parallel;
        /// a of steps a/(1 + bk) in slot k [default: each agent chooses its steps].
        step_a: Option<f64> = None, in Range::POSITIVE;
        /// b of these steps.
        step_b: f64 = 0.0, in Range::NOT_NEGATIVE,
            for "runs with `--step-a`" if |o| o.step_a.is_some();
        /// Choose a and b by cross-validation with this many parts.
        cross_validate: Option<usize> = None, within Range::between(2.0, f64::INFINITY),
            for "runs without `--step-a`" if |o| o.step_a.is_none();
        /// What agents hold and send.
        geometry: GossipGeometry = GossipGeometry::Grassmann,
            for "runs with `--step-a` or `--cross-validate`" if Gossip::has_given_steps;
        /// Scale given steps by (WᵀW + ρI)⁻¹, for ill-conditioned data.
        precondition: bool = false,
            for "subspaces with `--step-a` or `--cross-validate`, because agents scale their own steps"
            if |o| o.has_given_steps() && o.geometry == GossipGeometry::Grassmann;
        /// Learn as the paper does: one random edge a slot, a random start for each agent, 200
        /// slots an edge of a path, and steps a/(1 + bk) that five-fold cross-validation chooses.
        /// Other options still hold.
        as_published: bool = false;
        /// Number of slots [default: each edge is used a hundred times].
        slots: Option<u64> = None, in Range::COUNT, effect Length;
        /// Slots between two points of the learning curve [default: fifty points].
        curve_every: Option<u64> = None, in Range::COUNT, effect Length;
        shared seed;
        shared threads;
    }
}

/// Who talks to whom, who owns what and what goes wrong, where that is given.
#[derive(Debug, Clone, Copy)]
struct Given<'a> {
    edges: Option<&'a [(usize, usize)]>,
    parts: Option<&'a [usize]>,
    faults: Option<&'a Rehearsal>,
    watch: &'a Watch<'a>,
}

/// What agents learn from.
#[derive(Debug, Clone)]
pub struct GossipData<'a> {
    /// What is divided among them.
    pub shared: Divided<'a>,
    /// Pairs of agents that talk to each other; without them the option `graph` says it.
    pub edges: Option<&'a [(usize, usize)]>,
    /// How many users or tasks each agent has, one after the other; without it they have
    /// even shares.
    pub parts: Option<&'a [usize]>,
    /// What goes wrong in the run, to see what it costs.
    pub faults: Option<&'a Rehearsal>,
    /// What the curve tells of each agent.
    pub watch: Watch<'a>,
}

/// Data that agents divide among them, in the order in which users or tasks first came.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one of them in a run")]
pub enum Divided<'a> {
    /// Ratings, by users.
    Ratings(Cow<'a, Ratings>),
    /// Rows of regressions, by task.
    Tasks(TaskData<'a>),
}

impl<'a> From<&'a Ratings> for GossipData<'a> {
    fn from(ratings: &'a Ratings) -> Self {
        Divided::Ratings(Cow::Borrowed(ratings)).into()
    }
}

impl<'a> From<TaskData<'a>> for GossipData<'a> {
    fn from(tasks: TaskData<'a>) -> Self {
        Divided::Tasks(tasks).into()
    }
}

impl<'a> From<Divided<'a>> for GossipData<'a> {
    fn from(shared: Divided<'a>) -> Self {
        GossipData {
            shared,
            edges: None,
            parts: None,
            faults: None,
            watch: Watch::default(),
        }
    }
}

/// Who owns what and who talks to whom in a run, before it starts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// How many users or tasks each agent has, one after the other.
    pub parts: Vec<usize>,
    /// Pairs of agents.
    pub edges: Vec<(usize, usize)>,
    /// What the graph is called.
    pub graph: &'static str,
    /// How often each edge is used.
    pub uses: u64,
    /// The dimension of the subspace.
    pub rank: usize,
}

/// What agents came to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GossipFit {
    /// The model of the mean subspace, for all users or tasks.
    pub fit: Fit,
    /// The model of each agent, for its own.
    pub agents: Vec<Model>,
    /// Neighbors, and how far their subspaces are from each other at the end, in radians; empty
    /// where agents ran elsewhere.
    pub distances: Vec<(usize, usize, f64)>,
}

impl GossipFit {
    /// The model of the mean, with how it came about, and that of each agent.
    pub fn new(fit: Fit, agents: Vec<Model>) -> Self {
        GossipFit {
            fit,
            agents,
            distances: Vec::new(),
        }
    }
}

impl Gossip {
    /// So many agents, and everything else at its default.
    pub fn new(agents: usize) -> Self {
        Self::default().agents(agents)
    }

    /// What the agents learn.
    pub fn kind(&self) -> GossipTask {
        self.task
    }

    /// The number of agents that was asked for.
    pub fn agent_count(&self) -> usize {
        self.agents
    }

    fn is_completion(&self) -> bool {
        self.task == GossipTask::Completion
    }

    fn has_given_steps(&self) -> bool {
        self.step_a.is_some() || self.cross_validate.is_some() || self.as_published
    }

    /// The options with what `as_published` stands for, where nothing else is asked for.
    fn published(&self) -> Self {
        if !self.as_published {
            return self.clone();
        }
        let usual = Self::default();
        let mut options = self.clone();
        if self.schedule == usual.schedule {
            options.schedule = Schedule::Stochastic;
        }
        if self.init == usual.init {
            options.init = GossipInit::Random;
        }
        if self.step_a.is_none() {
            options.cross_validate = self.cross_validate.or(Some(PARTS_OF_PAPER));
        }
        options
    }

    fn thread_count(&self) -> usize {
        threads(self.threads)
    }

    /// Whether the options make sense, before any data is read.
    pub fn check(&self) -> Result<()> {
        self.check_table()?;
        if let Some(lambda) = self.regularization
            && lambda > 1.0
            && self.is_completion()
        {
            return Err(Error::option(
                "regularization",
                format!("must be at most 1 for `completion`, found {lambda}"),
            ));
        }
        Ok(())
    }

    /// Learns the model of the mean subspace.
    pub fn fit<R: Real>(&self, data: GossipData<'_>) -> Result<Model> {
        let found = self.fit_agents::<R>(data, Run::default())?;
        Ok(found.fit.model)
    }

    /// Learns the model of the mean subspace and that of each agent, with an observer and
    /// checkpoints. `R` is the precision of stored ratings models.
    pub fn fit_agents<R: Real>(&self, data: GossipData<'_>, run: Run<'_>) -> Result<GossipFit> {
        self.fit_where::<R>(data, (run, None))
    }

    /// The same with agents that live elsewhere: they get their data first, and then take the turns
    /// of the same slots. The models have the same bytes. What is chosen on held-out data, where it
    /// is not given, is chosen here.
    pub fn fit_elsewhere<'r, R: Real>(
        &self,
        data: GossipData<'_>,
        elsewhere: &'r mut dyn Elsewhere,
        run: Run<'r>,
    ) -> Result<GossipFit> {
        if data.faults.is_some() {
            let message = "are for agents in one process: those elsewhere have their own";
            return Err(Error::input(message).about("faults"));
        }
        self.fit_where::<R>(data, (run, Some(elsewhere)))
    }

    fn fit_where<'r, R: Real>(
        &self,
        data: GossipData<'_>,
        run: (Run<'r>, Option<&'r mut dyn Elsewhere>),
    ) -> Result<GossipFit> {
        self.check()?;
        let given = Given {
            edges: data.edges,
            parts: data.parts,
            faults: data.faults,
            watch: &data.watch,
        };
        let mut options = self.published();
        if let Some(parts) = given.parts {
            options.agents = parts.len();
        }
        match (data.shared, self.task) {
            (Divided::Ratings(ratings), GossipTask::Completion) => {
                options.completion::<R>(ratings.into_owned(), given, run)
            }
            (Divided::Tasks(tasks), GossipTask::Multitask) => options.multitask(tasks, given, run),
            (_, task) => Err(Error::option(
                "task",
                format!("is `{task}`, which does not learn from such data"),
            )),
        }
    }

    /// How a run with this data divides it.
    pub fn plan(&self, data: &GossipData<'_>) -> Result<Plan> {
        self.check()?;
        let mut options = self.published();
        if let Some(parts) = data.parts {
            options.agents = parts.len();
        }
        let (count, m) = match &data.shared {
            Divided::Ratings(ratings) => {
                let users = (ratings.users.len(), "users");
                (users, (ratings.items.len(), "items"))
            }
            Divided::Tasks(tasks) => {
                let names = (tasks.rows.names.len(), "tasks");
                (names, (tasks.rows.features.len(), "features"))
            }
        };
        let options = options.for_data(count, m, data.parts.is_some())?;
        let division = Division::new(options.agents, count.0, data.parts);
        let (graph, name) = options.graph_of(data.edges)?;
        if let Some(faults) = data.faults {
            faults.check(&graph).map_err(|e| e.about("faults"))?;
        }
        let groups = match options.schedule {
            Schedule::Stochastic => graph.edges().len(),
            Schedule::Parallel => graph.matchings().len(),
        };
        Ok(Plan {
            parts: (0..options.agents)
                .map(|i| division.share(i).len())
                .collect(),
            edges: graph.edges().to_vec(),
            graph: name,
            uses: options.usual_slots(&graph).div_ceil(groups.max(1) as u64),
            rank: options.rank,
        })
    }

    /// The options for data of so many users or tasks and so many items or features:
    /// defaults are lowered to them.
    fn for_data(
        &self,
        (count, what): (usize, &str),
        (m, of): (usize, &str),
        divided: bool,
    ) -> Result<Self> {
        let (usual, mut options) = (Self::default(), self.clone());
        if self.agents == usual.agents && !divided {
            options.agents = self.agents.min(count).max(2);
        }
        if self.rank == usual.rank {
            options.rank = self.rank.min(m).min(count).max(1);
        }
        if options.agents > count {
            return Err(Error::option(
                "agents",
                format!("is {}, above the {count} {what} to divide", options.agents),
            ));
        }
        if options.rank > m.min(count) {
            return Err(Error::option(
                "rank",
                format!(
                    "is {}, above the smaller of {m} {of} and {count} {what}",
                    options.rank
                ),
            ));
        }
        // Each agent remembers its neighbors, and its last step.
        let room = 8 * (m * options.rank) as u128 * 12 * options.agents as u128;
        memory::require(room, &format!("the subspaces of {} agents", options.agents))?;
        Ok(options)
    }

    /// Who talks to whom, and what that is called.
    fn graph_of(&self, edges: Option<&[(usize, usize)]>) -> Result<(Graph, &'static str)> {
        let agents = self.agents;
        let graph = match (edges, self.graph) {
            (Some(edges), GraphShape::Path) => {
                let graph = Graph::new(agents, edges.iter().copied());
                graph.map_err(|e| e.about("edges"))
            }
            (Some(_), _) => {
                return Err(Error::option("graph", "cannot be given beside edges"));
            }
            (None, GraphShape::Path) => Graph::path(agents),
            (None, GraphShape::Ring) => Graph::ring(agents),
            (None, GraphShape::Grid) => Graph::grid(agents),
            (None, GraphShape::Star) => Graph::star(agents),
            (None, GraphShape::Random) => Graph::random(agents, self.seed),
        };
        let name = edges.map_or(self.graph.name(), |_| "edges");
        Ok((graph?, name))
    }

    fn usual_slots(&self, graph: &Graph) -> u64 {
        let groups = match self.schedule {
            Schedule::Stochastic => graph.edges().len(),
            Schedule::Parallel => graph.matchings().len(),
        };
        let uses = match self.as_published {
            true => USES_OF_PAPER,
            false => USES,
        };
        self.slots.unwrap_or((uses * groups) as u64)
    }

    /// ρ for data with this sum of squares.
    fn usual_rho(&self, squares: f64) -> f64 {
        let curvature = squares / (self.agents * self.rank) as f64;
        self.rho.unwrap_or(SHARE_OF_CURVATURE * curvature)
    }
}

impl<'a> Learn<GossipData<'a>> for Gossip {
    fn learn(&self, data: GossipData<'a>, run: Run<'_>) -> Result<Fit> {
        Ok(self.fit_agents::<f32>(data, run)?.fit)
    }
}
