//! The closed set of learners, each on the form it needs.

use super::{
    AromaDiagonal, AromaFactored, AromaOptions, Balanced, Cone, ConeUpdate, Flat, Gradient,
    GroupPerceptron, InnerSteps, Learned, Learner, Lego, Loreta, LoretaPsd, ManifoldIdentification,
    Mixed, Oasis, PassiveAggressive, Perceptron, Polar, PolarPsd, RankOne, Step, Turn,
};
use crate::form::{Form, FormRef, Newcomer, Shape};
use crate::linalg::Retraction;
use crate::{Error, Loss, Real, Result, choices};

choices! {
    /// The rules by which W is learned, by name.
    #[non_exhaustive]
    pub enum Rule {
        /// LORETA on symmetric positive semi-definite matrices of rank k
        LoretaPsd = "loreta-psd",
        /// LORETA on all matrices of rank k
        Loreta = "loreta",
        /// LORETA with cheap steps on its core matrix between full steps
        ManifoldIdentification = "manifold-identification",
        /// Passive-aggressive steps on a full matrix
        Oasis = "oasis",
        /// Passive-aggressive steps on two factors
        PassiveAggressive = "passive-aggressive",
        /// Gradient descent on two factors
        Gradient = "gradient",
        /// Gradient descent on the factor of a symmetric matrix
        GradientPsd = "gradient-psd",
        /// LogDet steps on a full symmetric matrix
        Lego = "lego",
        /// AROMA: a Gaussian over matrices, with a covariance of each side
        AromaFactored = "aroma-factored",
        /// AROMA with a variance for each entry of W: cheaper, for sparse rows
        AromaDiagonal = "aroma-diagonal",
        /// Gradient steps on a full matrix
        Perceptron = "perceptron",
        /// Mirror descent on a full matrix whose rows are groups
        GroupPerceptron = "group-perceptron",
        /// The balanced geometry of two factors
        Balanced = "balanced",
        /// The polar geometry: two orthonormal factors and a positive definite core
        Polar = "polar",
        /// The flat geometry of symmetric positive semi-definite matrices of rank k
        Flat = "flat",
        /// The polar geometry of these: an orthonormal factor and a positive definite core
        PolarPsd = "polar-psd",
        /// Positive definite matrices of full rank: descent on a square root
        ConeFlat = "cone-flat",
        /// Full rank, by geodesics of the affine-invariant metric
        ConeAffine = "cone-affine",
        /// Full rank, by LogDet steps, the first order of these
        ConeLogdet = "cone-logdet",
        /// Full rank, by descent on the logarithm
        ConeLog = "cone-log",
        /// Full rank, by mirror descent with the von Neumann divergence
        ConeVonNeumann = "cone-von-neumann",
    }
}

impl Rule {
    /// The rule with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// How it stores W.
    pub fn shape(self) -> Shape {
        match self {
            Rule::LoretaPsd | Rule::GradientPsd | Rule::Flat => Shape::Psd,
            Rule::PolarPsd => Shape::PolarPsd,
            Rule::Loreta
            | Rule::ManifoldIdentification
            | Rule::PassiveAggressive
            | Rule::Balanced
            | Rule::Gradient => Shape::Factored,
            Rule::Polar => Shape::Polar,
            Rule::Oasis
            | Rule::Lego
            | Rule::Perceptron
            | Rule::GroupPerceptron
            | Rule::ConeFlat
            | Rule::ConeAffine
            | Rule::ConeLogdet
            | Rule::ConeLog
            | Rule::ConeVonNeumann => Shape::Full,
            Rule::AromaFactored => Shape::Gaussian,
            Rule::AromaDiagonal => Shape::Diagonal,
        }
    }

    /// Whether W is symmetric, so that both sides have the same features.
    pub fn is_symmetric(self) -> bool {
        matches!(self.shape(), Shape::Psd | Shape::PolarPsd)
            || self == Rule::Lego
            || self.cone().is_some()
    }

    /// How it moves W on the cone of positive definite matrices of full rank, if it
    /// does. It starts from such a matrix, the identity for one.
    pub fn cone(self) -> Option<ConeUpdate> {
        match self {
            Rule::ConeFlat => Some(ConeUpdate::Flat),
            Rule::ConeAffine => Some(ConeUpdate::Affine),
            Rule::ConeLogdet => Some(ConeUpdate::LogDet),
            Rule::ConeLog => Some(ConeUpdate::Log),
            Rule::ConeVonNeumann => Some(ConeUpdate::VonNeumann),
            _ => None,
        }
    }

    /// Whether it chooses its own step, up to [`Step::size`].
    pub fn is_passive_aggressive(self) -> bool {
        matches!(self, Rule::Oasis | Rule::PassiveAggressive)
    }

    /// Whether it learns a distribution over matrices; [`Step::size`] is its r.
    pub fn is_aroma(self) -> bool {
        matches!(self, Rule::AromaFactored | Rule::AromaDiagonal)
    }

    /// Whether W has tall factors.
    pub fn is_low_rank(self) -> bool {
        matches!(
            self.shape(),
            Shape::Factored | Shape::Psd | Shape::Polar | Shape::PolarPsd
        )
    }

    /// Whether it takes one step along the gradient of a whole mini-batch.
    pub fn has_batches(self) -> bool {
        matches!(
            self,
            Rule::Loreta
                | Rule::LoretaPsd
                | Rule::Balanced
                | Rule::Polar
                | Rule::Flat
                | Rule::PolarPsd
        ) || self.cone().is_some()
    }

    /// Whether its steps are bounded by [`Step::limit`].
    pub fn has_limit(self) -> bool {
        self.has_batches() || self == Rule::ManifoldIdentification
    }

    /// Whether it takes a regularizer.
    pub fn is_regularizable(self) -> bool {
        matches!(self, Rule::Balanced | Rule::Polar | Rule::Gradient)
    }
}

/// Any of the learners. They differ in size, but there is one of them in a run.
#[derive(Debug, Clone)]
#[allow(missing_docs, clippy::large_enum_variant)]
pub enum AnyLearner<R> {
    LoretaPsd(LoretaPsd<R>),
    Loreta(Loreta<R>),
    ManifoldIdentification(ManifoldIdentification<R>),
    Oasis(Oasis<R>),
    PassiveAggressive(PassiveAggressive<R>),
    Gradient(Gradient<R>),
    Lego(Lego<R>),
    AromaFactored(AromaFactored<R>),
    AromaDiagonal(AromaDiagonal<R>),
    Perceptron(Perceptron<R>),
    GroupPerceptron(GroupPerceptron<R>),
    Balanced(Balanced<R>),
    Polar(Polar<R>),
    Flat(Flat<R>),
    PolarPsd(PolarPsd<R>),
    Cone(Cone<R>),
}

/// Calls the same expression on whichever learner it is.
macro_rules! each {
    ($any:expr, $learner:ident => $body:expr) => {
        match $any {
            AnyLearner::LoretaPsd($learner) => $body,
            AnyLearner::Loreta($learner) => $body,
            AnyLearner::ManifoldIdentification($learner) => $body,
            AnyLearner::Oasis($learner) => $body,
            AnyLearner::PassiveAggressive($learner) => $body,
            AnyLearner::Gradient($learner) => $body,
            AnyLearner::Lego($learner) => $body,
            AnyLearner::AromaFactored($learner) => $body,
            AnyLearner::AromaDiagonal($learner) => $body,
            AnyLearner::Perceptron($learner) => $body,
            AnyLearner::GroupPerceptron($learner) => $body,
            AnyLearner::Balanced($learner) => $body,
            AnyLearner::Polar($learner) => $body,
            AnyLearner::Flat($learner) => $body,
            AnyLearner::PolarPsd($learner) => $body,
            AnyLearner::Cone($learner) => $body,
        }
    };
}

impl<R: Real> AnyLearner<R> {
    /// The learner that works on a form by a rule; `seen` examples came before.
    /// An error when the rule needs another form.
    pub fn new(rule: Rule, form: Form<R>, seen: u64) -> Result<Self> {
        let aroma = AromaOptions::default();
        Ok(match (rule, form) {
            (Rule::LoretaPsd, Form::Psd(form)) => Self::LoretaPsd(LoretaPsd::new(form)),
            (Rule::GradientPsd, Form::Psd(form)) => Self::Flat(Flat::new(form).unguarded()),
            (Rule::Flat, Form::Psd(form)) => Self::Flat(Flat::new(form)),
            (Rule::PolarPsd, Form::PolarPsd(form)) => Self::PolarPsd(PolarPsd::new(form)),
            (Rule::Loreta, Form::Factored(form)) => Self::Loreta(Loreta::new(form)),
            (Rule::Balanced, Form::Factored(form)) => Self::Balanced(Balanced::new(form)),
            (Rule::Polar, Form::Polar(form)) => Self::Polar(Polar::new(form)),
            (Rule::Gradient, Form::Factored(form)) => Self::Gradient(Gradient::new(form)),
            (Rule::PassiveAggressive, Form::Factored(form)) => {
                Self::PassiveAggressive(PassiveAggressive::new(form, Turn::Alternate, seen))
            }
            (Rule::ManifoldIdentification, Form::Factored(form)) => {
                let inner = InnerSteps::default();
                let learner = ManifoldIdentification::new(form, inner, seen);
                Self::ManifoldIdentification(learner)
            }
            (Rule::Oasis, Form::Full(form)) => Self::Oasis(Oasis::new(form)),
            (Rule::Lego, Form::Full(form)) => Self::Lego(Lego::new(form)),
            (Rule::AromaFactored, Form::Gaussian(form)) => {
                Self::AromaFactored(AromaFactored::new(form, aroma))
            }
            (Rule::AromaDiagonal, Form::Diagonal(form)) => {
                Self::AromaDiagonal(AromaDiagonal::new(form, aroma))
            }
            (Rule::Perceptron, Form::Full(form)) => Self::Perceptron(Perceptron::new(form)),
            (Rule::GroupPerceptron, Form::Full(form)) => {
                Self::GroupPerceptron(GroupPerceptron::new(form, None))
            }
            (rule, Form::Full(form)) if rule.cone().is_some() => {
                Self::Cone(Cone::new(form, rule.cone().expect("one of its updates")))
            }
            (rule, form) => {
                return Err(Error::input(format!(
                    "`{}` does not learn a matrix of the form `{}`",
                    rule.name(),
                    form.view().name()
                )));
            }
        })
    }

    /// The same with options of AROMA, which say nothing to other learners.
    pub fn with_aroma(mut self, options: AromaOptions) -> Self {
        match &mut self {
            AnyLearner::AromaFactored(learner) => learner.set_options(options),
            AnyLearner::AromaDiagonal(learner) => learner.set_options(options),
            _ => {}
        }
        self
    }

    /// The same with other steps on the core matrix, which say something to
    /// [`ManifoldIdentification`] only.
    pub fn with_inner_steps(mut self, inner: InnerSteps) -> Self {
        if let AnyLearner::ManifoldIdentification(learner) = &mut self {
            learner.set_inner_steps(inner);
        }
        self
    }

    /// The same with a regularizer, where the rule takes one
    /// ([`Rule::is_regularizable`]); 0 is none.
    pub fn regularized(self, lambda: f64) -> Self {
        match self {
            AnyLearner::Balanced(learner) => AnyLearner::Balanced(learner.regularized(lambda)),
            AnyLearner::Polar(learner) => AnyLearner::Polar(learner.regularized(lambda)),
            AnyLearner::Gradient(learner) => AnyLearner::Gradient(learner.regularized(lambda)),
            other => other,
        }
    }

    /// The same with another way back to orthonormal columns, which says something to
    /// [`Polar`] and [`PolarPsd`] only.
    pub fn retracted(self, retraction: Retraction) -> Self {
        match self {
            AnyLearner::Polar(learner) => AnyLearner::Polar(learner.retracted(retraction)),
            AnyLearner::PolarPsd(learner) => AnyLearner::PolarPsd(learner.retracted(retraction)),
            other => other,
        }
    }

    /// The same with another share of steps that goes to the range of W, which says
    /// something to [`PolarPsd`] only.
    #[track_caller]
    pub fn subspace_weight(self, lambda: f64) -> Self {
        match self {
            AnyLearner::PolarPsd(learner) => AnyLearner::PolarPsd(learner.subspace_weight(lambda)),
            other => other,
        }
    }

    /// The form as it is now.
    pub fn form(&self) -> FormRef<'_, R> {
        match self {
            AnyLearner::LoretaPsd(learner) => FormRef::Psd(learner.form()),
            AnyLearner::Flat(learner) => FormRef::Psd(learner.form()),
            AnyLearner::PolarPsd(learner) => FormRef::PolarPsd(learner.form()),
            AnyLearner::Cone(learner) => FormRef::Full(learner.form()),
            AnyLearner::Loreta(learner) => FormRef::Factored(learner.form()),
            AnyLearner::ManifoldIdentification(learner) => FormRef::Factored(learner.form()),
            AnyLearner::PassiveAggressive(learner) => FormRef::Factored(learner.form()),
            AnyLearner::Gradient(learner) => FormRef::Factored(learner.form()),
            AnyLearner::Balanced(learner) => FormRef::Factored(learner.form()),
            AnyLearner::Polar(learner) => FormRef::Polar(learner.form()),
            AnyLearner::Oasis(learner) => FormRef::Full(learner.form()),
            AnyLearner::Lego(learner) => FormRef::Full(learner.form()),
            AnyLearner::AromaFactored(learner) => FormRef::Gaussian(learner.form()),
            AnyLearner::AromaDiagonal(learner) => FormRef::Diagonal(learner.form()),
            AnyLearner::Perceptron(learner) => FormRef::Full(learner.form()),
            AnyLearner::GroupPerceptron(learner) => FormRef::Full(learner.form()),
        }
    }

    /// The form, given up by the learner.
    pub fn into_form(self) -> Form<R> {
        match self {
            AnyLearner::LoretaPsd(learner) => Form::Psd(learner.into_form()),
            AnyLearner::Flat(learner) => Form::Psd(learner.into_form()),
            AnyLearner::PolarPsd(learner) => Form::PolarPsd(learner.into_form()),
            AnyLearner::Cone(learner) => Form::Full(learner.into_form()),
            AnyLearner::Loreta(learner) => Form::Factored(learner.into_form()),
            AnyLearner::ManifoldIdentification(learner) => Form::Factored(learner.into_form()),
            AnyLearner::PassiveAggressive(learner) => Form::Factored(learner.into_form()),
            AnyLearner::Gradient(learner) => Form::Factored(learner.into_form()),
            AnyLearner::Balanced(learner) => Form::Factored(learner.into_form()),
            AnyLearner::Polar(learner) => Form::Polar(learner.into_form()),
            AnyLearner::Oasis(learner) => Form::Full(learner.into_form()),
            AnyLearner::Lego(learner) => Form::Full(learner.into_form()),
            AnyLearner::AromaFactored(learner) => Form::Gaussian(learner.into_form()),
            AnyLearner::AromaDiagonal(learner) => Form::Diagonal(learner.into_form()),
            AnyLearner::Perceptron(learner) => Form::Full(learner.into_form()),
            AnyLearner::GroupPerceptron(learner) => Form::Full(learner.into_form()),
        }
    }
}

impl<R: Real> AnyLearner<R> {
    /// Gives an example of new features a start where it could move nothing
    /// without one; says whether. A full matrix needs none.
    pub(crate) fn seed(&mut self, newcomer: &Newcomer<'_, R>) -> bool {
        match self {
            AnyLearner::LoretaPsd(learner) => learner.form_mut().seed(newcomer),
            AnyLearner::Flat(learner) => learner.form_mut().seed(newcomer),
            AnyLearner::PolarPsd(learner) => learner.form_mut().seed(newcomer),
            AnyLearner::Loreta(learner) => learner.form_mut().seed(newcomer),
            AnyLearner::ManifoldIdentification(learner) => learner.form_mut().seed(newcomer),
            AnyLearner::PassiveAggressive(learner) => learner.form_mut().seed(newcomer),
            AnyLearner::Gradient(learner) => learner.form_mut().seed(newcomer),
            AnyLearner::Balanced(learner) => learner.form_mut().seed(newcomer),
            AnyLearner::Polar(learner) => learner.form_mut().seed(newcomer),
            _ => false,
        }
    }
}

impl<R: Real> Learner<R> for AnyLearner<R> {
    fn score(&mut self, example: RankOne<'_, R>) -> f64 {
        each!(self, learner => learner.score(example))
    }

    fn learn(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss, step: Step) -> Learned {
        each!(self, learner => learner.learn(example, target, loss, step))
    }

    fn learn_mixed(&mut self, examples: &[Mixed<'_, R>], step: Step) -> Learned {
        each!(self, learner => learner.learn_mixed(examples, step))
    }

    fn gradient_norm(&mut self, example: RankOne<'_, R>, target: f64, loss: Loss) -> f64 {
        each!(self, learner => learner.gradient_norm(example, target, loss))
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        each!(self, learner => learner.grow(left, right))
    }
}
