//! Retrieval against the plain metrics, and its promises about threads.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rankfold::eval::metrics::{average_precision, precision_at};
use rankfold::eval::{Cosine, Embedded, Retrieval, Scorer, retrieval, retrieval_at};
use rankfold::{Rows, SparseVec};
use std::sync::Mutex;

/// Any scores at all.
#[derive(Debug)]
struct Table {
    rows: usize,
    scores: Vec<f64>,
}

impl Scorer for Table {
    fn rows(&self) -> usize {
        self.rows
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        out.copy_from_slice(&self.scores[first * self.rows..(first + queries) * self.rows]);
    }
}

/// Numbers of best candidates, more than there are among them.
const AT: [usize; 4] = [2, 1, 7, 1_000];

/// The same evaluation, as it is defined.
fn plain(scorer: &dyn Scorer, classes: &[u32]) -> Retrieval {
    let rows = classes.len();
    let mut scores = vec![0.0; rows];
    let (mut count, mut sums) = (0, [0.0; 3]);
    let mut at = AT.map(|k| (k, 0.0));
    let mut each = vec![None; rows];
    for query in 0..rows {
        scorer.scores(&mut scores, query, 1);
        let others = || (0..rows).filter(|&row| row != query);
        let relevant: Vec<bool> = others().map(|row| classes[row] == classes[query]).collect();
        let scores: Vec<f64> = others().map(|row| scores[row]).collect();
        if relevant.contains(&true) {
            count += 1;
            each[query] = Some(average_precision(&scores, &relevant));
            sums[0] += each[query].unwrap_or(f64::NAN);
            sums[1] += precision_at(1, &scores, &relevant);
            sums[2] += precision_at(10, &scores, &relevant);
            for (k, sum) in &mut at {
                *sum += precision_at(*k, &scores, &relevant);
            }
        }
    }
    let [map, precision_at_1, precision_at_10] = sums.map(|sum| sum / f64::from(count));
    Retrieval {
        map,
        precision_at_1,
        precision_at_10,
        precision_at: at.map(|(k, sum)| (k, sum / f64::from(count))).into(),
        average_precision: each,
        rows,
        skipped: rows - count as usize,
    }
}

/// All numbers of a result, NaN equal to NaN.
fn bits(r: &Retrieval) -> Vec<u64> {
    let means = [r.map, r.precision_at_1, r.precision_at_10].map(f64::to_bits);
    let at = r.precision_at.iter();
    let at = at.flat_map(|&(k, precision)| [k as u64, precision.to_bits()]);
    let counts = [r.rows as u64, r.skipped as u64];
    let each = r.average_precision.iter();
    let each = each.map(|found| found.map_or(u64::MAX, f64::to_bits));
    means
        .into_iter()
        .chain(counts)
        .chain(at)
        .chain(each)
        .collect()
}

fn assert_plain(scorer: &dyn Scorer, classes: &[u32]) {
    let want = plain(scorer, classes);
    for threads in [0, 1, 2, 5] {
        let got = retrieval_at(scorer, classes, None, &AT, threads, &|_| true).unwrap();
        assert_eq!(bits(&got), bits(&want), "{got:?} is not {want:?}");
        let usual = retrieval(scorer, classes, threads, &|_| true).unwrap();
        assert_eq!(usual.map.to_bits(), got.map.to_bits());
        assert_eq!(usual.precision_at, []);
    }
}

/// Few distinct scores, so that ties are common; the odd ones are among them.
fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-3..3_i32).prop_map(f64::from),
        3 => -1.0..1.0_f64,
        1 => prop::sample::select(vec![f64::NAN, -0.0, f64::INFINITY, f64::NEG_INFINITY, 1e300]),
    ]
}

fn table() -> impl Strategy<Value = (Table, Vec<u32>)> {
    (0..40_usize, 1..6_u32).prop_flat_map(|(rows, classes)| {
        let table = vec(score(), rows * rows).prop_map(move |scores| Table { rows, scores });
        (table, vec(0..classes, rows))
    })
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 96,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn counting_ranks_equals_sorting((table, classes) in table()) {
        assert_plain(&table, &classes);
    }

    #[test]
    fn embedded_rows_give_the_same_bits_on_all_threads(
        rows in vec((vec(-2.0..2.0_f32, 5), vec(-2.0..2.0_f32, 5), 0..4_u32), 0..70)
    ) {
        let left: Vec<f32> = rows.iter().flat_map(|row| row.0.clone()).collect();
        let right: Vec<f32> = rows.iter().flat_map(|row| row.1.clone()).collect();
        let classes: Vec<u32> = rows.iter().map(|row| row.2).collect();
        assert_plain(&Embedded::new(&left, &right, 5), &classes);
    }

    #[test]
    fn cosines_give_the_same_bits_on_all_threads(
        rows in vec((vec((0..30_u32, -2.0..2.0_f64), 0..9), 0..4_u32), 0..50)
    ) {
        let mut sparse = Rows::new();
        for (entries, _) in &rows {
            sparse.push(SparseVec::from_entries(entries.clone()).as_row());
        }
        let classes: Vec<u32> = rows.iter().map(|row| row.1).collect();
        assert_plain(&Cosine::new(&sparse), &classes);
    }
}

#[test]
fn extreme_classes() {
    for rows in [0, 1, 2, 7, 8, 9, 33] {
        let scores = (0..rows * rows).map(|i| (i * i % 13) as f64).collect();
        let table = Table { rows, scores };
        assert_plain(&table, &vec![u32::MAX; rows]);
        assert_plain(&table, &(0..rows as u32).collect::<Vec<_>>());
        assert_plain(&table, &(0..rows as u32).map(|i| i / 2).collect::<Vec<_>>());
    }
}

#[test]
fn a_model_that_scores_everything_alike_gains_nothing_from_sorted_classes() {
    let classes: Vec<u32> = (0..20).map(|row| row / 10).collect();
    let table = Table {
        rows: 20,
        scores: vec![0.5; 400],
    };
    let result = retrieval(&table, &classes, 2, &|_| true).unwrap();
    // Ten negatives stand before the nine positives.
    let want = (1..=9).map(|hits| f64::from(hits) / f64::from(10 + hits));
    assert!((result.map - want.sum::<f64>() / 9.0).abs() < 1e-15);
    assert_eq!(result.precision_at_1, 0.0);
    assert_eq!(result.precision_at_10, 0.0);
}

#[test]
fn progress_rises_to_the_end_and_can_stop() {
    let rows = 100;
    let table = Table {
        rows,
        scores: vec![0.0; rows * rows],
    };
    let classes = vec![0; rows];
    for threads in [1, 3] {
        let seen = Mutex::new(Vec::new());
        let watch = |done| {
            seen.lock().unwrap().push(done);
            true
        };
        assert!(retrieval(&table, &classes, threads, &watch).is_some());
        let seen = seen.into_inner().unwrap();
        assert!(seen.is_sorted() && seen.last() == Some(&rows));
        assert!(retrieval(&table, &classes, threads, &|done| done < 50).is_none());
    }
}
