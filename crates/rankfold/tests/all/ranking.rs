//! Ranking labels: reference cases, the loss against finite differences, WARP, and
//! runs that stop, go on and grow.

use crate::common::*;
use crate::golden::Golden;
use rankfold::data::{
    self, Features, LabelName, LabelStream, Labelled, Lines, Names, read_labelled,
};
use rankfold::form::{Factored, Full, Side, Tall};
use rankfold::model::{Normalize, Prior, RankingRule, Sampler, Subgradient};
use rankfold::online::{GroupPerceptron, Learner, Loreta, Outcome, Perceptron, RankOne, Rule};
use rankfold::random::{Random, normal_at};
use rankfold::task::{
    Checkpoint, Event, Init, Online, Order, RankingSession, Run, Trial, WARP_TRIALS, draws,
    multilabel_hinge, warp,
};
use rankfold::{Ids, Loss, Model, Ranking, SparseVec};

/// Scores of a dense row with all columns of W.
fn scores(w: &[Vec<f64>], x: &[f64]) -> Vec<f64> {
    let columns = w[0].len();
    let score = |j: usize| w.iter().zip(x).map(|(row, x)| row[j] * x).sum();
    (0..columns).map(score).collect()
}

fn transposed(w: Vec<Vec<f64>>) -> Vec<f64> {
    let columns = w[0].len();
    (0..columns)
        .flat_map(|j| w.iter().map(move |row| row[j]).collect::<Vec<_>>())
        .collect()
}

/// One step of the summed gradient on a dense row; gives the loss.
fn step(
    learner: &mut impl Learner<f64>,
    w: Vec<Vec<f64>>,
    x: &[f64],
    positives: &[u32],
    size: f64,
) -> f64 {
    let mut direction = SparseVec::new();
    let loss = multilabel_hinge(
        &scores(&w, x),
        positives,
        Subgradient::Summed,
        &mut direction,
    );
    if loss > 0.0 {
        let x = SparseVec::from_dense(x);
        let example = RankOne {
            left: x.as_row(),
            right: direction.as_row(),
        };
        let target = loss + learner.score(example);
        let learned = learner.learn(example, target, Loss::Margin, paper(size));
        assert_eq!(learned.outcome, Outcome::Moved);
        assert!((learned.loss - loss).abs() < 1e-12);
    }
    loss
}

#[test]
fn golden_multilabel() {
    let case = Golden::read("multilabel");
    let rows = case.matrix("/inputs/x");
    let positives: Vec<Vec<u32>> = case
        .matrix("/inputs/positives")
        .into_iter()
        .map(|labels| {
            let mut labels: Vec<u32> = labels.into_iter().map(|y| y as u32).collect();
            labels.sort_unstable();
            labels
        })
        .collect();
    let examples = || rows.iter().zip(&positives);
    let (features, labels) = (rows[0].len(), case.number("/params/labels") as usize);
    let same = |name: &str, got: Vec<Vec<f64>>| {
        let want = case.matrix(&format!("/outputs/{name}")).concat();
        case.same(name, &transposed(got), &want);
    };
    let eta = case.number("/params/eta");
    let zero = || Full::<f64>::diagonal(features, labels, 0.0).unwrap();

    let mut learner = Perceptron::new(zero());
    let losses: Vec<f64> = examples()
        .map(|(x, y)| {
            let w = learner.form().to_dense();
            step(&mut learner, w, x, y, eta)
        })
        .collect();
    case.same(
        "losses",
        &losses,
        &case.vector("/outputs/losses_perceptron"),
    );
    same("W_perceptron", learner.form().to_dense());

    let exponent = case.number("/params/s_dual");
    let mut learner = GroupPerceptron::new(zero(), Some(exponent));
    for (x, y) in examples() {
        let w = learner.form().to_dense();
        step(&mut learner, w, x, y, eta);
    }
    same("W_group", learner.form().to_dense());
    let theta = (0..features).map(|i| learner.form().row(i).to_vec());
    same("Theta_group", theta.collect());

    let tall = |name: &str| {
        let m = case.matrix(&format!("/inputs/{name}"));
        Tall::<f64>::from_fn(m.len(), m[0].len(), |i, j| m[i][j]).unwrap()
    };
    let mut learner = Loreta::new(Factored::new(tall("B0"), tall("A0")));
    for (x, y) in examples() {
        let w = learner.form().to_dense();
        step(&mut learner, w, x, y, case.number("/params/eta_loreta"));
    }
    same("W_loreta", learner.form().to_dense());
}

#[test]
fn the_summed_direction_is_minus_the_gradient_of_the_loss() {
    let (features, labels) = (5, 7);
    for seed in 0..40 {
        let value = |i: usize| (((i + 3) * (seed + 2)) as f64).sin();
        let x: Vec<f64> = (0..features).map(|i| value(i + 100)).collect();
        let w: Vec<Vec<f64>> = (0..features)
            .map(|i| (0..labels).map(|j| value(i * labels + j)).collect())
            .collect();
        let positives: Vec<u32> = (0..labels as u32)
            .filter(|y| (*y as usize + seed).is_multiple_of(3))
            .collect();
        let mut direction = SparseVec::<f64>::new();
        let loss = |w: &[Vec<f64>]| {
            let mut unused = SparseVec::<f64>::new();
            multilabel_hinge(&scores(w, &x), &positives, Subgradient::Summed, &mut unused)
        };
        let found = multilabel_hinge(
            &scores(&w, &x),
            &positives,
            Subgradient::Summed,
            &mut direction,
        );
        assert_eq!(found, loss(&w));
        let mut dense = vec![0.0; labels];
        for (y, v) in direction.as_row().iter() {
            dense[y as usize] = v;
        }
        for i in 0..features {
            for j in 0..labels {
                let h = 1e-6;
                let moved = |by: f64| {
                    let mut w = w.clone();
                    w[i][j] += by;
                    loss(&w)
                };
                let slope = (moved(h) - moved(-h)) / (2.0 * h);
                let off = (slope + x[i] * dense[j]).abs();
                assert!(off < 1e-7, "seed {seed}: {slope} at {i}, {j}");
            }
        }
        // A single wrong label weighs once, right ones as before.
        let mut single = SparseVec::<f64>::new();
        multilabel_hinge(
            &scores(&w, &x),
            &positives,
            Subgradient::Single,
            &mut single,
        );
        let weights = |v: &SparseVec<f64>| v.as_row().values.to_vec();
        let clipped: Vec<f64> = weights(&direction).iter().map(|v| v.max(-1.0)).collect();
        assert_eq!(weights(&single), clipped);
    }
}

#[test]
fn ties_go_to_the_first_label_and_all_positive_rows_teach_nothing() {
    let mut direction = SparseVec::<f32>::new();
    let mut hinge = |scores: &[f64], positives: &[u32]| {
        let loss = multilabel_hinge(scores, positives, Subgradient::Summed, &mut direction);
        (loss, direction.as_row().indices.to_vec())
    };
    assert_eq!(hinge(&[0.0; 5], &[0, 2]), (2.0, vec![0, 1, 2]));
    assert_eq!(hinge(&[0.0, 0.0, 0.0, 0.0], &[1]), (1.0, vec![0, 1]));
    assert_eq!(hinge(&[3.0, 0.0, 0.0, 0.5], &[0]), (0.0, vec![]));
    assert_eq!(hinge(&[0.0; 3], &[0, 1, 2]), (0.0, vec![]));
    assert_eq!(hinge(&[0.0; 3], &[]), (0.0, vec![]));
    let mut random = Random::new(1, 0);
    assert_eq!(warp(3, &[0, 1, 2], &mut random, |_| 0.0), None);
    assert_eq!(warp(3, &[], &mut random, |_| 0.0), None);
}

#[test]
fn warp_scores_the_labels_it_draws_and_no_others() {
    for violation in [1, 5, 20] {
        let counts: Vec<usize> = [10_000, 100_000, 1_000_000]
            .into_iter()
            .map(|labels| {
                let mut scored = Vec::new();
                let mut random = Random::new(7, labels as u64);
                let positives = [3, 17, 4_000];
                let found = warp(labels, &positives, &mut random, |label| {
                    scored.push(label);
                    match scored.len() {
                        // The positive is asked for first.
                        1 => 1.0,
                        n if n == violation + 1 => 2.0,
                        _ => -1.0,
                    }
                });
                let found = found.expect("a violation was forced");
                assert_eq!(found.trials, violation);
                assert!(positives.contains(&found.positive) && scored[0] == found.positive);
                assert!(scored[1..].iter().all(|label| !positives.contains(label)));
                assert_eq!(scored.last(), Some(&found.negative));
                // Σ_{j ≤ (L−1)/T} 1/j over Σ_{j ≤ L−1} 1/j.
                let harmonic = |n: usize| (1..=n).map(|j| 1.0 / j as f64).sum::<f64>();
                let want = harmonic((labels - 1) / violation) / harmonic(labels - 1);
                assert!((found.weight - want).abs() < 1e-12, "{}", found.weight);
                scored.len()
            })
            .collect();
        assert_eq!(counts, [violation + 1; 3]);
    }
    let mut scored = 0;
    let well_placed = warp(50, &[4], &mut Random::new(1, 1), |label| {
        scored += 1;
        if label == 4 { 2.0 } else { 0.5 }
    });
    assert_eq!((well_placed, scored), (None, WARP_TRIALS + 1));
}

#[test]
fn a_step_of_warp_scores_as_many_labels_however_many_there_are() {
    let (features, k) = (300, 4);
    for violation in [1, 5, 20] {
        let counts = [1_000, 20_000].map(|labels: usize| {
            let tall = |rows, side| {
                let entry = |i: usize, j: usize| 1e-3 * normal_at(1, side, i as u64, j as u64);
                Tall::<f32>::from_fn(rows, k, entry).unwrap()
            };
            let form = Factored::new(tall(features, 0), tall(labels, 1));
            let prior = Prior {
                bias: vec![-4.0; labels],
                ..Prior::new(vec![0; labels], 1, 0.0)
            };
            let rule = RankingRule {
                sampler: Sampler::Warp,
                gradient: Subgradient::Single,
                bias: 0.0,
            };
            let names: Ids = (0..labels).map(|y| y.to_string()).collect();
            let model = Model::ranking(form, Features::Numbered, names, prior, rule, 1e-3);
            let mut learner = model.unwrap().into_learner::<f32>().unwrap();
            let mut counts = Vec::new();
            for step in 0..50 {
                let row = SparseVec::from_entries(vec![(step as u32 * 5, 1.0_f32), (7, 0.5)]);
                let positives = [step as u32, 99];
                // The label that the last of so many trials will draw.
                let mut asked = Vec::new();
                let last = warp(labels, &positives, &mut draws(0, step), |label| {
                    asked.push(label);
                    match asked.len() {
                        1 => 4.0,
                        n if n == violation + 1 => 9.0,
                        _ => 0.0,
                    }
                });
                let last = last.unwrap().negative;
                let set = |learner: &mut Online<f32>, label, bias| {
                    learner.set_label_bias(label, bias).unwrap();
                };
                set(&mut learner, last, 4.0);
                positives.iter().for_each(|&y| set(&mut learner, y, 0.0));
                let before = learner.labels_scored();
                let learned = learner.learn_labels(row.as_row(), &positives).unwrap();
                assert_eq!(learned.unwrap().outcome, Outcome::Moved);
                positives.iter().for_each(|&y| set(&mut learner, y, -4.0));
                set(&mut learner, last, -4.0);
                // A label that comes twice violates the margin too early.
                if !asked[..violation].contains(&last) {
                    counts.push(learner.labels_scored() - before);
                }
            }
            assert!(counts.len() > 30);
            counts.dedup();
            counts
        });
        assert_eq!(counts, [[violation as u64 + 1]; 2]);
    }
}

#[test]
fn warp_draws_every_wrong_label_alike() {
    let positives = [0, 2, 3, 7];
    let mut counts = [0_u32; 8];
    let mut random = Random::new(3, 0);
    let rounds = 40_000;
    for _ in 0..rounds {
        let found = warp(8, &positives, &mut random, |_| 0.0).unwrap();
        counts[found.negative as usize] += 1;
        counts[found.positive as usize] += 1;
    }
    // Four positives and four others; five standard errors.
    let (mean, error) = (
        f64::from(rounds) / 4.0,
        (f64::from(rounds) * 3.0 / 16.0).sqrt(),
    );
    for count in counts {
        assert!((f64::from(count) - mean).abs() < 5.0 * error, "{counts:?}");
    }
}

/// Rows whose features tell their labels: feature j stands for label j / 2.
fn text(rows: usize, labels: usize) -> String {
    let mut random = Random::new(11, 0);
    let mut out = String::new();
    for _ in 0..rows {
        let mut own: Vec<usize> = (0..2).map(|_| random.below(labels)).collect();
        own.sort_unstable();
        own.dedup();
        let names: Vec<String> = own.iter().map(usize::to_string).collect();
        out += &names.join(",");
        let noise = 2 * labels + 1 + random.below(20);
        let mut features: Vec<usize> = own
            .iter()
            .flat_map(|&y| [2 * y + 1, 2 * y + 2])
            .filter(|_| random.below(5) > 0)
            .chain([noise])
            .collect();
        features.sort_unstable();
        for feature in features {
            out += &format!(" {feature}:1");
        }
        out += "\n";
    }
    out
}

fn read(folder: &tempfile::TempDir, text: &str) -> Labelled<f32> {
    let path = folder.path().join("rows.svm");
    std::fs::write(&path, text).unwrap();
    read_labelled(&path).unwrap()
}

/// Options of a rule, with a rank and a start without a closed form where it has one.
fn ranked(rule: Rule, rank: usize) -> Ranking {
    let options = Ranking::new(rule);
    match rule.is_low_rank() {
        true => options.rank(rank).init(Init::Zero),
        false => options,
    }
}

fn options(rule: Rule) -> Ranking {
    let options = ranked(rule, 6).epochs(8).seed(3).normalize(Normalize::L2);
    match rule {
        Rule::PassiveAggressive => options.aggressiveness(1.0),
        _ => options.step_size(0.3),
    }
}

fn finished(mut session: RankingSession<'_, f32>) -> Model {
    while !matches!(session.advance(u64::MAX).unwrap(), Event::Finished(_)) {}
    session.into_model().unwrap()
}

fn bytes(model: &Model) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    model.save(&path).unwrap();
    std::fs::read(&path).unwrap()
}

#[test]
fn every_learner_start_and_sampler_beats_popularity() {
    let folder = tempfile::tempdir().unwrap();
    let train = read(&folder, &text(600, 12));
    let test = || read(&folder, &text(700, 12));
    let mut tried = vec![options(Rule::Loreta).gradient(Subgradient::Summed)];
    for rule in rules::<Ranking>() {
        tried.push(options(rule));
        tried.push(options(rule).sampler(Sampler::Warp).average(true));
    }
    for init in [Init::Identity, Init::Gaussian] {
        tried.push(options(Rule::Loreta).init(init));
    }
    for options in tried {
        let model = options.fit(&train).unwrap();
        let found = model.evaluate_labels(test(), None, 2, &|_| true).unwrap();
        let (map, baseline) = (found.metrics["map"], found.baselines[0].metrics["map"]);
        assert!(map > baseline + 0.2, "{options:?}: {map} and {baseline}");
        let back = {
            let path = folder.path().join("m");
            model.save(&path).unwrap();
            Model::load(&path).unwrap()
        };
        assert_eq!(back, model);
        let again = back.evaluate_labels(test(), None, 1, &|_| true).unwrap();
        assert_eq!(again, found);
    }
}

/// Rows of many labels and a wrong label that counts once: the step must be measured
/// by what it changes.
#[test]
fn passive_aggressive_steps_do_not_run_away() {
    let mut random = Random::new(5, 0);
    let mut text = String::new();
    for _ in 0..400 {
        let mut labels: Vec<usize> = (0..8).map(|_| random.below(20)).collect();
        labels.sort_unstable();
        labels.dedup();
        let labels: Vec<String> = labels.iter().map(usize::to_string).collect();
        let mut features: Vec<usize> = (0..6).map(|_| 1 + random.below(30)).collect();
        features.sort_unstable();
        features.dedup();
        let features: Vec<String> = features.iter().map(|f| format!("{f}:0.4")).collect();
        text += &format!("{} {}\n", labels.join(","), features.join(" "));
    }
    let folder = tempfile::tempdir().unwrap();
    let train = read(&folder, &text);
    for gradient in [Subgradient::Single, Subgradient::Summed] {
        let options = ranked(Rule::PassiveAggressive, 8)
            .epochs(30)
            .gradient(gradient)
            .aggressiveness(1.0);
        let counters = options.fit(&train).unwrap().card.counters;
        assert!(counters.updates > 20, "{gradient:?}: {counters:?}");
        assert!(
            counters.mean_loss() < 30.0,
            "{gradient:?}: {}",
            counters.mean_loss()
        );
    }
}

#[test]
fn the_step_size_is_chosen_and_the_best_model_kept() {
    let folder = tempfile::tempdir().unwrap();
    let train = read(&folder, &text(400, 12));
    let options = ranked(Rule::Loreta, 6)
        .epochs(30)
        .valid_fraction(0.25)
        .patience(2)
        .curve_every(100);
    let mut session = options.session(&train).unwrap();
    assert_eq!(session.trials().len(), 7);
    while !matches!(session.advance(u64::MAX).unwrap(), Event::Finished(_)) {}
    let best = session.metrics()["map"];
    let curve: Vec<f64> = session.history().iter().map(|p| p.metrics["map"]).collect();
    assert_eq!(curve.iter().copied().fold(0.0, f64::max), best);
    let steps = session.counters().steps;
    assert!(steps < 30 * 300, "stopped early");
    let model = session.into_model().unwrap();
    assert!(model.card.counters.steps < steps);
}

#[test]
fn a_resumed_run_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let train = read(&folder, &text(300, 12));
    let path = folder.path().join("c");
    for rule in rules::<Ranking>() {
        for sampler in [Sampler::Top, Sampler::Warp] {
            let options = options(rule)
                .sampler(sampler)
                .average(true)
                .valid_fraction(0.2)
                .curve_every(170);
            let whole = bytes(&finished(options.session(&train).unwrap()));
            let mut session = options.session(&train).unwrap();
            for _ in 0..3 {
                session.advance(61).unwrap();
                session.save_checkpoint(&path, 1.0).unwrap();
                let checkpoint = Checkpoint::load(&path).unwrap();
                session = options.resume(&train, &checkpoint).unwrap();
            }
            let resumed = bytes(&finished(session));
            assert!(resumed == whole, "{} {sampler:?}", rule.name());

            let checkpoint = Checkpoint::load(&path).unwrap();
            let other = options.clone().bias_step(0.5);
            let error = other.resume(&train, &checkpoint).unwrap_err();
            let want = "the checkpoint was made with bias_step = none, this run asks for 0.5";
            assert_eq!(error.message, want);
        }
    }
    let checkpoint = Checkpoint::load(&path).unwrap();
    let error = checkpoint.options::<rankfold::Similarity>().unwrap_err();
    let want = "a checkpoint of `train ranking`, expected one of `train similarity`";
    assert_eq!(error.message, want);
}

#[test]
fn two_sittings_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let all = text(400, 12);
    let at = all.match_indices('\n').nth(249).unwrap().0 + 1;
    let (first, second) = all.split_at(at);
    for rule in rules::<Ranking>() {
        for sampler in [Sampler::Top, Sampler::Warp] {
            let options = options(rule)
                .sampler(sampler)
                .order(Order::Given)
                .popularity(0.0)
                .epochs(1);
            let whole = options.fit(&read(&folder, &all)).unwrap();
            let before = options.fit(&read(&folder, first)).unwrap();
            assert_eq!(before.label_names(), whole.label_names());
            let mut learner = before.into_learner::<f32>().unwrap();
            for line in second.lines() {
                let (labels, features) = line.split_once(' ').unwrap();
                let labels: Vec<LabelName> = labels
                    .split(',')
                    .map(|y| LabelName::Number(y.parse().unwrap()))
                    .collect();
                let entries = features.split(' ').map(|e| {
                    let (feature, value) = e.split_once(':').unwrap();
                    let column: u32 = feature.parse().unwrap();
                    (column - 1, value.parse().unwrap())
                });
                let known: Vec<(u32, f32)> = entries.collect();
                let row = data::StreamRow::Features {
                    known: &known,
                    new: &[],
                };
                let learned = learner.learn_labelled(row, &labels, &Default::default());
                assert!(learned.unwrap().is_some());
            }
            let after = learner.into_model();
            assert!(
                bytes(&after) == bytes(&whole),
                "{} {sampler:?}",
                rule.name()
            );
        }
    }
}

#[test]
fn new_labels_and_features_are_learned_from_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let train = read(&folder, &text(300, 12));
    for rule in rules::<Ranking>() {
        let model = options(rule).fit(&train).unwrap();
        let (features, labels) = (model.columns(), model.columns_of(Side::Right));
        let mut learner = model.into_learner::<f32>().unwrap();
        let line = r#"{"row":{"900":1,"901":0.5},"labels":["new","other new"]}"#;
        let source = std::io::Cursor::new(line.repeat(300).replace("}{", "}\n{").into_bytes());
        let mut stream = LabelStream::new(Lines::new(Box::new(source), "s"));
        loop {
            let names = Names::new(learner.features(), None);
            let Some((row, labels)) = stream.read(names).unwrap() else {
                break;
            };
            learner
                .learn_labelled(row, labels, &Default::default())
                .unwrap();
        }
        // Nothing to learn: no labels.
        let nothing = learner.learn_labels(Default::default(), &[]).unwrap();
        assert_eq!(nothing, None);
        let error = learner.learn_labels(Default::default(), &[99]).unwrap_err();
        assert_eq!(
            error.message,
            "label 99 is none of the 14 that the model ranks"
        );
        let counters = learner.counters();
        assert_eq!(counters.new_features as usize, 901 - features);
        assert_eq!(counters.new_object_features, 2);
        let model = learner.into_model();
        assert_eq!(model.label_names().unwrap().len(), labels + 2);
        let found = read(&folder, "0 900:1 901:0.5\n");
        let rows = model.prepare(found.rows, &found.features).unwrap();
        let scores = model.label_scores(&rows).unwrap();
        let mut out = vec![0.0; labels + 2];
        scores.of(0, &mut out);
        let best = (0..out.len()).max_by(|&a, &b| out[a].total_cmp(&out[b]));
        assert!(best.unwrap() >= labels, "{}: {out:?}", rule.name());
        assert_eq!(scores.one(0, Some(3)), out[3]);
    }
}

#[test]
fn rows_without_labels_or_with_all_of_them_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let data = read(&folder, "0 1:1\n 2:1\n0,1,2 1:1 2:1\n1,2 2:1 3:1\n2 3:1\n");
    for sampler in [Sampler::Top, Sampler::Warp] {
        let options = Ranking::default()
            .rank(2)
            .step_size(0.1)
            .sampler(sampler)
            .epochs(4);
        let session = options.session(&data).unwrap();
        assert_eq!((session.skipped(), session.total_steps()), (2, 12));
        let model = finished(session);
        let found = model.evaluate_labels(data.clone(), None, 1, &|_| true);
        let found = found.unwrap();
        assert_eq!((found.rows, found.skipped), (4, 1));
    }
    for (text, want) in [
        (
            " 1:1\n 2:1\n",
            "a ranking needs two labels at least, found 0",
        ),
        ("3 1:1\n", "a ranking needs two labels at least, found 1"),
        (
            "0,1 1:1\n 1:1\n",
            "no row to learn from: each has either no labels or all of them",
        ),
    ] {
        let error = Ranking::default()
            .rank(1)
            .step_size(1.0)
            .session(&read(&folder, text))
            .unwrap_err();
        assert_eq!(error.message, want);
    }
}

#[test]
fn extreme_rows_leave_a_finite_model() {
    let folder = tempfile::tempdir().unwrap();
    let text = "0 1:1e38 2:1e-38\n1 1:1e38 3:1\n2\n0,2 4:-1e38\n1 2:1 3:1 4:1\n2,1 1:1e-30\n";
    let data = read(&folder, text);
    for rule in rules::<Ranking>() {
        for (sampler, init) in [
            (Sampler::Top, Init::Zero),
            (Sampler::Warp, Init::Gaussian),
            (Sampler::Top, Init::Identity),
        ] {
            let full = matches!(rule, Rule::Perceptron | Rule::GroupPerceptron);
            let init = if full { Init::Zero } else { init };
            for size in [1e-30, 1.0, 1e30] {
                let mut options = ranked(rule, 1)
                    .epochs(30)
                    .init(init)
                    .sampler(sampler)
                    .average(true);
                options = match rule {
                    Rule::PassiveAggressive => options.aggressiveness(size),
                    _ => options.step_size(size),
                };
                // A start from zero may find that such rows span no rank.
                if let Ok(model) = options.fit(&data) {
                    let rows = model.prepare(data.rows.clone(), &data.features).unwrap();
                    let mut out = [0.0; 3];
                    model.label_scores(&rows).unwrap().of(4, &mut out);
                    assert!(out.iter().all(|s| s.is_finite()), "{rule:?} {out:?}");
                    bytes(&model);
                }
            }
        }
    }
}

#[test]
fn a_run_without_options_chooses_by_held_out_rows_and_beats_ridge_or_equals_it() {
    let folder = tempfile::tempdir().unwrap();
    let all = text(1500, 12);
    let at = all.match_indices('\n').nth(599).unwrap().0 + 1;
    let (train, test) = (read(&folder, &all[..at]), read(&folder, &all[at..]));
    let mut told = Vec::new();
    let run = Run::default().observed(|event| {
        if let Event::Tried(trial) = event {
            told.push(trial.clone());
        }
        true
    });
    let fit = Ranking::default().fit_with((&train).into(), run).unwrap();
    assert_eq!(told, fit.report.trials);
    for option in ["weight", "penalty", "rank", "epochs"] {
        let tried = |trial: &Trial| trial.settings.contains_key(option);
        assert!(told.iter().any(tried), "{option}");
    }
    for option in ["weight", "normalize", "standardize"] {
        assert!(fit.report.more.contains_key(option), "{option}");
    }
    assert!(
        fit.report
            .notes
            .iter()
            .any(|note| note.starts_with("chosen on held-out rows"))
    );
    assert_eq!(fit.report.counters.steps % 600, 0);
    let found = fit.model.evaluate_labels(test, Some(train), 2, &|_| true);
    let found = found.unwrap();
    let names: Vec<_> = found.baselines.iter().map(|one| &one.name[..]).collect();
    assert_eq!(names, ["popularity", "ridge"]);
    let (map, of) = (found.metrics["map"], |i: usize| {
        found.baselines[i].metrics["map"]
    });
    assert!(map > of(0) + 0.2 && map > of(1) - 0.005, "{map} {found:?}");
}

#[test]
fn a_run_from_the_closed_form_is_the_same_when_it_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let train = read(&folder, &text(300, 12));
    let path = folder.path().join("c");
    let chosen = Ranking::default();
    let given = chosen.clone().epochs(3);
    let sized = chosen
        .clone()
        .step_size(0.3)
        .valid_fraction(0.2)
        .curve_every(90);
    for options in [chosen, given, sized] {
        let session = options.session(&train).unwrap();
        let trials = session.trials().len();
        let whole = bytes(&finished(session));
        let mut session = options.session(&train).unwrap();
        assert!(trials > 0 && session.trials().len() == trials);
        for _ in 0..3 {
            session.advance(61).unwrap();
            session.save_checkpoint(&path, 1.0).unwrap();
            let checkpoint = Checkpoint::load(&path).unwrap();
            session = options.resume(&train, &checkpoint).unwrap();
        }
        assert!(bytes(&finished(session)) == whole, "{options:?}");
    }
}

#[test]
fn the_closed_form_is_measured_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let train = read(&folder, &text(300, 12));
    let options = Ranking::default().valid_fraction(0.2).steps(0);
    let session = options.session(&train).unwrap();
    assert_eq!((session.total_steps(), session.history().len()), (0, 1));
    assert!(session.metrics()["map"] > 0.5);
    assert_eq!(finished(session).card.counters.steps, 0);
    let short = options.steps(30).step_size(1e9);
    let model = finished(short.session(&train).unwrap());
    assert_eq!(model.card.counters.steps, 0, "the start is the best");
}

#[test]
fn a_rank_that_is_given_is_kept_and_the_rest_is_next_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // Three classes have two directions between them.
    let rows = "0 1:1\n1 2:1\n2 3:1\n0 1:2\n1 2:2 1:1\n2 3:2\n";
    let data = read(&folder, rows);
    let fit = |rank| {
        let options = Ranking::default().rank(rank).steps(0);
        options.fit(&data).unwrap()
    };
    let (two, three) = (fit(2), fit(3));
    assert_eq!((two.rank(), three.rank()), (2, 3));
    let scores = |model: &Model| {
        let rows = model.prepare(data.rows.clone(), &data.features).unwrap();
        let mut out = [0.0; 3];
        model.label_scores(&rows).unwrap().of(4, &mut out);
        out
    };
    let (a, b) = (scores(&two), scores(&three));
    assert!(
        a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-4),
        "{a:?} {b:?}"
    );
    assert_eq!(Ranking::default().fit(&data).unwrap().rank(), 2);
    let error = Ranking::default().rank(4).fit(&data).unwrap_err();
    assert_eq!(error.message, "is 4, above n_features = 3");
    let nothing = read(&folder, "0\n1\n2\n");
    let error = Ranking::default().fit(&nothing).unwrap_err();
    assert_eq!(error.message, "the rows have no features");
}

#[test]
fn small_and_odd_data_never_fail() {
    let folder = tempfile::tempdir().unwrap();
    for text in [
        // One row; two rows; all rows alike; rows without entries; one feature.
        "0 1:1\n 2:1\n0,1 1:1\n",
        "0 1:1\n1 2:1\n",
        "0 1:1\n0 1:1\n0 1:1\n0,1 1:1\n",
        "0\n1\n0\n1\n2 1:1\n",
        "0 1:1\n1 1:2\n0 1:3\n1 1:4\n0 1:5\n",
        // Labels that rows say nothing about, negative values, a label of nearly all rows.
        "0 1:1\n1 1:1\n0 1:1\n1 1:1\n",
        "0 1:-1 2:5\n1 1:-2\n0,2 2:-3\n1 1:4 2:4\n2 1:1\n0 2:1\n",
        "0 1:1\n0 2:1\n0 3:1\n0,1 4:1\n0 5:1\n0 6:1\n0 7:1\n",
        // Numbers near the ends of what is stored.
        "0 1:1e38 2:1e-38\n1 1:1e38 3:1\n2\n0,2 4:-1e38\n1 2:1 3:1 4:1\n2,1 1:1e-30\n",
        "0 1:1e-38\n1 2:1e-38\n0 1:1e-38 2:1e-38\n1 2:2e-38\n",
    ] {
        let data = read(&folder, text);
        let default = Ranking::default();
        for options in [
            default.clone(),
            default.clone().seed(5).epochs(3),
            Ranking::new(Rule::PassiveAggressive),
        ] {
            let model = match options.fit(&data) {
                Ok(model) => model,
                // Numbers that cannot be squared are refused with a reason.
                Err(error) if text.contains("e-38") => {
                    assert!(error.message.contains("scale them"), "{error}");
                    continue;
                }
                Err(error) => panic!("{text}: {error}"),
            };
            let rows = model.prepare(data.rows.clone(), &data.features).unwrap();
            let mut out = vec![0.0; model.label_names().unwrap().len()];
            for row in 0..data.rows.len() {
                model.label_scores(&rows).unwrap().of(row, &mut out);
                assert!(out.iter().all(|s| s.is_finite()), "{text} {out:?}");
            }
            bytes(&model);
            // Whatever it is, it goes on.
            let mut learner = model.into_learner::<f32>().unwrap();
            learner.learn_labels(data.rows.row(0), &[0]).unwrap();
        }
    }
}
