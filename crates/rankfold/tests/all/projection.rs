//! Rows in the learned space: coordinates, scores and neighbors tell the same
//! story.

use rankfold::data::{Labelled, read_labelled};
use rankfold::form::Side;
use rankfold::online::Rule;
use rankfold::{Model, Real, Score, Similarity};
use std::path::Path;

fn fitted<R: Real>(learner: Similarity) -> (Labelled<R>, Model) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/kept.svm");
    let data = read_labelled::<R>(path).unwrap();
    let model = learner.rank(3).steps(400).step_size(0.5).fit(&data);
    (data, model.unwrap())
}

fn tells_one_story<R: Real>(learner: Similarity) {
    let (data, mut model) = fitted::<R>(learner);
    let rows = data.rows.len();
    let prepared = model.prepare(data.rows.clone(), &data.features).unwrap();
    let left = model.embed(&prepared, Side::Left).unwrap();
    let right = model.embed(&prepared, Side::Right).unwrap();
    assert_eq!((left.len(), left.rank, right.len()), (rows, 3, rows));

    for score in [Score::Dot, Score::Cosine] {
        model.card.score = score;
        let projection = model.project(&prepared, Some(score)).unwrap();
        for query in [0, rows / 2, rows - 1] {
            let found = model.neighbors(&data, query, rows).unwrap();
            assert_eq!(found.len(), rows - 1);
            assert!(found.iter().all(|&(row, _)| row != query));
            let in_order = |a: &(usize, f64), b: &(usize, f64)| (b.1, a.0) < (a.1, b.0);
            assert!(found.is_sorted_by(in_order));
            for &(row, value) in found.iter().take(5) {
                assert_eq!(projection.score(query, row), value);
                assert_eq!(model.score(&data, query, row), Ok(value));
                if score == Score::Dot {
                    let pair = left.row(query).iter().zip(right.row(row));
                    let sum = pair.fold(0.0, |sum, (a, b)| sum + a.to_f64() * b.to_f64());
                    assert_eq!(sum, value);
                }
            }
            assert_eq!(model.neighbors(&data, query, 2).unwrap(), found[..2]);
        }
    }
}

#[test]
fn coordinates_scores_and_neighbors_agree() {
    tells_one_story::<f32>(Similarity::default());
    tells_one_story::<f64>(Similarity::default());
    tells_one_story::<f32>(Similarity::new(Rule::Loreta));
    tells_one_story::<f64>(Similarity::new(Rule::Loreta));
    tells_one_story::<f32>(Similarity::new(Rule::PolarPsd));
    tells_one_story::<f64>(Similarity::new(Rule::PolarPsd));
}

#[test]
fn rows_of_another_precision_or_task_are_refused() {
    let (_, mut model) = fitted::<f32>(Similarity::default());
    let (data, _) = fitted::<f64>(Similarity::default());
    let error = model.neighbors(&data, 0, 1).unwrap_err();
    assert_eq!(error.message, "the model holds f32 factors, expected f64");
    model.knowledge = rankfold::model::Knowledge::Ranking(rankfold::model::Ranked {
        rule: rankfold::model::RankingRule {
            sampler: rankfold::model::Sampler::Top,
            gradient: rankfold::model::Subgradient::Single,
            bias: 0.0,
        },
        prior: Default::default(),
    });
    let error = model.neighbors(&data, 0, 1).unwrap_err();
    let want = "a model for ranking does not score pairs of rows";
    assert_eq!(error.message, want);
}

#[test]
fn coordinates_out_of_range_are_an_error() {
    let (mut data, model) =
        fitted::<f32>(Similarity::default().init(rankfold::task::Init::Gaussian));
    let largest: Vec<(u32, f32)> = (0..20).map(|j| (j, f32::MAX)).collect();
    let wild = rankfold::SparseVec::from_entries(largest);
    data.rows.push(wild.as_row());
    let prepared = model.prepare(data.rows, &data.features).unwrap();
    let error = model.embed(&prepared, Side::Left).unwrap_err();
    let want = format!(
        "row {} has coordinates beyond the range of f32",
        prepared.rows.len() - 1
    );
    assert_eq!(error.message, want);
}
