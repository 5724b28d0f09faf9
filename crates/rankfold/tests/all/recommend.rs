//! Recommendations against plain programs, and laws of what is shown.

use rankfold::data::{Choices, Labelled};
use rankfold::eval::{Scorer, nearest_among};
use rankfold::random::normal_at;
use rankfold::task::{ListBaseline, RecommendData, RecommendLearner, Run, UserLists};
use rankfold::{Model, Recommend, Rows};
use std::convert::Infallible;

/// Four tastes: items of a taste are chosen together.
fn pairs(users: usize, items: usize, seed: u64) -> Vec<(usize, usize)> {
    let chosen = |u: usize, i: usize| {
        let bar = if u % 4 == i % 4 { 0.0 } else { 1.6 };
        normal_at(seed, 3, u as u64, i as u64) > bar
    };
    let all = (0..users).flat_map(|u| (0..items).map(move |i| (u, i)));
    all.filter(|&(u, i)| chosen(u, i)).collect()
}

fn choices(pairs: &[(usize, usize)]) -> Choices {
    let named = pairs
        .iter()
        .map(|(u, i)| (format!("u{u}"), format!("i{i}"), 1.0));
    Choices::from_entries(named).unwrap()
}

fn shown(model: &Model, user: &str, k: usize) -> Vec<String> {
    let known = model.recommended().unwrap();
    let user = known.users.find(user).unwrap() as usize;
    let recommender = model.recommender().unwrap();
    let one: Rows<f32> = known.histories.select([user]);
    let lists = UserLists::new(&recommender, known, &|_| Some(user as u32), &one, true, 1);
    let (items, mut out) = (model.recommended_items().unwrap(), Vec::new());
    let Ok(()) = nearest_among(&lists, &[0], k, 1, |_, found| {
        let there = found.iter().filter(|(_, score)| !score.is_nan());
        out = there
            .map(|&(item, _)| items.get(item as u32).to_owned())
            .collect();
        Ok::<_, Infallible>(())
    });
    out
}

#[test]
fn users_are_shown_their_taste_and_nothing_twice() {
    let pairs = pairs(120, 40, 1);
    for learner in [
        RecommendLearner::Auto,
        RecommendLearner::Als,
        RecommendLearner::Loreta,
    ] {
        let model = Recommend::new(learner)
            .rank(4)
            .fit(&choices(&pairs))
            .unwrap();
        let mut right = 0;
        for user in 0..40 {
            let list = shown(&model, &format!("u{user}"), 2);
            assert_eq!(list.len(), 2);
            for item in &list {
                let item: usize = item[1..].parse().unwrap();
                assert!(!pairs.contains(&(user, item)), "{user} has {item} already");
                right += usize::from(item % 4 == user % 4);
            }
        }
        assert!(
            right > 70,
            "{learner}: {right} of 80 are of the taste of their user"
        );
    }
}

#[test]
fn other_names_give_the_same_lists() {
    let pairs = pairs(60, 24, 2);
    let first = Recommend::default().rank(3).fit(&choices(&pairs)).unwrap();
    let named = pairs
        .iter()
        .map(|(u, i)| (format!("person {u}"), format!("thing {i}"), 1.0));
    let renamed = Choices::from_entries(named).unwrap();
    let second = Recommend::default().rank(3).fit(&renamed).unwrap();
    for user in 0..60 {
        let one = shown(&first, &format!("u{user}"), 6);
        let other = shown(&second, &format!("person {user}"), 6);
        let other: Vec<String> = other.iter().map(|i| i.replace("thing ", "i")).collect();
        assert_eq!(one, other);
    }
}

#[test]
fn whoever_is_not_known_gets_what_is_chosen_most() {
    let mut pairs = pairs(50, 20, 3);
    pairs.extend((0..50).map(|user| (user, 20)));
    let model = Recommend::default().rank(3).fit(&choices(&pairs)).unwrap();
    let known = model.recommended().unwrap();
    let recommender = model.recommender().unwrap();
    let nobody: Rows<f32> = [rankfold::SparseRow {
        indices: &[][..],
        values: &[][..],
    }]
    .into_iter()
    .collect();
    let lists = UserLists::new(&recommender, known, &|_| None, &nobody, true, 1);
    let mut scores = vec![0.0; lists.candidates()];
    lists.scores(&mut scores, 0, 1);
    assert_eq!(scores, known.popularity);
    let everybody = model.recommended_items().unwrap().find("i20").unwrap();
    let best = scores.iter().copied().fold(0.0, f64::max);
    assert_eq!(scores[everybody as usize], best);
}

#[test]
fn evaluation_counts_what_can_and_what_cannot_be_found() {
    let all = pairs(80, 30, 4);
    let (test, train): (Vec<_>, Vec<_>) = all.iter().partition(|(u, i)| (u * 31 + i * 17) % 9 == 0);
    let model = Recommend::default().rank(4).fit(&choices(&train)).unwrap();
    let mut test = test;
    test.extend([(0, 99), (500, 1)]);
    let (test, train) = (choices(&test), choices(&train));
    let found = model
        .evaluate_lists(
            &test,
            None,
            &[ListBaseline::Popularity],
            10,
            Some(2),
            &|| true,
        )
        .unwrap();
    let others = [ListBaseline::Ease, ListBaseline::Neighbors];
    let again = model
        .evaluate_lists(&test, Some(&train), &others, 10, Some(1), &|| true)
        .unwrap();
    assert_eq!(found.metrics, again.metrics);
    // Both know the tastes of users, which what is chosen most does not.
    for (baseline, name) in again.baselines.iter().zip(["ease", "neighbors"]) {
        let reached = baseline.metrics["ndcg_at_10"];
        assert_eq!(baseline.name, name);
        assert!(reached > found.baselines[0].metrics["ndcg_at_10"] + 0.1);
    }
    let timeless = model.evaluate_lists(
        &test,
        Some(&train),
        &[ListBaseline::Recent],
        10,
        None,
        &|| true,
    );
    assert!(timeless.unwrap_err().message.contains("needs a time"));
    assert_eq!(found.more["users_without_history"], 1);
    assert_eq!(found.more["unknown_items"], 1);
    let popular = &found.baselines[0].metrics["ndcg_at_10"];
    assert!(
        found.metrics["ndcg_at_10"] > popular + 0.1,
        "{:?}",
        found.metrics
    );
    assert!(
        model
            .evaluate_lists(&test, None, &[ListBaseline::Popularity], 10, None, &|| {
                false
            })
            .is_err()
    );
}

#[test]
fn a_stream_brings_new_users_and_items_into_the_lists() {
    let all = pairs(150, 40, 5);
    for learner in [
        RecommendLearner::Items,
        RecommendLearner::Als,
        RecommendLearner::Loreta,
    ] {
        // Item 40 is new, and chosen by everybody of taste 0.
        let task = Recommend::new(learner).rank(4);
        let task = match learner {
            RecommendLearner::Loreta => task.regularization(10.0).step_size(0.03),
            _ => task.regularization(if learner == RecommendLearner::Als {
                0.1
            } else {
                10.0
            }),
        };
        let model = task.fit(&choices(&all)).unwrap();
        let mut learner_of = model.into_choice_learner().unwrap();
        for round in 0..2 {
            for user in (0..140).step_by(4) {
                if round == 0 || user % 8 == 0 {
                    learner_of.learn(&format!("u{user}"), "i40", 1.0).unwrap();
                }
            }
        }
        for item in [0, 4, 8] {
            learner_of.learn("new", &format!("i{item}"), 1.0).unwrap();
        }
        let model = learner_of.to_model().unwrap();
        let list = shown(&model, "new", 8);
        let of_taste = list
            .iter()
            .filter(|i| i[1..].parse::<usize>().unwrap() % 4 == 0)
            .count();
        assert!(of_taste >= 5, "{learner}: {list:?}");
        if learner != RecommendLearner::Loreta {
            assert!(list.contains(&"i40".to_owned()), "{learner}: {list:?}");
        }
        // And it stands alone in a file.
        let bytes = model.to_bytes().unwrap();
        let read = Model::from_bytes(&bytes).unwrap();
        assert_eq!(read.to_bytes().unwrap(), bytes);
    }
}

#[test]
fn a_half_life_makes_what_is_new_count_more() {
    let pairs = pairs(100, 40, 6);
    let model = Recommend::default().rank(4).fit(&choices(&pairs)).unwrap();
    let lists = |half_life: Option<f64>| {
        let mut learner = model.clone().into_choice_learner().unwrap();
        if let Some(half_life) = half_life {
            learner.set_half_life(half_life).unwrap();
        }
        for item in [0, 4, 8, 12, 16, 20, 1, 5, 9] {
            learner.learn("drifter", &format!("i{item}"), 1.0).unwrap();
        }
        let list = shown(&learner.to_model().unwrap(), "drifter", 6);
        list.iter()
            .filter(|i| i[1..].parse::<usize>().unwrap() % 4 == 1)
            .count()
    };
    assert!(
        lists(Some(1.0)) > lists(None),
        "{} {}",
        lists(Some(1.0)),
        lists(None)
    );
    let mut learner = model.into_choice_learner().unwrap();
    assert!(learner.set_half_life(0.0).is_err() && learner.set_half_life(f64::NAN).is_err());
}

#[test]
fn bad_choices_and_ranks_are_refused_in_words() {
    let small = choices(&[(0, 0), (0, 1), (1, 0)]);
    let error = |task: Recommend| task.fit(&small).unwrap_err().message;
    assert!(error(Recommend::default().rank(3)).contains("above the number of items, 2"));
    let wide = choices(&[(0, 0), (0, 1), (0, 2), (1, 0)]);
    let error = Recommend::default().rank(3).fit(&wide).unwrap_err().message;
    assert!(error.contains("above the number of users, 2"), "{error}");
    // The default does not fail on next to nothing.
    for few in [&[(0, 0)][..], &[(0, 0), (1, 1)], &[(0, 0), (0, 1)]] {
        Recommend::default().fit(&choices(few)).unwrap();
    }
    let model = Recommend::default().fit(&small).unwrap();
    let mut learner = model.into_choice_learner().unwrap();
    for weight in [0.0, -1.0, f64::NAN, 1e10] {
        assert!(learner.learn("u0", "i1", weight).is_err());
    }
}

#[test]
fn validation_data_are_not_learned_from() {
    let all = pairs(80, 30, 7);
    let whole = choices(&all);
    let fit = |task: Recommend| {
        task.fit_with(RecommendData::from(&whole), Run::default())
            .unwrap()
    };
    let held = fit(Recommend::default().rank(3).valid_fraction(0.25));
    let learned = held.model.recommended().unwrap().histories.nnz();
    assert_eq!(
        learned,
        all.len() - (all.len() as f64 * 0.25 + 1e-9) as usize
    );
    assert!(held.report.metrics["ndcg_at_10"] > 0.0);
    let plain = fit(Recommend::default().rank(3));
    assert_eq!(
        plain.model.recommended().unwrap().histories.nnz(),
        all.len()
    );
}

/// Items that nobody chose are shown to the right users, by their features.
#[test]
fn new_items_are_known_by_their_features() {
    let all = pairs(120, 40, 8);
    let whole = choices(&all);
    let row = |i: usize| {
        let noise = |j: u64| 0.1 * normal_at(4, 4, i as u64, j) as f32;
        let taste = |j: usize| if i % 4 == j { 1.0 } else { 0.0 };
        (0..4)
            .map(|j| taste(j) + noise(j as u64))
            .collect::<Vec<f32>>()
    };
    // Items 40 to 43 are new, one of each taste.
    let rows = Labelled::new(Rows::from_dense((0..44).map(row)).unwrap());
    let rows = rows.with_ids((0..44).map(|i| format!("i{i}"))).unwrap();
    let data = RecommendData {
        item_rows: Some(&rows),
        ..RecommendData::from(&whole)
    };
    let task = Recommend::new(RecommendLearner::Items).rank(4);
    let fit = task.fit_with(data, Run::default()).unwrap();
    assert_eq!(fit.report.more["items_without_choice"], 4);
    let known = fit.model.recommended().unwrap();
    let recommender = fit.model.recommender().unwrap();
    let items = fit.model.recommended_items().unwrap();
    let mut right = 0;
    for user in 0..120 {
        let number = known.users.find(&format!("u{user}")).unwrap();
        let vector = recommender.known_user(number);
        let score = |taste: usize| {
            let item = items.find(&format!("i{}", 40 + taste)).unwrap();
            recommender.score(&vector, item)
        };
        let best = (0..4)
            .max_by(|&a, &b| score(a).total_cmp(&score(b)))
            .unwrap();
        right += usize::from(best == user % 4);
    }
    assert!(
        right > 100,
        "{right} of 120 users prefer the new item of their taste"
    );
    let strangers = rows
        .with_ids((0..44).map(|i| format!("other {i}")))
        .unwrap();
    let data = RecommendData {
        item_rows: Some(&strangers),
        ..RecommendData::from(&whole)
    };
    assert!(task.fit_with(data, Run::default()).is_err());
}

/// Features of users who each like one of four tastes.
fn people(count: usize) -> Labelled<f32> {
    let row = |u: usize| {
        let noise = |j: u64| 0.1 * normal_at(5, 5, u as u64, j) as f32;
        let taste = |j: usize| if u % 4 == j { 1.0 } else { 0.0 };
        (0..4)
            .map(|j| taste(j) + noise(j as u64))
            .collect::<Vec<f32>>()
    };
    let rows = Labelled::new(Rows::from_dense((0..count).map(row)).unwrap());
    rows.with_ids((0..count).map(|u| format!("u{u}"))).unwrap()
}

/// Users who chose nothing are shown their taste, by their features.
#[test]
fn new_users_are_known_by_their_features() {
    let whole = choices(&pairs(120, 40, 8));
    let rows = people(140);
    for learner in [RecommendLearner::Items, RecommendLearner::Als] {
        let task = Recommend::new(learner).rank(4);
        let data = || RecommendData {
            user_rows: Some(&rows),
            ..RecommendData::from(&whole)
        };
        let fit = task.fit_with(data(), Run::default()).unwrap();
        assert_eq!(fit.report.more["users_without_choice"], 20);
        assert!(fit.report.more["explained_by_user_features"].as_f64() > Some(0.5));
        // Their lists have items of their taste, and the file keeps them.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m");
        fit.model.save(&file).unwrap();
        let again = Model::load(&file).unwrap();
        let mut right = 0;
        for user in 120..140 {
            let name = format!("u{user}");
            let list = shown(&fit.model, &name, 5);
            assert_eq!(list, shown(&again, &name, 5));
            let number = |item: &String| item[1..].parse::<usize>().unwrap();
            right += list.iter().filter(|i| number(i) % 4 == user % 4).count();
        }
        assert!(
            right > 80,
            "{right} of 100 places have an item of the taste"
        );
        // Any number of threads.
        let other = task.threads(3).fit_with(data(), Run::default()).unwrap();
        let [one, two] = [&fit, &other].map(|fit| fit.model.recommended().unwrap());
        assert_eq!(one.beginnings, two.beginnings);
    }
    // Choices change a user who was known by features alone, and new users are welcome.
    let task = Recommend::new(RecommendLearner::Items).rank(4);
    let data = RecommendData {
        user_rows: Some(&rows),
        ..RecommendData::from(&whole)
    };
    let model = task.fit_with(data, Run::default()).unwrap().model;
    let mut learner = model.clone().into_choice_learner().unwrap();
    for item in [2, 6, 10, 14, 18, 22] {
        learner.learn("u121", &format!("i{item}"), 1.0).unwrap();
        learner.learn("stranger", &format!("i{item}"), 1.0).unwrap();
    }
    let after = learner.to_model().unwrap();
    let of_taste = |model: &Model, user: &str| {
        let list = shown(model, user, 4);
        let number = |item: &String| item[1..].parse::<usize>().unwrap();
        list.iter().filter(|i| number(i) % 4 == 2).count()
    };
    assert!(of_taste(&model, "u121") < of_taste(&after, "u121"));
    assert!(of_taste(&after, "stranger") > 2);
    let folder = tempfile::tempdir().unwrap();
    after.save(folder.path().join("m")).unwrap();
    Model::load(folder.path().join("m")).unwrap();
}

/// Lists of users without a choice are judged by features, and counted.
#[test]
fn evaluation_knows_users_by_their_features() {
    let all = pairs(120, 40, 8);
    let (test, train): (Vec<_>, Vec<_>) = all.iter().partition(|(user, _)| *user >= 100);
    let (train, test) = (choices(&train), choices(&test));
    let rows = people(120);
    let measured = |user_rows| {
        let data = RecommendData {
            user_rows,
            ..RecommendData::from(&train)
        };
        let task = Recommend::new(RecommendLearner::Items).rank(4);
        let model = task.fit_with(data, Run::default()).unwrap().model;
        [None, Some(&train)].map(|train| {
            let found = model.evaluate_lists(&test, train, &[], 10, Some(1), &|| true);
            found.unwrap()
        })
    };
    let (plain, described) = (measured(None), measured(Some(&rows)));
    for (plain, described) in plain.iter().zip(&described) {
        assert_eq!(plain.more["users_without_history"], 20);
        assert_eq!(described.more["users_without_history"], 0);
        assert_eq!(described.more["users_by_features"], 20);
        let [plain, described] = [plain, described].map(|found| found.metrics["ndcg_at_10"]);
        assert!(described > plain + 0.1, "{described} with, {plain} without");
    }
    assert_eq!(described[0].metrics, described[1].metrics);
    let strangers = people(4).with_ids(["a", "b", "c", "d"]).unwrap();
    let data = RecommendData {
        user_rows: Some(&strangers),
        ..RecommendData::from(&train)
    };
    let error = Recommend::default().fit_with(data, Run::default());
    let message = error.err().unwrap().message;
    assert_eq!(
        message,
        "no row of features is of a user who chose something"
    );
}
