//! What the page of a run of agents shows beside others: who talks to whom, how far they are
//! from each other, and what they gain by it.

use rankfold::task::{Beside, GossipFit, Plan};

use super::figures::exact;
use super::{Bar, Bars, Chart, Graph, Section, Table, metrics};
use crate::chart::words::count;

/// The graph of the agents with the distances of neighbors.
pub fn graph(found: &GossipFit, plan: &Plan, what: &str) -> Section {
    let mut section = Section::new(
        "Who talks to whom",
        "Neighbors send each other their subspaces, never data. The number of an edge is the distance of \
         its two subspaces at the end, in radians.",
    );
    let name = |(i, share): (usize, &usize)| format!("agent {i}, {} {what}", count(*share as u64));
    let graph = Graph {
        nodes: plan.parts.iter().enumerate().map(name).collect(),
        edges: found.distances.clone(),
        what: "the distance of two subspaces in radians".into(),
    };
    section.draw(
        "Agents",
        "Point at an agent to see how much it owns",
        Chart::Graph(graph),
    );
    let rows = found.distances.iter();
    section.tables.push(Table {
        caption: "Distances of neighbors".into(),
        head: vec!["agents".into(), "radians".into()],
        rows: rows
            .map(|(a, b, apart)| vec![format!("{a} and {b}"), exact(*apart)])
            .collect(),
        folded: true,
    });
    section.tables.push(Table {
        caption: "What agents own".into(),
        head: vec!["agent".into(), what.into()],
        rows: plan
            .parts
            .iter()
            .enumerate()
            .map(|(i, share)| vec![i.to_string(), count(*share as u64)])
            .collect(),
        folded: true,
    });
    section
}

/// The most agents whose bars are drawn; the table has all.
const DRAWN: usize = 12;

/// What agents learned together, beside learning alone and in one place.
pub fn beside(found: &Beside, what: &str) -> Section {
    let (called, _) = metrics::words(found.metric);
    let mut section = Section::new(
        "What agents gain by talking",
        format!(
            "Agents ran once more on nine tenths of their {what}; the {called} is that on the rest, less is \
             better. Alone, each agent learns the same kind of model from its own {what}. In one place, \
             one learner has the {what} of all."
        ),
    );
    let ways = ["together", "alone", "in one place"];
    let numbers: Vec<[f64; 3]> = found
        .agents
        .iter()
        .map(|one| [one.together, one.alone, one.central])
        .collect();
    let bars = Bars {
        series: ways.map(str::to_owned).to_vec(),
        groups: (numbers.iter().zip(&found.agents).enumerate())
            .take(DRAWN)
            .map(|(i, (values, one))| Bar {
                name: format!("agent {i}"),
                note: format!("{} held out", count(one.held as u64)),
                values: values.to_vec(),
            })
            .collect(),
        own_scales: false,
        most: None,
    };
    let deck = match found.agents.len() > DRAWN {
        true => format!("The first {DRAWN} of {} agents", found.agents.len()),
        false => String::new(),
    };
    section.draw(
        &format!("{called} on held-out {what}"),
        deck,
        Chart::Bars(bars),
    );
    let row = |name: String, held: usize, values: &[f64; 3]| {
        let mut row = vec![name, count(held as u64)];
        row.extend(values.map(exact));
        row
    };
    let mut rows: Vec<Vec<String>> = (numbers.iter().zip(&found.agents).enumerate())
        .map(|(i, (values, one))| row(i.to_string(), one.held, values))
        .collect();
    let measured: Vec<&[f64; 3]> = numbers.iter().filter(|n| n[0].is_finite()).collect();
    let mean = |way: usize| {
        let sum: f64 = measured.iter().map(|values| values[way]).sum();
        sum / measured.len() as f64
    };
    let all = found.agents.iter().map(|one| one.held).sum();
    rows.push(row("mean".into(), all, &[mean(0), mean(1), mean(2)]));
    let mut head = vec!["agent".to_owned(), "held out".into()];
    head.extend(ways.map(str::to_owned));
    section.tables.push(Table {
        caption: String::new(),
        head,
        rows,
        folded: false,
    });
    section
}
