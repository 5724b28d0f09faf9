//! From numbers to places on paper, and the round numbers between.

/// A straight map of an interval of values onto an interval of places.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    low: f64,
    place: f64,
    factor: f64,
}

impl Scale {
    /// Sends `values.0` to `places.0` and `values.1` to `places.1`. An interval
    /// without length goes to its first place.
    pub fn new(values: (f64, f64), places: (f64, f64)) -> Self {
        let span = values.1 - values.0;
        let usable = span != 0.0 && span.is_finite();
        Scale {
            low: values.0,
            place: places.0,
            factor: if usable {
                (places.1 - places.0) / span
            } else {
                0.0
            },
        }
    }

    /// The place of a value.
    pub fn at(&self, value: f64) -> f64 {
        self.place + (value - self.low) * self.factor
    }
}

/// Smallest and largest of the finite values.
pub fn bounds(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let mut finite = values.into_iter().filter(|value| value.is_finite());
    let first = finite.next()?;
    Some(finite.fold((first, first), |(low, high), value| {
        (low.min(value), high.max(value))
    }))
}

/// Round numbers at equal distances that enclose an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Ticks {
    /// The numbers, at least two, rising.
    pub values: Vec<f64>,
    /// How many decimals tell them apart.
    pub decimals: usize,
}

impl Ticks {
    /// About `count` steps from at or below `low` to at or above `high`.
    pub fn around(low: f64, high: f64, count: usize) -> Self {
        let span = high - low;
        // A flat or absurd interval still deserves an axis: the unit one.
        let (low, high) = if span > 0.0 && span < 1e15 && low.abs() < 1e15 {
            (low, high)
        } else if low.abs() < 1e15 {
            (low, low + 1.0)
        } else {
            (0.0, 1.0)
        };
        let rough = (high - low) / count.max(1) as f64;
        let power = rough.log10().floor();
        let unit = 10f64.powf(power);
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|multiple| multiple * unit)
            .into_iter()
            .find(|step| *step >= rough * (1.0 - 1e-9))
            .unwrap_or(10.0 * unit);
        // A value that is a tick but for rounding must not open a new step.
        let first = (low / step + 1e-9).floor();
        let last = (high / step - 1e-9).ceil().max(first + 1.0);
        Ticks {
            values: (0..=(last - first) as usize)
                .map(|i| (first + i as f64) * step)
                .collect(),
            decimals: (-step.log10() - 1e-9).ceil().max(0.0) as usize,
        }
    }

    /// First and last number: the interval of the axis.
    pub fn ends(&self) -> (f64, f64) {
        (self.values[0], self.values[self.values.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose() {
        let ticks = Ticks::around(0.31, 0.92, 4);
        assert_eq!(ticks.decimals, 1);
        assert_eq!(ticks.ends(), (0.2, 1.0));
        let ticks = Ticks::around(0.0, 50_000.0, 5);
        assert_eq!(
            ticks.values,
            [0.0, 1e4, 2e4, 3e4, 4e4, 5e4],
            "an end that is a tick stays the end"
        );
    }

    #[test]
    fn ticks_survive_any_interval() {
        let odd = [0.0, -1.0, 1e-300, 1e300, -1e300, f64::NAN, f64::INFINITY];
        for low in odd {
            for high in odd {
                let ticks = Ticks::around(low, high, 4);
                assert!((2..20).contains(&ticks.values.len()), "{low} {high}");
                assert!(ticks.values.iter().all(|value| value.is_finite()));
            }
        }
    }

    #[test]
    fn a_scale_sends_ends_to_ends() {
        let scale = Scale::new((2.0, 4.0), (100.0, 0.0));
        assert_eq!([2.0, 3.0, 4.0].map(|v| scale.at(v)), [100.0, 50.0, 0.0]);
        assert_eq!(Scale::new((2.0, 2.0), (7.0, 9.0)).at(2.0), 7.0);
    }

    #[test]
    fn bounds_ignore_what_is_not_finite() {
        assert_eq!(
            bounds([f64::NAN, 2.0, -1.0, f64::INFINITY]),
            Some((-1.0, 2.0))
        );
        assert_eq!(bounds([f64::NAN]), None);
    }
}
