//! Laws of merged models of tasks.

use super::*;
use crate::data::TaskRows;
use crate::model::Preprocess;
use crate::options::Options;
use crate::random::normal_at;
use crate::{Multitask, Rows, SparseVec};

const FEATURES: usize = 5;

/// Rows of these tasks, whose weights lie near a plane, on features that are scaled and moved.
fn rows(tasks: std::ops::Range<usize>, count: usize, seed: u64) -> TaskRows {
    let x = |i: usize, j: usize| {
        let scale = 1.0 + (j as f64 + seed as f64) % 3.0;
        0.3 * j as f64 + scale * normal_at(seed, j as u64, i as u64, 0)
    };
    let weight = |t: usize, j: usize| {
        let own = |k: u64| normal_at(7, k, t as u64, 0) * normal_at(8, k, j as u64, 0);
        normal_at(9, 0, j as u64, 0) + own(0) + own(1) + 0.1 * own(2)
    };
    let total = tasks.len() * count;
    let target = |i: usize| {
        let t = tasks.start + i / count;
        let known: f64 = (0..FEATURES).map(|j| weight(t, j) * x(i, j)).sum();
        known + t as f64 + 0.3 * normal_at(seed, 99, i as u64, 0)
    };
    TaskRows {
        names: tasks.clone().map(|t| format!("t{t}")).collect(),
        features: (0..FEATURES).map(|j| format!("f{j}")).collect(),
        task: (0..total).map(|i| (i / count) as u32).collect(),
        rows: Rows::from_dense(
            (0..total).map(|i| (0..FEATURES).map(|j| x(i, j)).collect::<Vec<_>>()),
        )
        .unwrap(),
        targets: (0..total).map(target).collect(),
        table: true,
    }
}

fn fitted(data: &TaskRows, options: &[(&str, &str)]) -> Model {
    let mut task = Multitask::default();
    for (name, value) in options {
        task.set(name, value).unwrap();
    }
    task.fit(data).unwrap()
}

/// A subspace of two directions, without choices.
fn plane(data: &TaskRows, standardize: &str) -> Model {
    let options = [
        ("rank", "2"),
        ("regularization", "2"),
        ("standardize", standardize),
    ];
    fitted(data, &options)
}

fn merged(models: &[&Model], rank: Option<usize>) -> Merged {
    let options = MergeOptions::default().rank(rank);
    let found = Model::merge(models, &options).unwrap();
    follows(&found.model);
    found
}

/// What a model says of a row in a task, by the names of its features.
fn told(model: &Model, task: &str, row: &[f64]) -> f64 {
    let (features, tasks) = model.task_ids().unwrap();
    let place = |name: &str| name[1..].parse::<usize>().unwrap();
    let own: Vec<f64> = features.iter().map(|name| row[place(name)]).collect();
    let row = SparseVec::from_dense(&own);
    let mut predictor = model.task_predictor().unwrap();
    predictor.target(tasks.find(task), row.as_row())
}

/// Every fit of the model follows from its moments, so that `update` goes on from it.
#[track_caller]
fn follows(model: &Model) {
    let (space, card) = model.task_parts().unwrap();
    let (u, weights) = model.task_factors().unwrap();
    // U of a merged model is not orthonormal.
    let (_, dense, _) = svd(&(&u * weights.transpose())).unwrap();
    let singular = model.singular_values().unwrap().unwrap();
    let least = 1e-12 * dense.first().copied().unwrap_or(0.0);
    for (k, s) in singular.iter().enumerate() {
        assert!((s - dense[k]).abs() <= least, "{singular:?} {dense:?}");
    }
    assert!(
        dense[singular.len()..].iter().all(|&s| s <= least),
        "{dense:?}"
    );
    for (t, moments) in space.moments.iter().enumerate() {
        let fit = card.prior.fit(moments);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-8 * (1.0 + b.abs()), "{t}: {a} {b}");
        if moments.variance(moments.mean.len() - 1) > 0.0 {
            near(fit.scale, space.scale[t]);
        }
        near(fit.bias, space.bias[t]);
        (0..weights.ncols()).for_each(|k| near(fit.weights[k], weights[(t, k)]));
    }
}

#[track_caller]
fn agree(found: &Model, want: &Model, tasks: std::ops::Range<usize>, tolerance: f64) {
    for (i, t) in (0..6).flat_map(|i| tasks.clone().map(move |t| (i, format!("t{t}")))) {
        let row: Vec<f64> = (0..FEATURES)
            .map(|j| normal_at(4, i, j as u64, 0))
            .collect();
        let (a, b) = (told(found, &t, &row), told(want, &t, &row));
        assert!((a - b).abs() < tolerance * (1.0 + b.abs()), "{t}: {a} {b}");
    }
}

const WAYS: [&str; 3] = ["global", "task", "none"];

#[test]
fn a_model_merged_with_itself_says_the_same() {
    let data = rows(0..6, 12, 1);
    let subspaces = WAYS.map(|way| plane(&data, way));
    let mixed = fitted(&data, &[("learner", "mixed"), ("standardize", "global")]);
    let plain = [
        ("rank", "2"),
        ("regularization", "2"),
        ("standardize", "none"),
    ];
    let without =
        ["no_bias", "no_common"].map(|no| fitted(&data, &[&plain[..], &[(no, "true")]].concat()));
    for model in subspaces.iter().chain([&mixed]).chain(&without) {
        for count in [1, 2, 3] {
            let found = merged(&vec![model; count], None);
            assert_eq!(found.model.rank(), model.rank());
            assert!(found.lost < 1e-9, "{}", found.lost);
            // Also of a task that it does not know.
            agree(&found.model, model, 0..8, 1e-9);
            let rows = |model: &Model| super::rows(model.task_parts().unwrap().0);
            assert_eq!(rows(&found.model), count as f64 * rows(model));
        }
    }
}

#[test]
fn tasks_of_one_model_alone_keep_their_predictions() {
    let (a, b) = (rows(0..4, 15, 1), rows(4..8, 11, 2));
    for way in [["global"; 2], ["task"; 2], ["none"; 2], ["task", "global"]] {
        let (one, two) = (plane(&a, way[0]), plane(&b, way[1]));
        let both = merged(&[&one, &two], Some(FEATURES));
        assert!(both.lost < 1e-9, "{way:?} {}", both.lost);
        agree(&both.model, &one, 0..4, 1e-8);
        agree(&both.model, &two, 4..8, 1e-8);
        let less = merged(&[&one, &two], None);
        assert_eq!(less.model.rank(), 2);
        assert!(less.lost > 1e-3 && less.lost < 0.5, "{}", less.lost);
        let told = less
            .notes
            .iter()
            .any(|note| note.contains("would keep all"));
        assert_eq!(told, less.lost > NOTED, "{:?}", less.notes);
    }
    let mixed = fitted(&b, &[("learner", "mixed"), ("standardize", "global")]);
    let one = plane(&a, "global");
    let both = merged(&[&mixed, &one], Some(FEATURES));
    agree(&both.model, &one, 0..4, 1e-8);
    agree(&both.model, &mixed, 4..8, 1e-8);
}

#[test]
fn the_order_of_models_and_of_features_does_not_matter() {
    let data = [rows(0..5, 15, 1), rows(3..8, 9, 2), rows(2..4, 20, 3)];
    for way in WAYS {
        let [a, b, c] = [0, 1, 2].map(|i| plane(&data[i], way));
        let want = merged(&[&a, &b, &c], Some(3)).model;
        for order in [[&b, &c, &a], [&c, &b, &a], [&a, &c, &b]] {
            agree(&merged(&order, Some(3)).model, &want, 0..9, 1e-7);
        }
    }
    let mut turned = data[1].clone();
    turned.features = (0..FEATURES).rev().map(|j| format!("f{j}")).collect();
    let row = |i: usize| {
        let mut row = vec![0.0; FEATURES];
        let entries = data[1].rows.row(i);
        entries
            .iter()
            .for_each(|(j, v)| row[FEATURES - 1 - j as usize] = v);
        row
    };
    turned.rows = Rows::from_dense((0..data[1].len()).map(row)).unwrap();
    let one = plane(&data[0], "global");
    let want = merged(&[&one, &plane(&data[1], "global")], None).model;
    let found = merged(&[&one, &plane(&turned, "global")], None).model;
    agree(&found, &want, 0..9, 1e-6);
}

/// A model of one task in a given subspace, with these rows of (Uᵀx, cᵀx, y).
fn known(rows: &[Vec<f64>], prior: TaskPrior, common: f64) -> Model {
    let u = Mat::from_fn(3, 2, |i, j| if i == j { 1.0 } else { 0.0 });
    let mut moments = Moments::new(4);
    rows.iter().for_each(|row| moments.add(row));
    let fit = prior.fit(&moments);
    let weights = Mat::from_fn(1, 2, |_, k| fit.weights[k]);
    let card = MultitaskCard {
        solver: "trust-region".into(),
        task_column: "task".into(),
        target_column: "y".into(),
        ignored_columns: Vec::new(),
        standardize: Standardize::None,
        common_ridge: Some(1.0),
        prior,
    };
    let space = TaskSpace {
        common: Some(vec![0.0, 0.0, common]),
        bias: vec![fit.bias],
        scale: vec![fit.scale],
        moments: vec![moments],
        factors: None,
        usual_factors: None,
    };
    let names = ["f0", "f1", "f2"].into_iter().collect();
    let tasks = ["t0"].into_iter().collect();
    Model::multitask(
        &u,
        &weights,
        (names, tasks),
        Preprocess::default(),
        space,
        card,
    )
    .unwrap()
}

/// Ridge regression by normal equations of all rows, the last column of which is the target.
fn plain(rows: &[(f64, Vec<f64>)], ridges: &[f64]) -> Vec<f64> {
    let d = ridges.len();
    let mut a = Mat::from_fn(d, d, |i, j| if i == j { ridges[i] } else { 0.0 });
    let mut b = Mat::<f64>::zeros(d, 1);
    for (weight, row) in rows {
        for i in 0..d {
            (0..d).for_each(|j| a[(i, j)] += weight * row[i] * row[j]);
            b[(i, 0)] += weight * row[i] * row[d];
        }
    }
    let w = symmetric::power(&a, -1.0).unwrap() * b;
    (0..d).map(|i| w[(i, 0)]).collect()
}

#[test]
fn a_task_of_two_models_is_a_regression_on_all_rows_with_the_ridges_of_both() {
    let (ridge, kappa, common) = (0.8, 1.7, 0.6);
    let prior = TaskPrior {
        ridge,
        bias_ridge: Some(kappa),
        target_mean: 2.0,
        offset: 0.4,
        variance: None,
    };
    let x = |i: usize, j: u64| 1.0 + normal_at(3, j, i as u64, 0);
    let target = |i: usize| 3.0 + x(i, 0) - 0.5 * x(i, 1) + common * x(i, 2) + 0.3 * x(i, 3);
    let seen = |i: usize| vec![x(i, 0), x(i, 1), common * x(i, 2), target(i)];
    let part = |range: std::ops::Range<usize>| {
        let rows: Vec<Vec<f64>> = range.map(seen).collect();
        known(&rows, prior, common)
    };
    let (one, two) = (part(0..4), part(4..13));
    for given in [[1.0, 1.0], [3.0, 0.5]] {
        let options = MergeOptions::default()
            .weights(Some(given.to_vec()))
            .rank(Some(1));
        let found = Model::merge(&[&one, &two], &options).unwrap().model;
        follows(&found);
        let row = |i: usize| {
            let target = target(i) - 2.0 - 0.4 - common * x(i, 2);
            (
                given[usize::from(i >= 4)],
                vec![x(i, 0), x(i, 1), 1.0, target],
            )
        };
        let all = given[0] + given[1];
        let rows: Vec<(f64, Vec<f64>)> = (0..13).map(row).collect();
        let want = plain(&rows, &[all * ridge, all * ridge, all * kappa]);
        let row = [0.7, -1.1, 0.9];
        let want = 2.4 + common * row[2] + want[0] * row[0] + want[1] * row[1] + want[2];
        let told = told(&found, "t0", &row);
        assert!((told - want).abs() < 1e-10, "{told} {want}");
        let moments = &found.task_parts().unwrap().0.moments[0];
        assert_eq!(moments.count, 13.0);
        let mean = (0..13).map(target).sum::<f64>() / 13.0;
        assert!((moments.mean[moments.mean.len() - 1] - mean).abs() < 1e-12);
    }
}

#[test]
fn weights_of_unlike_subspaces_do_not_add_up() {
    // A half without a common part explains all by its own two directions.
    let halves = [rows(0..6, 12, 1), rows(0..6, 12, 2)];
    let error = |model: &Model| {
        let squares = halves.iter().flat_map(|half| {
            (0..half.len()).map(move |i| {
                let mut row = vec![0.0; FEATURES];
                let entries = half.rows.row(i);
                entries.iter().for_each(|(j, v)| row[j as usize] = v);
                let task = half.names.get(half.task[i]);
                (told(model, task, &row) - half.targets[i]).powi(2)
            })
        });
        squares.sum::<f64>()
    };
    for way in WAYS {
        let plain = [
            ("rank", "2"),
            ("regularization", "0.1"),
            ("standardize", way),
        ];
        let options = [&plain[..], &[("no_common", "true")]].concat();
        let [one, two] = [0, 1].map(|i| fitted(&halves[i], &options));
        let both = merged(&[&one, &two], Some(4)).model;
        let worst = error(&one).max(error(&two));
        assert!(error(&both) < worst, "{way}: {} {worst}", error(&both));
    }
}

#[test]
fn an_unknown_task_is_the_mean_by_rows() {
    let (a, b) = (rows(0..4, 15, 1), rows(4..6, 10, 2));
    for way in ["global", "none"] {
        let (one, two) = (plane(&a, way), plane(&b, way));
        let both = merged(&[&one, &two], None).model;
        for i in 0..4 {
            let row: Vec<f64> = (0..FEATURES)
                .map(|j| normal_at(6, i, j as u64, 0))
                .collect();
            let [found, x, y] = [&both, &one, &two].map(|m| told(m, "new", &row));
            let want = 0.75 * x + 0.25 * y;
            assert!(
                (found - want).abs() < 1e-9 * (1.0 + want.abs()),
                "{found} {want}"
            );
        }
    }
}

#[test]
fn a_merged_model_is_saved_learns_on_and_is_merged_again() {
    let (a, b) = (rows(0..5, 15, 1), rows(3..8, 9, 2));
    for way in WAYS {
        let (one, two) = (plane(&a, way), plane(&b, way));
        let both = merged(&[&one, &two], Some(3)).model;
        let bytes = both.to_bytes().unwrap();
        assert_eq!(Model::from_bytes(&bytes).unwrap(), both);
        let mut learner = both.clone().into_task_learner().unwrap();
        let more = rows(4..9, 30, 5);
        let mut errors = [0.0; 2];
        for i in 0..more.len() {
            let name = more.names.get(more.task[i]);
            let before = learner
                .learn(name, more.rows.row(i), more.targets[i])
                .unwrap();
            errors[usize::from(i % 30 >= 15)] += (before - more.targets[i]).powi(2);
        }
        assert!(errors[1] < 0.5 * errors[0], "{errors:?}");
        let later = learner.to_model().unwrap();
        assert_eq!(later.card.counters.refused, 0);
        let again = merged(&[&later, &one, &both], None).model;
        assert_eq!((again.rank(), again.task_ids().unwrap().1.len()), (3, 9));
    }
}

#[test]
fn ranks_are_those_of_the_largest_or_as_asked() {
    let (a, b) = (rows(0..5, 15, 1), rows(2..8, 9, 2));
    let one = plane(&a, "global");
    let options = [
        ("rank", "3"),
        ("regularization", "2"),
        ("standardize", "global"),
    ];
    let two = fitted(&b, &options);
    assert_eq!(merged(&[&one, &two], None).model.rank(), 3);
    let lost = |rank: usize| {
        let found = merged(&[&one, &two], Some(rank));
        assert_eq!(found.model.rank(), rank);
        found.lost
    };
    let lost: Vec<f64> = (1..=5).map(lost).collect();
    assert!(lost.windows(2).all(|two| two[1] < two[0]), "{lost:?}");
    assert!(lost[4] < 1e-9, "{lost:?}");
    let refused = |rank: usize| {
        let options = MergeOptions::default().rank(Some(rank));
        Model::merge(&[&one, &two], &options)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(6).contains("expected 1 to 5"), "{}", refused(6));
    assert!(refused(0).contains("expected 1 to 5"), "{}", refused(0));
    let found = merged(&[&one, &one], Some(4));
    assert_eq!(found.model.rank(), 2);
    assert!(
        found.notes[0].contains("dimension 2 only, not 4"),
        "{:?}",
        found.notes
    );
}

#[test]
fn models_that_say_different_kinds_of_things_are_refused() {
    let (a, b) = (rows(0..5, 15, 1), rows(2..8, 9, 2));
    let usual = |data| plane(data, "global");
    let unbiased = |data| {
        let options = [
            ("rank", "2"),
            ("regularization", "2"),
            ("standardize", "global"),
        ];
        fitted(data, &[&options[..], &[("no_bias", "true")]].concat())
    };
    let refused = |one: &Model, two: &Model| {
        let error = Model::merge(&[one, two], &MergeOptions::default()).unwrap_err();
        error.to_string()
    };
    let found = refused(&usual(&a), &unbiased(&b));
    assert!(found.contains("learns a bias for each task"), "{found}");
    let found = refused(&unbiased(&a), &unbiased(&b));
    assert!(
        found.contains("center features at different means"),
        "{found}"
    );
    let found = refused(&usual(&a), &plane(&b, "none"));
    assert!(found.contains("--standardize none"), "{found}");
    let mut other = b.clone();
    other.features = (0..FEATURES).map(|j| format!("g{j}")).collect();
    let found = refused(&usual(&a), &usual(&other));
    assert!(found.contains("expected the same columns"), "{found}");
}
