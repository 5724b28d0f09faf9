//! Who completes a matrix, and how.

use crate::linalg::Retraction;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The ways to complete a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompletionLearner {
    /// The strongest for the data.
    Auto,
    /// Variational Bayes.
    Bayes,
    /// Alternating least squares.
    Als,
    /// U B Vᵀ up to rotations.
    Polar,
    /// G Hᵀ up to changes of basis.
    Balanced,
    /// The manifold of matrices of the rank, as it lies among all.
    Embedded,
    /// A subspace, with least squares for the rest.
    Grassmann,
    /// Two factors as plain numbers (MMMF).
    Gradient,
    /// Singular value projection.
    Svp,
    /// Two subspaces, with least squares for the core.
    OptSpace,
    /// LORETA, online only.
    Loreta,
}

impl CompletionLearner {
    /// All of them, with their names.
    pub const ALL: [(CompletionLearner, &'static str); 11] = [
        (CompletionLearner::Auto, "auto"),
        (CompletionLearner::Bayes, "bayes"),
        (CompletionLearner::Als, "als"),
        (CompletionLearner::Polar, "polar"),
        (CompletionLearner::Balanced, "balanced"),
        (CompletionLearner::Embedded, "embedded"),
        (CompletionLearner::Grassmann, "grassmann"),
        (CompletionLearner::Gradient, "gradient"),
        (CompletionLearner::Svp, "svp"),
        (CompletionLearner::OptSpace, "optspace"),
        (CompletionLearner::Loreta, "loreta"),
    ];

    /// Its name on the command line and in models.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(learner, _)| *learner == self);
        found.expect("every learner has a name").1
    }

    /// The learner of a name.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, n)| *n == name);
        found.map(|(learner, _)| *learner)
    }

    /// Whether a penalty belongs to it, which validation can choose.
    pub fn has_penalty(self) -> bool {
        use CompletionLearner::{Als, Balanced, Embedded, Gradient, Grassmann, Loreta, Polar};
        matches!(
            self,
            Als | Polar | Balanced | Embedded | Grassmann | Gradient | Loreta
        )
    }

    /// How it solves unless told otherwise.
    pub fn usual_solver(self) -> CompletionSolver {
        match self {
            CompletionLearner::Grassmann => CompletionSolver::TrustRegion,
            CompletionLearner::Loreta => CompletionSolver::Online,
            CompletionLearner::Auto
            | CompletionLearner::Bayes
            | CompletionLearner::Als
            | CompletionLearner::Svp => CompletionSolver::Own,
            _ => CompletionSolver::Cg,
        }
    }
}

/// How a learner solves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompletionSolver {
    /// In the one way that the learner has.
    Own,
    /// One entry after the other.
    Online,
    /// Along the gradient.
    Descent,
    /// Along conjugate directions.
    Cg,
    /// By Gauss–Newton steps.
    TrustRegion,
}

impl CompletionSolver {
    /// Its name on the command line and in models.
    pub fn name(self) -> &'static str {
        match self {
            CompletionSolver::Own => "own",
            CompletionSolver::Online => "online",
            CompletionSolver::Descent => "descent",
            CompletionSolver::Cg => "cg",
            CompletionSolver::TrustRegion => "trust-region",
        }
    }

    /// Checks that a learner solves like this.
    pub(super) fn check(self, learner: CompletionLearner) -> Result<()> {
        use CompletionLearner::{Balanced, Gradient, Loreta, Polar};
        let own = learner.usual_solver() == CompletionSolver::Own;
        let fits = match self {
            CompletionSolver::Own => own,
            CompletionSolver::Online => matches!(learner, Balanced | Polar | Gradient | Loreta),
            _ => !own && learner != Loreta,
        };
        if fits {
            return Ok(());
        }
        Err(Error::input(format!(
            "`{}` does not solve by `{}`",
            learner.name(),
            self.name()
        )))
    }
}

/// Where a factorisation starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompletionStart {
    /// The leading singular pairs of the known entries.
    #[default]
    Spectral,
    /// From rank one up, a few steps each, adding the leading singular pair of what
    /// is left.
    Continuation,
    /// Random factors.
    Random,
}

/// What a run needs to know beside the data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Method {
    pub learner: CompletionLearner,
    pub solver: CompletionSolver,
    pub start: CompletionStart,
    pub retraction: Retraction,
    pub lambda: f64,
    pub power: f64,
    pub biases: bool,
    pub implicit: bool,
    pub iterations: usize,
    pub tolerance: f64,
    /// Of online steps: the share of a residual that a usual step takes away.
    pub pace: f64,
    pub seed: u64,
    pub threads: usize,
}
