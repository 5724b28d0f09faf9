//! Every task from values in memory: fit, measure, ask, go on learning. No file is read.
//!
//! ```text
//! cargo run --release --example in_memory
//! ```

use rankfold::data::{Dissimilarity, Labelled, Labels, Ratings, Relation, StreamRow, TaskRows};
use rankfold::data::{Features, ValuedPair};
use rankfold::random::normal_at;
use rankfold::sample::Triplet;
use rankfold::task::{Evaluate, GossipData, KernelTruth, Map, PairsData, Run, TrainingData};
use rankfold::{Completion, Gossip, Ids, Kernel, Metric, Multitask, Pairs, Ranking, Similarity};
use rankfold::{Result, Rows};

/// Sixty rows of five features in three classes, which differ in the first two.
fn rows() -> Result<Labelled<f64>> {
    let value = |i: usize, j: usize| {
        let class = if j < 2 { ((i % 3 + j) % 3) as f64 } else { 0.0 };
        2.0 * class + normal_at(1, 0, i as u64, j as u64)
    };
    let rows = (0..60).map(|i| (0..5).map(|j| value(i, j)).collect::<Vec<_>>());
    Labelled::new(Rows::from_dense(rows)?).with_labels(Labels::single((0..60).map(|i| i % 3)))
}

fn similarity() -> Result<()> {
    let data = rows()?;
    let model = Similarity::default().rank(2).steps(20_000).fit(&data)?;
    let evaluate = Evaluate {
        precision_at: &[],
        score: None,
        threads: 1,
        progress: &|_| true,
    };
    let found = evaluate.rows(&model, data.clone())?;
    println!("similarity: map {:.3}", found.metrics["map"]);
    println!("  most like row 0: {:?}", model.neighbors(&data, 0, 2)?);
    let mut learner = model.into_learner::<f64>()?;
    learner.learn(&Triplet {
        query: data.rows.row(0),
        positive: data.rows.row(3),
        negative: data.rows.row(1),
    })?;
    println!("  {} steps", learner.counters().steps);
    Ok(())
}

fn ranking() -> Result<()> {
    let data = rows()?;
    let model = Ranking::default().rank(2).epochs(20).fit(&data)?;
    let found = model.evaluate_labels(data.clone(), None, 1, &|_| true)?;
    println!("ranking: map {:.3}", found.metrics["map"]);
    let prepared = model.prepare(data.rows.clone(), &data.features)?;
    let mut scores = [0.0; 3];
    model.label_scores(&prepared)?.of(0, &mut scores);
    println!("  labels of row 0: {scores:.3?}");
    let mut learner = model.into_learner::<f64>()?;
    let new = learner.label("a new label")?;
    learner.learn_labels(data.rows.row(0), &[new])?;
    println!("  {} labels", learner.label_count());
    Ok(())
}

fn pairs() -> Result<()> {
    let data = rows()?;
    let pair = |i: u32| ValuedPair {
        left: i % 60,
        right: i * 7 % 60,
        value: f64::from(u8::from(i % 3 == i * 7 % 3)),
    };
    let known: Vec<ValuedPair> = (0..400).map(pair).collect();
    let from = PairsData {
        data: TrainingData::from(&data),
        pairs: &known,
        valid: None,
    };
    let fit = Pairs::default().rank(2).fit_with(from, Run::default())?;
    let found = fit.model.evaluate_pairs(&data, None, &known, None)?;
    println!("pairs: rmse {:.3}", found.metrics["rmse"]);
    println!(
        "  value of rows 0 and 3: {:.3}",
        fit.model.score(&data, 0, 3)?
    );
    let mut learner = fit.model.into_learner::<f64>()?;
    learner.learn_rows(data.rows.row(0), data.rows.row(3), 1.0)?;
    Ok(())
}

fn metric() -> Result<()> {
    let data = rows()?;
    let model = Metric::default().rank(2).fit(&data)?;
    let found = model.evaluate_metric(data.clone(), None, 5, 1)?;
    println!(
        "metric: error of 5 neighbors {:.3}",
        found.metrics["knn_error"]
    );
    println!(
        "  distance of rows 0 and 3: {:.3}",
        model.score(&data, 0, 3)?
    );
    let mut learner = model.into_learner::<f64>()?;
    let pair = [StreamRow::Row(0), StreamRow::Row(3)];
    let ready = learner.prepare(data.rows.clone(), &Features::Numbered)?;
    learner.learn_distance(pair, Relation::Same, &ready)?;
    Ok(())
}

fn kernel() -> Result<()> {
    let data = rows()?;
    let model = Kernel::default().rank(3).fit(&data)?;
    let found = model.evaluate_kernel(KernelTruth::of(&data))?;
    println!("kernel: nmi of clusters {:.3}", found.metrics["nmi"]);
    Ok(())
}

fn map() -> Result<()> {
    let mut cities = Ids::new();
    for name in ["Rome", "Pisa", "Milan", "Bari"] {
        cities.intern(name);
    }
    let known = [
        (0, 1, 264.0),
        (0, 2, 477.0),
        (1, 2, 220.0),
        (0, 3, 374.0),
        (2, 3, 788.0),
    ];
    let known = known.map(|(left, right, value)| Dissimilarity { left, right, value });
    let model = Map::default().fit(&cities, &known)?;
    println!("map: {} items in {} dimensions", cities.len(), model.rank());
    Ok(())
}

fn ratings() -> Result<Ratings> {
    let rating = |i: u32| {
        (
            i % 12,
            i * 5 % 17,
            f64::from(1 + (i % 12 * (i * 5 % 17)) % 5),
        )
    };
    Ratings::from_entries((0..150).map(rating))
}

fn completion() -> Result<()> {
    let ratings = ratings()?;
    let model = Completion::default().rank(2).fit::<f32>(ratings.clone())?;
    println!(
        "completion: rmse {:.3}",
        model.evaluate_ratings(&ratings)?.metrics["rmse"]
    );
    let rating = model.rating_predictor()?.rating(Some(0), Some(3));
    println!("  the first user gives the fourth item {rating:.2}");
    let mut learner = model.into_rating_learner::<f32>()?;
    learner.learn("a new user", "3", 4.0)?;
    println!(
        "  {} users and items",
        learner.shape().0 + learner.shape().1
    );
    Ok(())
}

fn multitask() -> Result<()> {
    let data = rows()?;
    let target = |i: usize| data.rows.row(i).values[0] * [1.0, -1.0, 0.5][i % 3];
    let tasks = (0..60).map(|i| format!("school {}", i % 3));
    let tasks = TaskRows::new(
        tasks,
        data.rows.clone(),
        (0..60).map(target).collect::<Vec<_>>(),
    )?;
    let model = Multitask::default().rank(1).fit(&tasks)?;
    println!(
        "multitask: nmse {:.3}",
        model.evaluate_tasks(&tasks, None, 1)?.metrics["nmse"]
    );
    let mut learner = model.into_task_learner()?;
    learner.learn("a new school", data.rows.row(0), 1.0)?;
    println!("  {} tasks", learner.tasks());
    Ok(())
}

fn gossip() -> Result<()> {
    let ratings = ratings()?;
    let gossip = Gossip::default().agents(3).rank(2).slots(40);
    let found = gossip.fit_agents::<f32>(GossipData::from(&ratings), Run::default())?;
    let rmse = found.fit.model.evaluate_ratings(&ratings)?.metrics["rmse"];
    println!("gossip: {} agents, rmse {rmse:.3}", found.agents.len());
    Ok(())
}

fn main() -> Result<()> {
    for task in [
        similarity, ranking, pairs, metric, kernel, map, completion, multitask, gossip,
    ] {
        task()?;
    }
    Ok(())
}
