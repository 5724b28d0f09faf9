//! Which features say most about the classes: the truncated identity starts there.

use crate::task::inputs::Things;
use crate::{Real, Rows};
use hashbrown::{HashMap, HashSet};

/// The features of rows and objects that the truncated identity brings together,
/// k pairs: those that are called alike first, by what they say about the rows;
/// then the most informative ones of each side with those of the other, in their
/// order. Without objects each feature goes with itself.
pub(super) fn pairs<R: Real>(
    rows: &Things<'_, R>,
    objects: Option<&Things<'_, R>>,
    k: usize,
) -> Vec<(u32, u32)> {
    let order = |things: &Things<'_, R>, k: usize| {
        let classes = things.classes.as_deref();
        most_informative(&things.rows, &things.members, classes, k)
    };
    let Some(objects) = objects else {
        return order(rows, k).into_iter().map(|j| (j, j)).collect();
    };
    let (lefts, rights) = (
        order(rows, rows.rows.columns()),
        order(objects, objects.rows.columns()),
    );
    let mut out = Vec::with_capacity(k);
    if let (Some(left), Some(right)) = (rows.features.names(), objects.features.names()) {
        let right: HashMap<&str, u32> = right.into_iter().zip(0..).collect();
        let same = |j: &u32| Some((*j, *right.get(left[*j as usize])?));
        out.extend(lefts.iter().filter_map(same).take(k));
    }
    let (used, taken): (HashSet<u32>, HashSet<u32>) = out.iter().copied().unzip();
    let lefts = lefts.into_iter().filter(|j| !used.contains(j));
    let rights = rights.into_iter().filter(|j| !taken.contains(j));
    let missing = k - out.len();
    out.extend(lefts.zip(rights).take(missing));
    out
}

/// The k most informative features: by information gain of "the value is
/// above its column's mean, or present", then by how often they occur, then by
/// number. Rows beyond `members` do not count.
pub(crate) fn most_informative<R: Real>(
    rows: &Rows<R>,
    members: &[u32],
    classes: Option<&[u32]>,
    k: usize,
) -> Vec<u32> {
    let columns = rows.columns();
    let entries = || {
        members
            .iter()
            .flat_map(|&i| rows.row(i as usize).iter().map(move |e| (i, e)))
    };
    let mut frequency = vec![0usize; columns];
    let mut mean = vec![0.0; columns];
    for (_, (j, v)) in entries() {
        frequency[j as usize] += usize::from(v != R::default());
        mean[j as usize] += v.to_f64() / members.len() as f64;
    }
    // Presence says nothing of a column with few zeros: ask where it is large.
    for (j, m) in mean.iter_mut().enumerate() {
        if 2 * frequency[j] <= members.len() {
            *m = f64::NAN;
        }
    }
    let gains = classes.map(|classes| {
        let count = classes.iter().max().map_or(0, |&c| c as usize + 1);
        let mut sizes = vec![0usize; count];
        members
            .iter()
            .for_each(|&i| sizes[classes[i as usize] as usize] += 1);
        // One column of counts for each feature would be large; one feature's
        // counts at a time need the entries by column.
        let mut starts = vec![0usize; columns + 1];
        for (_, (j, v)) in entries() {
            starts[j as usize + 1] += usize::from(counts(v, mean[j as usize]));
        }
        for j in 0..columns {
            starts[j + 1] += starts[j];
        }
        let mut next = starts.clone();
        let mut by_column = vec![0u32; starts[columns]];
        for (i, (j, v)) in entries() {
            if counts(v, mean[j as usize]) {
                by_column[next[j as usize]] = classes[i as usize];
                next[j as usize] += 1;
            }
        }
        let mut present = vec![0usize; count];
        let mut gains = Vec::with_capacity(columns);
        for j in 0..columns {
            present.fill(0);
            by_column[starts[j]..starts[j + 1]]
                .iter()
                .for_each(|&c| present[c as usize] += 1);
            gains.push(information_gain(&present, &sizes));
        }
        gains
    });
    let mut order: Vec<u32> = (0..columns as u32).collect();
    let gain = |j: u32| gains.as_ref().map_or(0.0, |g| g[j as usize]);
    order.sort_by(|&a, &b| {
        gain(b)
            .total_cmp(&gain(a))
            .then_with(|| frequency[b as usize].cmp(&frequency[a as usize]))
            .then_with(|| a.cmp(&b))
    });
    order.truncate(k);
    order
}

fn counts<R: Real>(value: R, mean: f64) -> bool {
    if mean.is_nan() {
        value != R::default()
    } else {
        value.to_f64() > mean
    }
}

/// H(class) − H(class | feature), in nats, from how many rows of each class
/// have the feature.
pub(crate) fn information_gain(present: &[usize], sizes: &[usize]) -> f64 {
    let entropy = |counts: &mut dyn Iterator<Item = usize>| {
        let (mut total, mut sum) = (0.0, 0.0);
        for count in counts {
            let c = count as f64;
            total += c;
            sum += if count > 0 { c * c.ln() } else { 0.0 };
        }
        // Σ −c ln(c/total): the entropy times the total.
        if total > 0.0 {
            total * f64::ln(total) - sum
        } else {
            0.0
        }
    };
    let all: usize = sizes.iter().sum();
    let whole = entropy(&mut sizes.iter().copied());
    let with = entropy(&mut present.iter().copied());
    let without = entropy(&mut sizes.iter().zip(present).map(|(s, p)| s - p));
    (whole - with - without).max(0.0) / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SparseVec;

    #[test]
    fn a_feature_that_names_the_class_comes_first() {
        // Column 0 is noise, 1 names class 1, 2 is dense and large in class 0.
        let dense = [
            [1.0, 0.0, 9.0],
            [0.0, 0.0, 8.0],
            [1.0, 2.0, 1.0],
            [0.0, 1.0, 9.5],
        ];
        let rows: Rows<f64> = {
            let vectors: Vec<_> = dense.iter().map(|r| SparseVec::from_dense(r)).collect();
            vectors.iter().map(SparseVec::as_row).collect()
        };
        let members = [0, 1, 2, 3];
        assert_eq!(
            most_informative(&rows, &members, Some(&[0, 0, 1, 1]), 2),
            [1, 2]
        );
        // Without classes the most frequent come first.
        assert_eq!(most_informative(&rows, &members, None, 3), [2, 0, 1]);
    }

    #[test]
    fn information_gain_of_known_tables() {
        let ln2 = 2f64.ln();
        assert!((information_gain(&[5, 0], &[5, 5]) - ln2).abs() < 1e-15);
        assert!(information_gain(&[5, 5], &[5, 5]) < 1e-15);
        assert!(information_gain(&[2, 2], &[4, 4]) < 1e-15);
        assert_eq!(information_gain(&[], &[]), 0.0);
    }
}
