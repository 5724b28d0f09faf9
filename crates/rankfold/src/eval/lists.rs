//! How good lists of items for users are.
//!
//! Each row looks for some candidates among all of them; gains are binary. Ties count
//! against the model, and a score that is not a number is no candidate: such items are
//! left out of the list, and one that is looked for is then never found. All candidates
//! are ranked, never a sample of them.

use super::Scorer;
use super::ranks::{Ranks, key};
use crate::parallel::map_blocks;

/// Rows scored at once.
const BLOCK: usize = 8;

/// What [`lists()`] found: means over the rows that look for something.
#[derive(Debug, Clone, PartialEq)]
pub struct Lists {
    /// Discounted gain of the first k, as a share of the best possible.
    pub ndcg: f64,
    /// The share of what a row looks for that is among the first k.
    pub recall: f64,
    /// The share of the first k that is looked for.
    pub precision: f64,
    /// How often at least one of the first k is looked for.
    pub hit_rate: f64,
    /// Mean average precision.
    pub map: f64,
    /// How often something looked for stands before something not looked for.
    pub auc: f64,
    /// The share of all candidates that are in the list of any row.
    pub coverage: f64,
    /// The discounted gain of each row; none where it looks for nothing.
    pub ndcg_of: Vec<Option<f64>>,
    /// Rows that look for something.
    pub rows: usize,
    /// Rows that look for nothing.
    pub skipped: usize,
}

/// What a row looks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// Candidates, each once.
    pub items: Vec<u32>,
    /// Things that are no candidates, and are never found.
    pub missing: usize,
}

impl Wanted {
    fn len(&self) -> usize {
        self.items.len() + self.missing
    }
}

/// What is not shown to rows: its score is not a number.
#[derive(Debug, Clone, Default)]
pub struct Hidden {
    /// Candidates that each row shall not get, in no order.
    left_out: Vec<Vec<u32>>,
    /// Candidates that may be shown, where not all may.
    only: Option<Vec<bool>>,
}

impl Hidden {
    /// Nothing, of so many rows.
    pub fn nothing(rows: usize) -> Self {
        Self::of(vec![Vec::new(); rows])
    }

    /// These candidates of each row.
    pub fn of(left_out: Vec<Vec<u32>>) -> Self {
        Hidden {
            left_out,
            only: None,
        }
    }

    /// One candidate more of a row.
    pub fn leave_out(&mut self, row: usize, candidate: u32) {
        self.left_out[row].push(candidate);
    }

    /// All of `candidates` but these.
    pub fn all_but(&mut self, candidates: usize, shown: impl IntoIterator<Item = u32>) {
        let mut only = vec![false; candidates];
        shown.into_iter().for_each(|one| only[one as usize] = true);
        self.only = Some(only);
    }

    /// Whether a candidate is not shown to a row.
    pub fn hides(&self, row: usize, candidate: usize) -> bool {
        let only = self.only.as_ref();
        only.is_some_and(|only| !only[candidate])
            || self.left_out[row].contains(&(candidate as u32))
    }

    /// Takes the scores of a row away.
    pub fn hide(&self, row: usize, scores: &mut [f64]) {
        for &candidate in &self.left_out[row] {
            scores[candidate as usize] = f64::NAN;
        }
        if let Some(only) = &self.only {
            let others = scores.iter_mut().zip(only).filter(|(_, only)| !**only);
            others.for_each(|(score, _)| *score = f64::NAN);
        }
    }
}

/// The same scores for all rows: how often candidates were chosen.
#[derive(Debug, Clone)]
pub struct Popularity<'a> {
    /// So often.
    pub counts: &'a [f64],
    /// What is not shown to rows.
    pub hidden: Hidden,
}

impl Scorer for Popularity<'_> {
    fn rows(&self) -> usize {
        self.hidden.left_out.len()
    }

    fn candidates(&self) -> usize {
        self.counts.len()
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        let rows = (first..first + queries).zip(out.chunks_exact_mut(self.counts.len().max(1)));
        for (row, out) in rows {
            out.copy_from_slice(self.counts);
            self.hidden.hide(row, out);
        }
    }
}

/// The metrics of one row, and its list.
struct Row {
    ndcg: f64,
    recall: f64,
    hits: usize,
    average_precision: f64,
    auc: f64,
    list: Vec<u32>,
}

/// Σ 1 / log₂(1 + rank) over the first n ranks.
fn ideal(n: usize) -> f64 {
    (1..=n).map(gain).sum()
}

/// The gain of a hit at a rank, from 1.
pub fn gain(rank: usize) -> f64 {
    1.0 / (rank as f64 + 1.0).log2()
}

fn row(scores: &[f64], wanted: &Wanted, k: usize, ranks: &mut Ranks) -> Row {
    let candidates = scores.iter().filter(|score| !score.is_nan()).count();
    let there = |item: &&u32| !scores[**item as usize].is_nan();
    let there = wanted.items.iter().filter(there).count();
    // What is left out stands after all others.
    let found = &ranks.of_members(scores, &wanted.items, None)[..there];
    let hits = found.partition_point(|&rank| rank <= k);
    let gains: f64 = found[..hits].iter().map(|&rank| gain(rank)).sum();
    let precisions = found.iter().zip(1_u32..);
    let precisions: f64 = precisions
        .map(|(&rank, n)| f64::from(n) / rank as f64)
        .sum();
    let others = candidates - there;
    // Of the others, rank − place stand before the place-th that was found.
    let before: usize = found
        .iter()
        .zip(1..)
        .map(|(&rank, place)| rank - place)
        .sum();
    // What is left out is before nothing.
    let before = before + (wanted.len() - there) * others;
    let mut best: Vec<(u64, u32)> = Vec::with_capacity(scores.len().min(k) + 1);
    for (item, &score) in scores.iter().enumerate().filter(|(_, s)| !s.is_nan()) {
        let entry = (!key(score), item as u32);
        if best.len() < k || best.last().is_some_and(|last| entry < *last) {
            let at = best.partition_point(|other| *other < entry);
            best.insert(at, entry);
            best.truncate(k);
        }
    }
    Row {
        ndcg: gains / ideal(wanted.len().min(k)),
        recall: hits as f64 / wanted.len() as f64,
        hits,
        average_precision: precisions / wanted.len() as f64,
        auc: 1.0 - before as f64 / (wanted.len() * others) as f64,
        list: best.into_iter().map(|(_, item)| item).collect(),
    }
}

/// Evaluates lists of the `k` best candidates of each row, which looks for those named in
/// `wanted`. `go_on` is asked now and then; `None` where it said no. The result has the same
/// bits for any number of threads.
#[track_caller]
pub fn lists(
    scorer: &(impl Scorer + ?Sized),
    wanted: &[Wanted],
    k: usize,
    threads: usize,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Option<Lists> {
    let (rows, candidates) = (scorer.rows(), scorer.candidates());
    assert_eq!(rows, wanted.len(), "one list a row");
    let blocks = map_blocks(rows, BLOCK, threads, |range| -> Option<Vec<Option<Row>>> {
        if !go_on() {
            return None;
        }
        let mut ranks = Ranks::default();
        let mut scores = vec![0.0; candidates * range.len()];
        if range.clone().any(|i| wanted[i].len() > 0) {
            scorer.scores(&mut scores, range.start, range.len());
        }
        let scored = range.zip(scores.chunks_exact(candidates.max(1)));
        let one = |(i, scores): (usize, &[f64])| {
            let wanted = &wanted[i];
            (wanted.len() > 0).then(|| row(scores, wanted, k, &mut ranks))
        };
        Some(scored.map(one).collect())
    });
    let blocks = blocks.into_iter().collect::<Option<Vec<_>>>()?;
    let mut shown = vec![false; candidates];
    let (mut count, mut sums) = (0, [0.0; 6]);
    let mut judged = 0;
    let mut ndcg_of = Vec::with_capacity(rows);
    for row in blocks.into_iter().flatten() {
        ndcg_of.push(row.as_ref().map(|row| row.ndcg));
        let Some(row) = row else { continue };
        count += 1;
        let precision = row.hits as f64 / k as f64;
        let hit = f64::from(u8::from(row.hits > 0));
        let plain = [row.ndcg, row.recall, precision, hit, row.average_precision];
        sums.iter_mut()
            .zip(plain)
            .for_each(|(sum, value)| *sum += value);
        // Where all candidates are looked for, there is nothing to stand before.
        if row.auc.is_finite() {
            judged += 1;
            sums[5] += row.auc;
        }
        row.list
            .iter()
            .for_each(|&item| shown[item as usize] = true);
    }
    let [ndcg, recall, precision, hit_rate, map, auc] = sums;
    let mean = |sum: f64| sum / count as f64;
    Some(Lists {
        ndcg: mean(ndcg),
        recall: mean(recall),
        precision: mean(precision),
        hit_rate: mean(hit_rate),
        map: mean(map),
        auc: auc / f64::from(judged),
        ndcg_of,
        coverage: shown.iter().filter(|s| **s).count() as f64 / candidates as f64,
        rows: count,
        skipped: rows - count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Vec<Vec<f64>>);

    impl Scorer for Fixed {
        fn rows(&self) -> usize {
            self.0.len()
        }
        fn candidates(&self) -> usize {
            self.0[0].len()
        }
        fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
            let rows = self.0[first..first + queries].iter();
            for (out, row) in out.chunks_exact_mut(self.candidates()).zip(rows) {
                out.copy_from_slice(row);
            }
        }
    }

    /// All metrics by sorting, as they are defined.
    fn plain(scores: &[f64], wanted: &[u32], k: usize) -> [f64; 6] {
        let mut order: Vec<usize> = (0..scores.len()).filter(|&i| !scores[i].is_nan()).collect();
        let hit = |i: usize| wanted.contains(&(i as u32));
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(hit(a).cmp(&hit(b))));
        let hits: Vec<bool> = order.iter().map(|&i| hit(i)).collect();
        let top = hits.iter().take(k).filter(|h| **h).count() as f64;
        let dcg: f64 = hits
            .iter()
            .take(k)
            .enumerate()
            .filter(|(_, h)| **h)
            .map(|(r, _)| gain(r + 1))
            .sum();
        let best: f64 = (1..=wanted.len().min(k)).map(gain).sum();
        let (mut n, mut ap) = (0.0, 0.0);
        for (r, _) in hits.iter().enumerate().filter(|(_, h)| **h) {
            n += 1.0;
            ap += n / (r + 1) as f64;
        }
        let (mut good, mut pairs) = (0.0, 0.0);
        for &w in wanted {
            for i in (0..scores.len()).filter(|&i| !hit(i) && !scores[i].is_nan()) {
                pairs += 1.0;
                good += f64::from(u8::from(scores[w as usize] > scores[i]));
            }
        }
        let wanted = wanted.len() as f64;
        [
            dcg / best,
            top / wanted,
            top / k as f64,
            f64::from(u8::from(top > 0.0)),
            ap / wanted,
            good / pairs,
        ]
    }

    #[test]
    fn metrics_are_those_of_sorting() {
        let scores: Vec<Vec<f64>> = (0..37_usize)
            .map(|u| {
                let score = |i: usize| match (u * 13 + i * i * 7) % 17 {
                    0 => f64::NAN,
                    n => (n / 2) as f64,
                };
                (0..23).map(score).collect()
            })
            .collect();
        let wanted: Vec<Vec<u32>> = (0..37_u32)
            .map(|u| {
                (0..23)
                    .filter(|i| (u * 3 + i * 5) % (u % 6 + 3) == 0 && u % 5 > 0)
                    .collect()
            })
            .collect();
        let wrapped: Vec<Wanted> = wanted
            .iter()
            .map(|items| Wanted {
                items: items.clone(),
                missing: 0,
            })
            .collect();
        for k in [1, 5, 10, 40] {
            let scorer = Fixed(scores.clone());
            let found = lists(&scorer, &wrapped, k, 1, &|| true).unwrap();
            assert_eq!(lists(&scorer, &wrapped, k, 3, &|| true).unwrap(), found);
            let rows = scores.iter().zip(&wanted).filter(|(_, w)| !w.is_empty());
            let plain: Vec<[f64; 6]> = rows.map(|(s, w)| plain(s, w, k)).collect();
            let mean = |m: usize| plain.iter().map(|p| p[m]).sum::<f64>() / plain.len() as f64;
            let got = [
                found.ndcg,
                found.recall,
                found.precision,
                found.hit_rate,
                found.map,
                found.auc,
            ];
            for (m, got) in got.iter().enumerate() {
                assert!(
                    (got - mean(m)).abs() < 1e-12,
                    "metric {m} at {k}: {got} {}",
                    mean(m)
                );
            }
            assert_eq!((found.rows, found.skipped), (plain.len(), 37 - plain.len()));
        }
        let scorer = Fixed(vec![vec![3.0, 2.0, 1.0]]);
        let half = [Wanted {
            items: vec![0],
            missing: 1,
        }];
        let found = lists(&scorer, &half, 10, 1, &|| true).unwrap();
        assert_eq!((found.recall, found.map, found.auc), (0.5, 0.5, 0.5));
        assert!(lists(&Fixed(scores), &wrapped, 10, 2, &|| false).is_none());
    }
}
