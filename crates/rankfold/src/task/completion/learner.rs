//! Who completes a matrix, and how.

use crate::linalg::Retraction;
use crate::{Error, Result, choices};

choices! {
    /// The ways to complete a matrix.
    pub enum CompletionLearner {
        /// The strongest for the data
        Auto = "auto",
        /// Variational Bayes: no penalty to choose
        Bayes = "bayes",
        /// Alternating least squares
        Als = "als",
        /// The polar geometry U B Vᵀ
        Polar = "polar",
        /// The balanced geometry G Hᵀ
        Balanced = "balanced",
        /// The embedded manifold of matrices of the rank
        Embedded = "embedded",
        /// A subspace, with least squares for the rest
        Grassmann = "grassmann",
        /// Baseline: two factors as plain numbers (MMMF)
        Gradient = "gradient",
        /// Baseline: singular value projection
        Svp = "svp",
        /// Baseline: two subspaces, with least squares for the core
        OptSpace = "optspace",
        /// LORETA, online only
        Loreta = "loreta",
    }
}

impl CompletionLearner {
    /// Whether it is, or may turn out to be, variational Bayes.
    pub(super) fn is_bayes(self) -> bool {
        matches!(self, CompletionLearner::Auto | CompletionLearner::Bayes)
    }

    /// Whether a penalty belongs to it, which validation can choose.
    pub fn has_penalty(self) -> bool {
        use CompletionLearner::{Als, Balanced, Embedded, Gradient, Grassmann, Polar};
        matches!(
            self,
            Als | Polar | Balanced | Embedded | Grassmann | Gradient
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

choices! {
    /// How a learner solves.
    pub enum CompletionSolver {
        /// In the one way that the learner has
        Own = "own",
        /// One entry after the other
        Online = "online",
        /// Along the gradient
        Descent = "descent",
        /// Conjugate gradients
        Cg = "cg",
        /// Gauss–Newton steps in a trust region
        TrustRegion = "trust-region",
    }
}

impl CompletionSolver {
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
        Err(Error::option(
            "solver",
            format!("cannot be `{self}` for `{learner}`"),
        ))
    }
}

choices! {
    /// Where a factorization starts.
    pub enum CompletionInit {
        /// The leading singular pairs of the known entries
        Spectral = "spectral" (default),
        /// From rank one up, a few steps each, adding the leading singular pair of what is left
        Continuation = "continuation",
        /// Random factors
        Random = "random",
        /// W and the biases of a model: give its file
        Model = "model",
    }
}

/// What a run needs to know beside the data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Method {
    pub learner: CompletionLearner,
    pub solver: CompletionSolver,
    pub start: CompletionInit,
    pub retraction: Retraction,
    pub lambda: f64,
    pub power: f64,
    pub biases: bool,
    pub implicit: bool,
    /// Whether factors that explain nothing are dropped.
    pub prune: bool,
    pub iterations: usize,
    pub tolerance: f64,
    /// s₀ of descent.
    pub first_step: Option<f64>,
    /// Of online steps: the share of a residual that a usual step takes away.
    pub pace: f64,
    pub seed: u64,
    pub threads: usize,
}
