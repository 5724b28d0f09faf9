//! What all pictures share: scales, round numbers on axes, and paths.

pub mod scale;
pub mod words;

use words::place;

/// The path through the finite points, broken where one is missing.
pub fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    let mut pen = 'M';
    for (x, y) in points {
        if x.is_finite() && y.is_finite() {
            path += &format!("{pen}{} {}", place(x), place(y));
            pen = 'L';
        } else {
            pen = 'M';
        }
    }
    path
}
