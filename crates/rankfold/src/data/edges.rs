//! The edges of a graph: two numbers a line.

use super::open::Lines;
use crate::Result;
use std::path::Path;

/// Reads lines of two numbers from 0, separated by spaces, tabs or a comma; empty lines
/// and those that begin with `#` are skipped. `-` is stdin.
pub fn read_edges(path: impl AsRef<Path>) -> Result<Vec<(usize, usize)>> {
    let mut lines = Lines::open(path)?;
    let mut edges = Vec::new();
    while let Some(line) = lines.next_line()? {
        let text = String::from_utf8_lossy(line).into_owned();
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let ends = text.split([' ', '\t', ',']).filter(|end| !end.is_empty());
        let numbers: Option<Vec<usize>> = ends.map(|end| end.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[a, b]) if a != b => edges.push((a, b)),
            Some(&[a, _]) => {
                return Err(lines.error(format!("an edge leads from agent {a} to itself")));
            }
            _ => {
                let shown: String = text.chars().take(40).collect();
                let message = format!("expected the numbers of two agents, found `{shown}`");
                return Err(lines.error(message));
            }
        }
    }
    Ok(edges)
}
