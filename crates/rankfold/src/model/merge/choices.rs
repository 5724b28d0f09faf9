//! What models of choices know beside W, joined: users, what they chose, and what they begin with.
//!
//! A user is a sum of rows of the encoder, in the coordinates of the decoder. The merged factors
//! have other coordinates: those of the first model, as near as they can be, and for each model
//! the map by which its encoder comes nearest to the merged one. By that map go what users begin
//! with, and sums over users. Where all models are the same the map is the identity.

use super::super::{Model, Own, Precise, RecommendCard, Recommended};
use super::MergeOptions;
use super::union::Union;
use crate::form::{Factored, Form, Tall};
use crate::linalg::{Square, symmetric};
use crate::{Error, Ids, Result, Rows};
use faer::Mat;
use std::collections::BTreeMap;

fn known<'a>(models: &[&'a Model]) -> Result<Vec<&'a Recommended>> {
    models.iter().map(|model| model.recommended()).collect()
}

/// Refuses models whose users are made in different ways.
pub(super) fn check(models: &[&Model]) -> Result<()> {
    let known = known(models)?;
    let first = &known[0].card;
    for other in known.iter().map(|known| &known.card) {
        let differs = |what: &str, one: String, two: String| match one == two {
            true => Ok(()),
            false => Err(Error::input(format!(
                "one model has {what} {one}, another {two}: expected the same"
            ))),
        };
        let name = |card: &RecommendCard| format!("`{}`", card.weights.name());
        differs("the scale of weights", name(first), name(other))?;
        let life = |card: &RecommendCard| match card.half_life {
            Some(choices) => format!("of {choices} choices"),
            None => "none".into(),
        };
        differs("a half-life", life(first), life(other))?;
    }
    Ok(())
}

fn whole(tall: &Tall<f32>) -> Mat<f64> {
    Mat::from_fn(tall.rows(), tall.rank(), |i, j| f64::from(tall.row(i)[j]))
}

/// The map T of least ‖A T − B‖, smallest where it is not unique.
pub(super) fn map_between(a: &Mat<f64>, b: &Mat<f64>) -> Option<Mat<f64>> {
    let gram = symmetric::part(&(a.transpose() * a));
    let largest = (0..gram.nrows()).map(|i| gram[(i, i)]).fold(0.0, f64::max);
    let inverse = symmetric::map(&gram, |v| match v > 1e-10 * largest {
        true => 1.0 / v,
        false => 0.0,
    });
    Some(inverse? * (a.transpose() * b))
}

pub(super) fn rows_at(m: &Mat<f64>, at: &[u32]) -> Mat<f64> {
    Mat::from_fn(at.len(), m.ncols(), |i, j| m[(at[i] as usize, j)])
}

/// The factors of a model of choices, encoder and decoder.
fn factors(model: &Model) -> Result<[Mat<f64>; 2]> {
    match &model.form {
        Precise::F32(Form::Factored(form)) => Ok([whole(form.left()), whole(form.right())]),
        _ => Err(Error::input(
            "a model of choices that is not stored by factors",
        )),
    }
}

/// The form in the coordinates of the first model, and what is known beside it.
pub(super) fn joined(
    models: &[&Model],
    union: &Union,
    merged: &Model,
    options: &MergeOptions,
) -> Result<(Precise, Recommended)> {
    let known = known(models)?;
    let [mut encoder, mut decoder] = factors(merged)?;
    let first = factors(models[0])?;
    let rank = decoder.ncols();
    if first[1].ncols() == rank {
        let turn = map_between(&rows_at(&decoder, &union.at[0]), &first[1]);
        let back = turn.as_ref().and_then(|turn| {
            // T⁻ᵀ, where T has one.
            let square = symmetric::part(&(turn.transpose() * turn));
            let inverse = symmetric::power(&square, -1.0)?;
            Some(turn * inverse)
        });
        if let (Some(turn), Some(back)) = (turn, back)
            && (&decoder * &turn).is_all_finite()
            && (&encoder * &back).is_all_finite()
        {
            (encoder, decoder) = (&encoder * back, &decoder * turn);
        }
    }
    let failed = || Error::failure("the users of the models have no common coordinates");
    let mut maps = Vec::with_capacity(models.len());
    for (model, at) in models.iter().zip(&union.at) {
        let [own, _] = factors(model)?;
        maps.push(map_between(&own, &rows_at(&encoder, at)).ok_or_else(failed)?);
    }
    let mapped = |vector: &[f64], map: &Mat<f64>| -> Vec<f64> {
        let entry = |j: usize| (0..vector.len()).map(|i| vector[i] * map[(i, j)]).sum();
        (0..rank).map(entry).collect()
    };
    let given = |i: usize| options.weights.as_ref().map_or(1.0, |w| w[i]);
    let shares: Vec<f64> = (0..)
        .zip(&known)
        .map(|(i, known)| given(i) * known.users.len().max(1) as f64)
        .collect();
    let total: f64 = shares.iter().sum();
    let mean = |value: &dyn Fn(&RecommendCard) -> f64| -> f64 {
        let each = known.iter().zip(&shares);
        each.map(|(known, share)| share / total * value(&known.card))
            .sum()
    };

    // Of a choice that two models know, the stronger one counts.
    let mut users = Ids::new();
    let mut chosen: Vec<BTreeMap<u32, f32>> = Vec::new();
    let mut begun: Vec<Option<(Vec<f64>, f64)>> = Vec::new();
    for (((known, at), map), share) in known.iter().zip(&union.at).zip(&maps).zip(&shares) {
        for (number, name) in (0..).zip(known.users.iter()) {
            let user = users.intern(name) as usize;
            if user == chosen.len() {
                chosen.push(BTreeMap::new());
                begun.push(None);
            }
            for (item, strength) in known.histories.row(number as usize).iter() {
                let held = chosen[user].entry(at[item as usize]).or_insert(strength);
                *held = held.max(strength);
            }
            if known.is_described(Some(number)) {
                let old = known.prior.len();
                let row = &known.beginnings[number as usize * old..][..old];
                let row: Vec<f64> = row.iter().map(|v| f64::from(*v)).collect();
                let (sum, weight) = begun[user].get_or_insert((vec![0.0; rank], 0.0));
                let row = mapped(&row, map);
                sum.iter_mut().zip(row).for_each(|(s, v)| *s += share * v);
                *weight += share;
            }
        }
    }
    let mut starts = vec![0_u64];
    let (mut items, mut strengths) = (Vec::new(), Vec::new());
    let mut popularity = vec![0.0; union.size];
    for history in &chosen {
        for (&item, &strength) in history {
            items.push(item);
            strengths.push(strength);
            popularity[item as usize] += 1.0;
        }
        starts.push(items.len() as u64);
    }
    let described = begun.iter().any(Option::is_some);
    let beginnings = match described {
        false => Vec::new(),
        true => {
            let zeros = (vec![0.0; rank], 1.0);
            let rows = begun.iter().map(|found| found.as_ref().unwrap_or(&zeros));
            rows.flat_map(|(sum, weight)| sum.iter().map(move |v| (v / weight) as f32))
                .collect()
        }
    };
    let mut prior = vec![0.0; rank];
    let mut of_users = Mat::<f64>::zeros(rank, rank);
    for ((known, map), share) in known.iter().zip(&maps).zip(&shares) {
        let own = mapped(&known.prior, map);
        prior
            .iter_mut()
            .zip(own)
            .for_each(|(p, v)| *p += share / total * v);
        of_users += map.transpose() * known.grams[0].to_faer() * map;
    }
    let mut of_users = Square::from_faer(&of_users);
    of_users.symmetrize();
    let tall = |m: &Mat<f64>| Tall::from_fn(m.nrows(), rank, |i, j| m[(i, j)]);
    let (encoder, decoder) = (tall(&encoder)?, tall(&decoder)?);
    let card = &known[0].card;
    let same = |value: &dyn Fn(&RecommendCard) -> bool| known.iter().all(|k| value(&k.card));
    let out = Recommended {
        card: RecommendCard {
            regularization: mean(&|card| card.regularization),
            damping: mean(&|card| card.damping),
            weight_scale: mean(&|card| card.weight_scale),
            // A model without that part has a share of none of it.
            own: known
                .iter()
                .find_map(|known| known.card.own)
                .map(|own| Own {
                    share: mean(&|card| card.own.map_or(0.0, |own| own.share)),
                    ..own
                }),
            liked_from: card
                .liked_from
                .filter(|_| same(&|other| other.liked_from == card.liked_from)),
            columns: card
                .columns
                .clone()
                .filter(|_| same(&|other| other.columns == card.columns)),
            ..card.clone()
        },
        users,
        histories: Rows::from_csr(&starts, &items, &strengths, union.size)?,
        popularity,
        prior,
        beginnings,
        grams: [of_users, decoder.gram_now().into_owned()],
    };
    let form = Form::Factored(Factored::new(encoder, decoder));
    Ok((Precise::F32(form), out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recommend;
    use crate::data::Choices;
    use crate::model::Knowledge;
    use crate::random::splitmix64;
    use crate::task::RecommendLearner;

    /// Choices of groups of users, who like items of their group.
    fn choices(users: std::ops::Range<u64>, items: u64) -> Choices {
        let pairs = users.flat_map(|u| (0..items).map(move |i| (u, i)));
        let chosen = pairs.filter(|&(u, i)| {
            let often = if u % 3 == i % 3 { 6 } else { 1 };
            splitmix64(u * 1000 + i) % 10 < often
        });
        let named = chosen.map(|(u, i)| (format!("u{u}"), format!("i{i}"), 1.0));
        Choices::from_entries(named).unwrap()
    }

    fn model(data: &Choices, rank: usize, learner: RecommendLearner) -> Model {
        let options = Recommend::default()
            .learner(learner)
            .rank(rank)
            .regularization(3.0);
        options.fit(data).unwrap()
    }

    fn scores(model: &Model, user: &str) -> Vec<(String, f64)> {
        let (known, items) = (
            model.recommended().unwrap(),
            model.recommended_items().unwrap(),
        );
        let maker = model.recommender().unwrap();
        let user = maker.known_user(known.users.find(user).unwrap());
        let all = (0..).zip(items.iter());
        all.map(|(i, name)| (name.to_owned(), maker.score(&user, i)))
            .collect()
    }

    fn merge(models: &[&Model]) -> Model {
        Model::merge(models, &MergeOptions::default())
            .unwrap()
            .model
    }

    #[test]
    fn a_model_of_choices_merged_with_itself_is_the_same() {
        let data = choices(0..40, 18);
        for learner in [RecommendLearner::Items, RecommendLearner::Als] {
            for rank in [1, 3, 6] {
                let one = model(&data, rank, learner);
                for models in [vec![&one; 2], vec![&one; 3]] {
                    let both = merge(&models);
                    let (a, b) = (one.recommended().unwrap(), both.recommended().unwrap());
                    assert_eq!((&a.users, &a.histories), (&b.users, &b.histories));
                    assert_eq!(a.popularity, b.popularity);
                    for user in a.users.iter() {
                        for (x, y) in scores(&one, user).iter().zip(scores(&both, user)) {
                            // Factors are in single precision.
                            assert!(
                                x.0 == y.0 && (x.1 - y.1).abs() < 1e-4,
                                "{learner:?} {rank}: {x:?} {y:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn halves_know_all_users_and_choices() {
        let halves = [choices(0..25, 18), choices(20..60, 15)]
            .map(|data| model(&data, 3, RecommendLearner::Items));
        let both = merge(&[&halves[0], &halves[1]]);
        let other = merge(&[&halves[1], &halves[0]]);
        let known = both.recommended().unwrap();
        assert_eq!(known.users.len(), 60);
        for model in &halves {
            let (own, items) = (
                model.recommended().unwrap(),
                model.recommended_items().unwrap(),
            );
            let all = both.recommended_items().unwrap();
            for (number, name) in (0..).zip(own.users.iter()) {
                let user = known.users.find(name).unwrap();
                let there = known.histories.row(user as usize);
                for (item, strength) in own.histories.row(number).iter() {
                    let item = all.find(items.get(item)).unwrap();
                    assert!(there.iter().any(|e| e.0 == item && e.1 >= strength));
                }
            }
        }
        // The order of models turns coordinates only, and items of the own group stay ahead, but
        // for users whose few choices are of other groups.
        let mut ahead = 0;
        for user in 0..60 {
            let name = format!("u{user}");
            let (one, two) = (scores(&both, &name), scores(&other, &name));
            let mut groups = [0.0; 3];
            for (item, score) in &one {
                let same = two.iter().find(|e| e.0 == *item).unwrap();
                assert!(
                    (score - same.1).abs() < 0.05,
                    "{name} {item}: {score} {}",
                    same.1
                );
                groups[item[1..].parse::<usize>().unwrap() % 3] += score;
            }
            let best = (0..3).max_by(|&a, &b| groups[a].total_cmp(&groups[b]));
            ahead += usize::from(best == Some(user % 3));
        }
        assert!(ahead >= 54, "{ahead}");
        let bytes = both.to_bytes().unwrap();
        assert_eq!(
            Model::from_bytes(&bytes).unwrap().to_bytes().unwrap(),
            bytes
        );
    }

    #[test]
    fn users_that_are_made_in_other_ways_are_refused() {
        let data = choices(0..20, 9);
        let one = model(&data, 2, RecommendLearner::Items);
        let mut two = one.clone();
        let Knowledge::Recommend(known) = &mut two.knowledge else {
            unreachable!("a model of choices");
        };
        known.card.half_life = Some(5.0);
        let error = Model::merge(&[&one, &two], &MergeOptions::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("half-life none, another of 5 choices"),
            "{error}"
        );
    }
}
