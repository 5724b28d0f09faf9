//! Rows in the plane: their two principal directions in the learned space.

use rankfold::linalg::principal_coordinates;
use serde::Serialize;

use super::Answer;
use crate::error::Refused;

/// A row in the plane.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dot {
    pub id: String,
    pub x: f64,
    pub y: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// The plane of points with their names.
pub fn plane(
    points: &[f64],
    rank: usize,
    names: impl Iterator<Item = (String, Option<String>)>,
) -> Answer<Vec<Dot>> {
    if points.is_empty() {
        return Ok(Vec::new());
    }
    let wide = rank.min(2);
    let places = match points.len() / rank > 1 {
        true => principal_coordinates(points, rank, wide),
        false => Some(vec![0.0; wide]),
    };
    let places = places.filter(|places| places.iter().all(|v| v.is_finite()));
    let places = places.ok_or_else(|| Refused::input("the rows have no principal directions"))?;
    let dots = names
        .zip(places.chunks_exact(wide))
        .map(|((id, label), at)| Dot {
            id,
            x: at[0],
            y: at.get(1).copied().unwrap_or(0.0),
            label,
        });
    Ok(dots.collect())
}
