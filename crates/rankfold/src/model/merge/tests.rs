//! Laws of merging: what must stay, whatever the models are.

use super::*;
use crate::data::Features;
use crate::model::RatingFactors;
use crate::random::normal_at;
use crate::{Ids, SparseVec};

fn values(n: usize, stream: u64) -> Vec<f64> {
    (0..n as u64).map(|i| normal_at(5, stream, i, 0)).collect()
}

fn ids(names: impl IntoIterator<Item = usize>, letter: char) -> Ids {
    names.into_iter().map(|i| format!("{letter}{i}")).collect()
}

/// A model of ratings of these users and items. Rows follow from names, so that models agree
/// where names do, up to a rotation of the factors that is their own.
fn rated(users: &[usize], items: &[usize], rank: usize, own: u64) -> Model {
    let turn = crate::linalg::qf(&Mat::from_fn(rank, rank, |i, j| {
        normal_at(own, 9, i as u64, j as u64)
    }))
    .unwrap();
    let factor = |names: &[usize], stream: u64| {
        let plain = Mat::from_fn(names.len(), rank, |i, j| {
            normal_at(1, stream, names[i] as u64, j as u64)
        });
        let turned = plain * &turn;
        let entries = (0..names.len() * rank).map(|i| turned[(i / rank, i % rank)]);
        entries.collect::<Vec<f64>>()
    };
    let bias = |names: &[usize], stream| -> Vec<f64> {
        let of = |&i: &usize| normal_at(2, stream, i as u64, 0);
        names.iter().map(of).collect()
    };
    Model::from_rating_factors::<f64>(RatingFactors {
        ids: (ids(users.to_vec(), 'u'), ids(items.to_vec(), 'i')),
        factors: [factor(users, 1), factor(items, 2)],
        rank,
        mean: 3.0,
        bias: Some([bias(users, 1), bias(items, 2)]),
        scale: None,
    })
    .unwrap()
}

fn rating(model: &Model, user: usize, item: usize) -> f64 {
    let (users, items) = model.rating_ids().unwrap();
    let user = users.find(&format!("u{user}")).expect("a user");
    let item = items.find(&format!("i{item}")).expect("an item");
    model
        .rating_predictor()
        .unwrap()
        .raw(Some(user), Some(item))
}

fn merge(models: &[&Model]) -> Merged {
    Model::merge(models, &MergeOptions::default()).unwrap()
}

fn range(from: usize, to: usize) -> Vec<usize> {
    (from..to).collect()
}

#[test]
fn a_model_merged_with_itself_is_the_same_model() {
    for rank in [1, 3, 7] {
        let model = rated(&range(0, 9), &range(0, 7), rank, 1);
        for models in [vec![&model; 2], vec![&model; 3]] {
            let merged = merge(&models);
            assert_eq!(merged.model.rank(), rank);
            assert!(merged.lost < 1e-12);
            for (u, i) in (0..9).flat_map(|u| (0..7).map(move |i| (u, i))) {
                let (found, want) = (rating(&merged.model, u, i), rating(&model, u, i));
                assert!((found - want).abs() < 1e-9, "rank {rank}: {found} {want}");
            }
        }
    }
}

#[test]
fn the_order_of_models_and_of_ids_does_not_matter() {
    for rank in [1, 3] {
        let a = rated(&range(0, 12), &range(0, 8), rank, 1);
        // Another model of some of them, with other numbers.
        let mut b = rated(&range(4, 15), &range(2, 11), rank, 2);
        let Knowledge::Completion(known) = &mut b.knowledge else {
            unreachable!("a model of ratings");
        };
        known.card.mean += 0.5;
        known.biases.count[0].iter_mut().for_each(|n| *n *= 3);
        let backwards: Vec<usize> = (0..12).rev().collect();
        let permuted = rated(&backwards, &range(0, 8), rank, 7);
        let [one, two, three] = [
            merge(&[&a, &b]).model,
            merge(&[&b, &a]).model,
            merge(&[&permuted, &b]).model,
        ];
        for (u, i) in (0..15).flat_map(|u| (0..11).map(move |i| (u, i))) {
            let found = [&one, &two, &three].map(|model| rating(model, u, i));
            assert!((found[0] - found[1]).abs() < 1e-9, "{u} {i}: {found:?}");
            assert!((found[0] - found[2]).abs() < 1e-9, "{u} {i}: {found:?}");
        }
    }
}

#[test]
fn parts_of_one_matrix_make_the_whole_of_it() {
    // Users of two halves, items of overlapping parts: rows that no model has together meet again.
    // Each part balances its factors by its own rows, so that means differ a little.
    let whole = rated(&range(0, 400), &range(0, 90), 3, 1);
    let parts = [
        rated(&range(0, 200), &range(0, 90), 3, 2),
        rated(&range(200, 400), &range(0, 60), 3, 3),
        rated(&range(200, 400), &range(30, 90), 3, 4),
    ];
    let merged = merge(&[&parts[0], &parts[1], &parts[2]]);
    let (found, want) = (
        merged.model.rating_predictor().unwrap(),
        whole.rating_predictor().unwrap(),
    );
    let (mut off, mut all) = (0.0, 0.0);
    for (u, i) in (0..400).flat_map(|u| (0..90).map(move |i| (u, i))) {
        let [found, want] = [&found, &want].map(|p| p.raw(Some(u), Some(i)));
        off += (found - want).powi(2);
        all += (want - 3.0).powi(2);
    }
    assert!((off / all).sqrt() < 0.1, "{}", (off / all).sqrt());
    assert!(merged.notes.is_empty(), "{:?}", merged.notes);
}

#[test]
fn what_only_one_model_knows_stays_as_it_was() {
    let a = rated(&range(0, 10), &range(0, 8), 3, 1);
    let b = rated(&range(8, 16), &range(6, 13), 3, 2);
    let merged = merge(&[&a, &b]).model;
    for (u, i) in (0..8).flat_map(|u| (0..6).map(move |i| (u, i))) {
        assert!((rating(&merged, u, i) - rating(&a, u, i)).abs() < 1e-9);
    }
    for (u, i) in (10..16).flat_map(|u| (8..13).map(move |i| (u, i))) {
        assert!((rating(&merged, u, i) - rating(&b, u, i)).abs() < 1e-9);
    }
    let Knowledge::Completion(known) = &merged.knowledge else {
        unreachable!("a model of ratings");
    };
    assert_eq!(known.biases.count[0][0], 8);
    assert_eq!(known.biases.count[0][9], 8 + 7);
}

#[test]
fn models_without_a_common_id_stand_side_by_side() {
    let a = rated(&range(0, 6), &range(0, 5), 2, 1);
    let b = rated(&range(6, 12), &range(5, 10), 3, 2);
    let merged = merge(&[&a, &b]);
    assert_eq!(merged.model.rank(), 5);
    assert!(merged.notes[0].contains("2 groups"), "{:?}", merged.notes);
    for (u, i) in (0..6).flat_map(|u| (0..5).map(move |i| (u, i))) {
        assert!((rating(&merged.model, u, i) - rating(&a, u, i)).abs() < 1e-9);
    }
    let bias = |i: usize, stream| normal_at(2, stream, i as u64, 0);
    let alone = 3.0 + bias(1, 1) + bias(7, 2);
    assert!((rating(&merged.model, 1, 7) - alone).abs() < 1e-9);
    let cut = MergeOptions::default().rank(Some(2));
    let cut = Model::merge(&[&a, &b], &cut).unwrap();
    assert_eq!(cut.model.rank(), 2);
    assert!(cut.lost > 0.1);
}

#[test]
fn ranks_may_differ_and_may_be_asked_for() {
    let a = rated(&range(0, 9), &range(0, 8), 2, 1);
    let b = rated(&range(0, 9), &range(0, 8), 4, 2);
    assert_eq!(merge(&[&a, &b]).model.rank(), 2);
    assert_eq!(merge(&[&b, &a]).model.rank(), 4);
    for rank in [1, 3, 8] {
        let options = MergeOptions::default().rank(Some(rank));
        let merged = Model::merge(&[&a, &b], &options).unwrap();
        assert_eq!(merged.model.rank(), rank);
        assert_eq!(
            Model::from_bytes(&merged.model.to_bytes().unwrap()).unwrap(),
            merged.model
        );
    }
    for rank in [0, 9] {
        let options = MergeOptions::default().rank(Some(rank));
        let error = Model::merge(&[&a, &b], &options).unwrap_err();
        assert!(error.to_string().contains("expected 1 to 8"), "{error}");
    }
}

fn metric(factor: &[f64], rank: usize) -> Model {
    Model::from_metric_factor::<f64>(factor, rank, None).unwrap()
}

fn score(model: &Model, a: &[f64], b: &[f64]) -> f64 {
    let form = model.form.as_precision::<f64>().unwrap();
    let sparse = |v: &[f64]| SparseVec::from_dense(v);
    form.view().score(sparse(a).as_row(), sparse(b).as_row())
}

#[test]
fn metrics_of_other_scales_agree_on_raw_rows() {
    let factor = values(12, 3);
    let mut one = metric(&factor, 2);
    // The same metric, for rows that are multiplied by 2 first.
    let half: Vec<f64> = factor.iter().map(|v| 0.5 * v).collect();
    let mut two = metric(&half, 2);
    for (model, scale) in [(&mut one, 1.0), (&mut two, 2.0)] {
        model.preprocess.steps.standardize = true;
        model.preprocess.mean = Some(vec![0.0; 6]);
        model.preprocess.scale = Some(vec![scale; 6]);
    }
    let merged = merge(&[&one, &two]).model;
    let scale = merged.preprocess.scale.as_ref().unwrap()[0];
    let (x, y) = (values(6, 4), values(6, 5));
    let scaled = |v: &[f64]| v.iter().map(|v| scale * v).collect::<Vec<f64>>();
    let (found, want) = (
        score(&merged, &scaled(&x), &scaled(&y)),
        score(&one, &x, &y),
    );
    assert!((found - want).abs() < 1e-9, "{found} {want}");
    // Of two variances the mean: 1 and a quarter.
    assert!((scale - (1.0_f64 / 0.625).sqrt()).abs() < 1e-12);
}

#[test]
fn weights_say_how_much_a_model_counts() {
    let (one, two) = (metric(&[1.0, 0.0], 1), metric(&[3.0, 0.0], 1));
    let options = MergeOptions::default().weights(Some(vec![3.0, 1.0]));
    let merged = Model::merge(&[&one, &two], &options).unwrap().model;
    assert!((score(&merged, &[1.0, 0.0], &[1.0, 0.0]) - 2.25).abs() < 1e-12);
    for weights in [vec![1.0], vec![1.0, 0.0], vec![1.0, f64::NAN]] {
        let options = MergeOptions::default().weights(Some(weights));
        assert!(Model::merge(&[&one, &two], &options).is_err());
    }
}

#[test]
fn features_that_differ_in_kind_are_refused_in_words() {
    let (one, mut two) = (metric(&[1.0, 0.0], 1), metric(&[3.0, 0.0], 1));
    two.features = Features::columns(["a", "b"]).unwrap();
    let error = Model::merge(&[&one, &two], &MergeOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("expected the same kind"),
        "{error}"
    );
    let mut three = one.clone();
    three.features = Features::columns(["b", "c"]).unwrap();
    let error = Model::merge(&[&two, &three], &MergeOptions::default()).unwrap_err();
    assert!(error.to_string().contains("the column `c`"), "{error}");
    let rated = rated(&[1, 2], &[1, 2], 1, 1);
    let error = Model::merge(&[&one, &rated], &MergeOptions::default()).unwrap_err();
    assert!(error.to_string().contains("expected one task"), "{error}");
    assert!(Model::merge(&[], &MergeOptions::default()).is_err());
}

/// A kernel, or a map, of these items. Points follow from names, up to a turn that is the
/// model's own; maps are shifted as well.
fn placed(items: &[usize], rank: usize, own: u64, map: bool) -> Model {
    let turn = crate::linalg::qf(&Mat::from_fn(rank, rank, |i, j| {
        normal_at(own, 9, i as u64, j as u64)
    }))
    .unwrap();
    let points = Mat::from_fn(items.len(), rank, |i, j| {
        normal_at(1, 4, items[i] as u64, j as u64)
    });
    let points = points * turn;
    let shift = |j: usize| if map { own as f64 + j as f64 } else { 0.0 };
    let entry = |i: usize, j: usize| points[(i, j)] + shift(j);
    let tall = Tall::<f64>::from_fn(items.len(), rank, entry).unwrap();
    let form = Form::Psd(crate::form::Psd::new(tall));
    let names = Features::Named(ids(items.to_vec(), 'p'));
    let mut model = Model::new("flat", form, names);
    model.card.score = crate::model::Score::Distance;
    let card = crate::model::KernelCard {
        map,
        function: None,
        preprocess: Default::default(),
        alpha: 0.0,
        drawn: None,
        constraints: 0,
        violated: 0,
        cost: 0.0,
    };
    model.knowledge = match map {
        false => Knowledge::Kernel(card),
        true => {
            let pairs = (0..items.len()).flat_map(|i| (0..i).map(move |j| (j, i)));
            let distance = |(i, j): (usize, usize)| crate::data::Dissimilarity {
                left: i as u32,
                right: j as u32,
                value: far((items[i], items[j]), rank),
            };
            let mut list: Vec<_> = pairs.map(distance).collect();
            list.sort_by_key(|d| (d.left, d.right));
            Knowledge::Map(crate::model::Mapped {
                card,
                dissimilarities: crate::model::Dissimilarities { list },
            })
        }
    };
    model
}

/// How far two of these points are.
fn far((a, b): (usize, usize), rank: usize) -> f64 {
    let coordinate = |i: usize, j: usize| normal_at(1, 4, i as u64, j as u64);
    let squares = (0..rank).map(|j| (coordinate(a, j) - coordinate(b, j)).powi(2));
    squares.sum::<f64>().sqrt()
}

/// The distance of two items in a model.
fn found(model: &Model, (a, b): (usize, usize)) -> f64 {
    let names = model.items().unwrap();
    let [a, b] = [a, b].map(|i| names.find(&format!("p{i}")).expect("an item") as usize);
    let points = model.item_coordinates::<f64>().unwrap();
    let squares = points.row(a).iter().zip(points.row(b));
    squares.map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn kernels_and_maps_of_parts_become_one_of_all_items() {
    for map in [false, true] {
        for rank in [1, 2, 3] {
            let one = placed(&range(0, 8), rank, 1, map);
            let two = placed(&range(4, 13), rank, 2, map);
            let three = placed(&range(9, 15), rank, 3, map);
            let same = merge(&[&one, &one]).model;
            for pair in (0..8).flat_map(|i| (0..i).map(move |j| (i, j))) {
                let (got, want) = (found(&same, pair), found(&one, pair));
                assert!((got - want).abs() < 1e-9, "{map} {rank}: {got} {want}");
            }
            let all = merge(&[&one, &three, &two]).model;
            assert_eq!((all.columns(), all.rank()), (15, rank));
            for pair in (0..15).flat_map(|i| (0..i).map(move |j| (i, j))) {
                let (got, want) = (found(&all, pair), far(pair, rank));
                // Rotations are held a little, by 1e-9, to those of the gauge.
                assert!((got - want).abs() < 1e-7, "{map} {rank}: {got} {want}");
            }
            // It is a whole model: it can be written and read.
            let again = Model::from_bytes(&all.to_bytes().unwrap()).unwrap();
            assert_eq!(again, all);
        }
    }
    let one = placed(&range(0, 8), 2, 1, true);
    let merged = merge(&[&one, &placed(&range(4, 13), 2, 2, true)]).model;
    let Knowledge::Map(known) = &merged.knowledge else {
        panic!("a map");
    };
    // 28 and 36 pairs, 6 of which both know.
    assert_eq!(known.dissimilarities.list.len(), 58);
    assert!(known.card.cost < 1e-14, "{}", known.card.cost);
}

#[test]
fn maps_that_cannot_be_laid_over_each_other_are_refused() {
    let one = placed(&range(0, 8), 2, 1, true);
    let refused = |other: &Model, options: &MergeOptions| {
        let error = Model::merge(&[&one, other], options).unwrap_err();
        error.to_string()
    };
    let usual = MergeOptions::default();
    assert_eq!(
        refused(&placed(&range(6, 12), 2, 2, true), &usual),
        "a map has 2 items in common with the others: expected more than its 2 coordinates, to \
         lay them over each other"
    );
    assert_eq!(
        refused(&placed(&range(2, 9), 3, 2, true), &usual),
        "one map has 2 coordinates, another 3: expected the same"
    );
    assert_eq!(
        refused(&placed(&range(2, 9), 2, 2, false), &usual),
        "a kernel cannot be merged with a map: expected models of one kind"
    );
    assert_eq!(
        refused(&one, &usual.clone().rank(Some(1))),
        "option `rank` is 1: maps keep their 2 coordinates"
    );
}

#[test]
fn values_of_pairs_of_two_parts_give_the_matrix_behind_both() {
    use crate::data::{Labelled, ValuedPair};
    use crate::task::PairsSolver;
    use crate::{Pairs, Rows};
    let cell = |i: u32, j: u64| normal_at(3, 1, u64::from(i), j);
    let rows = (0..40).map(|i| (0..5).map(|j| cell(i, j)).collect::<Vec<f64>>());
    let rows = Labelled::new(Rows::from_dense(rows).unwrap());
    // value = leftᵀ W right with W of rank 2.
    let side = |i: u32, stream: u64, c: u64| -> f64 {
        (0..5)
            .map(|j| cell(i, j) * normal_at(7, stream, j, c))
            .sum()
    };
    let value = |l: u32, r: u32| (0..2).map(|c| side(l, 2, c) * side(r, 3, c)).sum();
    let pairs = |from: u32, to: u32| -> Vec<ValuedPair> {
        let all = (from..to).flat_map(|left| (from..to).map(move |right| (left, right)));
        let pair = |(left, right)| ValuedPair {
            left,
            right,
            value: value(left, right),
        };
        all.map(pair).collect()
    };
    let task = Pairs::default().rank(2).solver(PairsSolver::TrustRegion);
    let task = task.step_size(1e-3);
    let [one, two] =
        [(0, 20), (20, 40)].map(|(from, to)| task.fit(&rows, &pairs(from, to)).unwrap());
    let errors = |model: &Model| {
        let all = pairs(0, 40);
        model
            .evaluate_pairs(&rows, None, &all, None)
            .unwrap()
            .metrics["rmse"]
    };
    let (same, both) = (merge(&[&one, &one]).model, merge(&[&one, &two]).model);
    assert!((errors(&same) - errors(&one)).abs() < 1e-9);
    let worst = errors(&one).max(errors(&two));
    assert!(errors(&both) <= worst + 1e-9, "{} {worst}", errors(&both));
    let (Knowledge::Pairs { target_mean: a }, Knowledge::Pairs { target_mean: b }) =
        (&one.knowledge, &two.knowledge)
    else {
        panic!("models of pairs");
    };
    let Knowledge::Pairs { target_mean } = both.knowledge else {
        panic!("a model of pairs");
    };
    let between = a.min(*b) - 1e-12..=a.max(*b) + 1e-12;
    assert!(between.contains(&target_mean), "{target_mean} {between:?}");
}
