//! How well a model that learned a distribution knows how sure it is: on triplets
//! drawn from classified rows.

use super::Classified;
use crate::eval::calibration::{Bin, calibration_error, reliability};
use crate::form::FormRef;
use crate::model::Confidence;
use crate::random::Random;
use crate::task::inputs::triplets;
use crate::{Real, Result};

/// The stream of random numbers that draws the triplets.
const CALIBRATION: u64 = 5;

/// How many triplets judge.
const TRIPLETS: usize = 20_000;

/// What a model says about the order of triplets, and what is true.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Triplets that judged.
    pub triplets: usize,
    /// The factor on all variances that the model was calibrated with.
    pub variance_scale: Option<f64>,
    /// Expected calibration error, with that factor.
    pub error: f64,
    /// The same without it.
    pub raw_error: f64,
    /// Confidence and accuracy in bins of equal count.
    pub bins: Vec<Bin>,
    /// The same without the factor.
    pub raw_bins: Vec<Bin>,
}

impl Calibration {
    /// Of margins in standard deviations.
    pub(super) fn new(margins: &[f64], variance_scale: Option<f64>) -> Self {
        let raw_bins = reliability(margins, 1.0);
        let bins = reliability(margins, variance_scale.unwrap_or(1.0));
        Calibration {
            triplets: margins.len(),
            variance_scale,
            error: calibration_error(&bins),
            raw_error: calibration_error(&raw_bins),
            bins,
            raw_bins,
        }
    }
}

/// The margins of drawn triplets in standard deviations, before any factor.
pub(in crate::task) fn standard_margins<R: Real>(
    form: FormRef<'_, R>,
    queries: Classified<'_, R>,
    objects: Option<Classified<'_, R>>,
    seed: u64,
) -> Result<Vec<f64>> {
    let right = objects.unwrap_or(queries);
    let members: Vec<u32> = (0..queries.members.len() as u32).collect();
    let classes = objects.map(|objects| objects.classes);
    let random = Random::new(seed, CALIBRATION);
    let mut source = triplets(queries.classes, &members, classes, random)?;
    let confidence = Confidence::raw(form, queries.rows, right.rows);
    let margin = |_| {
        let triplet = source.draw();
        let of = |members: &[u32], i: u32| members[i as usize] as usize;
        let estimate = confidence.triplet(
            of(queries.members, triplet.query),
            of(right.members, triplet.positive),
            of(right.members, triplet.negative),
        );
        estimate.standard()
    };
    Ok((0..TRIPLETS).map(margin).collect())
}
