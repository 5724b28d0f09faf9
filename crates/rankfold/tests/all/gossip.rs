//! Gossip against the reference cases.

use crate::golden::{Golden, matrix, vector};
use faer::Mat;
use rankfold::batch::{Observed, Part, Tasks};
use rankfold::gossip::{Columns, Euclidean, Graph, Regressions, Settings, Simulation, Steps, Work};

fn mat(rows: &[Vec<f64>]) -> Mat<f64> {
    Mat::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}

fn flat(m: &Mat<f64>) -> Vec<f64> {
    let places = (0..m.nrows()).flat_map(|i| (0..m.ncols()).map(move |j| (i, j)));
    places.map(|(i, j)| m[(i, j)]).collect()
}

fn starts(golden: &Golden) -> Vec<Mat<f64>> {
    let all = golden.at("/inputs/U0").as_array().unwrap();
    all.iter().map(|u| mat(&matrix(u))).collect()
}

/// Slots with one edge each, and with several.
fn slots(golden: &Golden, name: &str) -> Vec<Vec<usize>> {
    let all = golden.at(&format!("/inputs/{name}")).as_array().unwrap();
    let numbers = |slot: &serde_json::Value| match slot.as_u64() {
        Some(edge) => vec![edge as usize],
        None => vector(slot).into_iter().map(|e| e as usize).collect(),
    };
    all.iter().map(numbers).collect()
}

fn ends_as<W: Work + Clone>(
    golden: &Golden,
    works: &[W],
    (edges, steps): (&str, Steps),
    outputs: &str,
) {
    let settings = Settings {
        steps,
        threads: 2,
        ..Settings::default()
    };
    let graph = Graph::path(works.len()).unwrap();
    let rho = golden.number("/params/rho");
    let mut simulation =
        Simulation::new(works.to_vec(), graph, rho, &starts(golden), settings).unwrap();
    for slot in slots(golden, edges) {
        simulation.slot_with(&slot).unwrap();
    }
    for (i, agent) in simulation.agents().iter().enumerate() {
        let u = agent.subspace();
        let want = golden.matrix(&format!("{outputs}/projectors/{i}")).concat();
        golden.same(outputs, &flat(&(u * u.transpose())), &want);
    }
    let cost = golden.number(&format!("{outputs}/total_cost"));
    golden.same(outputs, &[simulation.status().cost], &[cost]);
    let pairs: f64 = simulation.pair_costs().into_iter().sum();
    golden.same(outputs, &[pairs], &[cost]);
}

#[test]
fn golden_gossip_completion() {
    let golden = Golden::read("gossip_completion");
    let (y, mask) = (golden.matrix("/inputs/Y"), golden.matrix("/inputs/mask"));
    let (m, n) = (y.len(), y[0].len());
    let places = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
    let known = places.filter(|&(i, j)| mask[i][j] != 0.0);
    let entries = known.map(|(i, j)| (i as u32, j as u32, y[i][j])).collect();
    let observed = Observed::new((m, n), entries).unwrap().0;
    let [a, b, a_scaled, lambda] =
        ["a", "b", "a_precon", "lam"].map(|name| golden.number(&format!("/params/{name}")));
    let agents = golden.number("/params/N") as usize;
    let share = |i: usize| i * n / agents..(i + 1) * n / agents;
    let works: Vec<Columns> = (0..agents)
        .map(|i| Columns::new(observed.part(Part::All), share(i), 0.0, lambda).unwrap())
        .collect();
    let given = |a: f64, precondition: bool| Steps::Given { a, b, precondition };
    for (edges, steps, outputs) in [
        ("edges", given(a, false), "stochastic"),
        ("edges", given(a_scaled, true), "precon"),
        ("parallel_edges", given(a, false), "parallel"),
        ("parallel_edges", given(a_scaled, true), "precon_parallel"),
    ] {
        let outputs = format!("/outputs/{outputs}");
        ends_as(&golden, &works, (edges, steps), &outputs);
    }
    let settings = Settings {
        steps: given(a, false),
        threads: 2,
        ..Settings::default()
    };
    let graph = Graph::path(agents).unwrap();
    let rho = golden.number("/params/rho");
    let mut euclidean = Euclidean::new(works, graph, rho, &starts(&golden), settings).unwrap();
    for slot in slots(&golden, "edges") {
        euclidean.slot_with(&slot);
    }
    for (i, u) in euclidean.points().iter().enumerate() {
        let want = golden.matrix(&format!("/outputs/euclidean/U/{i}")).concat();
        golden.same("euclidean", &flat(u), &want);
    }
    assert!(euclidean.status().cost.is_finite());
}

#[test]
fn golden_gossip_multitask() {
    let golden = Golden::read("gossip_multitask");
    let groups = golden.at("/inputs/groups").as_array().unwrap();
    let lambda = golden.number("/params/lam");
    let works: Vec<Regressions> = groups
        .iter()
        .map(|group| {
            let tasks: Vec<(Vec<f64>, Vec<f64>)> = group
                .as_array()
                .unwrap()
                .iter()
                .map(|task| (matrix(&task["X"]).concat(), vector(&task["y"])))
                .collect();
            let features = tasks[0].0.len() / tasks[0].1.len();
            let tasks = Tasks::new(features, tasks.iter().map(|(x, y)| (&x[..], &y[..])));
            Regressions::new(tasks.unwrap(), lambda)
        })
        .collect();
    let [a, b] = ["a", "b"].map(|name| golden.number(&format!("/params/{name}")));
    let steps = Steps::Given {
        a,
        b,
        precondition: false,
    };
    let graph = Graph::path(works.len()).unwrap();
    let simulation = Simulation::new(
        works.clone(),
        graph,
        golden.number("/params/rho"),
        &starts(&golden),
        Settings::default(),
    );
    let cost = golden.number("/outputs/initial_cost");
    golden.same("start", &[simulation.unwrap().status().cost], &[cost]);
    ends_as(&golden, &works, ("edges", steps), "/outputs");
}
