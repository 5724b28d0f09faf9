//! The reference cases.

use super::*;

fn cases(golden: &Golden) -> Vec<Case> {
    let (x, y) = (golden.matrix("/inputs/x"), golden.vector("/inputs/y"));
    let kinds = golden.vector("/inputs/kind");
    let each = x.iter().zip(y).zip(kinds);
    each.map(|((x, y), kind)| Case {
        loss: match kind {
            0.0 => Loss::Squared,
            1.0 => Loss::AtMost,
            -1.0 => Loss::AtLeast,
            other => panic!("kind {other}"),
        },
        ..Case::square(x, y)
    })
    .collect()
}

fn input(golden: &Golden, name: &str) -> M {
    from_rows(&golden.matrix(&format!("/inputs/{name}")))
}

#[test]
fn golden_psd_online() {
    let golden = Golden::read("psd_online");
    let cases = cases(&golden);
    let n = cases.len() as f64;
    let (g, u, r) = (
        input(&golden, "G0"),
        input(&golden, "U0"),
        input(&golden, "R0"),
    );
    let number = |name: &str| golden.number(&format!("/params/{name}"));
    let (t0, mu, lambda) = (number("t0"), number("mu"), number("lam"));
    let run = |step: &mut dyn FnMut(&[Case], f64), size: f64, p: usize| {
        for (i, batch) in cases.chunks_exact(p).enumerate() {
            let last = (i * p + p - 1) as f64;
            step(batch, size / mu * n * t0 / (n * t0 + last));
        }
    };
    for p in [1, 4] {
        let same = |name: &str, w: &M| {
            let output = format!("{name}_online_p{p}");
            let want = golden.matrix(&format!("/outputs/{output}")).concat();
            golden.same(&output, &flat_of(w), &want);
        };
        let mut plain = PlainFlat { g: g.clone() };
        run(&mut |b, s| plain.step(b, s), number("s_flat"), p);
        same("flat", &plain.w());
        for limit in LIMITS {
            let mut fast = flat::<f64>(&g);
            let size = number("s_flat");
            let mut step = |b: &[Case], size| {
                learn(&mut fast, b, Step { size, limit });
            };
            run(&mut step, size, p);
            same("flat", &fast.w());
        }
        for (name, way) in [("polar_qf", Retraction::Qf), ("polar_uf", Retraction::Uf)] {
            let mut plain = PlainPolar::new(&u, &r, lambda, way);
            run(&mut |b, s| plain.step(b, s), number("s_polar"), p);
            same(name, &plain.w());
            for limit in LIMITS {
                let mut fast = polar::<f64>(&u, &r).retracted(way).subspace_weight(lambda);
                let mut step = |b: &[Case], size| {
                    learn(&mut fast, b, Step { size, limit });
                };
                run(&mut step, number("s_polar"), p);
                same(name, &fast.w());
            }
        }
    }
}

fn flat_of(m: &M) -> Vec<f64> {
    crate::oracle::flat(m)
}

#[test]
fn golden_sparse_polar_psd() {
    let golden = Golden::read("sparse_polar_psd");
    let u = input(&golden, "U0");
    let sparse = |path: &str| -> Vec<SparseVec<f64>> {
        let rows = golden.at(path).as_array().unwrap();
        let row = |row: &serde_json::Value| {
            let (at, values) = (
                crate::golden::vector(&row[0]),
                crate::golden::vector(&row[1]),
            );
            let entries = at.iter().zip(values).map(|(&i, v)| (i as u32, v));
            SparseVec::from_entries(entries.collect())
        };
        rows.iter().map(row).collect()
    };
    let k = u.ncols();
    let mut learner = polar::<f64>(&u, &M::identity(k, k))
        .retracted(Retraction::Qf)
        .subspace_weight(golden.number("/params/lam"));
    let twice = |x: &SparseVec<f64>, f: &mut dyn FnMut(RankOne<'_, f64>)| {
        let row = x.as_row();
        f(RankOne {
            left: row,
            right: row,
        });
    };
    let step = paper(golden.number("/params/step"));
    for (x, y) in sparse("/inputs/x").iter().zip(golden.vector("/inputs/y")) {
        twice(x, &mut |example| {
            let learned = learner.learn(example, y, Loss::Squared, step);
            assert_eq!(learned.outcome, Outcome::Moved);
        });
    }
    let mut scores = Vec::new();
    for x in &sparse("/inputs/probes") {
        twice(x, &mut |example| scores.push(learner.score(example)));
    }
    golden.same("scores", &scores, &golden.vector("/outputs/quad"));
    let trace = golden.number("/outputs/trace");
    golden.same("trace", &[learner.form().trace()], &[trace]);
}

#[test]
fn golden_spd_cone() {
    let golden = Golden::read("spd_cone");
    let (w, x) = (input(&golden, "W"), input(&golden, "X"));
    let terms = Terms::from_dense(&golden.matrix("/inputs/X"));
    let (size, y) = (golden.number("/params/step"), golden.number("/params/y"));
    for (update, output) in [
        (ConeUpdate::Flat, "flat"),
        (ConeUpdate::Affine, "affine_exp"),
        (ConeUpdate::LogDet, "affine_first_order"),
        (ConeUpdate::VonNeumann, "log_euclid_printed_MEG"),
        (ConeUpdate::Log, "log_euclid_true_gradient"),
    ] {
        let want = golden.matrix(&format!("/outputs/{output}")).concat();
        let score = (&w * &x).diagonal().column_vector().sum();
        let m = Scale(score - y) * symmetric::part(&x);
        golden.same(output, &flat_of(&plain_cone(update, &w, &m, size)), &want);
        let mut learner = Cone::new(full::<f64>(&w), update);
        learner.learn_sum(&terms.examples(), y, Loss::Squared, paper(size));
        golden.same(output, &learner.form().to_dense().concat(), &want);
    }
}

#[test]
fn golden_oja() {
    let golden = Golden::read("oja");
    let (u, x) = (input(&golden, "U0"), golden.matrix("/inputs/x"));
    let step = paper(golden.number("/params/step"));
    let want = golden.matrix("/outputs/projector").concat();
    for way in [Retraction::Uf, Retraction::Qf] {
        let mut learner = Oja::new(tall::<f64>(&u)).unwrap().retracted(way);
        for x in &x {
            let x = SparseVec::from_dense(x);
            assert_eq!(learner.learn(x.as_row(), step).outcome, Outcome::Moved);
        }
        golden.same("the projector", &learner.form().to_dense().concat(), &want);
    }
}
