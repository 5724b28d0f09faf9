//! `rankfold demo recommend`: what to show to customers of a made-up shop.

use std::path::Path;
use std::time::Instant;

use rankfold::data::{Choices, write_atomically};
use rankfold::task::ListBaseline;
use rankfold::{Recommend, Result};
use serde_json::{Value, json};

use super::shop::{self, HELD_OUT};
use crate::output::Output;
use crate::page::{examples, maps, measured};

/// Items in a list.
const TOP: usize = 10;

/// Customers whose lists are shown, and how long these are.
const SHOWN: [usize; 3] = [0, 1, 2];
const SHORT: usize = 4;

/// Files to write beside what is printed.
pub struct Files<'a> {
    /// The choices.
    pub data: Option<&'a Path>,
    /// The page.
    pub report: Option<&'a Path>,
}

/// Learns from all but the last choices of each customer, and shows what that gives.
pub fn run(files: &Files<'_>, seed: u64, threads: usize, output: &Output) -> Result<()> {
    let Files { data, report } = *files;
    let start = Instant::now();
    let titles = shop::titles();
    let all = shop::choices();
    if let Some(path) = data {
        write_atomically(path, |out| {
            writeln!(out, "user,item")?;
            for choice in &all {
                writeln!(
                    out,
                    "{},{}",
                    shop::name(choice.customer),
                    titles[choice.item]
                )?;
            }
            Ok(())
        })?;
    }
    let last = |i: usize| {
        let customer = all[i].customer;
        all.get(i + HELD_OUT)
            .is_none_or(|other| other.customer != customer)
    };
    let part = |held: bool| {
        let of = (0..all.len()).filter(move |&i| last(i) == held);
        Choices::from_entries(of.map(|i| (shop::name(all[i].customer), titles[all[i].item], 1.0)))
    };
    let (train, test) = (part(false)?, part(true)?);
    let options = Recommend::default().seed(seed).threads(threads);
    let model = options.fit(&train)?;
    let seconds = start.elapsed().as_secs_f64();
    let popular = [ListBaseline::Popularity];
    let found = model.evaluate_lists(&test, None, &popular, TOP, Some(threads), &|| true)?;
    if let Some(path) = report {
        let command = format!("rankfold demo recommend --report {}", path.display());
        let mut page = measured::page(&model, &found, &command, seconds);
        page.kicker = "rankfold demo recommend, on a made-up shop".into();
        page.title = "What to show to customers".into();
        page.add(examples::choices(&model, &test, None, None, threads)?);
        page.add(maps::of_model(&model, None)?);
        page.write(path)?;
    }
    let names = ["ndcg_at_10", "recall_at_10", "hit_rate_at_10"];
    let before = &found.baselines[0].metrics;
    let picked = |metrics: &rankfold::model::Metrics| -> Value {
        names
            .iter()
            .map(|n| ((*n).to_owned(), json!(metrics[*n])))
            .collect()
    };
    let (known, items) = (model.recommended()?, model.recommended_items()?);
    let recommender = model.recommender()?;
    let mut lists = Vec::new();
    for customer in SHOWN {
        let name = shop::name(customer);
        let Some(user) = known.users.find(&name) else {
            continue;
        };
        let history = known.histories.row(user as usize);
        let place = recommender.known_user(user);
        let mut scored: Vec<(u32, f64)> = (0..items.len() as u32)
            .filter(|item| !history.indices.contains(item))
            .map(|item| (item, recommender.score(&place, item)))
            .collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let shown: Vec<Value> = scored[..SHORT]
            .iter()
            .map(|&(item, _)| {
                let because = recommender.reasons(history, item);
                let because: Vec<&str> =
                    because.iter().take(2).map(|&(i, _)| items.get(i)).collect();
                json!({ "item": items.get(item), "because": because })
            })
            .collect();
        let chose: Vec<&str> = history.indices.iter().map(|&i| items.get(i)).collect();
        lists.push(json!({ "user": name, "chose": chose, "shown": shown }));
    }
    let mut text = format!(
        "A made-up shop of {} items: the last {HELD_OUT} choices of {} customers, learned from their \
         {} others:\n\n{:<16} {:>10} {:>9}\n",
        titles.len(),
        shop::CUSTOMERS,
        all.len() - HELD_OUT * shop::CUSTOMERS,
        "",
        "popularity",
        "learned"
    );
    for name in names {
        text += &format!(
            "{name:<16} {:>10.3} {:>9.3}\n",
            before[name], found.metrics[name]
        );
    }
    let learner = &model.card.learner;
    text += &format!(
        "\nlearned: {learner} of rank {}, {seconds:.1} s\n",
        model.rank()
    );
    for list in &lists {
        let words = |value: &Value| -> String {
            let all = value.as_array().into_iter().flatten();
            all.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        };
        let user = list["user"].as_str().unwrap_or_default();
        text += &format!("\n{user} chose {}\n", words(&list["chose"]));
        for shown in list["shown"].as_array().into_iter().flatten() {
            let item = shown["item"].as_str().unwrap_or_default();
            text += &format!(
                "  show {item:<20} because of {}\n",
                words(&shown["because"])
            );
        }
    }
    text += &match data {
        Some(path) => format!("\nall choices: {}", path.display()),
        None => "\nfor the choices as a file: rankfold demo recommend --data clicks.csv".to_owned(),
    };
    text += &match report {
        Some(path) => format!("\nreport: {}", path.display()),
        None => "\nfor pictures: rankfold demo recommend --report report.html".to_owned(),
    };
    let json = json!({
        "format": 1,
        "task": "recommend",
        "learner": learner,
        "rank": model.rank(),
        "before": picked(before),
        "after": picked(&found.metrics),
        "lists": lists,
        "seconds": seconds,
        "data": data.map(|path| path.display().to_string()),
        "report": report.map(|path| path.display().to_string()),
    });
    if [data, report].contains(&Some(Path::new("-"))) {
        output.result_beside_data(&json, &text);
        return Ok(());
    }
    output.result(&json, &text)
}
