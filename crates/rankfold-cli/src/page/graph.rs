//! A graph of agents with a number on each edge.

use minijinja::{Value, context};

use super::clean;
use super::figures::{WIDTH, exact};
use crate::chart::words::place;

const HEIGHT: f64 = 400.0;
/// With more edges, numbers would cover each other; the table has them.
const NUMBERED: usize = 24;

/// Nodes on a circle, and edges between them.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    pub nodes: Vec<String>,
    pub edges: Vec<(usize, usize, f64)>,
    /// What the numbers of edges are, with their unit.
    pub what: String,
}

pub fn view(graph: &Graph) -> Option<Value> {
    let count = graph.nodes.len();
    let known = |&&(a, b, _): &&(usize, usize, f64)| a < count && b < count;
    if count == 0 {
        return None;
    }
    let touches = |node: usize| {
        graph
            .edges
            .iter()
            .filter(|e| e.0 == node || e.1 == node)
            .count()
    };
    // One that talks to all stands in the middle.
    let hub = (0..count).find(|&node| count > 3 && touches(node) == count - 1);
    let around = count - usize::from(hub.is_some());
    let (x, y, radius) = (WIDTH / 2.0, HEIGHT / 2.0, HEIGHT / 2.0 - 34.0);
    let spot = |node: usize| {
        if hub == Some(node) {
            return (x, y);
        }
        let turn = node - usize::from(hub.is_some_and(|hub| hub < node));
        let angle = std::f64::consts::TAU * (turn as f64 / around as f64 - 0.25);
        (x + radius * angle.cos(), y + radius * angle.sin())
    };
    let edges = graph.edges.iter().filter(known).map(|&(a, b, value)| {
        let (one, other) = (spot(a), spot(b));
        // Off the middle, so that numbers of crossing edges stand apart.
        let at = |one: f64, other: f64| one + 0.42 * (other - one);
        context! {
            x1 => place(one.0), y1 => place(one.1), x2 => place(other.0), y2 => place(other.1),
            x => place(at(one.0, other.0)), y => place(at(one.1, other.1) + 4.0),
            text => exact(value),
        }
    });
    let nodes = graph.nodes.iter().enumerate().map(|(i, name)| {
        let (x, y) = spot(i);
        context! { x => place(x), y => place(y), text_y => place(y + 5.0), number => i, name => clean(name) }
    });
    Some(context! {
        width => WIDTH, height => HEIGHT,
        nodes => nodes.collect::<Vec<_>>(), edges => edges.collect::<Vec<_>>(),
        numbered => graph.edges.len() <= NUMBERED,
    })
}

pub fn describe(graph: &Graph) -> String {
    let edges = graph.edges.iter().take(NUMBERED);
    let edges = edges.map(|&(a, b, value)| format!("{a} and {b}: {}", exact(value)));
    format!(
        "{} nodes and {} edges, with {}. {}.",
        graph.nodes.len(),
        graph.edges.len(),
        graph.what,
        edges.collect::<Vec<_>>().join("; ")
    )
}
