//! Sizes of steps chosen by short runs.

use super::*;
use rankfold::online::choose_step;

fn with_examples<T>(cases: &[Case], see: impl FnOnce(&[Mixed<'_, f64>]) -> T) -> T {
    let rows: Vec<_> = cases.iter().map(|c| narrow::<f64>(&c.p)).collect();
    let examples = rows.iter().zip(cases).map(|(x, case)| Mixed {
        example: RankOne {
            left: x.as_row(),
            right: x.as_row(),
        },
        target: case.y,
        loss: case.loss,
    });
    see(&examples.collect::<Vec<_>>())
}

#[test]
fn the_chosen_step_is_the_best_of_those_tried_and_learns() {
    let shape = (10, 3);
    let mut planted = Planted::new(1, shape, 4);
    let (u, r) = start(&mut planted.random, shape);
    let cases = planted.batch(600, false);
    with_examples(&cases, |examples| {
        fn check<L: Learner<f64> + Clone>(learner: L, examples: &[Mixed<'_, f64>], batch: usize) {
            let choose = || choose_step(&learner, examples, batch, 300, Step::LIMIT).unwrap();
            let chosen = choose();
            assert_eq!(chosen, choose(), "the same every time");
            assert_eq!(chosen.trials.len(), 49);
            let least = chosen
                .trials
                .iter()
                .map(|t| t.cost)
                .fold(f64::MAX, f64::min);
            assert_eq!(chosen.cost, least);
            assert!(chosen.cost < 0.7 * chosen.start, "{chosen:?}");
            let StepRule::Falling { gradient, .. } = chosen.rule else {
                panic!("{chosen:?}");
            };
            let mut copy = learner.clone();
            let norms = examples[..300].iter();
            let norms = norms.map(|e| copy.gradient_norm(e.example, e.target, e.loss));
            assert!((norms.sum::<f64>() / 300.0 / gradient - 1.0).abs() < 1e-12);
        }
        for batch in [1, 16] {
            check(flat::<f64>(&(&u * &r)), examples, batch);
            check(polar::<f64>(&u, &r), examples, batch);
        }
    });
}

#[test]
fn there_may_be_nothing_to_choose_by() {
    let (u, r) = start(&mut Random::new(1), (5, 2));
    let learner = polar::<f64>(&u, &r);
    let choose = |cases: &[Case], budget: usize| {
        with_examples(cases, |e| choose_step(&learner, e, 1, budget, 2.0))
    };
    let one = Case::square(&[1.0; 5], 1.0);
    assert!(choose(&[], 10).is_none());
    assert!(choose(std::slice::from_ref(&one), 10).is_none());
    assert!(choose(&vec![one.clone(); 5], 0).is_none());
    assert!(choose(&vec![one.clone(); 2], 10).is_some());
    // No gradient anywhere, or none that is a number.
    let flat = Case::square(&[0.0; 5], 1.0);
    assert!(choose(&vec![flat; 9], 10).is_none());
    let nan = Case::square(&[1.0; 5], f64::NAN);
    assert!(choose(&vec![nan; 9], 10).is_none());
}
