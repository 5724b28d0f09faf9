//! Positive definite matrices of full rank.

use super::*;

const UPDATES: [ConeUpdate; 5] = [
    ConeUpdate::Flat,
    ConeUpdate::Affine,
    ConeUpdate::LogDet,
    ConeUpdate::Log,
    ConeUpdate::VonNeumann,
];

fn definite(random: &mut Random, n: usize) -> M {
    let a = random.matrix(n, n);
    Scale(1.0 / n as f64) * (&a * a.transpose()) + Scale(0.5) * M::identity(n, n)
}

/// Squares, examples of two rows, batches: all are the dense step.
#[test]
fn runs_equal_the_dense_algorithms() {
    for n in [1, 2, 6] {
        for update in UPDATES {
            for (batch, mixed) in [(1, false), (1, true), (3, true)] {
                let mut planted = Planted::new(n as u64, (n, n), n);
                let mut plain = definite(&mut planted.random, n);
                let mut fast = Cone::new(full::<f64>(&plain), update);
                let size = 0.01 / (n * n) as f64;
                for _ in 0..40 {
                    let cases = planted.batch(batch, mixed);
                    learn(&mut fast, &cases, paper(size));
                    let m = gradient(&plain, &cases);
                    plain = symmetric::part(&plain_cone(update, &plain, &m, size));
                }
                let what = format!("{update:?}, n = {n}, batch {batch}");
                close(&what, &fast.w(), &plain, 1e-10);
                let w = fast.w();
                assert!(w == w.transpose().to_owned(), "{what}: not symmetric");
                assert!(symmetric::power(&w, 0.5).is_some(), "{what}: not definite");
            }
        }
    }
}

/// W → AWAᵀ and X → A⁻ᵀXA⁻¹: the affine-invariant updates move along, others do not.
#[test]
fn affine_steps_do_not_see_a_change_of_coordinates() {
    let n = 4;
    let mut planted = Planted::new(2, (n, n), n);
    let w = definite(&mut planted.random, n);
    let a = planted.random.matrix(n, n) + Scale(3.0) * M::identity(n, n);
    let (inverse, case) = (pinv(&a), planted.square());
    let x = crate::oracle::flat(&(inverse.transpose() * column(&case.p)));
    let other = Case::square(&x, case.y);
    for update in UPDATES {
        let mut one = Cone::new(full::<f64>(&w), update);
        let turned = symmetric::part(&(&a * &w * a.transpose()));
        let mut two = Cone::new(full::<f64>(&turned), update);
        learn_one(&mut one, &case, paper(1e-3));
        learn_one(&mut two, &other, paper(1e-3));
        let want = &a * one.w() * a.transpose();
        let off = norm(&(two.w() - &want)) / norm(&want);
        match update {
            ConeUpdate::Affine | ConeUpdate::LogDet => assert!(off < 1e-13, "{update:?} {off:e}"),
            _ => assert!(off > 1e-6, "{update:?} {off:e}"),
        }
    }
}

#[test]
fn logdet_steps_that_lose_positivity_are_refused_and_others_are_not() {
    let w = M::identity(3, 3);
    for batch in [1, 2] {
        for update in UPDATES {
            let mut learner = Cone::new(full::<f64>(&w), update);
            let cases = vec![Case::square(&[1.0, 2.0, 0.0], -2.0); batch];
            let outcome = learn(&mut learner, &cases, paper(1.0)).outcome;
            match update {
                ConeUpdate::LogDet => {
                    assert_eq!(outcome, Outcome::Refused);
                    assert!(learner.w() == w);
                }
                _ => assert_eq!(outcome, Outcome::Moved, "{update:?}"),
            }
            // With the limit of a step it is short enough.
            let mut learner = Cone::new(full::<f64>(&w), update);
            let step = Step {
                size: 1.0,
                limit: 1.0,
            };
            assert_eq!(learn(&mut learner, &cases, step).outcome, Outcome::Moved);
            assert!(symmetric::power(&learner.w(), 0.5).is_some());
        }
    }
}

#[test]
fn impossible_steps_are_refused_and_change_nothing() {
    for update in UPDATES {
        let mut learner = Cone::new(full::<f32>(&M::identity(3, 3)), update);
        for (value, target, size) in [
            (f64::NAN, 1.0, 0.1),
            (f64::INFINITY, 1.0, 0.1),
            (1e30, 1.0, 1e30),
            (1.0, f64::NAN, 0.1),
            (1.0, f64::INFINITY, 0.1),
            (1.0, 1.0, f64::NAN),
        ] {
            for batch in [1, 2] {
                let cases = vec![Case::square(&[value, 1.0, 0.0], target); batch];
                let outcome = learn(&mut learner, &cases, paper(size)).outcome;
                assert_eq!(
                    outcome,
                    Outcome::Refused,
                    "{update:?} {value} {target} {size}"
                );
                assert!(learner.w() == M::identity(3, 3));
            }
        }
        let empty = Case::square(&[0.0; 3], 1.0);
        assert_eq!(
            learn_one(&mut learner, &empty, paper(0.1)).outcome,
            Outcome::Idle
        );
    }
}

/// A matrix that is not positive definite is no start for most updates.
#[test]
fn a_start_outside_of_the_cone_is_refused() {
    let w = M::from_fn(2, 2, |i, j| f64::from(i != j));
    for update in UPDATES {
        let mut learner = Cone::new(full::<f64>(&w), update);
        let case = Case::square(&[1.0, -1.0], 1.0);
        let outcome = learn_one(&mut learner, &case, paper(0.1)).outcome;
        assert_eq!(outcome, Outcome::Refused, "{update:?}");
        assert!(learner.w() == w);
    }
}
