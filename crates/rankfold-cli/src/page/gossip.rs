//! What the page of a run of agents shows beside others: who talks to whom, and how far they are
//! from each other.

use rankfold::task::{GossipFit, Plan};

use super::figures::exact;
use super::{Chart, Graph, Section, Table};
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
