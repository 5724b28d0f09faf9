//! Random numbers whose values never change: the generator's stream is fixed,
//! and the few distributions are written out here.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// A generator that can be saved and goes on where it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// A generator for one purpose: the same seed with another purpose gives
    /// unrelated numbers.
    pub fn new(seed: u64, purpose: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(
            splitmix64(seed) ^ splitmix64(purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        ))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `n`, which must not be zero.
    pub fn below(&mut self, n: usize) -> usize {
        // The bias of the plain multiplication is n / 2⁶⁴.
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }
}

/// One step of splitmix64 from the state `x`: a good mixing of 64 bits.
pub fn splitmix64(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A standard normal deviate that is a function of its place only, so that the
/// order in which rows arrive does not matter.
pub fn normal_at(seed: u64, side: u64, row: u64, column: u64) -> f64 {
    let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let place = splitmix64(splitmix64(splitmix64(splitmix64(seed) ^ side) ^ row) ^ column);
    let (a, b) = (unit(splitmix64(place)), unit(splitmix64(place ^ 1)));
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        let mut random = Random::new(1, 0);
        let drawn: Vec<usize> = (0..8).map(|_| random.below(1000)).collect();
        let mut again = Random::new(1, 0);
        assert_eq!(drawn, (0..8).map(|_| again.below(1000)).collect::<Vec<_>>());
        // Known values of the published algorithm.
        assert_eq!(splitmix64(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(splitmix64(0x9E37_79B9_7F4A_7C15), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn a_saved_generator_goes_on_where_it_was() {
        let mut random = Random::new(7, 3);
        random.bits();
        let saved = serde_json::to_string(&random).unwrap();
        let mut resumed: Random = serde_json::from_str(&saved).unwrap();
        assert_eq!(random.bits(), resumed.bits());
    }

    #[test]
    fn normal_deviates_have_mean_zero_and_variance_one() {
        let n = 100_000;
        let draw = |i: u64| normal_at(5, 0, i / 10, i % 10);
        let mean = (0..n).map(draw).sum::<f64>() / n as f64;
        let variance = (0..n).map(|i| draw(i).powi(2)).sum::<f64>() / n as f64;
        // Five standard errors.
        assert!(mean.abs() < 5.0 / (n as f64).sqrt(), "{mean}");
        assert!(
            (variance - 1.0).abs() < 5.0 * (2.0 / n as f64).sqrt(),
            "{variance}"
        );
    }
}
