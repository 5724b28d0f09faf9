//! Learners that begin without data learn what is planted, answer between two steps, and
//! go on after they were saved.

use rankfold::data::Features;
use rankfold::online::Rule;
use rankfold::random::{Random, normal_at};
use rankfold::sample::Triplet;
use rankfold::task::Online;
use rankfold::{Model, Pairs, Ranking, Rows, Similarity, SparseVec};

/// A row of six features, the first two of which tell its class.
fn row(i: u64) -> (usize, SparseVec<f64>) {
    let class = (i % 3) as usize;
    let angle = class as f64 * 2.1;
    let value = |j: u64| {
        let center = [2.0 * angle.cos(), 2.0 * angle.sin()];
        let center = center.get(j as usize).copied().unwrap_or(0.0);
        center + 0.3 * normal_at(3, 7, i, j)
    };
    let entries = (0..6).map(|j| (j as u32, value(j))).collect();
    (class, SparseVec::from_entries(entries))
}

fn triplet(random: &mut Random) -> [SparseVec<f64>; 3] {
    let mut of = |class: usize| row(3 * random.below(1000) as u64 + class as u64).1;
    let (query, positive) = (of(1), of(1));
    let class = [0, 2][usize::from(query.as_row().values[0] > -1.0)];
    [query, positive, of(class)]
}

fn learn(learner: &mut Online<f64>, rows: &[SparseVec<f64>; 3]) {
    let [query, positive, negative] = rows.each_ref().map(SparseVec::as_row);
    let triplet = Triplet {
        query,
        positive,
        negative,
    };
    learner.learn(&triplet).unwrap();
}

#[test]
fn a_similarity_begins_with_nothing() {
    for rule in [
        Rule::LoretaPsd,
        Rule::Loreta,
        Rule::AromaFactored,
        Rule::AromaDiagonal,
        Rule::Oasis,
        Rule::PassiveAggressive,
    ] {
        // Three features are known at the beginning; the others come.
        let begin = || {
            let options = Similarity::new(rule).seed(5);
            let options = if rule.is_low_rank() {
                options.rank(3)
            } else {
                options
            };
            options.begin::<f64>(3).unwrap()
        };
        let mut learner = begin();
        let mut random = Random::new(1, 1);
        for _ in 0..600 {
            learn(&mut learner, &triplet(&mut random));
        }
        let right = (0..200).filter(|_| {
            let rows = triplet(&mut random);
            let [query, positive, negative] = rows.each_ref().map(SparseVec::as_row);
            let near = learner.score(query, positive).unwrap();
            near > learner.score(query, negative).unwrap()
        });
        let right = right.count();
        assert!(right > 180, "{rule}: {right} of 200");

        // Saved and loaded in the middle, it comes to the same bytes.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let bytes = |learner: &Online<f64>| {
            learner.save(&path).unwrap();
            std::fs::read(&path).unwrap()
        };
        let (mut whole, mut first) = (begin(), begin());
        let mut random = Random::new(1, 2);
        let rows: Vec<_> = (0..40).map(|_| triplet(&mut random)).collect();
        rows.iter().for_each(|rows| learn(&mut whole, rows));
        rows[..20].iter().for_each(|rows| learn(&mut first, rows));
        let half = bytes(&first);
        std::fs::write(&path, half).unwrap();
        let mut second = Model::load(&path).unwrap().into_learner::<f64>().unwrap();
        rows[20..].iter().for_each(|rows| learn(&mut second, rows));
        assert!(bytes(&whole) == bytes(&second), "{rule}");
    }
}

#[test]
fn values_of_pairs_begin_with_nothing() {
    let mut learner = Pairs::default().rank(2).begin::<f64>(6).unwrap();
    // The value is high where both rows are of one class.
    let value = |i: u64, j: u64| f64::from(u8::from(i % 3 == j % 3));
    let mut random = Random::new(4, 1);
    let mut draw = || (random.below(3000) as u64, random.below(3000) as u64);
    let error = |learner: &mut Online<f64>, (i, j): (u64, u64)| {
        let (left, right) = (row(i).1, row(j).1);
        let score = learner.score(left.as_row(), right.as_row()).unwrap();
        (score - value(i, j)).powi(2)
    };
    let mean = |learner: &mut Online<f64>, draw: &mut dyn FnMut() -> (u64, u64)| {
        (0..300).map(|_| error(learner, draw())).sum::<f64>() / 300.0
    };
    let before = mean(&mut learner, &mut draw);
    for _ in 0..2000 {
        let (i, j) = draw();
        let (left, right) = (row(i).1, row(j).1);
        learner
            .learn_rows(left.as_row(), right.as_row(), value(i, j))
            .unwrap();
    }
    let after = mean(&mut learner, &mut draw);
    assert!(after < 0.25 && after < 0.5 * before, "{before} {after}");
}

#[test]
fn a_ranking_begins_with_the_names_of_labels() {
    let options = Ranking::default().rank(2).seed(2);
    let mut learner = options.begin::<f64>(6, ["a", "b"]).unwrap();
    for i in 0..600 {
        let (class, row) = row(i);
        // The third label is new to the model.
        let label = learner.label(["a", "b", "c"][class]).unwrap();
        learner.learn_labels(row.as_row(), &[label]).unwrap();
    }
    let model = learner.into_model();
    assert_eq!(model.card.counters.steps, 600);
    let mut rows = Rows::new();
    (600..800).for_each(|i| rows.push(row(i).1.as_row()));
    let rows = model.prepare(rows, &Features::Numbered).unwrap();
    let scores = model.label_scores(&rows).unwrap();
    let right = (600..800).filter(|&i| {
        let mut of_labels = [0.0; 3];
        scores.of(i as usize - 600, &mut of_labels);
        let right = of_labels[row(i).0];
        of_labels.iter().all(|score| *score <= right)
    });
    let right = right.count();
    assert!(right > 180, "{right} of 200");
}

#[test]
fn what_cannot_begin_is_refused() {
    let error = Similarity::new(Rule::Lego).begin::<f32>(4).unwrap_err();
    assert!(error.message.contains("lego"), "{error}");
    let error = Similarity::default().rank(9).begin::<f32>(4).unwrap_err();
    assert!(error.message.contains("n_features = 4"), "{error}");
}
