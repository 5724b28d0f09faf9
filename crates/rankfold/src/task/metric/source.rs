//! Pairs that online learning takes, one after the other. Which one comes is a function
//! of the seed and of its number, so that the counters say where a run stands.

use super::constraints::Draws;
use super::engine::Bounded;
use super::fit::{Setup, usual};
use crate::data::Constraint;
use crate::model::Distances as Levels;
use crate::random::{Random, splitmix64};
use crate::{Error, Real, Result};

/// The stream of random numbers that draws pairs.
const STREAM: u64 = 22;

/// Keys of the order of listed pairs in a pass.
const SHUFFLE: u64 = 23;

/// Where pairs come from.
#[derive(Debug)]
pub(super) enum Source {
    /// Random pairs of rows by their classes: always new ones.
    Drawn { draws: Draws<'static>, pass: u64 },
    /// A list, in another order in each pass.
    Listed {
        list: Vec<Bounded>,
        order: Vec<u32>,
        epoch: Option<u64>,
    },
}

impl Source {
    /// What a file gives, as many random pairs as are asked for, or always new ones.
    pub fn new<R: Real>(
        run: &Setup<'_, R>,
        constraints: Option<&[Constraint]>,
        levels: Levels,
    ) -> Result<Self> {
        if constraints.is_none() && run.options.constraints.is_none() {
            let classes = run.train.classes.clone().unwrap_or_default();
            return Ok(Source::Drawn {
                pass: usual(&classes)? as u64,
                draws: Draws::new(classes, levels),
            });
        }
        let list = run.bounds(&run.train, constraints, levels)?;
        if list.is_empty() {
            return Err(Error::input("no constraint to learn from"));
        }
        if u32::try_from(list.len()).is_err() {
            return Err(Error::input(format!("{} pairs are too many", list.len())));
        }
        Ok(Source::Listed {
            list,
            order: Vec::new(),
            epoch: None,
        })
    }

    /// Pairs of one pass.
    pub fn pass(&self) -> u64 {
        match self {
            Source::Drawn { pass, .. } => *pass,
            Source::Listed { list, .. } => list.len() as u64,
        }
    }

    /// The pair of this number.
    pub fn at(&mut self, seed: u64, number: u64) -> Bounded {
        match self {
            Source::Drawn { draws, .. } => {
                let mut random = Random::new(splitmix64(seed) ^ number, STREAM);
                draws.draw(&mut random, number)
            }
            Source::Listed { list, order, epoch } => {
                let pairs = list.len() as u64;
                let now = number / pairs;
                if *epoch != Some(now) {
                    let key = splitmix64(splitmix64(seed ^ SHUFFLE << 32) ^ now);
                    *order = (0..list.len() as u32).collect();
                    order.sort_by_cached_key(|&i| (splitmix64(key ^ u64::from(i)), i));
                    *epoch = Some(now);
                }
                list[order[(number % pairs) as usize] as usize]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Bound, Pair};

    const LEVELS: Levels = Levels {
        near: 1.0,
        far: 4.0,
    };

    #[test]
    fn a_pair_is_a_function_of_its_number() {
        let classes = vec![0, 0, 1, 1, 1, 2];
        let drawn = || Source::Drawn {
            draws: Draws::new(classes.clone(), LEVELS),
            pass: 6,
        };
        let pair = |i| Pair { left: i, right: 9 };
        let listed = || Source::Listed {
            list: (0..7).map(|i| (pair(i), Bound::Equal, 1.0)).collect(),
            order: Vec::new(),
            epoch: None,
        };
        for make in [&drawn as &dyn Fn() -> Source, &listed] {
            let mut once = make();
            let forth: Vec<_> = (0..50).map(|t| once.at(3, t)).collect();
            let mut again = make();
            let back: Vec<_> = (0..50).rev().map(|t| again.at(3, t)).collect();
            assert!(forth.iter().eq(back.iter().rev()));
            assert_ne!(forth, (0..50).map(|t| once.at(4, t)).collect::<Vec<_>>());
        }
        let mut listed = listed();
        for epoch in 0..3 {
            let mut seen: Vec<u32> = (0..7).map(|t| listed.at(3, 7 * epoch + t).0.left).collect();
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);
        }
        // Half of the pairs are of one class; the last row has none such.
        let mut drawn = drawn();
        let same = (0..2000).filter(|&t| drawn.at(0, t).1 == Bound::AtMost);
        let same = same.count();
        assert!((750..950).contains(&same), "{same}");
    }
}
