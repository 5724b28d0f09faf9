//! The one rule by which a share is held out for validation.
//!
//! Every row, pair or entry has a key that follows from the seed and its number. Those
//! with the smallest keys are held out: exactly the share asked for, rounded down, and
//! in each group (a class, a task) that share up to one.

use crate::random::splitmix64;
use crate::{Error, Result};

/// The numbers that are learned from, and those that are held out, both rising.
pub(crate) fn hold_out(
    count: usize,
    groups: Option<&[u32]>,
    fraction: f64,
    seed: u64,
) -> (Vec<u32>, Vec<u32>) {
    let mut order: Vec<u32> = (0..count as u32).collect();
    if fraction <= 0.0 {
        return (order, Vec::new());
    }
    let group = |i: u32| groups.map_or(0, |groups| groups[i as usize]);
    order.sort_by_cached_key(|&i| (group(i), splitmix64(splitmix64(seed) ^ u64::from(i)), i));
    let (mut kept, mut held) = (Vec::new(), Vec::new());
    let mut before = 0;
    for members in order.chunk_by(|&a, &b| group(a) == group(b)) {
        let after = before + members.len();
        let share = |n: usize| (n as f64 * fraction + 1e-9) as usize;
        let count = share(after) - share(before);
        held.extend_from_slice(&members[..count]);
        kept.extend_from_slice(&members[count..]);
        before = after;
    }
    kept.sort_unstable();
    held.sort_unstable();
    (kept, held)
}

/// The same, and an error where a share was asked for and nothing is left for it.
pub(crate) fn hold_out_some(
    what: &str,
    count: usize,
    groups: Option<&[u32]>,
    fraction: f64,
    seed: u64,
) -> Result<(Vec<u32>, Vec<u32>)> {
    let parts = hold_out(count, groups, fraction, seed);
    match fraction > 0.0 && parts.1.is_empty() {
        true => Err(Error::option(
            "valid_fraction",
            format!("of {fraction} leaves none of the {count} {what} for validation"),
        )),
        false => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_share_is_held_out_in_each_group() {
        for count in [0, 1, 9, 10, 100, 997] {
            for fraction in [0.1, 0.25, 0.5, 0.99] {
                let groups: Vec<u32> = (0..count as u32).map(|i| i * i % 7).collect();
                for groups in [None, Some(&groups[..])] {
                    let (kept, held) = hold_out(count, groups, fraction, 3);
                    assert_eq!(held.len(), (count as f64 * fraction + 1e-9) as usize);
                    let mut all = [kept.clone(), held.clone()].concat();
                    all.sort_unstable();
                    assert!(all.iter().copied().eq(0..count as u32));
                    let groups = groups.unwrap_or(&[]);
                    for group in 0..7 {
                        let of = |part: &[u32]| {
                            let is = |i: &&u32| groups.get(**i as usize) == Some(&group);
                            part.iter().filter(is).count() as f64
                        };
                        let wanted = fraction * of(&all);
                        assert!((of(&held) - wanted).abs() < 1.0 + 1e-9);
                    }
                }
            }
        }
    }

    #[test]
    fn another_seed_holds_out_others() {
        assert_eq!(hold_out(50, None, 0.5, 1), hold_out(50, None, 0.5, 1));
        assert_ne!(hold_out(50, None, 0.5, 1), hold_out(50, None, 0.5, 2));
        assert_eq!(hold_out(3, None, 0.0, 1), (vec![0, 1, 2], vec![]));
    }

    #[test]
    fn a_share_of_nothing_is_an_error() {
        let error = hold_out_some("rows", 5, None, 0.1, 0).unwrap_err();
        let want = "option `valid_fraction` of 0.1 leaves none of the 5 rows for validation";
        assert_eq!(error.to_string(), want);
    }
}
