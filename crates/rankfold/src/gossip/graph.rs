//! Who talks to whom: connected graphs of agents.
//!
//! An agent of degree d has the weight 1/d in each pair that it is part of, so that
//! the costs of all pairs add up to the cost of all agents, on any graph.

use crate::random::Random;
use crate::{Error, Result};

/// The stream of random numbers that random graphs are drawn from.
const EDGES: u64 = 0x6761;

/// Agents that a message about parts of a graph names, at most.
const NAMED: usize = 8;

/// A connected graph without loops, in which no edge comes twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    neighbors: Vec<Vec<usize>>,
    edges: Vec<(usize, usize)>,
}

impl Graph {
    /// A graph of its edges, between agents that are numbered from 0.
    pub fn new(agents: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Result<Self> {
        if agents < 2 {
            return Err(Error::input(format!(
                "gossip needs at least 2 agents, found {agents}"
            )));
        }
        let mut neighbors = vec![Vec::new(); agents];
        let mut kept = Vec::new();
        for (a, b) in edges {
            if let Some(outside) = [a, b].into_iter().find(|&i| i >= agents) {
                return Err(Error::input(format!(
                    "an edge names agent {outside}, expected numbers from 0 to {}",
                    agents - 1
                )));
            }
            if a == b {
                return Err(Error::input(format!(
                    "an edge leads from agent {a} to itself"
                )));
            }
            if !neighbors[a].contains(&b) {
                neighbors[a].push(b);
                neighbors[b].push(a);
                kept.push((a.min(b), a.max(b)));
            }
        }
        neighbors.iter_mut().for_each(|list| list.sort_unstable());
        let graph = Graph {
            neighbors,
            edges: kept,
        };
        match graph.parts() {
            parts if parts.len() == 1 => Ok(graph),
            parts => Err(Error::input(format!(
                "the graph is not connected, its parts are {}",
                listed(&parts)
            ))),
        }
    }

    /// 0 – 1 – 2 – …
    pub fn path(agents: usize) -> Result<Self> {
        Self::new(agents, (1..agents).map(|i| (i - 1, i)))
    }

    /// A path whose ends are joined.
    pub fn ring(agents: usize) -> Result<Self> {
        let last = (agents > 2).then(|| (0, agents - 1));
        Self::new(agents, (1..agents).map(|i| (i - 1, i)).chain(last))
    }

    /// Rows of equal length, as near to a square as the number of agents allows.
    pub fn grid(agents: usize) -> Result<Self> {
        let width = (1..=agents)
            .filter(|w| agents.is_multiple_of(*w))
            .find(|w| w * w >= agents)
            .unwrap_or(1);
        let along = (1..agents)
            .filter(|i| i % width != 0)
            .map(|i| (i - 1, i))
            .collect::<Vec<_>>();
        let down = (width..agents).map(|i| (i - width, i));
        Self::new(agents, along.into_iter().chain(down))
    }

    /// Agent 0 in the middle of all others.
    pub fn star(agents: usize) -> Result<Self> {
        Self::new(agents, (1..agents).map(|i| (0, i)))
    }

    /// A random tree, and about one more edge for every two agents.
    pub fn random(agents: usize, seed: u64) -> Result<Self> {
        let mut random = Random::new(seed, EDGES);
        let mut edges: Vec<(usize, usize)> = (1..agents).map(|i| (random.below(i), i)).collect();
        for _ in 0..agents / 2 {
            let (a, b) = (random.below(agents), random.below(agents));
            if a != b {
                edges.push((a, b));
            }
        }
        Self::new(agents, edges)
    }

    /// How many agents there are.
    pub fn agents(&self) -> usize {
        self.neighbors.len()
    }

    /// The edges, in the order they were given.
    pub fn edges(&self) -> &[(usize, usize)] {
        &self.edges
    }

    /// The neighbors of an agent, rising.
    pub fn neighbors(&self, agent: usize) -> &[usize] {
        &self.neighbors[agent]
    }

    /// What an agent's own cost weighs in each of its pairs: 1/degree.
    pub fn weight(&self, agent: usize) -> f64 {
        1.0 / self.neighbors[agent].len() as f64
    }

    /// The edges in groups that share no agent: those of a group may be used at
    /// once. A path has two of them, red and black. Each edge takes the first group
    /// that is free at both ends, so there are fewer than twice the largest degree.
    pub fn matchings(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut taken: Vec<Vec<bool>> = Vec::new();
        for (number, &(a, b)) in self.edges.iter().enumerate() {
            let free = (0..groups.len()).find(|&g| !taken[g][a] && !taken[g][b]);
            let group = free.unwrap_or_else(|| {
                groups.push(Vec::new());
                taken.push(vec![false; self.agents()]);
                groups.len() - 1
            });
            groups[group].push(number);
            (taken[group][a], taken[group][b]) = (true, true);
        }
        groups
    }

    fn parts(&self) -> Vec<Vec<usize>> {
        let mut seen = vec![false; self.agents()];
        let mut parts = Vec::new();
        for first in 0..self.agents() {
            if seen[first] {
                continue;
            }
            seen[first] = true;
            let mut part = vec![first];
            let mut at = 0;
            while at < part.len() {
                for &next in &self.neighbors[part[at]] {
                    if !std::mem::replace(&mut seen[next], true) {
                        part.push(next);
                    }
                }
                at += 1;
            }
            part.sort_unstable();
            parts.push(part);
        }
        parts
    }
}

/// Parts of a graph for people: `{0, 1} and {2}`.
fn listed(parts: &[Vec<usize>]) -> String {
    let part = |part: &Vec<usize>| {
        let mut names: Vec<String> = part.iter().take(NAMED).map(usize::to_string).collect();
        if part.len() > NAMED {
            names.push(format!("… {} agents", part.len()));
        }
        format!("{{{}}}", names.join(", "))
    };
    let mut names: Vec<String> = parts.iter().take(NAMED).map(part).collect();
    if parts.len() > NAMED {
        names.push(format!("{} more", parts.len() - NAMED));
    }
    let last = names.pop().unwrap_or_default();
    match names.is_empty() {
        true => last,
        false => format!("{} and {last}", names.join(", ")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn all(agents: usize) -> Vec<Graph> {
        vec![
            Graph::path(agents).unwrap(),
            Graph::ring(agents).unwrap(),
            Graph::grid(agents).unwrap(),
            Graph::star(agents).unwrap(),
            Graph::random(agents, 1).unwrap(),
        ]
    }

    #[test]
    fn weights_of_an_agent_add_up_to_one() {
        for agents in [2, 3, 4, 6, 7, 12, 50] {
            for graph in all(agents) {
                let mut sums = vec![0.0; agents];
                for &(a, b) in graph.edges() {
                    sums[a] += graph.weight(a);
                    sums[b] += graph.weight(b);
                }
                assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-12));
            }
        }
        let path = Graph::path(4).unwrap();
        assert_eq!([0, 1, 2, 3].map(|i| path.weight(i)), [1.0, 0.5, 0.5, 1.0]);
        assert_eq!(Graph::path(2).unwrap().weight(1), 1.0);
    }

    #[test]
    fn matchings_share_no_agent_and_have_all_edges() {
        for agents in [2, 3, 6, 9, 16, 31] {
            for graph in all(agents) {
                let mut edges: Vec<usize> = graph.matchings().concat();
                edges.sort_unstable();
                assert_eq!(edges, (0..graph.edges().len()).collect::<Vec<_>>());
                for group in graph.matchings() {
                    let mut met = vec![false; agents];
                    for (a, b) in group.iter().map(|&e| graph.edges()[e]) {
                        assert!(!std::mem::replace(&mut met[a], true));
                        assert!(!std::mem::replace(&mut met[b], true));
                    }
                }
            }
        }
        let path = Graph::path(6).unwrap();
        assert_eq!(path.matchings(), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(Graph::grid(16).unwrap().matchings().len(), 4);
    }

    #[test]
    fn graphs_have_the_edges_of_their_names() {
        assert_eq!(Graph::ring(2).unwrap().edges(), [(0, 1)]);
        assert_eq!(Graph::ring(5).unwrap().edges().len(), 5);
        assert_eq!(Graph::grid(12).unwrap().edges().len(), 17);
        assert_eq!(Graph::grid(7).unwrap(), Graph::path(7).unwrap());
        assert_eq!(Graph::star(5).unwrap().neighbors(0), [1, 2, 3, 4]);
        assert_eq!(Graph::random(9, 4).unwrap(), Graph::random(9, 4).unwrap());
    }

    #[test]
    fn parts_of_a_graph_are_named() {
        let error = |agents, edges: &[(usize, usize)]| {
            let found = Graph::new(agents, edges.iter().copied());
            found.unwrap_err().message
        };
        assert_eq!(
            error(6, &[(0, 1), (3, 2), (4, 2)]),
            "the graph is not connected, its parts are {0, 1}, {2, 3, 4} and {5}"
        );
        assert_eq!(
            error(3, &[(0, 1), (1, 3)]),
            "an edge names agent 3, expected numbers from 0 to 2"
        );
        assert_eq!(error(3, &[(1, 1)]), "an edge leads from agent 1 to itself");
        assert_eq!(error(1, &[]), "gossip needs at least 2 agents, found 1");
        assert!(error(1000, &[(0, 1)]).ends_with("{7}, {8} and 991 more"));
    }
}
