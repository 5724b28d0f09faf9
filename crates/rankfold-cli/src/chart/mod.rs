//! What all pictures share: scales, round numbers on axes, and paths.

pub mod scale;
pub mod words;

use words::place;

/// Colors that people with any kind of color vision tell apart (Okabe and Ito), and dashes for
/// when there are more lines.
pub const COLORS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];
pub const DASHES: [&str; 3] = ["", "7 4", "2 3"];

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

/// The nearest that two numbers beside a panel stand.
const APART: f64 = 14.0;

/// Places of numbers that would stand at these heights, moved down until none covers another.
pub fn spread(heights: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|&a, &b| heights[a].total_cmp(&heights[b]));
    let (mut out, mut free) = (heights.to_vec(), f64::NEG_INFINITY);
    for i in order {
        out[i] = out[i].max(free);
        free = out[i] + APART;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beside_a_panel_do_not_cover_each_other() {
        let placed = spread(&[50.0, 49.0, 10.0, 51.0]);
        assert_eq!(placed, [63.0, 49.0, 10.0, 77.0]);
        assert_eq!(spread(&[]), Vec::<f64>::new());
    }
}
