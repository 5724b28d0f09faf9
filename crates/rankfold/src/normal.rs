//! The standard normal distribution.

/// Φ(z), the probability of a value below z.
pub(crate) fn below(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// The z for which a value is between −z and z with this probability.
pub(crate) fn two_sided(probability: f64) -> f64 {
    // Φ rises, so halving an interval finds it to the last digit.
    let wanted = 0.5 + 0.5 * probability;
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if below(middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_normal_distribution() {
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (-1.0, 0.158_655_253_931_457_05),
            (-10.0, 7.619_853_024_160_526e-24),
            (f64::INFINITY, 1.0),
        ] {
            // Rounding of z costs z² as many digits of a tail.
            assert!((below(z) - p).abs() <= 1e-13 * p, "{z}");
        }
        assert!((two_sided(0.95) - 1.959_963_984_540_054).abs() < 1e-14);
        assert!(two_sided(0.0).abs() < 1e-12);
    }
}
