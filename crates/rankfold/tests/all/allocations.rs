//! A step allocates nothing and touches the rows of its example only.

use crate::oracle::Random;
use rankfold::data::{Lines, TripletStream, read_labelled};
use rankfold::form::{
    Diagonal, Factored, Full, Polar as PolarForm, PolarPsd as PolarPsdForm, Psd, Tall,
};
use rankfold::linalg::Retraction;
use rankfold::model::{Normalize, Weight};
use rankfold::online::{
    AromaDiagonal, AromaOptions, Balanced, Flat, Gradient, Learner, Loreta, LoretaPsd, Oasis,
    PassiveAggressive, Polar, PolarPsd, RankOne, Rule, Step, Turn,
};
use rankfold::{Loss, Similarity, SparseVec};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting the calls of each thread.
struct Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

fn tall(random: &mut Random, n: usize, k: usize) -> Tall<f32> {
    let m = random.matrix(n, k);
    Tall::from_fn(n, k, |i, j| m[(i, j)]).unwrap()
}

/// As [`check`], on examples x ⊗ x.
fn check_squares(learner: &mut impl Learner<f32>, n: usize) {
    check_pairs(learner, n, true);
}

fn check(learner: &mut impl Learner<f32>, n: usize) {
    check_pairs(learner, n, false);
}

fn check_pairs(learner: &mut impl Learner<f32>, n: usize, square: bool) {
    let mut random = Random::new(2);
    let mut draw = || {
        let entries = (0..12).map(|_| (random.below(n) as u32, random.normal() as f32));
        SparseVec::from_entries(entries.collect())
    };
    let pairs: Vec<_> = (0..500).map(|_| (draw(), draw())).collect();
    let mut difference = SparseVec::new();
    difference.set_difference(pairs[0].0.as_row(), pairs[0].1.as_row());
    difference.set_difference(pairs[1].0.as_row(), pairs[2].1.as_row());
    let made = allocations(|| {
        for (left, right) in &pairs {
            let example = RankOne {
                left: left.as_row(),
                right: if square { left } else { right }.as_row(),
            };
            learner.learn(
                example,
                1.0,
                Loss::Squared,
                Step {
                    size: 1e-3,
                    limit: 0.5,
                },
            );
        }
    });
    assert_eq!(made, 0, "allocations in 500 steps, polishing included");
}

#[test]
fn a_step_allocates_nothing() {
    let (n, k) = (300, 7);
    let mut random = Random::new(1);
    let (left, right) = (tall(&mut random, n, k), tall(&mut random, n, k));
    check(&mut LoretaPsd::new(Psd::new(left.clone())), n);
    let factored = || Factored::new(left.clone(), right.clone());
    check(&mut Loreta::new(factored()), n);
    check(&mut Gradient::new(factored()), n);
    check(&mut Gradient::new(factored()).regularized(0.1), n);
    check(&mut Balanced::new(factored()), n);
    check(&mut Balanced::new(factored()).regularized(0.1), n);
    let polar = || Polar::new(PolarForm::from_factored(factored()).unwrap());
    check(&mut polar(), n);
    check(&mut polar().regularized(0.1), n);
    check(&mut polar().retracted(Retraction::Qf), n);
    check(&mut Flat::new(Psd::new(left.clone())), n);
    let psd = || PolarPsd::new(PolarPsdForm::from_psd(Psd::new(left.clone())).unwrap());
    check_squares(&mut Flat::new(Psd::new(left.clone())), n);
    check_squares(&mut psd(), n);
    check_squares(&mut psd().retracted(Retraction::Qf), n);
    check_squares(&mut psd().subspace_weight(0.0), n);
    check(
        &mut PassiveAggressive::new(factored(), Turn::Alternate, 0),
        n,
    );
    check(&mut Oasis::new(Full::diagonal(n, n, 1.0).unwrap()), n);
    let diagonal = Diagonal::new(n, n, 1.0);
    check(
        &mut AromaDiagonal::new(diagonal, AromaOptions::default()),
        n,
    );
}

/// A line of a stream allocates nothing once the buffers have their size, and
/// features that come one by one seldom do.
#[test]
fn lines_allocate_nothing_and_growth_seldom() {
    let text = "0 1:1 2:1\n0 1:1 3:2\n1 2:1 3:1\n1 1:1 3:1\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.svm");
    std::fs::write(&path, text).unwrap();
    let data = read_labelled::<f32>(&path).unwrap();
    let options = Similarity::new(Rule::Loreta).rank(2).steps(50);
    let options = options.step_size(0.1);
    let options = options.weight(Weight::Tfidf).normalize(Normalize::L2);
    let mut learner = options.fit(&data).unwrap().into_learner::<f32>().unwrap();
    let rows = learner.prepare(data.rows.clone(), &data.features).unwrap();
    let lookup = data.lookup();
    let mut learn = |text: String, warm: usize| {
        let source = std::io::Cursor::new(text.into_bytes());
        let mut stream = TripletStream::new(Lines::new(Box::new(source), "s"));
        let mut more = |count: usize| {
            for _ in 0..count {
                let triplet = stream.read(learner.features(), Some(&lookup)).unwrap();
                learner
                    .learn_line(&triplet.expect("a line"), &rows)
                    .unwrap();
            }
        };
        more(warm);
        allocations(|| more(100))
    };
    let known = r#"{"query":"0","positive":1,"negative":{"1":0.5,"3":2}}"#;
    assert_eq!(learn(format!("{known}\n").repeat(110), 10), 0);
    let new = |i: usize| {
        format!(
            "{{\"query\":0,\"positive\":{{\"{}\":1}},\"negative\":1}}\n",
            i + 4
        )
    };
    let grown = learn((0..1100).map(new).collect(), 1000);
    assert!(grown < 50, "{grown} allocations for 100 new features");
}

#[test]
fn a_step_changes_the_rows_of_its_example_only() {
    let (n, k) = (200, 5);
    let mut random = Random::new(4);
    let mut learner = LoretaPsd::new(Psd::new(tall(&mut random, n, k)));
    for round in 0..50 {
        let before = learner.form().clone();
        let (p, q) = (random.sparse(n, 6), random.sparse(n, 6));
        let narrow =
            |v: &[f64]| SparseVec::from_dense(&v.iter().map(|&x| x as f32).collect::<Vec<_>>());
        let (left, right) = (narrow(&p), narrow(&q));
        let example = RankOne {
            left: left.as_row(),
            right: right.as_row(),
        };
        learner.learn(
            example,
            1.0,
            Loss::Squared,
            Step {
                size: 1e-2,
                limit: 0.5,
            },
        );
        let changed = (0..n).filter(|&i| before.factor().row(i) != learner.form().factor().row(i));
        for i in changed {
            assert!(
                p[i] != 0.0 || q[i] != 0.0,
                "round {round}: row {i} is not in the example"
            );
        }
    }
}
